"""A cable that does not stretch, through eyelets."""

from typing import Any

import jax.numpy as jnp

from .._math.safe_norm import safe_length
from .._runtime.array_types import Array
from .._runtime.field_types import OptionalParameter, Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import OptionalStencils, Stencils, optional_stencils, stencils
from .multiplier import AT_LEAST_NIL, AbstractMultiplierConstraint
from .points import check_points


class Cable(AbstractMultiplierConstraint):
    """`sum |x_(i+1) - x_i| - L = C lambda`: a cable of length `L` that slides without friction through eyelets `x_i`.

    `on=(state, nodes (e, k))`: of every cable the `k` eyelets, of points of any state, mapped or not, in their order; or
    two such stencils, `((state, nodes (e, j)), (state, nodes (e, k)))`, the cable running through the first, then through
    the second (from the world to a body, say). `length` `L` [m], of the part between the first and the last: what a motor
    winds is taken off it, so that `length` is the actuator that SoftRobots calls a displacement; `jm.force.CableTension`
    is that of a force. `lambda` [N]: the tension, negative where a cable is pushed, which this one bears. `compliance`
    [m/N] of the whole cable, `L / (E A)`; `relaxation` [s] and `multiplier`: see `AbstractMultiplierConstraint`. Eyelets
    that coincide have no direction between them, and no force. Raises `ValueError` for other shapes, other states than
    points, and negative lengths.
    Source: E. Coevoet et al., "Software toolkit for modeling, simulation, and control of soft robots", Adv. Robotics 31
    (2017) 1208, doi:10.1080/01691864.2017.1395362.

    Example:

        cable = jm.constraint.Cable(("p", [[0, 1, 2]]), length=2.0)  # over a pulley that hangs on it
        forces = {"load": jm.force.ConstantForce(("p", [1]), [0.0, -10.0])}
        held = {"cable": cable, "hooks": jm.constraint.Fixed(("p", [0, 2]))}
        scene = jm.System({"p": jm.Vec2()}, forces=forces, constraints=held)
        start = scene.at_rest({"p": [[0.0, 0.0], [0.5, -0.7], [1.2, 0.0]], "cable": [[5.0]]})
        found = jm.static_solve(scene, start)
        assert jnp.allclose(found.position["p"][1], jnp.array([0.6, -0.8]))  # in the middle
        assert jnp.allclose(found.position["cable"], 10.0 / (2 * 0.8))  # [N], 2 T sin = 10 N
    """

    on: Stencils = stencils()
    length: Parameter = parameter()
    compliance: Parameter = parameter(default=0.0)
    relaxation: OptionalParameter = parameter(default=None)
    multiplier: OptionalStencils = optional_stencils(kw_only=True)

    sides = ("too long", "too short")

    def __check_init__(self):
        check_eyelets(self)
        check_range(self, length=(self.length, *AT_LEAST_NIL))

    def check_dofs(self, dofs: Any) -> None:
        check_points(self, dofs)

    def element_constraint(self, *x: Array) -> Array:
        return (cable_length(x) - self.length)[None]


def check_eyelets(cable: Any) -> None:
    """Raise `ValueError` unless there are one or two groups of eyelets, of two eyelets at least."""
    eyelets = [s.nodes.shape[1] if s.nodes.ndim == 2 else 0 for s in cable.on]
    if len(cable.on) not in (1, 2) or 0 in eyelets or sum(eyelets) < 2:
        found = [(s.state, tuple(s.nodes.shape)) for s in cable.on]
        raise ValueError(f"Cable: on must be one or two of (state, eyelets (e, k)), with two eyelets at least; got {found}.")


def cable_length(x: tuple[Array, ...]) -> Array:
    """The length of the line through the eyelets of each group, one after the other [m]."""
    points = jnp.concatenate(x)
    return sum((safe_length(points[i + 1] - points[i]) for i in range(len(points) - 1)), jnp.zeros((), points.dtype))
