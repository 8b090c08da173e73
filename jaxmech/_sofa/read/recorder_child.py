"""Run in a process of its own: records what the `createScene` of a script builds.

It imports nothing of jaxmech. Called with the script, the file to write to, and how many steps of the events of controllers
to record.
"""

import json
import os
import runpy
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from sofa_stand_in import Controller, Node  # noqa: E402
from stand_in_data import Events, leads_to, text  # noqa: E402
from stand_in_modules import stand_in  # noqa: E402


def controllers(node):
    for item in node._content:
        if isinstance(item, Node):
            yield from controllers(item)
        elif isinstance(item, Controller):
            yield item


def tell(root, event, **more):
    """Call an event of all controllers that have it."""
    for controller in controllers(root):
        call = getattr(type(controller), event, None)
        if call is not None:
            call(controller, {"type": event[2:-5], **more})


def own_value(value, item):
    """What stands in data of the script's own, which the graph leaves out, where a value links to them."""
    to = leads_to(value, item.getRoot())
    while to is not None and to.name in to.owner._added and to.name in to.owner._data:
        value = to.owner._data[to.name]
        to = leads_to(value, item.getRoot())
    return value


def written(item):
    """A node or an object for the reader."""
    given = {name: value for name, value in item._data.items() if name not in item._added and name != "name"}
    data = {name: text(own_value(value, item)) for name, value in given.items() if value is not None}
    start = {"name": item._name, "data": data, "line": item._line}
    if isinstance(item, Node):
        return start | {"content": [written(one) for one in item._content if not isinstance(one, Controller)]}
    return start | {"kind": item._kind}


def main(script, output, steps):
    stand_in()
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        scene = runpy.run_path(script, run_name="scene")
    except ModuleNotFoundError as problem:
        # Helpers of SOFA's plugins (stlib3, splib3, softrobots) are Python: they run with the stand-in where they are found.
        missing = f"{problem}: install it beside jaxmech, or add its folder to sys.path in the script"
        raise ModuleNotFoundError(missing, name=problem.name) from problem
    if "createScene" not in scene:
        raise SystemExit("the script has no createScene(root)")
    root = Node("root")
    made = scene["createScene"](root)
    root = made if isinstance(made, Node) and not root._content else root
    for event in ("onSimulationInitStartEvent", "onSimulationInitDoneEvent"):
        tell(root, event)
    graph = written(root)
    Events.running = True
    dt = float(root.dt.value)
    Events.changes.append({})
    for step in range(steps):
        root._data["time"] = step * dt
        tell(root, "onAnimateBeginEvent", dt=dt)
        root._data["time"] = (step + 1) * dt  # the step is over: what is written now, the next one finds
        Events.changes.append({})
        tell(root, "onAnimateEndEvent", dt=dt)
    with open(output, "w", encoding="utf-8") as file:
        json.dump({"graph": graph, "changes": Events.changes[:steps]}, file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
