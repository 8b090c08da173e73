"""Geometrically exact beams: stretch, shear, bending and torsion of lines of frames."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .._math.rotation import are_of_unit_length, have_unit_quaternions, quaternion_product
from .._math.screw import screw_between
from .._mesh.frames import section_axes, upright_frames
from .._mesh.mesh import Mesh
from .._runtime.argument_checks import check_instance, check_on_host
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import OptionalParameter, Parameter
from .._scene.dof import Rigid3
from .._scene.parameter import check_parameters, check_range, is_concrete, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField
from .section import Section


class Beam(AbstractEnergyForceField):
    """Simo-Reissner beams of two frames, of constant strain: `E = L/2 sum_i k_i (e_i - e0_i)^2` [J].

    `e = (u, w) / L`, `(u, w)` the screw from one frame to the next: stretch and shear (3), twist and bending (3) in the axes
    of the section, which do not feel rigid motions of any size. `e0`, `L` [m]: those of `rest`, frames of all the nodes of
    the state, x along the beam (`jm.mesh.frames_along`). `k = (EA, GA_y, GA_z, GJ, EI_y, EI_z)` of `section`, but for the
    shear `1 / (1/GA_y + L^2 / (12 EI_z))`, which is as exact at small strains as a cubic between the nodes: slender beams do
    not lock. Exact for circles and helices; any rotations, of less than half a turn from one frame to the next. `on` is
    `(state, pairs)` of `Rigid3` frames. `axes`: those of the section at rest, as frames see them, a quaternion or one for
    each element; those of the frames unless given. `from_mesh` makes frameworks of straight members with it, which meet in
    nodes at any angles. Raises `ValueError` for rest frames that coincide or are not of unit length.
    Source: V. Sonneville, A. Cardona, O. Bruels, Comput. Methods Appl. Mech. Eng. 268 (2014) 451,
    doi:10.1016/j.cma.2013.10.008; R. H. MacNeal, Comput. Struct. 8 (1978) 175 (shear).

    Example:

        line = jm.mesh.frames_along([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
        wire = jm.force.Section.circle(0.01, young=1e9, poisson=0.3)
        scene = jm.System(
            {"f": jm.Rigid3()},
            forces={
                "beam": jm.force.Beam(("f", [[0, 1]]), line, wire),
                "load": jm.force.ConstantForce(("f", [1]), [0.0, 0.0, -1e-3]),
            },
            constraints={"clamp": jm.constraint.Fixed(("f", [0]))},
        )
        sag = -jm.static_solve(scene, scene.at_rest({"f": line})).position["f"][1, 2]
        assert jnp.allclose(sag, 1e-3 * 2.0**3 / (3 * wire.bending[0]), rtol=1e-3)  # P L^3 / (3 EI) [m]
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    section: Section
    axes: OptionalParameter = parameter(ndim=1, default=None)

    def __check_init__(self):
        if len(self.on) != 1 or self.on[0].nodes.ndim != 2 or self.on[0].nodes.shape[1] != 2:
            raise ValueError(f"Beam: on must be (state, pairs of frames), got nodes of shape {self.on[0].nodes.shape}.")
        check_instance("Beam", "section", self.section, Section)
        check_parameters(self, self.on)
        if self.rest.ndim != 2 or self.rest.shape[1] != 7:
            raise ValueError(f"Beam: rest has shape {self.rest.shape}, expected frames (nodes, 7).")
        check_range(self, rest=(self.rest, have_unit_quaternions, "frames with quaternions of unit length"))
        if self.axes is not None and self.axes.shape[-1] != 4:
            raise ValueError(f"Beam: axes has shape {self.axes.shape}, expected quaternions (4,) or (e, 4).")
        check_range(self, axes=(self.axes, are_of_unit_length, "quaternions of unit length"))
        if is_concrete(self.rest, self.on[0].nodes) and self.on[0].elements:
            ends = np.asarray(self.rest)[np.asarray(self.on[0].nodes), :3]
            lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
            if not lengths.min() > 0:
                raise ValueError(f"Beam: rest frames of element {int(np.argmin(lengths))} coincide.")

    @classmethod
    def from_mesh(cls, state: str, mesh: Mesh, section: Section, *, normal: Any = None) -> "Beam":
        """The edges of `mesh`, in space, as straight beams, welded where they meet; frames at its points, not turned, are
        the rest of the nodes of `state` (`beam.rest`).

        `normal` `(3,)` or `(e, 3)`: where y of the section points, less its part along the beam; the coordinate axis that is
        furthest from the beam unless given. Raises `ValueError` for a normal along a beam.
        """
        check_instance("Beam", "mesh", mesh, Mesh)
        if mesh.kind != "edge" or mesh.points.shape[1] != 3:
            d = mesh.points.shape[1]
            raise ValueError(
                f"Beam: mesh must have edges in space, got cells of kind '{mesh.kind}' in {d} dimensions (files are read in "
                "space with dimension=3)."
            )
        rest = upright_frames(mesh.points)
        plain = cls((state, mesh.cells), rest, section)  # which looks at the mesh first
        check_on_host("Beam.from_mesh", "the axes of sections", mesh, normal)
        x = np.asarray(mesh.points)[np.asarray(mesh.cells)]
        return cls(plain.on, rest, section, section_axes("Beam", x[:, 1] - x[:, 0], normal).astype(mesh.points.dtype))

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Rigid3):
            raise ValueError("Beam acts on Rigid3 frames.")

    def element_energy(self, x: Float[Array, "2 7"]) -> Scalar:
        strains, stiffness, length = self._strains(x)
        return 0.5 * length * jnp.sum(stiffness * strains**2)

    def section_forces(self, x: Float[Array, "2 7"]) -> Float[Array, "6"]:
        """Of one element: `N, V_y, V_z` [N], `T, M_y, M_z` [N m] in the axes of the section, in its middle."""
        strains, stiffness, _ = self._strains(x)
        return stiffness * strains

    def _strains(self, x: Float[Array, "2 7"]) -> tuple[Float[Array, "6"], Float[Array, "6"], Scalar]:
        """`e - e0`, `k` and `L`."""
        (u0, w0), (u, w), section = screw_between(*self._turned(self.rest)), screw_between(*self._turned(x)), self.section
        length = jnp.sqrt(u0 @ u0)
        shear = 1 / (1 / section.shear + length**2 / (12 * section.bending[::-1]))
        along = jnp.stack([section.axial, section.torsion])
        stiffness = jnp.concatenate([along[:1], shear, along[1:], section.bending])
        return jnp.concatenate([u - u0, w - w0]) / length, stiffness, length

    def _turned(self, frames: Float[Array, "2 7"]) -> Float[Array, "2 7"]:
        """Frames of the section."""
        if self.axes is None:
            return frames
        turns = [quaternion_product(frame[3:], jnp.asarray(self.axes, frames.dtype)) for frame in frames]
        return jnp.concatenate([frames[:, :3], jnp.stack(turns)], axis=1)
