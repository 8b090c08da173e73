"""Stresses and strains at the Gauss points of solids."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._forcefield.solid import AbstractSolid
from .._forcefield.stress_solid import StressSolidFEM
from .._math.matrix_functions import half_logarithm
from .._math.small_matmul import times_blocks
from .._math.small_matrix import determinant, inverse
from .._mesh.reference import reference_element
from .._model.dynamics import kinematics
from .._model.internal import with_internal
from .._model.system import State, System, check_inputs
from .._runtime.array_types import Array, Float, Int
from .._runtime.precision import compiled
from .._scene.parameter import over_elements, point_axes
from .._scene.stencil import at_nodes, gathered
from .tensors import principal_values, von_mises

_determinants = jnp.vectorize(determinant, signature="(n,n)->()")
_inverses = jnp.vectorize(inverse, signature="(n,n)->(n,n)")


class GaussFields(eqx.Module):
    """What a solid is like at its `q` Gauss points in each of `e` cells; made by `gauss_fields`.

    `gradient` `F` (e, q, 3, 3); `first_piola` `P = d psi/dF` [Pa]; `energy_density` `psi` (e, q) [J/m^3] of rest volume
    (NaN of a law that has no energy);
    `volume` (e, q) [m^3], what each point stands for at rest; `position` (e, q, d) [m], where the points are; `nodes` (e,
    k), `rest` (e, k, d) [m]: the cells, of `kind`, with points of the quadrature `rule`, on a state of `count` nodes. The
    others are computed from these when they are asked for. A pytree: `jit`, `vmap` and derivatives in both modes go through.
    Raises nothing.
    Source: G. A. Holzapfel, *Nonlinear Solid Mechanics*, 2000, ISBN 978-0-471-82319-3, chapters 2 and 3.

    Example:

        fields = jm.output.gauss_fields(system, system.at_rest({"cube": mesh.points * 1.01}), "solid")
        assert jnp.allclose(fields.logarithmic, jnp.log(1.01) * jnp.eye(3))
        assert jnp.allclose(fields.cauchy, fields.first_piola / 1.01**2) and jnp.allclose(fields.von_mises, 0.0, atol=1e-6)
    """

    gradient: Float[Array, "e q 3 3"]
    first_piola: Float[Array, "e q 3 3"]
    energy_density: Float[Array, "e q"]
    volume: Float[Array, "e q"]
    position: Float[Array, "e q d"]
    rest: Float[Array, "e k d"]
    nodes: Int[Array, "e k"]
    count: int = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    rule: int | str = eqx.field(static=True)

    @property
    def volume_ratio(self) -> Float[Array, "e q"]:
        """`J = det F`."""
        return _determinants(self.gradient)

    @property
    def cauchy(self) -> Float[Array, "e q 3 3"]:
        """The true stress `P F^T / J` [Pa], of a law of small strains too."""
        stress = times_blocks(self.first_piola, jnp.swapaxes(self.gradient, -1, -2)) / self.volume_ratio[..., None, None]
        return 0.5 * (stress + jnp.swapaxes(stress, -1, -2))

    @property
    def second_piola(self) -> Float[Array, "e q 3 3"]:
        """`S = F^-1 P` [Pa]."""
        return times_blocks(_inverses(self.gradient), self.first_piola)

    @property
    def green_lagrange(self) -> Float[Array, "e q 3 3"]:
        """`E = (F^T F - I)/2`."""
        H = self.gradient - jnp.eye(3, dtype=self.gradient.dtype)
        transposed = jnp.swapaxes(H, -1, -2)
        return 0.5 * (H + transposed + times_blocks(transposed, H))

    @property
    def logarithmic(self) -> Float[Array, "e q 3 3"]:
        """Hencky's strain `ln(F^T F)/2`, in the axes of rest."""
        return half_logarithm(times_blocks(jnp.swapaxes(self.gradient, -1, -2), self.gradient))

    @property
    def von_mises(self) -> Float[Array, "e q"]:
        """`sqrt(3/2 s:s)` [Pa] of the deviator `s` of the Cauchy stress."""
        return von_mises(self.cauchy)

    @property
    def principal_stresses(self) -> Float[Array, "e q 3"]:
        """Those of the Cauchy stress [Pa], the largest first. Of equal ones, only sums have derivatives."""
        return principal_values(self.cauchy)

    @property
    def principal_stretches(self) -> Float[Array, "e q 3"]:
        """The singular values of `F`, the largest first. Of equal ones, only sums have derivatives."""
        return jnp.sqrt(principal_values(2 * self.green_lagrange + jnp.eye(3, dtype=self.gradient.dtype)))


