"""The mass of rigid frames of space: inertia that turns with the body."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .._math.rotation import quaternion_conjugate, rotate
from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import Parameter
from .._scene.dof import Rigid3
from .._scene.parameter import check_parameters, check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMass


class RigidMass(AbstractMass):
    """`T = m/2 |v|^2 + 1/2 w . I w` [J], `I = R I_body R^T`: a body whose centre of mass is the origin of its frame.

    `mass` [kg]; `inertia` [kg m^2]: the tensor in body axes, `(3, 3)` or one per frame `(e, 3, 3)`. The gyroscopic torque
    `-w x I w` follows from the energy. Raises `ValueError` unless the mass is positive, and the inertia symmetric and
    positive definite.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, chapter 5.

    Example:

        body = jm.mass.RigidMass(("frame", [0]), 5.0, np.diag([1.0, 2.0, 3.0]))
        scene = jm.System({"frame": jm.Rigid3()}, masses={"body": body})
        turned = scene.at_rest({"frame": [[0.0, 0.0, 0.0, 0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)]]})  # by 90 degrees about z
        M = jm.matrix.component_matrix(scene, turned, "body", "mass")["frame", "frame"]
        expected = jnp.diag(jnp.array([5.0, 5.0, 5.0, 2.0, 1.0, 3.0]))  # the inertia turns too
        assert jnp.allclose(M.blocks[0], expected, atol=1e-5)
    """

    on: Stencils = stencils()
    mass: Parameter = parameter()
    inertia: Parameter = parameter(ndim=2)

    def __check_init__(self):
        check_parameters(self, self.on)
        if len(self.on) != 1 or self.on[0].nodes.ndim != 1:
            raise ValueError("RigidMass: on must be (state, frames), frame numbers of shape (e,).")
        check_range(self, mass=(self.mass, lambda m: m > 0, "positive"))
        if getattr(self.inertia, "shape", ())[-2:] != (3, 3):
            raise ValueError(
                f"RigidMass: inertia must be 3 x 3 tensors, got {getattr(self.inertia, 'shape', self.inertia)}."
            )

        def is_inertia(tensor: np.ndarray) -> np.ndarray:
            symmetric = np.allclose(tensor, tensor.swapaxes(-1, -2), rtol=1e-6, atol=0)
            return np.full(tensor.shape, symmetric and bool((np.linalg.eigvalsh(tensor) > 0).all()))

        check_range(self, inertia=(self.inertia, is_inertia, "symmetric and positive definite"))

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Rigid3):
            raise ValueError("RigidMass acts on Rigid3 frames.")

    def element_kinetic_energy(self, x: tuple[Array, ...], v: tuple[Array, ...]) -> Scalar:
        spin = rotate(quaternion_conjugate(x[0][3:]), v[0][3:])
        return 0.5 * (self.mass * jnp.sum(v[0][:3] ** 2) + spin @ self.inertia @ spin)
