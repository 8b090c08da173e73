"""Springs between pairs of points."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._math.safe_norm import safe_direction, safe_length
from .._runtime.argument_checks import check_flags
from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import OptionalParameter, Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField, Arrays, points_only


class Springs(AbstractEnergyForceField):
    """Springs from points `a` to points `b`, of the same state or of different ones.

    `E = k/2 (l - L0)^2` [J], `l = |b - a|`, with stiffness `k` [N/m] and rest length `L0` [m]; dissipation
    `D = c/2 (l')^2` with damping `c` [N s/m] if given, `l'` the rate of the length. `elongation_only`: no force below `L0`.
    `on=((state, nodes a), (state, nodes b))`. Raises `ValueError` for negative numbers.
    `stiffness`, `rest_length`, `damping`: one number, or one per spring `(e,)`.
    Source: D. Baraff and A. Witkin, "Large steps in cloth simulation", SIGGRAPH 1998, doi:10.1145/280814.280821.

    Example:

        spring = jm.force.Springs((("p", [0]), ("p", [1])), stiffness=10.0, rest_length=1.0)
        scene = jm.System({"p": jm.Vec3()}, forces={"spring": spring})
        force = jm.total_force(scene, scene.at_rest({"p": [[0.0, 0.0, 0.0], [0.0, 0.0, 3.0]]}))["p"]
        assert jnp.allclose(force[:, 2], jnp.array([20.0, -20.0]))  # k (l - L0) [N], towards each other
    """

    on: Stencils = stencils()
    stiffness: Parameter = parameter()
    rest_length: Parameter = parameter()
    damping: OptionalParameter = parameter(default=None)
    elongation_only: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if len(self.on) != 2 or any(s.nodes.ndim != 1 for s in self.on):
            raise ValueError("Springs: on must be ((state, nodes a), (state, nodes b)), node numbers of shape (e,).")
        check_flags("Springs", elongation_only=self.elongation_only)
        positive = (lambda p: p >= 0, "at least 0")
        check_range(self, stiffness=(self.stiffness, *positive), rest_length=(self.rest_length, *positive))
        check_range(self, damping=(self.damping, *positive))

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)

    @property
    def is_dissipative(self) -> bool:
        return self.damping is not None

    def element_energy(self, a: Array, b: Array) -> Scalar:
        d = b - a
        length = safe_length(d)
        # At zero length the square of the stretch is written out: its curvature does not need a direction.
        square = jnp.where(
            length > 0, (length - self.rest_length) ** 2, d @ d - 2 * length * self.rest_length + self.rest_length**2
        )
        if self.elongation_only:
            square = jnp.where(length > self.rest_length, square, 0.0)
        return 0.5 * self.stiffness * square

    def element_dissipation(self, x: Arrays, v: Arrays) -> Scalar:
        (a, b), (va, vb) = x, v
        assert self.damping is not None
        rate = safe_direction(b - a) @ (vb - va)
        dissipation = 0.5 * self.damping * rate**2
        if self.elongation_only:
            dissipation = jnp.where(safe_length(b - a) > self.rest_length, dissipation, 0.0)
        return dissipation
