"""Springs that hold rigid frames."""

from typing import Any

import jax.numpy as jnp

from .._math.rotation import have_unit_quaternions, quaternion_conjugate, quaternion_log, quaternion_product
from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import OptionalParameter, Parameter
from .._scene.dof import Rigid2, Rigid3
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField


class AnchoredFrames(AbstractEnergyForceField):
    """Springs between rigid frames and places, or other frames: `E = k/2 |u|^2 + kr/2 |theta|^2` [J].

    `u`: the translation from the anchor; `theta`: the rotation vector of the turn from the anchor, of length below pi;
    stiffness `k` [N/m], angular stiffness `kr` [N m/rad]. `on` as in `AnchoredSprings`. `anchor`: full
    coordinates `(n, 7)`, in the plane `(n, 3)`; each stiffness is shared, or `(n,)`.
    Raises `ValueError` for negative stiffness, an anchor missing or too many, or a quaternion that is not of unit length.
    Source: J. C. Simo and L. Vu-Quoc, Comput. Methods Appl. Mech. Eng. 58 (1986) 79, doi:10.1016/0045-7825(86)90079-4
    (rotation vectors and their work).

    Example:

        upright = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        spring = jm.force.AnchoredFrames(("frame", [0]), 10.0, 2.0, anchor=[upright])
        scene = jm.System({"frame": jm.Rigid3()}, forces={"spring": spring})
        turned = scene.at_rest({"frame": [[0.0, 0.0, 0.0, 0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)]]})  # by 90 degrees about z
        assert jnp.allclose(jm.total_force(scene, turned)["frame"][0, 5], -2.0 * np.pi / 2)  # -kr theta [N m]
    """

    on: Stencils = stencils()
    stiffness: Parameter = parameter()
    angular_stiffness: Parameter = parameter()
    anchor: OptionalParameter = parameter(ndim=1, default=None)

    def __check_init__(self):
        if (len(self.on) == 1) != (self.anchor is not None) or len(self.on) > 2:
            raise ValueError("AnchoredFrames: on must be (state, nodes) with an anchor, or two of those without.")
        if any(s.nodes.ndim != 1 for s in self.on):
            raise ValueError("AnchoredFrames: one frame per spring, node numbers of shape (e,).")
        positive = (lambda k: k >= 0, "at least 0")
        check_range(self, stiffness=(self.stiffness, *positive), angular_stiffness=(self.angular_stiffness, *positive))

        if getattr(self.anchor, "shape", ())[-1:] == (7,):
            check_range(self, anchor=(self.anchor, have_unit_quaternions, "frames with quaternions of unit length"))

    def check_dofs(self, dofs: Any) -> None:
        if not all(isinstance(dof, Rigid2 | Rigid3) for dof in dofs):
            raise ValueError("AnchoredFrames acts on rigid frames (Rigid2, Rigid3).")

    def element_energy(self, x: Array, other: Array | None = None) -> Scalar:
        anchor = self.anchor if other is None else other
        assert anchor is not None
        if x.shape[0] == 3:
            translation, turn = x[:2] - anchor[:2], x[2:] - anchor[2:]
        else:
            translation = x[:3] - anchor[:3]
            turn = quaternion_log(quaternion_product(x[3:], quaternion_conjugate(anchor[3:])))
        return 0.5 * (self.stiffness * jnp.sum(translation**2) + self.angular_stiffness * jnp.sum(turn**2))
