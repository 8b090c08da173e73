"""What `follow_path` and `critical_point` are given, checked by name."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._linear_solver.base.vectors import dtype_of
from .._linear_system.compatibility import check_topology
from .._linear_system.matrix import MatrixLinearSystem
from .._model.dynamics import Fields, kinematics
from .._model.internal import has_memory
from .._model.lever import lever_of
from .._model.system import State, System, check_inputs
from .._model.terms import Terms
from .._runtime.argument_checks import check_callable, check_instance, real_array
from .._runtime.array_types import Array
from .._runtime.results import is_traced
from .._scene.internal import remembers
from .path_problem import Coordinate, PathProblem


def finite_number(who: str, name: str, value: Any, *, positive: bool = False) -> float:
    """`value` as a float. `TypeError` or `ValueError` unless it is a finite real number, and `positive` where it must be."""
    array = real_array(who, name, value, ())
    if is_traced(array):
        raise TypeError(f"{who}: {name} is being traced, and a path is a loop on the host.")
    if positive and not float(array) > 0:
        raise ValueError(f"{who}: {name} must be a positive number, got {value!r:.80}.")
    return float(array)


def path_problem(
    who: str,
    scene: Callable[[Array], System],
    state: State,
    linear_system: Any,
    load: Any,
    coordinate: Any,
    *,
    on_host: bool = False,
) -> tuple[PathProblem, Array, System]:
    """The problem, the load where it starts, and the scene there. `on_host`: what is done with it cannot be traced."""
    check_callable(who, "scene", scene)
    check_instance(who, "position of the start", state.position, dict)
    arrays = [x for x in state.position.values() if hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)]
    dtype = dtype_of(arrays) if arrays else jnp.result_type(float)
    mu = jnp.asarray(load, dtype)
    system = scene(mu)
    check_instance(who, "what scene returns", system, System)
    if on_host and is_traced((system, state)):
        raise TypeError(
            f"{who}: the scene or its start is being traced (jit, grad, vmap), and a path is a loop on the host. Follow it "
            "outside; derivatives are those of static_solve(scene(mu), path.at(i)) and of critical_point."
        )
    check_inputs(who, system, state)
    _check_is_followed(who, system)
    if linear_system is None:
        linear_system = MatrixLinearSystem.build(system, state, Terms(mass=False, damping=False))
    check_instance(who, "linear_system", linear_system, MatrixLinearSystem)
    check_topology(f"the linear system given to {who}", linear_system.built_for, system)
    named = None if coordinate is None else named_coordinate(who, system, state, coordinate)
    lever = lever_of(system, state.position)
    return PathProblem(scene, linear_system, state.time, named, lever, system.multiplier_states), mu, system


def _check_is_followed(who: str, system: System) -> None:
    """A law with a memory has no path of equilibria but the one that it went."""
    if has_memory(system):
        remembering = sorted(name for name, field in system.forces.items() if remembers(field))
        raise ValueError(f"{who}: {remembering} remember what they went through; take static_solve, load step by load step.")


def named_coordinate(who: str, system: System, state: State, named: Any) -> Coordinate:
    """`(state, node, component)` of a main or a mapped state, or an error."""
    if not isinstance(named, tuple | list) or len(named) != 3:
        raise TypeError(f"{who}: displacement must be (state, node, component), got {named!r:.80}.")
    name, *numbers = named
    places = jax.eval_shape(lambda x: kinematics(system, x), state.position)
    shapes = {s: (x.shape[0], system.dofs[s].deriv_size) for s, x in places.items()}
    if not isinstance(name, str) or name not in shapes:
        raise ValueError(f"{who}: displacement names the state {name!r:.80}, expected one of {sorted(shapes)}.")
    for what, number, size in zip(("node", "component"), numbers, shapes[name], strict=True):
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if not whole or not 0 <= number < size:
            raise ValueError(f"{who}: displacement names {what} {number!r:.80} of '{name}', expected 0 to {size - 1}.")
    return Coordinate(name, *(jnp.asarray(n, jnp.int32) for n in numbers))


def extent(system: System, position: Fields) -> float:
    """The largest difference of two coordinates of a kind, turns and multipliers left out; one where all are equal [m]."""
    places = [x[:, : system.dofs[s].space_size] for s, x in position.items() if s not in system.multiplier_states]
    sizes = [float(jnp.max(jnp.max(x, axis=0) - jnp.min(x, axis=0), initial=0)) for x in places if x.size]
    return max(sizes, default=0.0) or 1.0
