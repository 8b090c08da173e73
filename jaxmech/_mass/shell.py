"""The mass of shells: of a surface of frames, with the inertia of what turns across it."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._math.rotation import have_unit_quaternions
from .._mesh.frames import upright_frames
from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._mesh.surface import rest_measures
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import Parameter
from .._scene.dof import Rigid3
from .._scene.parameter import check_parameters, check_range, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMass


class ShellMass(AbstractMass):
    """`T = 1/2 integral of rho t (|v|^2 + t^2/12 |w|^2) dA` [J] of shells of frames: consistent, velocities and spins are
    interpolated.

    `on` is `(state, cells)` of `Rigid3` frames, `rest` frames of all the nodes of the state, as a `Shell` and a `QuadShell`
    take them; `kind` of the cells: "triangle" or "quad". `density` `rho` [kg/m^3], `thickness` `t` [m]: shared, or one per
    element. Spins about the normal have the inertia of others, where that of a thin shell is nil: no frame is without mass.
    Raises `ValueError` unless density and thickness are positive, and for other cells.
    Source: R. D. Mindlin, J. Appl. Mech. 18 (1951) 31 (rotary inertia).

    Example:

        square = jm.mesh.Mesh([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2, 3]], "quad")
        mass = jm.mass.ShellMass.from_mesh("f", square, density=8000.0, thickness=0.1)
        scene = jm.System({"f": jm.Rigid3()}, masses={"mass": mass})
        rest = scene.at_rest({"f": mass.rest})
        along = jm.State(rest.position, {"f": jnp.tile(jnp.array([2.0, 0, 0, 0, 0, 3.0]), (4, 1))}, rest.time)
        by_hand = 0.5 * 800.0 * (2.0**2 + 0.1**2 / 12 * 3.0**2)  # [J]
        assert jnp.allclose(jm.mass.kinetic_energy(scene, along), by_hand)
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    density: Parameter = parameter()
    thickness: Parameter = parameter()
    kind: str = eqx.field(static=True, default="quad")

    def __check_init__(self):
        cell, nodes = reference_element(self.kind), self.on[0].nodes
        if cell.dimension != 2:
            raise ValueError(f"ShellMass: kind '{self.kind}' is not that of a surface.")
        if len(self.on) != 1 or nodes.ndim != 2 or nodes.shape[1] != cell.nodes:
            raise ValueError(f"ShellMass: on must be (state, cells) with {cell.nodes} nodes per {self.kind}.")
        check_parameters(self, self.on)
        if self.rest.shape[-1] != 7:
            raise ValueError(f"ShellMass: rest has shape {self.rest.shape}, expected frames (nodes, 7).")
        check_range(self, rest=(self.rest, have_unit_quaternions, "frames with quaternions of unit length"))
        check_range(self, **{n: (getattr(self, n), lambda a: a > 0, "positive") for n in ("density", "thickness")})

    @classmethod
    def from_mesh(cls, state: str, mesh: Mesh, density: Any, thickness: Any) -> "ShellMass":
        """The cells of `mesh`, in space; frames at its points are the rest of the nodes of `state`."""
        check_instance("ShellMass", "mesh", mesh, Mesh)
        if mesh.points.shape[1] != 3:
            raise ValueError(f"ShellMass: mesh must be in space, got points of {mesh.points.shape[1]} coordinates.")
        return cls((state, mesh.cells), upright_frames(mesh.points), density, thickness, mesh.kind)

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Rigid3):
            raise ValueError("ShellMass acts on Rigid3 frames.")

    def element_kinetic_energy(self, x: tuple[Array, ...], v: tuple[Array, ...]) -> Scalar:
        shapes, measures = rest_measures(reference_element(self.kind), self.rest[:, :3])
        square = jnp.sum((shapes.astype(v[0].dtype) @ v[0]) ** 2 * self._inertia(), axis=1)
        return 0.5 * self.density * self.thickness * jnp.sum(measures * square)

    def _inertia(self) -> Array:
        """Of the six velocities, by that of the first."""
        return jnp.concatenate([jnp.ones(3), jnp.full(3, self.thickness**2 / 12)])
