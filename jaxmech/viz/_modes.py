"""Shapes of vibration, or of buckling, side by side."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._assembly.public_functions import retract
from .._model.system import State, System, check_inputs
from .._runtime.argument_checks import check_counts, check_instance, plain, real_array
from .._solve.buckling import Buckling
from .._solve.modes import Modes
from ._axes import pyplot
from ._plot import plot
from ._sketch import sketch


def draw_modes(
    system: System,
    state: State,
    modes: Modes | Buckling,
    *,
    count: int = 4,
    amplitude: float = 0.15,
    view: tuple[float, float] | None = None,
) -> Any:
    """Draw the first `count` modes, each a scene moved along it, with its frequency; return the matplotlib figure.

    `modes`: what `jm.modes` found at `state`, or `jm.buckling`, whose load factors are said. A shape has no size of its own:
    its greatest displacement is drawn as `amplitude` times the longest side of the scene, coloured from 0 to 1.
    Raises `ImportError` without matplotlib, `TypeError` for what are no modes, `ValueError` for a scene without places.
    Frequencies [1/s]. Source: R. W. Clough and J. Penzien, *Dynamics of Structures*, 3rd ed., 2003, chapter 11.

    Example:

        figure = jm.viz.draw_modes(oscillator, oscillator_state, jm.modes(oscillator, oscillator_state, count=1))
        assert "Hz" in figure.axes[0].get_title()
        figure.clear()
    """
    check_inputs("draw_modes", system, state)
    check_instance("draw_modes", "modes", modes, (Modes, Buckling))
    count = plain(count)
    check_counts("draw_modes", count=count)
    share = float(np.asarray(real_array("draw_modes", "amplitude", amplitude, ())))
    if not share > 0:
        raise ValueError(f"draw_modes: amplitude must be a positive number, got {amplitude!r:.80}.")
    picture = sketch(system, state, loads=False, supports=True)
    count = min(count, len(np.asarray(next(iter(modes.shapes.values())))))
    columns = int(np.ceil(np.sqrt(count)))
    rows = -(-count // columns)
    figure = pyplot("draw_modes").figure(figsize=(4.6 * columns, 3.4 * rows), layout="constrained")
    for i in range(count):
        shape = {name: np.asarray(u)[i] for name, u in modes.shapes.items()}
        spans = {name: np.abs(u[:, : system.dofs[name].space_size]).max(initial=0) for name, u in shape.items()}
        most = max((v for name, v in spans.items() if system.dofs[name].space_size > 1), default=0.0) or max(spans.values())
        size = share * picture.extent() / most
        u = {name: jnp.asarray(size * rows) for name, rows in shape.items()} | _still(state, shape)
        moved = retract(system, state.position, u)
        axes = figure.add_subplot(rows, columns, i + 1, projection="3d" if picture.size == 3 else None)
        bent = dataclasses.replace(state, position=moved)
        color = {s.state: _sizes(shape[s.state]) for s in picture.surfaces if s.state in shape}
        options = {"color": color, "label": "displacement [-]", "limits": (0.0, 1.0)} if color else {}
        plot(system, bent, axes=axes, title=_said(modes, i), legend=False, loads=False, view=view, **options)
    return figure


def _sizes(u: np.ndarray) -> np.ndarray:
    """How far each node moves, the farthest by one."""
    lengths = np.linalg.norm(u[:, :3], axis=1)
    return lengths / (lengths.max() or 1.0)


def _still(state: State, shape: dict[str, Any]) -> dict[str, jax.Array]:
    """No displacement of the states that modes leave out."""
    return {name: jnp.zeros_like(v) for name, v in state.velocity.items() if name not in shape}


def _said(modes: Modes | Buckling, i: int) -> str:
    if isinstance(modes, Modes):
        return f"mode {i + 1}: {float(np.asarray(modes.frequencies)[i]) / (2 * np.pi):.4g} Hz"
    return f"mode {i + 1}: load factor {float(np.asarray(modes.factors)[i]):.4g}"
