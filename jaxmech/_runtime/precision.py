"""Products of matrices in full precision, on every device.

Of float32 factors a GPU takes ten bits ("TF32") and a TPU seven, unless it is told otherwise: enough for a neural network,
but three digits, or two, of a rotation or of a force out of balance. Nothing else is rounded so, nor float64 on a GPU.
What the user has set (`jax_default_matmul_precision`, `jax.default_matmul_precision`) stands.
"""

import contextlib
import copy
import functools
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np

from .collector import collector_at_rest
from .devices import on_cpu
from .jax_internals import is_carried_out, traced_as_in_rules
from .raise_if import in_its_words

Function = TypeVar("Function", bound=Callable[..., Any])

# Of JAX 0.10, XLA makes a loop of a CPU by way of MLIR, or as it did before: the programs are about as fast, and there in
# half the time (benchmarks/RESULTS.md). Only a program that is run where it stands can be given options; what has been said
# in XLA_FLAGS stands.
_OPTION = "xla_cpu_use_fusion_emitters"
_QUICK = {_OPTION: False} if jax.__version_info__ < (0, 11) and _OPTION not in os.environ.get("XLA_FLAGS", "") else {}

# What LLVM makes of a long program without optimising takes a third of the time to compile, and twice as long to run.
_LEVEL = "xla_backend_optimization_level"
_HASTY = _QUICK if _LEVEL in os.environ.get("XLA_FLAGS", "") else {**_QUICK, _LEVEL: 0}

_ARRAYS = (jax.Array, np.ndarray, np.generic)
_RAISED_BY_EQUINOX = "_EquinoxRuntimeError"
_AN_ARRAY = object()  # in the place of a leaf that is one


def full_precision(function: Function) -> Function:
    """`function`, whose products are of full precision wherever it is run or traced, derivatives included."""

    @functools.wraps(function)
    def exact(*arguments: Any, **keywords: Any) -> Any:
        with _products():
            return function(*arguments, **keywords)

    return exact  # pyright: ignore[reportReturnType]


class _Place(threading.local):
    def __init__(self):
        self.joins = False


_place = _Place()


@contextlib.contextmanager
def joined() -> Iterator[None]:
    """Within, what is `compiled` becomes part of what is traced: what is known of arrays there is known in it."""
    before, _place.joins = _place.joins, True
    try:
        yield
    finally:
        _place.joins = before


def compiled(function: Function, *, before: Callable[..., None] | None = None, hasty: bool = False) -> Function:
    """The same under `jit`. As a method it is bound like Equinox's, to what `jit` takes as an argument.

    `before`: called with the same arguments, outside of `jit`, where values can be looked at. `hasty`: not optimised where
    it is run on a CPU, as what is run a few times only need not be.
    """
    return _Compiled(function, before, hasty)  # pyright: ignore[reportReturnType]


def in_one_program(function: Function) -> Function:
    """`function`, compiled where its operations would be carried out one by one, each by a program of its own."""
    exact, program = full_precision(function), compiled(function)

    @functools.wraps(function)
    def either(*arguments: Any, **keywords: Any) -> Any:
        return (program if is_carried_out() else exact)(*arguments, **keywords)

    return either  # pyright: ignore[reportReturnType]


def checked_by(check: Callable[..., None], function: Function) -> Function:
    """`function`, before which `check` is called with the same arguments, outside of `jit`; bound as a method as it was."""
    if isinstance(function, _Compiled):
        return function.after(check)  # pyright: ignore[reportReturnType]

    @functools.wraps(function)
    def after_check(*arguments: Any, **keywords: Any) -> Any:
        check(*arguments, **keywords)
        return function(*arguments, **keywords)

    return after_check  # pyright: ignore[reportReturnType]


