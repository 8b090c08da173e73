"""The functions of a scene as users call them, all of a system and a state; jaxmech itself calls the ones within."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._model import dynamics as _dynamics
from .._model import inertia as _inertia
from .._model import mapping_operators as _mapping_operations
from .._model.accept import accepted as _accepted
from .._model.accept import unless_failed as _unless_failed
from .._model.arguments import checked
from .._model.constraint_projection import project as _project
from .._model.failure_report import raise_not_finite
from .._model.former_signatures import formerly_of
from .._model.internal import in_step as _in_step
from .._model.system import State, System, check_inputs
from .._runtime.argument_checks import check_flags, real_array
from .._runtime.array_types import Array, Scalar
from .._runtime.precision import full_precision
from .._runtime.results import is_traced
from .._scene.parameter import is_concrete
from . import component_matrix as _component_matrices

inertial_force = checked(_inertia.inertial_force)
total_force = checked(_dynamics.total_force)

accelerations = formerly_of("x", "velocity")(checked(_mapping_operations.accelerations))
geometric_product = checked(_mapping_operations.geometric_product)
jacobian = formerly_of("position")(checked(_mapping_operations.jacobian))
pull_back = formerly_of("position")(checked(_mapping_operations.pull_back))
pull_back_rows = formerly_of("position")(checked(_mapping_operations.pull_back_rows))

component_matrix = checked(_component_matrices.component_matrix)


@checked
def energy(system: System, state: State, *, throw: bool | None = None) -> Scalar:
    """The potential energy [J] of the conservative components: energies, and weights `-g . M x`.

    Minus its gradient is `total_force`, where no velocity and no force without an energy has a part in that. Raises
    `FailedComputation` that names the component and the element where an energy is undefined (an inverted element under a
    logarithm of its volume) or not finite. Where values are traced (`jit`, `grad`, `vmap`) the result is then NaN or
    infinite, so that a line search, or `observe` of a trajectory, can look at any state; with `throw=True` JAX raises the
    same words at run time, of a batch for any member. `throw=False`: nothing is raised.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, chapter 1.

    Example:

        E = jm.energy(system, state)
        assert jnp.allclose(E, 5000.0)  # -g . M x: a tonne whose centre is 0.5 m up [J]
    """
    if throw is not None:
        check_flags("energy", throw=throw)
    found = _dynamics.energy(system, state, raises=throw is not False)
    return raise_not_finite(found, system, state, "energy") if throw and is_traced(found) else found


@checked
@full_precision
def retract(system: System, position: _dynamics.Fields, u: _dynamics.Fields) -> _dynamics.Fields:
    """The positions of the main states moved by `u` [m, rad] in their charts: `x + u`; `(c + u, exp(w) q)` of frames.

    `position`: `{state: (nodes, coord_size)}`; `u`: `{state: (nodes, deriv_size)}`, `h v` of a step, say. Differentiable.
    Raises `ValueError` or `TypeError` for what does not fit the system.
    Source: P.-A. Absil, R. Mahony, R. Sepulchre, *Optimization Algorithms on Matrix Manifolds*, 2008, section 4.1.

    Example:

        lifted = jm.integrator.retract(system, state.position, {"cube": jnp.tile(jnp.array([0.0, 0.0, 2.0]), (8, 1))})
        assert jnp.allclose(lifted["cube"] - state.position["cube"], jnp.array([0.0, 0.0, 2.0]))  # [m]
    """
    return _dynamics.retract(system.dofs, position, u)


@checked
@full_precision
def project(system: System, u: _dynamics.Fields) -> _dynamics.Fields:
    """`P u`: what projective constraints leave of velocities, displacements or forces of the main states [m/s, m, N].

    `u`: `{state: (nodes, deriv_size)}`. Raises `ValueError` or `TypeError` for what does not fit the system.
    Source: D. Baraff and A. Witkin, "Large steps in cloth simulation", SIGGRAPH 1998, doi:10.1145/280814.280821.

    Example:

        free = jm.integrator.project(system, {"cube": jnp.ones((8, 3))})["cube"]
        assert jnp.allclose(jm.integrator.project(system, {"cube": free})["cube"], free)
    """
    return _project(system, u)


@checked
def in_step(system: System, dt: Any = None) -> System:
    """The scene as it is within a step of `dt` [s]: laws with a rate know how much time passes (`time_step()`).

    What a scheme evaluates within a step (`total_force`, the matrices of a linear system) it asks of this scene, at states
    with the internal variables of the start; `accepted` ends the step. The scene itself where no law has a rate. `dt` None:
    no time passes. Raises `ValueError` or `TypeError` for what is no time.
    Source: J. C. Simo and T. J. R. Hughes, *Computational Inelasticity*, 1998, doi:10.1007/b98904, chapter 1.

    Example:

        law = jm.material.Viscoelastic(jm.material.NeoHookean(1e6, 0.3), [5e5], [0.1])  # a branch of 0.5 MPa and 0.1 s
        cube = jm.System({"cube": jm.Vec3()}, forces={"solid": jm.force.TetrahedronFEM.from_mesh("cube", mesh, law)})
        start = cube.at_rest({"cube": mesh.points})
        longer = dataclasses.replace(start, position={"cube": mesh.points * jnp.array([1.1, 1.0, 1.0])})
        slow = jm.integrator.in_step(cube, 1.0)
        pull, least = (jm.total_force(scene, longer)["cube"][mesh.points[:, 0] == 1.0, 0].sum() for scene in (cube, slow))
        assert pull < least < 0.0  # the branch has flowed meanwhile [N]
    """
    _check_time(dt)
    return _in_step(system, dt)


@checked
@full_precision
def accepted(system: System, state: State, end: State, dt: Any = None, *, failed: Any = False) -> State:
    """`end`, with the internal variables that a step of `dt` [s] from `state` to there makes of those of `state`.

    Every scheme calls it once at the end of a step, and no function that iterates does: within a step they stay what they
    were. Differentiable by all arguments. `dt` None: no time passes. `failed`, a truth value, traced or not: where it holds
    nothing is remembered, as a `step(throw=False)` shall have it. Raises `ValueError` or `TypeError` for what is not a
    state of this system, and for an `element_update` or `point_update` that returns other names or shapes.
    Source: J. C. Simo and T. J. R. Hughes, *Computational Inelasticity*, 1998, doi:10.1007/b98904, chapter 1.

    Example:

        law = jm.material.J2Plasticity(1e6, 0.3, yield_stress=1e3, hardening=1e4)  # [Pa]
        cube = jm.System({"cube": jm.Vec3()}, forces={"solid": jm.force.TetrahedronFEM.from_mesh("cube", mesh, law)})
        start = cube.at_rest({"cube": mesh.points})
        pulled = dataclasses.replace(start, position={"cube": mesh.points * jnp.array([1.01, 1.0, 1.0])})
        end = jm.integrator.accepted(cube, start, pulled)
        assert end.internal["solid"]["material.accumulated"].shape == (6, 1)  # of every tetrahedron and Gauss point
        assert jnp.all(end.internal["solid"]["material.accumulated"] > 0.0)
        kept = jm.integrator.accepted(cube, start, pulled, failed=jnp.array(True))
        assert jnp.all(kept.internal["solid"]["material.accumulated"] == 0.0)
    """
    check_inputs("accepted: end", system, end)
    _check_time(dt)
    is_truth = isinstance(failed, jax.Array) and failed.shape == () and failed.dtype == bool
    if not (is_truth or isinstance(failed, bool | np.bool_)):
        raise TypeError(f"accepted: failed must be one truth value, got {failed!r:.80}.")
    end = _accepted(system, state, end, dt)
    return end if failed is False else _unless_failed(jnp.asarray(failed), state, end)


def _check_time(dt: Any) -> None:
    """Raise unless `dt` is a time that may pass, or None."""
    if dt is not None:
        h = real_array("the time step", "dt", dt, ())
        if is_concrete(h) and not float(h) >= 0:
            raise ValueError(f"the time step dt must not be negative, got {dt}.")


@formerly_of("position")
@checked
def kinematics(system: System, state: State) -> dict[str, Array]:
    """The positions `{state: (nodes, coord_size)}` of every state, mapped ones included [m; unit quaternions].

    Mappings are applied from parents to children: `p = p(q)`. Differentiable by `system` and `state`. Raises `ValueError` or
    `TypeError` for what is not a state of this system.
    Source: R. Featherstone, *Rigid Body Dynamics Algorithms*, 2008, doi:10.1007/978-1-4899-7560-7, chapter 2.

    Example:

        x = jm.kinematics(arm, arm_state)
        assert jnp.allclose(x["tip"], jnp.array([[1.0, 0.0, 0.0]]))
    """
    return _dynamics.kinematics(system, state.position)


@formerly_of("x", "velocity")
@checked
def velocities(system: System, state: State) -> dict[str, Array]:
    """The velocities `{state: (nodes, deriv_size)}` of every state: `J v` for mapped ones [m/s, rad/s].

    Raises `ValueError` or `TypeError` for what is not a state of this system.
    Source: R. Featherstone, *Rigid Body Dynamics Algorithms*, 2008, doi:10.1007/978-1-4899-7560-7, chapter 2.

    Example:

        spin = {"frame": jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 2.0]])}  # 2 rad/s about z
        turning = jm.State(arm_state.position, spin, arm_state.time)
        assert jnp.allclose(jm.mapping.velocities(arm, turning)["tip"], jnp.array([[0.0, 2.0, 0.0]]))  # w x r
    """
    x = _dynamics.kinematics(system, state.position)
    return _dynamics.velocities(system, x, state.velocity)


@formerly_of("position", "velocity")
@checked
def kinetic_energy(system: System, state: State) -> Scalar:
    """The kinetic energy `T = 1/2 v . M v` [J], that of masses on mapped states included.

    Differentiable by `system` and `state`. Raises `ValueError` or `TypeError` for what is not a state of this system.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, chapter 1.

    Example:

        moving = jm.State(arm_state.position, {"frame": jnp.array([[3.0, 0.0, 0.0, 0.0, 0.0, 2.0]])}, arm_state.time)
        assert jnp.allclose(jm.mass.kinetic_energy(arm, moving), 11.0)  # 2 kg at 3 m/s, 1 kg m^2 at 2 rad/s [J]
    """
    return _dynamics.kinetic_energy(system, state.position, state.velocity)


@formerly_of("position", "velocity")
@checked
def momentum(system: System, state: State) -> dict[str, Array]:
    """The momentum `M v = dT/dv` [kg m/s, kg m^2/s], `{state: (nodes, deriv_size)}` of the main states.

    That of masses on mapped states is pulled back: `J^T M J v`. Raises `ValueError` or `TypeError` for what is not a state
    of this system.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, chapter 1.

    Example:

        moving = jm.State(state.position, {"cube": jnp.tile(jnp.array([2.0, 0.0, 0.0]), (8, 1))}, state.time)
        p = jm.mass.momentum(system, moving)["cube"]
        assert jnp.allclose(p.sum(0), jnp.array([2000.0, 0.0, 0.0]))  # a tonne at 2 m/s [kg m/s]
    """
    return _dynamics.momentum(system, state.position, state.velocity)
