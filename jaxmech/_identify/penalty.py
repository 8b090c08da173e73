"""What is asked of a field of unknowns beside the data: that neighbours be alike."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import numeric_array, real_array
from .._runtime.array_types import Array, Float, Int


class AbstractPenalty(eqx.Module):
    """Rows `(m,)` whose half sum of squares is added to that of the residuals; `u` are the unknowns of one `Free`."""

    @abc.abstractmethod
    def rows(self, u: Float[Array, " n"]) -> Float[Array, " m"]:
        """The rows for a field of unknowns."""

    @abc.abstractmethod
    def check(self, count: int, name: str) -> None:
        """Raise `ValueError` unless the penalty fits a field of so many unknowns."""


class Tikhonov(AbstractPenalty):
    """`w/2 sum_f a_f (u_i - u_j)^2` over the pairs `(i, j)` of a field of unknowns `u`; without pairs, `w/2 sum_i u_i^2`.

    `u` is what `Free` makes of the values: the change from the start in units of its scale, or of their logarithm.
    `pairs` `(f, 2)`: neighbours, as `parents` of `jm.mesh.tetrahedra_to_triangles` or `triangles_to_edges` give them; rows
    with -1 (the boundary) are left out. `areas` `(f,)`: of the faces, 1 unless given [any unit]; `weight` `w`, positive, of
    a unit that makes `w a` a pure number. Raises `ValueError` for a weight or areas that are not positive, pairs that are
    none.
    Source: A. N. Tikhonov and V. Y. Arsenin, *Solutions of Ill-Posed Problems*, 1977.

    Example:

        smooth = jm.identify.Tikhonov(2.0, pairs=[[0, 1], [1, 2], [2, -1]])
        assert jnp.allclose(0.5 * jnp.sum(smooth.rows(jnp.array([0.0, 1.0, 3.0])) ** 2), 1.0 + 4.0)
    """

    weight: Array
    pairs: Int[Array, "f 2"] | None
    areas: Float[Array, " f"] | None

    def __init__(self, weight: Any, pairs: Any = None, areas: Any = None):
        self.weight, self.pairs, self.areas = _checked("Tikhonov", weight, pairs, areas)

    def rows(self, u: Float[Array, " n"]) -> Float[Array, " m"]:
        if self.pairs is None or self.areas is None:
            return jnp.sqrt(self.weight) * u
        return jnp.sqrt(self.weight * self.areas) * (u[self.pairs[:, 0]] - u[self.pairs[:, 1]])

    def check(self, count: int, name: str) -> None:
        _check_pairs("Tikhonov", self.pairs, count, name)


class TotalVariation(AbstractPenalty):
    """`w sum_f a_f (sqrt(d_f^2 + c^2) - c)`, `d_f = u_i - u_j`: jumps of a field of unknowns cost their height, not its
    square, so that it may have edges.

    As `Tikhonov` otherwise. `corner` `c > 0`: the jump below which the cost is quadratic, `w a d^2/(2 c)`, in the unit of
    `u` (of a logarithm: a pure number). Raises what `Tikhonov` raises.
    Source: L. I. Rudin, S. Osher, E. Fatemi, Physica D 60 (1992) 259, doi:10.1016/0167-2789(92)90242-F; C. R. Vogel, M. E.
    Oman, SIAM J. Sci. Comput. 17 (1996) 227, doi:10.1137/0917016 (the corner).

    Example:

        edges = jm.identify.TotalVariation(2.0, pairs=[[0, 1]], corner=1e-3)
        assert jnp.allclose(0.5 * jnp.sum(edges.rows(jnp.array([0.0, 5.0])) ** 2), 2.0 * 5.0, rtol=1e-3)
    """

    weight: Array
    pairs: Int[Array, "f 2"] | None
    areas: Float[Array, " f"] | None
    corner: Array

    def __init__(self, weight: Any, pairs: Any, areas: Any = None, *, corner: Any = 0.05):
        self.weight, self.pairs, self.areas = _checked("TotalVariation", weight, pairs, areas)
        if self.pairs is None:
            raise ValueError("TotalVariation: pairs must be numbers of neighbours (f, 2), got None.")
        self.corner = positive("TotalVariation", "corner", corner)

    def rows(self, u: Float[Array, " n"]) -> Float[Array, " m"]:
        assert self.pairs is not None and self.areas is not None
        d = u[self.pairs[:, 0]] - u[self.pairs[:, 1]]
        c = self.corner
        # sqrt(2 (sqrt(d^2 + c^2) - c)), with the sign of d and without cancellation
        return jnp.sqrt(2 * self.weight * self.areas) * d / jnp.sqrt(jnp.sqrt(d * d + c * c) + c)

    def check(self, count: int, name: str) -> None:
        _check_pairs("TotalVariation", self.pairs, count, name)


def positive(owner: str, name: str, value: Any) -> Array:
    """A positive number."""
    array = real_array(owner, name, value, ())
    if not float(array) > 0:
        raise ValueError(f"{owner}: {name} must be positive, got {float(array)}.")
    return jnp.asarray(array)


def _checked(owner: str, weight: Any, pairs: Any, areas: Any) -> tuple[Array, Array | None, Array | None]:
    number = positive(owner, "weight", weight)
    if pairs is None:
        if areas is not None:
            raise ValueError(f"{owner}: areas are of no use without pairs.")
        return number, None, None
    given = np.asarray(numeric_array(owner, "pairs", pairs))
    if given.dtype.kind not in "iu" or given.ndim != 2 or given.shape[1] != 2:
        raise ValueError(f"{owner}: pairs must be whole numbers (f, 2), got {given.dtype} of shape {given.shape}.")
    sizes = np.ones(len(given)) if areas is None else np.asarray(real_array(owner, "areas", areas, (None,)))
    if sizes.shape != given.shape[:1]:
        raise ValueError(f"{owner}: areas are {len(sizes)}, pairs {len(given)}: there is one for each.")
    if not (sizes > 0).all():
        raise ValueError(f"{owner}: areas must be positive, the least is {sizes.min()}.")
    inside = (given >= 0).all(axis=1)
    if not inside.any() or given.max() > np.iinfo(np.int32).max:
        raise ValueError(f"{owner}: pairs must name two neighbours in at least one row, by numbers of 32 bits.")
    return number, jnp.asarray(given[inside], jnp.int32), jnp.asarray(sizes[inside])


def _check_pairs(owner: str, pairs: Array | None, count: int, name: str) -> None:
    if pairs is not None and int(np.max(np.asarray(pairs))) >= count:
        raise ValueError(f"{owner} of '{name}': pairs name {int(np.max(np.asarray(pairs)))}, but it has {count} unknowns.")