class _Compiled:
    def __init__(self, function: Callable[..., Any], before: Callable[..., None] | None, hasty: bool):
        functools.update_wrapper(self, function)
        self._function, self._programs = function, _Programs(function, _HASTY if hasty else _QUICK)
        self._before = () if before is None else (before,)

    def after(self, check: Callable[..., None]) -> "_Compiled":
        """The same program, run after another check."""
        other = copy.copy(self)
        other._before = (check, *self._before)
        return other

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        for check in self._before:
            check(*arguments, **keywords)
        with _products():
            return (self._function if _place.joins else self._programs)(*arguments, **keywords)

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else jax.tree_util.Partial(self, instance)


class _Programs:
    """A function under `jit`, by what of its arguments is no array.

    As `eqx.filter_jit`, which takes twice as long to find the program: most of what a small scene spends in Python.
    """

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]):
        self._function, self._options = function, options

    @functools.cached_property
    def _usual(self) -> Callable[..., Any]:
        return _program(self._function)

    @functools.cached_property
    def _quick(self) -> Callable[..., Any]:
        return _program(self._function, compiler_options=self._options)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        leaves, structure = jax.tree.flatten((arguments, keywords))
        arrays = [leaf if isinstance(leaf, _ARRAYS) else None for leaf in leaves]
        others = tuple([None if isinstance(leaf, _ARRAYS) else leaf for leaf in leaves])
        is_run = is_carried_out()
        try:
            found, form = self._found(is_run, arrays, (structure, others))
            if is_run and found:
                found[0].block_until_ready()  # what fails does so here
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            if _RAISED_BY_EQUINOX not in str(error):
                told = in_its_words(error)
                if told is error:
                    raise
                raise told from None
            return eqx.filter_jit(self._function)(*arguments, **keywords)  # which tells the words of `eqx.error_if`
        return form.joined(found)

    def _found(self, is_run: bool, *arguments: Any) -> Any:
        if not self._options or not is_run or not on_cpu():
            return self._usual(*arguments)
        try:
            return self._quick(*arguments)
        except jax.errors.JaxRuntimeError as error:
            if "UNIMPLEMENTED" not in str(error):  # the other way knows all there is
                raise
            self._quick = self._usual  # what has failed to compile would be compiled in vain at every call
            return self._usual(*arguments)


@jax.tree_util.register_static
@dataclass(frozen=True)
class _Form:
    """What a program gives besides its arrays: how they are put together, and what is none."""

    structure: Any
    others: tuple[Any, ...]

    def joined(self, arrays: list[Any]) -> Any:
        rest = iter(arrays)
        return jax.tree.unflatten(self.structure, [next(rest) if leaf is _AN_ARRAY else leaf for leaf in self.others])


def _program(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    logging.getLogger("jax._src.callback").addFilter(_unlogged)  # else what `eqx.error_if` raises is seen twice
    return jax.jit(_on_leaves(function), static_argnums=1, **options)


def _unlogged(record: logging.LogRecord) -> bool:
    return not (record.exc_info and type(record.exc_info[1]).__name__ == _RAISED_BY_EQUINOX)


def _on_leaves(function: Callable[..., Any]) -> Callable[..., tuple[list[Any], _Form]]:
    """`function` of the leaves of its arguments, `(structure, others)` those that are no arrays; and its value as leaves."""

    @functools.wraps(function)
    def of_leaves(arrays: list[Any], static: tuple[Any, tuple[Any, ...]]) -> tuple[list[Any], _Form]:
        structure, others = static
        leaves = [b if a is None else a for a, b in zip(arrays, others, strict=True)]
        arguments, keywords = jax.tree.unflatten(structure, leaves)
        with traced_as_in_rules(), collector_at_rest():
            found, structure = jax.tree.flatten(function(*arguments, **keywords))
        others = tuple(_AN_ARRAY if isinstance(leaf, _ARRAYS) else leaf for leaf in found)
        return [leaf for leaf in found if isinstance(leaf, _ARRAYS)], _Form(structure, others)

    del of_leaves.__wrapped__  # whose arguments JAX would take for those of this one
    return of_leaves


def _products() -> contextlib.AbstractContextManager[Any]:
    chosen = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
    if on_cpu() or chosen is not None:
        return contextlib.nullcontext()
    return jax.default_matmul_precision("highest")