def gauss_fields(system: System, state: State, name: str) -> GaussFields:
    """Deformation, stress [Pa] and energy density [J/m^3] at the Gauss points of the force field `name`, a solid.

    The stress is the derivative of the density that the material has with what the state remembers (`state.internal`); in
    plane stress with the free stretch across. Any solid will do, of any cells: all it takes is `point_gradients`. Where an
    element is inverted and its law is undefined, density and stress are NaN, there alone (`gradient` is what it is). Raises
    `ValueError` for a name that is not that of a solid, and what `total_force` raises for a state.
    Source: J. Bonet and R. D. Wood, *Nonlinear Continuum Mechanics for Finite Element Analysis*, 2nd ed., 2008,
    doi:10.1017/CBO9780511755446.

    Example:

        fields = jm.output.gauss_fields(system, system.at_rest({"cube": mesh.points * jnp.array([1.1, 1.0, 1.0])}), "solid")
        assert fields.cauchy.shape == (6, 1, 3, 3)  # six tetrahedra of one point
        mu = 1e6 / 2.6
        assert jnp.allclose(fields.cauchy[..., 0, 0] - fields.cauchy[..., 1, 1], mu * (1.1**2 - 1) / 1.1)  # [Pa]
    """
    check_inputs("gauss_fields", system, state)
    check_solid("gauss_fields", system, name)
    return _fields(system, state, name)


def check_solid(who: str, system: System, name: Any) -> None:
    """Raise `ValueError` unless a force field of this name is a solid."""
    solids = [n for n, field in system.forces.items() if isinstance(field, AbstractSolid | StressSolidFEM)]
    if not isinstance(name, str) or name not in solids:
        raise ValueError(f"{who}: name {name!r:.80} is not that of a solid, expected one of {solids}.")


@compiled
def _fields(system: System, state: State, name: str) -> GaussFields:
    system = with_internal(system, state)
    solid: Any = system.forces[name]
    x = kinematics(system, state.position)

    def of_element(solid: Any, x: Array) -> tuple[Array, ...]:
        F, volume = solid.point_gradients(x)

        def of_point(solid: Any, F: Array) -> tuple[Array, Array]:
            if isinstance(solid, StressSolidFEM):
                return jnp.asarray(jnp.nan, F.dtype), solid.material.stress(F)
            return jax.value_and_grad(solid.material.energy_density)(F)

        return F, volume, *jax.vmap(of_point, (point_axes(solid), 0))(solid, F)

    F, volume, density, stress = over_elements(solid, solid.on, of_element, *at_nodes(solid.on, x))
    (places,) = gathered(solid.on, x)
    rule = solid.rule if solid.quadrature_points > 1 else 1
    points, _ = reference_element(solid.reference.kind).quadrature(rule)
    shapes = jnp.asarray(np.asarray(solid.reference.shape(points)), places.dtype)
    nodes = solid.on[0].nodes
    return GaussFields(
        gradient=F,
        first_piola=stress,
        energy_density=density,
        volume=volume,
        position=jnp.einsum("qk,ekd->eqd", shapes, places),
        rest=solid.rest[nodes],
        nodes=nodes,
        count=x[solid.on[0].state].shape[0],
        kind=solid.reference.kind,
        rule=rule,
    )
