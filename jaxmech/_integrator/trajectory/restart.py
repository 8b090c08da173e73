"""A run in parts, after each of which everything is in a file: what was interrupted goes on from there."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np

from ..._runtime.argument_checks import check_path
from ..._runtime.atomic_files import forget_interrupted
from ..._runtime.function_digest import function_digest, is_own
from ..._runtime.results import is_traced
from .checkpoint import load_parts, save_parts

T = TypeVar("T")


def through_a_file(
    who: str,
    path: str | PathLike[str],
    given: dict[str, Any],
    begin: Callable[[], T],
    onward: Callable[[T], T],
    is_done: Callable[[T], bool],
) -> T:
    """The end of a run, from where it has to `begin` or as far as the file says, taken `onward` until it `is_done`.

    `given`: all that it depends on; its functions are the same if their code and what they close over are. Raises
    `ValueError` for a file of another run, naming what differs, and under `jit`.
    """
    check_path(who, path)
    if is_traced(given):
        raise ValueError(f"{who}: a restart_file is written outside of jit only, and what it is of is not differentiated.")
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{who}: restart_file {str(path)!r}: there is no folder {str(folder)!r}; make it first.")
    forget_interrupted(path)
    given = given | {"functions": _functions(given)}
    at = _resumed(who, path, given, begin()) if Path(path).exists() else begin()
    while not is_done(at):
        at = onward(at)
        save_parts(path, given | {"progress": at})
    return at


def _functions(given: dict[str, Any]) -> dict[str, str]:
    """The functions in it by their place, and its user's classes by name: a digest of their code."""
    met: set[type] = set()
    leaves = jax.tree_util.tree_flatten_with_path(given, is_leaf=lambda node: met.add(type(node)))[0]
    functions = {jax.tree_util.keystr(path): function_digest(leaf) for path, leaf in leaves if callable(leaf)}
    return functions | {kind.__qualname__: function_digest(kind) for kind in met if is_own(kind)}


def _resumed(who: str, path: str | PathLike[str], given: dict[str, Any], begun: T) -> T:
    saved = load_parts(path, given | {"progress": begun})
    progress = saved.pop("progress")
    for (place, old), new in zip(jax.tree_util.tree_flatten_with_path(saved)[0], jax.tree.leaves(given), strict=True):
        if eqx.is_array(new) and not np.array_equal(np.asarray(old), np.asarray(new), equal_nan=True):
            where = place[0].key + jax.tree_util.keystr(place[1:])
            raise ValueError(
                f"{who}: restart_file {str(path)!r} is of another run: {where} differs. Remove it, or name another one."
            )
    return progress
