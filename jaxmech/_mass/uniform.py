"""The same mass on every node."""

from typing import Any

from .._runtime.argument_checks import check_real
from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import Parameter
from .._scene.dof import Vec1, Vec2, Vec3
from .._scene.parameter import as_array, check_range, is_concrete, parameter
from .._scene.stencil import Stencils, as_stencils, stencils
from .base import AbstractMass


class UniformMass(AbstractMass):
    """`T = m/2 |v|^2` [J]: a point mass `mass` [kg], the same on every node. Raises `ValueError` unless positive.

    `on=(state, nodes)`, of points. `UniformMass.of_total` shares a total among the nodes.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, section 1.1.

    Example:

        mass = jm.mass.UniformMass.of_total(("p", [0, 1]), 1.0)  # [kg], half on each
        scene = jm.System({"p": jm.Vec3()}, masses={"mass": mass})
        M = jm.matrix.component_matrix(scene, scene.at_rest({"p": np.zeros((2, 3))}), "mass", "mass")["p", "p"]
        assert jnp.allclose(M.to_dense((2, 2)), 0.5 * jnp.eye(6))
    """

    on: Stencils = stencils()
    mass: Parameter = parameter()

    def __check_init__(self):
        if len(self.on) != 1 or self.on[0].nodes.ndim != 1:
            raise ValueError("UniformMass: on must be (state, nodes), node numbers of shape (e,).")
        if getattr(self.mass, "ndim", 0) != 0:
            raise ValueError(f"UniformMass: mass has shape {self.mass.shape}, expected one number; see DiagonalMass.")
        check_range(self, mass=(self.mass, lambda m: m > 0, "positive"))

    @classmethod
    def of_total(cls, on: Any, total: Any) -> "UniformMass":
        """`total` [kg] shared equally among the nodes."""
        check_real("UniformMass", "total", total := as_array(total))
        if total.ndim or (is_concrete(total) and not float(total) > 0):
            raise ValueError(f"UniformMass: total must be one positive number, got {total}.")
        return cls(on, total / max(1, as_stencils(on)[0].elements))

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Vec1 | Vec2 | Vec3):
            raise ValueError("UniformMass acts on points (Vec1, Vec2, Vec3); a frame needs a RigidMass.")

    def element_kinetic_energy(self, x: tuple[Array, ...], v: tuple[Array, ...]) -> Scalar:
        return 0.5 * self.mass * (v[0] @ v[0])
