"""One program of many scenes: a JAX primitive, by whose kernel one scene after the other is done in one call."""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._llvm.ffi import compile_on_cpu
from .._runtime.array_types import Array
from .._runtime.jax_internals import Primitive, ShapedArray, define, instantiate_zeros, is_undefined_primal, is_zero
from .._runtime.plain_form import first_that_works
from .plain_rules import restricted
from .scalarize.expansion import expand

Own = tuple[bool, ...]  # for every operand, whether each scene has one of its own


class AbstractSceneProgram(abc.ABC):
    """What is done for a scene. Hashable."""

    @property
    @abc.abstractmethod
    def owner(self) -> Any:
        """What is compiled: it is warned of once."""

    @abc.abstractmethod
    def of_one(self, *operands: Array) -> list[Array]:
        """The results of one scene, by operations that differentiate."""

    @abc.abstractmethod
    def of_all(self, operands: Sequence[Array], own: Own) -> list[Array]:
        """Those of all scenes, by a kernel. Raises `NotCompilable` where there is none."""


def map_scenes(program: AbstractSceneProgram, own: Own, operands: Sequence[Array]) -> list[Array]:
    """The results of every scene; operands that scenes have of their own have an axis of them in front, and results do."""
    return _scenes_p.bind(*operands, program=program, own=own)


def _one_after_the_other(*operands, program, own):
    # Not all at once: the sums of many scenes would not stay in a cache.
    return _looped(program.of_one, own, operands)


def _looped(function: Callable[..., list[Array]], own: Own, operands: Sequence[Array]) -> list[Array]:
    def of_scene(mine):
        mine = iter(mine)
        return function(*(next(mine) if moves else a for a, moves in zip(operands, own, strict=True)))

    return jax.lax.map(of_scene, [a for a, moves in zip(operands, own, strict=True) if moves])


def _by_kernel(*operands, program, own):
    return first_that_works(
        program.owner,
        lambda: program.of_all(operands, own),
        lambda: _one_after_the_other(*operands, program=program, own=own),
    )


def _abstract(*operands, program, own):
    one = [jax.ShapeDtypeStruct(a.shape[mine:], a.dtype) for a, mine in zip(operands, own, strict=True)]
    scenes = next(a.shape[0] for a, mine in zip(operands, own, strict=True) if mine)
    return [ShapedArray((scenes, *a.shape), a.dtype) for a in jax.eval_shape(program.of_one, *one)]


def _axes(own: Sequence[bool]) -> list[int | None]:
    return [0 if mine else None for mine in own]


def in_front(operands: Sequence[Array], dimensions: Sequence[int | None]) -> tuple[list[Array], Own]:
    """The operands of a batching rule, with the axis of the batch as the first; and which of them have one."""
    own = tuple(d is not None for d in dimensions)
    return [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(operands, dimensions, strict=True)], own


def _jvp(primals, tangents, *, program, own):
    """The derivative of one scene, for all of them."""
    outputs = map_scenes(program, own, primals)
    moving = [i for i, t in enumerate(tangents) if not is_zero(t)]

    def rates(primals, moved):
        return jax.jvp(restricted(program.of_one, primals, moving), [primals[i] for i in moving], moved)[1]

    axes = _axes(own)
    found = jax.vmap(rates, (axes, [axes[i] for i in moving]))(list(primals), [tangents[i] for i in moving])
    return outputs, found


def _transpose(cotangents, *operands, program, own):
    """The transpose of one scene, for all of them; of what scenes share, its sum over them."""
    linear = [i for i, a in enumerate(operands) if is_undefined_primal(a)]
    given = [None if i in linear else a for i, a in enumerate(operands)]
    avals = [jax.ShapeDtypeStruct(operands[i].aval.shape[own[i] :], operands[i].aval.dtype) for i in linear]

    def of_one(given, cotangents):
        return jax.linear_transpose(restricted(program.of_one, given, linear), *avals)(cotangents)

    axes = [None if a is None else axis for a, axis in zip(given, _axes(own), strict=True)]
    found = jax.vmap(of_one, (axes, 0))(given, list(map(instantiate_zeros, cotangents)))
    pulled: list[Any] = [None for _ in operands]
    for i, cotangent in zip(linear, found, strict=True):
        pulled[i] = cotangent if own[i] else jnp.sum(cotangent, axis=0)
    return pulled


def _batch(operands, dimensions, *, program, own):
    operands, batched = in_front(operands, dimensions)
    found = _looped(functools.partial(_scenes_p.bind, program=program, own=own), batched, operands)
    return found, [0 for _ in found]


_scenes_p = Primitive("jaxmech_scenes")
_scenes_p.multiple_results = True
_scenes_p.def_abstract_eval(_abstract)
define(_scenes_p, jvp=_jvp, transpose=_transpose, batch=_batch)
compile_on_cpu(_scenes_p, _one_after_the_other, _by_kernel)
expand(_scenes_p, _one_after_the_other)
