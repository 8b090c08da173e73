"""The modules of SOFA that a script imports: names of the stand-in, and functions that do nothing.

It imports nothing of jaxmech: it is run in a process of its own, by `recorder_child.py`.
"""

import sys
import types

from sofa_stand_in import Controller, DataEngine, ForceField, Mapping, Node, Object, Prefab
from stand_in_data import Data


class _Keys:
    """The keys of a keyboard, each by its name."""

    def __getattr__(self, name):
        return name


def stand_in():
    """The modules that a scene imports."""

    def module(name, **content):
        made = types.ModuleType(name)
        made.__dict__.update(content)
        sys.modules[name] = made
        return made

    def nothing(*_, **__):
        return None

    names = {"msg_info": nothing, "msg_warning": nothing, "msg_error": nothing, "msg_deprecated": nothing}
    bases = {"Node": Node, "Object": Object, "Controller": Controller, "ForceField": ForceField, "Mapping": Mapping}
    bases |= {"DataEngine": DataEngine, "Prefab": Prefab, "RawPrefab": Prefab, "BasePrefab": Prefab, "Data": Data}
    bases |= dict.fromkeys(("ForceFieldVec3d", "ForceFieldVec1d", "ForceFieldRigid3d"), ForceField)
    core = module("Sofa.Core", ObjectDeprecated=Object, BaseObject=Object, **bases, **names)
    calls = dict.fromkeys(
        ("init", "initRoot", "animate", "animateNSteps", "print", "reset", "unload", "initVisual"), nothing
    )
    parts = {"Core": core, "Simulation": module("Sofa.Simulation", **calls), "Helper": module("Sofa.Helper", **names)}
    parts["constants"] = module("Sofa.constants", Key=_Keys())
    parts["Types"] = module("Sofa.Types", RGBAColor=lambda *values: list(values))
    manager = types.SimpleNamespace(**dict.fromkeys(("Init", "createGUI", "SetDimension", "MainLoop", "closeGUI"), nothing))
    parts["Gui"] = module("Sofa.Gui", GUIManager=manager)
    parts["Components"] = module("Sofa.Components")
    module("Sofa", **parts, Prefab=Prefab, PythonScriptController=Controller, **names)
    paths = types.SimpleNamespace(addFirstPath=nothing, addLastPath=nothing, getFirstPath=lambda: "")
    plugins = dict.fromkeys(("importPlugin", "init", "reinit"), nothing)
    module("SofaRuntime", PluginRepository=paths, DataRepository=paths, Sofa=sys.modules["Sofa"], **plugins)
