"""Nodes whose velocity or acceleration is given."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._runtime.array_types import Array, Float
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .._scene.stencil import Stencils, stencils
from .fixed_components import as_components
from .motion import AbstractMotion


class AbstractIntegratedMotion(AbstractMotion):
    """A motion given by a rate of `u`. Turns in space are refused: no rate of a rotation vector is a spin."""

    def check_dofs(self, dofs: Any) -> None:
        super().check_dofs(dofs)
        dof, (name, values) = dofs[0], self.table
        for field in ("start", "start_velocity"):
            shape = jnp.shape(getattr(self, field, 0.0))
            if shape and shape[-1] not in (1, values.shape[-1]):
                raise ValueError(f"{field} {shape} must have {values.shape[-1]} components, as {name} {values.shape}.")
        turned = (True,) if self.components is None else self.components[dof.space_size :]
        if not dof.is_vector_space and any(turned):
            raise ValueError(
                f"{type(self).__name__} moves translations, and {name} of turns in space are no spins: leave them free by "
                f"components={(True,) * dof.space_size + (False,) * (dof.deriv_size - dof.space_size)}, or give their "
                "rotation vectors to PrescribedMotion."
            )


class PrescribedVelocity(AbstractIntegratedMotion):
    """Moves nodes to `retract(reference, u(t))`, `du/dt` linear between key frames and constant beyond them.

    `u` is `start` [m, rad] at the first of `times` `(T,)` [s], which increase, and the integral from there: quadratic
    between key frames, exactly. `velocities` [m/s, rad/s]: `(T, d)` for all the nodes, or `(e, T, d)`; `reference`
    `(e, c)`; `start`: `(d,)` or `(e, d)`. `components`: which are moved (all, unless given). Of `Rigid3`, translations only.
    Accelerations jump at key frames; schemes that take them at the ends of steps (Newmark's kin, explicit ones) are of first
    order there, in what masses couple to the motion. A state begins with the velocity that it is given: give it that of the
    motion, unless a jerk is meant.
    All numbers are leaves. Raises `ValueError` for times that do not increase, shapes that do not fit, or turns in space.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, chapter 4 (boundary conditions).

    Example:

        hand = jm.constraint.PrescribedVelocity(("p", [0]), [[0.0]], [[0.0], [2.0]], [0.0, 1.0])  # [m/s], [s]
        spring = jm.force.Springs((("p", [0]), ("p", [1])), 10.0, 1.0)
        scene = jm.System({"p": jm.Vec1()}, forces={"spring": spring}, constraints={"hand": hand})
        later = jm.static_solve(scene, scene.at_rest({"p": [[0.0], [1.0]]}, time=2.0))
        assert jnp.allclose(later.position["p"][0], 3.0)  # 1 m in the first second, 2 m in the next
    """

    on: Stencils = stencils()
    reference: Parameter = parameter(ndim=1)
    velocities: Parameter = parameter(ndim=2)
    times: Parameter = parameter(ndim=1)
    start: Parameter = parameter(ndim=1, default=(0.0,))
    components: tuple[bool, ...] | None = eqx.field(
        static=True, default=None, converter=lambda c: c if c is None else as_components(c)
    )

    @property
    def table(self) -> tuple[str, Array]:
        return "velocities", self.velocities

    def element_displacement(self, time: Array) -> Float[Array, " d"]:
        i, t, slope = _piece(self.times, self.velocities, time)
        at = _integral(self.times, self.velocities, self.start)
        return at[i] + t * self.velocities[i] + t**2 / 2 * slope


class PrescribedAcceleration(AbstractIntegratedMotion):
    """Moves nodes to `retract(reference, u(t))`, `d2u/dt2` linear between key frames and constant beyond them.

    `u` is `start` [m, rad] at the first of `times` `(T,)` [s], which increase, and `du/dt` is `start_velocity` [m/s, rad/s]
    there; they are integrated exactly: `u` is cubic between key frames. `accelerations` [m/s^2, rad/s^2]: `(T, d)` for all
    the nodes, or `(e, T, d)`; `reference` `(e, c)`; `start` and `start_velocity`: `(d,)` or `(e, d)`.
    `components`: which are moved (all, unless given). Of `Rigid3`, translations only. An earthquake's record, say.
    A state begins with the velocity that it is given: give it that of the motion, unless a jerk is meant.
    All numbers are leaves. Raises `ValueError` for times that do not increase, shapes that do not fit, or turns in space.
    Source: A. K. Chopra, *Dynamics of Structures*, 4th ed., 2012, ISBN 978-0-13-285803-8, section 5.2 (excitation that is
    linear between the times of a record).

    Example:

        base = jm.constraint.PrescribedAcceleration(("p", [0]), [[0.0]], [[3.0]], [0.0], start_velocity=[1.0])  # [m/s^2]
        spring = jm.force.Springs((("p", [0]), ("p", [1])), 10.0, 1.0)
        scene = jm.System({"p": jm.Vec1()}, forces={"spring": spring}, constraints={"base": base})
        later = jm.static_solve(scene, scene.at_rest({"p": [[0.0], [1.0]]}, time=2.0))
        assert jnp.allclose(later.position["p"][0], 1.0 * 2.0 + 3.0 * 2.0**2 / 2)  # [m]
    """

    on: Stencils = stencils()
    reference: Parameter = parameter(ndim=1)
    accelerations: Parameter = parameter(ndim=2)
    times: Parameter = parameter(ndim=1)
    start: Parameter = parameter(ndim=1, default=(0.0,))
    start_velocity: Parameter = parameter(ndim=1, default=(0.0,))
    components: tuple[bool, ...] | None = eqx.field(
        static=True, default=None, converter=lambda c: c if c is None else as_components(c)
    )

    @property
    def table(self) -> tuple[str, Array]:
        return "accelerations", self.accelerations

    def element_displacement(self, time: Array) -> Float[Array, " d"]:
        i, t, slope = _piece(self.times, self.accelerations, time)
        a, h = self.accelerations, jnp.diff(self.times)[:, None]
        v = _integral(self.times, a, self.start_velocity)
        at = _summed(self.start, h * v[:-1] + h**2 / 6 * (2 * a[:-1] + a[1:]))
        return at[i] + t * v[i] + t**2 / 2 * a[i] + t**3 / 6 * slope


def _piece(times: Array, values: Array, time: Array) -> tuple[Array, Array, Array]:
    """The key frame that has passed last, the time since then (negative before the first), and the slope of the values."""
    last = times.shape[0] - 1
    i = jnp.clip(jnp.searchsorted(times, time, side="right") - 1, 0, last)
    after = jnp.minimum(i + 1, last)
    inside = (after > i) & (time >= times[0])
    slope = (values[after] - values[i]) / jnp.where(inside, times[after] - times[i], 1.0)
    return i, time - times[i], jnp.where(inside, slope, 0.0)


def _integral(times: Array, values: Array, first: Array) -> Array:
    """That of values which are linear in between, at the key frames."""
    return _summed(first, jnp.diff(times)[:, None] * (values[:-1] + values[1:]) / 2)


def _summed(first: Array, steps: Array) -> Array:
    first = jnp.broadcast_to(first, steps.shape[1:])
    return jnp.concatenate([first[None], first + jnp.cumsum(steps, axis=0)])
