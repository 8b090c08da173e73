"""What is public, found by introspection: the names at the top, and those of the public modules."""

import inspect
from typing import Any

import jaxmech as jm

FOUND = {name: getattr(jm, name) for name in dir(jm) if not name.startswith("_")}  # modules on demand too
MODULES = {name: value for name, value in FOUND.items() if inspect.ismodule(value)}


def _names(module: Any) -> dict[str, Any]:
    return {n: v for n, v in vars(module).items() if not n.startswith("_") and not inspect.ismodule(v)}


TOP = _names(jm)
# By where it stands, as users write it after `jm.`; and by the name alone, which is unique.
PATHS = TOP | {f"{m}.{n}": v for m, module in MODULES.items() for n, v in _names(module).items()}
PUBLIC = {path.split(".")[-1]: value for path, value in PATHS.items()}
