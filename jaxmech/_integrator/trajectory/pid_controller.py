"""The size of the next step from the errors of the last ones."""

import equinox as eqx
import jax.numpy as jnp

from ..._runtime.argument_checks import check_tolerances
from ..._runtime.array_types import Array


class PIDController(eqx.Module):
    """`h_(n+1) = h_n safety e_n^(-(i + p + d) / k) e_(n-1)^((p + 2 d) / k) e_(n-2)^(-d / k)`, within limits.

    `e`: the error of a step over what is allowed (1: just accurate enough); `k`: one more than the order of the scheme.
    `i = 1` alone (`p = 0`) is the elementary controller, and without any `i` steps would only shrink; `p` and `d` let the
    size vary more smoothly, where stability limits it or a motion gets faster: fewer steps are rejected. After a rejected
    step the elementary controller decides, and the step shrinks; a step that failed (Newton did not converge, an element
    inverted) is repeated with `on_failure` of its size.
    Pure numbers. Raises `ValueError` for numbers out of range.
    Source: G. Soderlind, "Digital filters in adaptive time-stepping", ACM Trans. Math. Softw. 29 (2003) 1,
    doi:10.1145/641876.641877.

    Example:

        elementary = jm.integrator.PIDController(p=0.0, i=1.0)
        pulled = jm.System(oscillator.dofs, forces=oscillator.forces, masses=oscillator.masses, gravity=(10.0,))
        euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(pulled, oscillator_state))
        allowed = {"rtol": 1e-3, "atol": 1e-3, "controller": elementary, "dt0": 1e-4}
        run = jm.simulate_adaptive(pulled, oscillator_state, euler, [0.1], **allowed)
        h = run.info.dt[run.info.outcome == 1]  # [s]
        assert h[0] == 1e-4 and jnp.allclose(h[1], 5e-4)  # no more than five times as long
    """

    p: float = eqx.field(static=True, default=0.3, kw_only=True)
    i: float = eqx.field(static=True, default=0.4, kw_only=True)
    d: float = eqx.field(static=True, default=0.0, kw_only=True)
    safety: float = eqx.field(static=True, default=0.9, kw_only=True)
    smallest: float = eqx.field(static=True, default=0.2, kw_only=True)
    largest: float = eqx.field(static=True, default=5.0, kw_only=True)
    on_failure: float = eqx.field(static=True, default=0.25, kw_only=True)

    def __check_init__(self):
        check_tolerances("PIDController", **{name: getattr(self, name) for name in ("p", "i", "d")})
        for name in ("safety", "smallest", "largest", "on_failure"):
            value = getattr(self, name)
            check_tolerances("PIDController", **{name: value})
            if not (value > 1 if name == "largest" else 0 < value < 1):
                expected = "more than 1" if name == "largest" else "between 0 and 1"
                raise ValueError(f"PIDController: {name} must be {expected}, got {value}.")
        if not self.i > 0:  # powers of equal errors cancel but for it, and what is left of the factor is `safety`
            raise ValueError(
                "PIDController: i must be more than 0, got 0: however accurate steps are, each would be shorter than the "
                "one before. p and d may be 0."
            )

    @property
    def remembers(self) -> int:
        """How many errors of steps before the last one it takes."""
        return 2 if self.d else 1 if self.p else 0


def next_step(controller: PIDController, h: Array, errors: tuple[Array, ...], k: int) -> Array:
    """The step after an accepted one of size `h` [s]; its error, and those of steps before it that the controller takes."""
    c = controller
    powers = (-(c.p + c.i + c.d), c.p + 2 * c.d, -c.d)[: len(errors)]
    factor = c.safety * jnp.ones_like(h)
    for e, power in zip(errors, powers, strict=True):
        factor = factor * jnp.maximum(e, 1e-10) ** (power / k)
    return h * jnp.clip(factor, c.smallest, c.largest)


def after_rejection(controller: PIDController, h: Array, error: Array, k: int) -> Array:
    """The size [s] in which to repeat a step of size `h` whose error was too large."""
    factor = controller.safety * jnp.maximum(error, 1.0) ** (-1 / k)
    return h * jnp.clip(factor, controller.smallest, controller.safety)
