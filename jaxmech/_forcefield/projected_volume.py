"""Cells whose change of volume is projected on fewer functions, so that nearly incompressible ones do not lock.

With `v` of the quadrature points of a cell, `J = det F` (F-bar) or `tr F` (B-bar), and `theta` its projection in the volumes
of the points, the density is taken at `(theta / v)^(1/3) F`, or at `F + (theta - v)/3 I`, which is linear in the positions.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._material.base import density
from .._math.small_matrix import determinant
from .._mesh.reference import ReferenceElement
from .._runtime.array_types import Array, Float, Scalar
from .._scene.parameter import point_axes
from .solid import deformation_gradients

_LINEAR = ("quad9", "hexahedron27")  # whose volume is projected on linear functions: Q2/P1, stable (Boffi, Brezzi, Fortin)


def projected_energy(solid: Any, x: Float[Array, "k d"]) -> Scalar:
    """`sum_q w_q t psi(F-bar_q)` of one cell."""
    F, volumes = projected_gradients(solid, x)
    psi = jax.vmap(lambda solid, F: density(solid.material, F), (point_axes(solid), 0))
    return solid.thickness * jnp.sum(volumes * psi(solid, F))


def projected_gradients(solid: Any, x: Float[Array, "k d"]) -> tuple[Float[Array, "q 3 3"], Float[Array, " q"]]:
    """`F-bar` at the points of one cell, and their volumes."""
    gradients, volumes = solid.geometry()
    F = jax.vmap(solid.in_space)(deformation_gradients(x, gradients))
    if solid.formulation == "b-bar":
        v = jnp.trace(F, axis1=1, axis2=2)
        return F + ((_projected(solid, v, volumes) - v) / 3)[:, None, None] * jnp.eye(3, dtype=F.dtype), volumes
    v = jax.vmap(determinant)(F)
    return jnp.cbrt(_projected(solid, v, volumes) / v)[:, None, None] * F, volumes


def projected_update(solid: Any, x: Float[Array, "k d"]) -> dict[str, Any]:
    """What the material remembers, at every point."""
    F, _ = projected_gradients(solid, x)
    new = jax.vmap(lambda solid, F: solid.material.point_update(F), (point_axes(solid), 0))(solid, F)
    return {f"material.{name}": value for name, value in new.items()}


def _projected(solid: Any, v: Float[Array, " q"], volumes: Float[Array, " q"]) -> Float[Array, " q"]:
    """The projection of `v`, in the volumes of the points, on functions made orthogonal one after the other."""
    theta, earlier = jnp.zeros_like(v), []
    for function in _functions(solid.reference, solid.rule):
        f = jnp.asarray(function, v.dtype)
        for e, norm in earlier:
            f = f - (volumes * f) @ e / norm * e
        norm = (volumes * f) @ f
        theta = theta + (volumes * f) @ v / norm * f
        earlier.append((f, norm))
    return theta


def _functions(reference: ReferenceElement, rule: int | str) -> list[np.ndarray]:
    points = reference.quadrature(rule)[0]
    constant = [np.ones(len(points))]
    return constant + list(points.T) if reference.kind in _LINEAR else constant
