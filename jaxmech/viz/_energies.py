"""The energies of a trajectory over time."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._integrator.implicit.energy_balance import energies
from .._model.system import System, check_inputs
from ._axes import check_axes, pyplot
from ._frames import states_of
from ._shading import INK, PALETTE


def draw_energies(system: System, states: Any, *, axes: Any = None) -> Any:
    """Draw kinetic energy, potential energies by component, weights and their sum over time; return the matplotlib axes.

    `states` as in `animate`: of a trajectory, say. What the sum loses, damping and the scheme took
    (`jm.integrator.step_with_balance` tells which). Raises `ImportError` without matplotlib, `TypeError` for what are no
    states. Energies [J], times [s].
    Source: T. Belytschko, W. K. Liu, B. Moran, *Nonlinear Finite Elements for Continua and Structures*, 2000, section 6.2.3.

    Example:

        run = jm.simulate(system, state, jm.ImplicitEuler(linear_system), dt=0.01, steps=4)
        axes = jm.viz.draw_energies(system, run)
        assert [line.get_label() for line in axes.lines][-1] == "sum" and axes.get_ylabel() == "energy [J]"
        axes.figure.clear()
    """
    check_axes("draw_energies", axes)
    found = states_of("draw_energies", states)
    for state in found:
        check_inputs("draw_energies", system, state)
    if axes is None:
        axes = pyplot("draw_energies").figure(figsize=(6.4, 4.0), layout="constrained").add_subplot()
    together = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *found)
    rows = jax.jit(jax.vmap(energies, in_axes=(None, 0)))(system, together)
    times = np.asarray(together.time)
    curves = {"kinetic": rows.kinetic} | rows.potential | {f"weight of {name}": row for name, row in rows.weight.items()}
    for i, (name, row) in enumerate(curves.items()):
        if np.abs(np.asarray(row)).max() > 0:
            axes.plot(times, np.asarray(row), lw=1.3, color=PALETTE[i % len(PALETTE)], label=name)
    axes.plot(times, np.asarray(rows.total), color=INK, lw=1.8, ls="--", label="sum")
    axes.set(xlabel="time [s]", ylabel="energy [J]")
    axes.grid(color="#e5e7eb", lw=0.6)
    axes.legend(fontsize=8)
    return axes
