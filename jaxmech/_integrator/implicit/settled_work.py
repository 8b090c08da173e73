"""What constraints do at the end of a step, where their impulses put velocities along them."""

import equinox as eqx
import jax.numpy as jnp

from ..._model.constraint_report import equations
from ..._model.dynamics import Fields, total_force
from ..._model.multiplier_rows import row_numbers, without_multipliers, work_of_rows
from ..._model.system import State, System
from ..._runtime.array_types import Array
from .implicit_scheme import AbstractImplicitScheme
from .settled import VelocityStep


def work_of_settling(
    scheme: AbstractImplicitScheme, system: System, moved: State, end: State
) -> tuple[dict[str, Array], Fields]:
    """The work of every row, by name [J], and the impulse of all [N s], by which a step that has `moved` came to its `end`.

    Nil where constraints rest: then velocities are along them after it. One that moves works on what it takes along.
    """
    names = system.multiplier_states
    x, _ = VelocityStep(system, scheme.linear_system, without_multipliers(system, moved)).solve(scheme.solver, "")
    C = row_numbers(system, moved).compliance
    impulses = [jnp.where(C[s] > 0, 0.0, x[s]) for s in names]
    held = eqx.tree_at(lambda s: [s.position[n] for n in names], end, impulses)
    force = total_force(equations(system), held)
    return work_of_rows(system, held, end.velocity), {s: jnp.zeros_like(f) if s in names else f for s, f in force.items()}
