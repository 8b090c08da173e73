"""A constraint whose equation follows a value in time."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._math.key_frames import if_increasing
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .multiplier import AbstractMultiplierConstraint
from .wrapped import AbstractWrapped


class Follow(AbstractWrapped):
    """`g(x) - u(t) = C lambda`: what another constraint holds at zero follows `u`, a driver.

    `constraint`: the other one, whose `on`, `compliance`, `relaxation` and `multiplier` are those of this one. `values` [the
    unit of `g`]: `(T, rows)`, or `(e, T, rows)` for each element; `times` `(T,)` [s], increasing: `u` is linear between and
    constant beyond them. `lambda` is the force or torque of the drive. An angle (`JointAngle`) is followed the shorter way
    round, so that a motor may turn for ever. Raises `ValueError` for times that do not increase and shapes that do not fit,
    `TypeError` for what is no constraint with multipliers.
    Source: A. A. Shabana, *Dynamics of Multibody Systems*, 4th ed., 2013, doi:10.1017/CBO9781107337213, section 3.4 (driving
    constraints).

    Example:

        winch = jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0)
        hauled = jm.constraint.Follow(winch, values=[[0.0], [-0.5]], times=[0.0, 2.0])  # by a quarter of a metre a second
        load = jm.force.ConstantForce(("p", [1]), [0.0, -10.0])
        held = {"winch": hauled, "top": jm.constraint.Fixed(("p", [0]))}
        scene = jm.System({"p": jm.Vec2()}, forces={"load": load}, constraints=held)
        start = scene.at_rest({"p": [[0.0, 0.0], [0.0, -1.0]], "winch": [[10.0]]}, time=1.0)  # [s]
        assert jnp.allclose(jm.static_solve(scene, start).position["p"][1], jnp.array([0.0, -0.75]))
    """

    constraint: AbstractMultiplierConstraint
    values: Parameter = parameter(ndim=2)
    times: Parameter = parameter(ndim=1)
    now: Parameter = parameter(default=0.0)  # [s], said by the state

    follows_time = True

    def __check_init__(self):
        check_instance("Follow", "constraint", self.constraint, AbstractMultiplierConstraint)
        values, times = (getattr(a, "shape", ()) for a in (self.values, self.times))
        if len(values) < 2 or len(times) != 1 or times != values[-2:-1]:
            raise ValueError(f"Follow: values {values} and times {times} must be (T, rows) or (e, T, rows) and (T,).")
        check_range(self, times=(self.times, lambda t: np.append(True, np.diff(t) > 0), "increasing"))

    def element_constraint(self, *x: Array) -> Array:
        g = self.constraint.rows(*x)
        goal = jax.vmap(lambda values: jnp.interp(self.now, self.times, values), in_axes=1)(self.values)
        if goal.shape != g.shape:
            raise ValueError(f"values are of {goal.shape[0]} rows, the constraint has {g.shape[0]}.")
        return self.constraint.element_difference(g, if_increasing(self.times, goal))

    def at_time(self, time: Array) -> "Follow":
        inner = self.constraint.at_time(time)
        return eqx.tree_at(lambda c: (c.constraint, c.now), self, (inner, jnp.asarray(time, self.now.dtype)))
