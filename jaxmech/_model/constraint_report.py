"""What constraints with multipliers do in a state: by how much they are off, and with what force they hold."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._math.indexing import take_rows
from .._runtime.array_types import Array, Float
from .._runtime.precision import compiled
from .dynamics import Fields, total_force, zero_forces
from .subsystem import weightless, with_only
from .system import State, System, check_inputs

_DUAL = {"m": "N", "rad": "N m", "m^3": "Pa", "m^2": "N/m"}  # what multiplies a unit to joules


def equations(system: System) -> System:
    """The scene with nothing but its constraints with multipliers; projective ones too."""
    return weightless(with_only(system, forces=[*system.multiplier_constraints]))


def with_multipliers(system: System, state: State, multipliers: Fields) -> State:
    """`state` with these multipliers, of all states of multipliers."""
    return eqx.tree_at(lambda s: [s.position[n] for n in system.multiplier_states], state, [*_sorted(multipliers)])


def _sorted(fields: Fields) -> list[Array]:
    return [fields[s] for s in sorted(fields)]


class ConstraintReport(eqx.Module):
    """What one constraint with multipliers does in a state.

    `violation` `(m, rows)`: `g(x) - C lambda`, in `violation_units`, of each element (of each equation where elements add
    up); `multipliers` `(m, rows)` `lambda`, in `units`; `forces` `{main state: (nodes, deriv_size)}` [N, N m]: the
    reactions `-(dg/dx)^T lambda`, pulled back through the mappings. Raises nothing.

    Example:

        pin = jm.constraint.Attachment(("p", [0]))
        scene = jm.System({"p": jm.Vec2()}, constraints={"pin": pin})
        state = scene.at_rest({"p": [[0.1, 0.0]], "pin": [[0.0, 3.0]]})
        pinned = jm.constraint.constraint_report(scene, state)["pin"]
        assert pinned.units == ("N", "N") and pinned.violation_units == ("m", "m")
        assert jnp.allclose(pinned.violation, jnp.array([[0.1, 0.0]]))
        assert jnp.allclose(pinned.forces["p"], jnp.array([[0.0, -3.0]]))
    """

    multipliers: Float[Array, "m rows"]
    violation: Float[Array, "m rows"]
    forces: Fields
    units: tuple[str, ...] = eqx.field(static=True)
    violation_units: tuple[str, ...] = eqx.field(static=True)


def constraint_report(system: System, state: State) -> dict[str, ConstraintReport]:
    """Multipliers, violations and reaction forces of every constraint with multipliers, by its name, with their units.

    Multipliers are those of the state: after `static_solve`, and after a step, those that balance it. Differentiable, and
    under `jit` and `vmap`. Raises `ValueError` or `TypeError` for a state that is not one of the scene.
    Source: C. Lanczos, *The Variational Principles of Mechanics*, 4th ed., 1970, ISBN 978-0-486-65067-8, chapter 2.12.

    Example:

        pin = jm.constraint.Attachment(("p", [0]))
        load = jm.force.ConstantForce(("p", [0]), [3.0, 0.0])
        scene = jm.System({"p": jm.Vec2()}, forces={"load": load}, constraints={"pin": pin})
        held = jm.static_solve(scene, scene.at_rest({"p": [[0.0, 0.0]]})).state
        assert jnp.allclose(jm.constraint.constraint_report(scene, held)["pin"].forces["p"], jnp.array([[-3.0, 0.0]]))  # [N]
    """
    check_inputs("constraint_report", system, state)
    return _report(system, state)


def violations(system: System, state: State) -> dict[str, Float[Array, "m rows"]]:
    """`g(x) - C lambda` of every constraint with multipliers, by its name, `(m, rows)` [m, rad, ...]: zero where it holds.

    Raises `ValueError` or `TypeError` for a state that is not one of the scene.

    Example:

        rod = jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0)
        scene = jm.System({"p": jm.Vec2()}, constraints={"rod": rod})
        off = jm.constraint.violations(scene, scene.at_rest({"p": [[0.0, 0.0], [1.25, 0.0]]}))
        assert jnp.allclose(off["rod"], jnp.array([[0.25]]))  # [m]
    """
    check_inputs("violations", system, state)
    return _violations(system, state)


@compiled
def _violations(system: System, state: State) -> dict[str, Array]:
    force = total_force(equations(system), state)
    return {name: -_of(system, name, force) for name in system.multiplier_constraints}


@compiled
def _report(system: System, state: State) -> dict[str, ConstraintReport]:
    found = {}
    off, zero = _violations(system, state), zero_forces(system, state.position)
    for name, constraint in system.multiplier_constraints.items():
        alone = weightless(with_only(system, forces=[name]))
        held = total_force(alone, state)
        forces = {s: zero[s] if s in system.multiplier_states else held[s] for s in held}
        forces = {s: f for s, f in forces.items() if s not in system.multiplier_states}
        multipliers = _of(system, name, state.position)
        units = row_units(constraint, multipliers.shape[-1])
        found[name] = ConstraintReport(multipliers, off[name], forces, tuple(_DUAL.get(u, f"J/({u})") for u in units), units)
    return found


def row_units(constraint: Any, rows: int) -> tuple[str, ...]:
    """The unit of each row of an equation."""
    units = constraint.units
    return (*units, *[units[-1]] * rows)[:rows]


def _of(system: System, name: str, fields: Any) -> Array:
    """The rows of a constraint's multipliers."""
    on = system.multiplier_stencils[name]
    nodes = on.nodes[:1] if system.constraints[name].adds_up else on.nodes  # pyright: ignore
    return take_rows(jnp.asarray(fields[on.state]), nodes)
