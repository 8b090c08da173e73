"""Fields with an energy: a density of one's own, on the cells of a mesh."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._mesh.mesh import Mesh
from .._runtime.argument_checks import check_callable
from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import named_parameters, nodal_parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField, Arrays
from .field_points import AbstractFieldTerm, at_points, check_cells, check_fields, nodal, nodal_matrix, stencils_of


class FieldEnergy(AbstractFieldTerm, AbstractEnergyForceField):
    """`E = sum_q w_q psi(u, du/dX, X, parameters)` over the cells of a mesh: heat, diffusion, elasticity of one's own.

    `density` `psi` [J/m^3] (per area or length on surfaces and lines) of the value `u` and the gradient `du/dX` [1/m] of a
    field at the place `X` [m]: of a state of one component (`Vec1`) a number and a vector `(d,)`; of more, `(c,)` and
    `(c, d)`; on several states, tuples of those. A state that holds positions has `u = x` and `du/dX = F`. The force is
    `-dE/du`: for heat `psi = k/2 |grad T|^2`, what flows in. `dissipation(u', du'/dX, X, parameters)` [W/m^3] if given:
    the force `-dD/du'` is added.

    `parameters`: numbers by name, each shared, one per cell `(e,)` or one per cell and Gauss point `(e, q)`. Cells of any
    kind, in a space of their dimension or more. `degree`: of the quadrature, 'mass' (exact for products of two shape
    functions), 'stiffness' or a number. Functions are static: pass the same one again, or programs are compiled anew.
    Raises `ValueError` or `TypeError` for cells that do not fit, or are flat at rest, and for what cannot be called.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 2.

    Example:

        def conduction(T, slope, X, p):  # [W K/m^3]
            return 0.5 * p["k"] * jnp.sum(slope**2)

        bar = jm.mesh.box_mesh(cells=(2, 1), size=(2.0, 1.0), kind="quad")
        heat = jm.force.FieldEnergy.from_mesh("T", bar, conduction, {"k": 3.0})  # [W/(m K)]
        scene = jm.System({"T": jm.Vec1()}, forces={"heat": heat})
        flow = jm.total_force(scene, scene.at_rest({"T": 5.0 * bar.points[:, :1]}))["T"][:, 0]  # 5 K/m along x
        assert jnp.allclose(flow[bar.nodes_where(lambda x: x[:, 0] == 0.0)].sum(), 15.0)  # [W] flow in at x = 0
    """

    tangent_is_exact = True

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    density: Callable[..., Any] = eqx.field(static=True)
    parameters: Any = named_parameters(default_factory=dict)
    kind: str = eqx.field(static=True, default="triangle")
    dissipation: Callable[..., Any] | None = eqx.field(static=True, default=None, kw_only=True)
    degree: int | str = eqx.field(static=True, default="mass", kw_only=True)

    def __check_init__(self):
        check_callable("FieldEnergy", "density", self.density)
        if self.dissipation is not None:
            check_callable("FieldEnergy", "dissipation", self.dissipation)
        if not isinstance(self.parameters, dict | eqx.Module):
            raise TypeError(f"FieldEnergy: parameters must be numbers by name, got {self.parameters!r:.80}.")
        check_cells(self)

    @classmethod
    def from_mesh(
        cls,
        state: str | tuple[str, ...],
        mesh: Mesh,
        density: Callable[..., Any],
        parameters: Any = None,
        *,
        dissipation: Callable[..., Any] | None = None,
        degree: int | str = "mass",
    ) -> "FieldEnergy":
        """On the cells of `mesh`, whose points are where the nodes of `state`, or of several, are."""
        on = stencils_of("FieldEnergy", state, mesh)
        parameters = {} if parameters is None else parameters
        return cls(on, mesh.points, density, parameters, mesh.kind, dissipation=dissipation, degree=degree)

    def check_dofs(self, dofs: Any) -> None:
        check_fields(self, dofs)

    @property
    def is_dissipative(self) -> bool:
        return self.dissipation is not None

    def element_energy(self, *x: Array) -> Scalar:
        return jnp.sum(at_points(self, x, _density)[0])

    def element_dissipation(self, x: Arrays, v: Arrays) -> Scalar:
        del x
        return jnp.sum(at_points(self, v, _dissipation)[0])

    def element_gradient(self, *x: Array) -> Arrays:
        """`dE/du_a = sum_q w_q (dpsi/du N_a + dpsi/dgrad dN_a/dX)`."""
        duals, b = at_points(self, x, _dual)
        return tuple(nodal(dual, b) for dual in duals)

    def element_hessian(self, *x: Array) -> tuple[Arrays, ...]:
        """As many directions as `u` and its gradient have at a point, where the nodes of a cell have more."""
        tangents, b = at_points(self, x, _tangent)
        return tuple(tuple(nodal_matrix(tangent, b) for tangent in row) for row in tangents)


def _number(value: Any) -> Scalar:
    return jnp.reshape(jnp.asarray(value), ())


def _density(term: FieldEnergy, w: Array, X: Array, *z: Array) -> Scalar:
    """`w psi` of one point."""
    return w * _number(term.asked(term.density, X, *z))


def _dissipation(term: FieldEnergy, w: Array, X: Array, *z: Array) -> Scalar:
    assert term.dissipation is not None
    return w * _number(term.asked(term.dissipation, X, *z))


def _dual(term: FieldEnergy, w: Array, X: Array, *z: Array) -> Arrays:
    return jax.grad(lambda z: _density(term, w, X, *z))(z)


def _tangent(term: FieldEnergy, w: Array, X: Array, *z: Array) -> tuple[Arrays, ...]:
    return jax.hessian(lambda z: _density(term, w, X, *z))(z)
