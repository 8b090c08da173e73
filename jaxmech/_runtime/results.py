"""Why a computation failed, in words that help. Failure is a value; it is raised unless `throw=False`."""

import warnings
from typing import Any

import jax
import lineax as lx
import numpy as np

from .jax_internals import Tracer, enumeration_of, index_of, is_carried_out, names_of


class Outcome(type(lx.RESULTS.successful)):
    """A member of `RESULTS`, or an array of members, that prints its name."""

    def __repr__(self) -> str:
        index = index_of(self)
        if not isinstance(index, np.ndarray | jax.Array) or isinstance(index, Tracer):
            return "RESULTS<traced>"
        names = np.asarray(names_of(self._enumeration))[np.asarray(index)]
        if names.ndim == 0:
            return f"RESULTS.{names}"
        return f"RESULTS{np.array2string(names, formatter={'all': str}, separator=', ')}"

    __str__ = __repr__


class _Named(type(lx.RESULTS)):
    """The metaclass of `RESULTS`: an Equinox enumeration whose members are `Outcome`s, with advice of its own for
    inherited ones.
    """

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]):
        with warnings.catch_warnings():  # Equinox warns of an inherited member whose words are replaced
            warnings.filterwarnings("ignore", message="Enumeration has duplicate incompatible values")
            cls: Any = super().__new__(mcs, name, bases, namespace)
        for key, item in cls._name_to_item.items():
            cls._name_to_item[key] = Outcome(index_of(item), cls)
        plain = super(cls, cls)
        cls.where = staticmethod(lambda pred, a, b: Outcome(index_of(plain.where(pred, a, b)), cls))
        # Those that keep their numbers need no table, of which Equinox has four programs compiled.
        same = [base for base in bases if names_of(base) == names_of(cls)[: len(names_of(base))]]

        def promote(item: Any) -> Outcome:
            return Outcome(index_of(item if enumeration_of(item) in same else plain.promote(item)), cls)

        cls.promote = staticmethod(promote)
        return cls


class RESULTS(lx.RESULTS, metaclass=_Named):  # pyright: ignore[reportGeneralTypeIssues]
    """Outcomes of a solve: those of lineax (`successful`, `singular`, `stagnation`, `breakdown`, ...) and these.

    A value of a JAX program, also under `jit` and `vmap`: compare with `==`. Outside tracing it prints its name, and
    `RESULTS[result]` is the advice.
    No units. Raises nothing itself; solves raise `FailedComputation` with its advice. Source: lineax (`lineax.RESULTS`).

    Example:

        result = jm.static_solve(system, state, linear_system, throw=False).info.result
        assert result == jm.RESULTS.successful
        assert "load steps" in jm.RESULTS[jm.RESULTS.not_converged]  # the advice
    """

    successful = "successful."
    nonfinite_input = (
        "a number that was given is not finite (NaN or infinite): a parameter of a component, a position, a velocity, the "
        "time step."
    )
    number_out_of_range = (
        "a number of a node, an element or a block is none of those that there are: an array of indices of the scene or "
        "of its linear system was replaced. Build both anew from numbers that exist."
    )
    internal_out_of_range = (
        "an internal variable of the state is none that its law could have come to (an accumulated strain below 0, say). "
        "Take states from System.at_rest and from steps; outside of jit, the message names it."
    )
    not_finite = (
        "a force or a residual is not finite (NaN or infinite), though all that was given is. Look for coincident nodes, a "
        "zero rest length, parameters out of range, or key frames whose times do not increase."
    )
    inverted_element = (
        "an element is inverted under a law that is undefined there (a logarithm of the volume). Take smaller load "
        "steps or time steps, or a law that allows inversion (StableNeoHookean, Corotational)."
    )
    singular = "the matrix is singular: no force and no constraint resists some motion. Constrain nodes, or attach them."
    no_first_acceleration = (
        "no acceleration is determined by the forces at the first state, and this scheme sets out from one. Give mass to "
        "every direction that can move (System(masses=...)), or take a scheme that needs none at first (ImplicitEuler, "
        "Midpoint, Trapezoid, TRBDF2)."
    )
    not_converged = (
        "Newton did not converge. Take more load steps (load_steps=) or, in time, smaller ones (dt=), allow more iterations "
        '(max_steps=), halve those that lessen no residual (line_search="residual", for plasticity say; not for thin beams '
        'and shells, whose residual grows in good steps: in statics, load steps or method="trust_region" there), or check '
        "that the loads have an equilibrium; info.residuals holds the history."
    )
    more_than_half_a_turn = (
        "Newton did not converge in a time step in which a frame would turn by more than half a turn, of which its "
        "linearised turn says nothing. Take smaller time steps (dt=), in each of which frames turn by a radian at most, or "
        'halve iterations that lessen no residual (line_search="residual").'
    )
    equations_unmet = (
        "a linearised step left the equations of constraints with multipliers far from holding, and no position near "
        "fulfils them."
    )
    residual_floor = (
        "the residual stopped at its rounding floor, above the tolerance that was asked for (info.floor states it). "
        "Use float64, or ask for a larger rtol or atol."
    )
    stagnation = (
        "an iterative linear solver stopped at rounding, above its tolerance. Use a direct solver (SparseDirect, Dense), "
        "float64, a better preconditioner, or a larger rtol."
    )
    max_steps_reached = (
        "an iterative linear solver took as many steps as it may. Allow more (max_steps=), take a better preconditioner, or "
        "a direct solver (SparseDirect, Dense)."
    )
    breakdown = (
        "a linear solver could not go on with this matrix. Use another one: SparseDirect or Dense take any matrix that is "
        "not singular."
    )
    conlim = "the condition number of the matrix is larger than the solver was allowed (conlim=)."
    indefinite = (
        "the matrix is not positive definite, and the linear solver needs it to be (PCG, Cholesky). An unstable or buckled "
        "structure, or a matrix with Lagrange multipliers, is indefinite: use SparseDirect, Dense or MINRES."
    )
    not_block_tridiagonal = (
        "BlockTridiagonal was given a matrix in which some nodes are coupled that are not neighbours in number: number them "
        "along the chain, or use SparseDirect."
    )
    unequal_rows = (
        "the rows of the matrix are so unequal, as those of a penalty of 1e30 make them, that a small |b - A x| / |b| says "
        "nothing about the small ones, and these are not solved. Hold unknowns by constraints or "
        "eliminate_rows_and_columns, use SparseDirect, or ask for a smaller rtol."
    )
    unsymmetric = (
        "the matrix is declared symmetric and is not. Build it without that (symmetric=False, no symmetric_tag), "
        "or take its symmetric part (Terms(symmetric=True))."
    )
    too_few_modes = (
        "there are fewer modes than were asked for (count=). A mode of vibration needs a free direction with mass, a mode "
        "of buckling a load that takes stiffness away: turn the load round if it only stiffens."
    )
    modes_not_converged = (
        "the iteration for the modes did not find all of them. Ask for a few more (count=), which widens its search, and "
        "look for directions with hardly any mass or stiffness."
    )
    unstable_state = (
        "the state is not a stable one, so its tangent is not positive definite. Buckling counts from a stable state: take "
        "less load into it. Modes of vibration need a K + s M that is positive definite for some s: look for directions "
        "without mass that are pushed away."
    )
    too_many_time_steps = (
        "the last of the output times was not reached in as many time steps as are allowed. Allow more (max_steps=), ask "
        "for less accuracy (rtol=, atol=), or look for events that follow each other ever faster."
    )
    time_step_too_small = (
        "no time step that is allowed is accurate enough (dt_min=). Ask for less accuracy (rtol=, atol=; what float32 "
        "rounds is an error too), or look for a force that jumps: an event should tell where."
    )
    time_stands_still = (
        "the time step is not positive, or so small beside the time that it does not change it in this precision. Let the "
        "motion begin at an earlier time (State.time), take larger steps, or float64."
    )
    times_out_of_order = (
        "the output times do not increase, begin before the state, or are not numbers (times=). Give them in order, none "
        "before State.time."
    )
    event_not_finite = (
        "the function of an event is not a number (NaN) where the motion leads. Look for what it divides by, or takes a "
        "root or a logarithm of."
    )
    events_accumulate = (
        "an event that changes the state follows itself sooner than times can tell apart: bounces that come to rest, say. "
        "End the motion there (terminal=True), or take a contact (jm.contact), which holds what rests."
    )
    unstable_step = (
        "the time step is larger than the critical one of this explicit scheme, so that the motion would blow up. Take a "
        "smaller dt (jm.integrator.critical_time_step says how large it may be), or an implicit scheme."
    )
    negative_mass = (
        "control has made a mass negative: its mass, density, thickness or moment of inertia. Let control give a logarithm, "
        "say, which has no sign to lose."
    )
    repeated_eigenvalue = (
        "the derivative of a mode was asked for whose eigenvalue is repeated: any mix of such modes is a mode, so none has "
        "a derivative. Sums of the equal eigenvalues have one; or break the symmetry of the scene."
    )
    several_modes = (
        "several modes are as soft at this point (a column of equal axes, say), so that none has a load of its own to be "
        "found. All of them are in Path.critical. Hold the others by constraints, or break the symmetry of the scene."
    )
    sharp_turn = (
        "a step along a path left its tangent by more than 60 degrees, onto another path or back. Take smaller steps "
        "(step=)."
    )
    contacts_not_converged = (
        "the laws of contact are not fulfilled to the tolerance. Take smaller time steps, allow more (max_steps=; "
        "contact_steps= of FreeMotion), another method, or a little smoothness (kappa=)."
    )
    contact_motion_not_converged = (
        "contact and motion did not converge together within a time step. Take smaller time steps, allow more iterations "
        "(contact_iterations=), a little smoothness (kappa=), or one linear solve for each step (newton=False)."
    )
    contacts_infeasible = (
        "no impulses keep these contacts apart: what they would have to move is held, or wedged. Look for constraints and "
        "contacts that contradict each other, or give contacts a compliance."
    )
    contact_capacity = (
        "more contacts are near than there is room for. Give the contact a larger capacity (capacity=), or a smaller margin."
    )
    interpenetration = (
        "bodies are deeper within each other than their contact allows (depth=). Start apart, take smaller time steps, or "
        "allow more."
    )


class FailedComputation(ArithmeticError):
    """A solve that did not succeed. The message says why; `result` is the member of `RESULTS`.

    Raised outside `jit` and `vmap`. Inside, JAX raises the same words at run time: `jax.errors.JaxRuntimeError` (a
    `RuntimeError`) or, out of a short program, `ValueError`.
    No units.

    Example:

        mirrored = system.at_rest({"cube": mesh.points * jnp.array([-1.0, 1.0, 1.0])})
        try:
            jm.energy(system, mirrored)  # a logarithm of negative volumes
        except jm.FailedComputation as error:
            failed = error
        assert failed.result == jm.RESULTS.inverted_element and "solid" in str(failed)
    """

    def __init__(self, message: str, result: Any = None):
        super().__init__(message)
        self.result = result


def is_traced(tree: Any) -> bool:
    """Whether any leaf is being traced, so that its value cannot be looked at."""
    # Where operations are carried out at once there are no tracers: a look at all leaves takes a tenth of a small solve.
    return not is_carried_out() and any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def is_out_of_sight(tree: Any) -> bool:
    """Whether nothing of what is computed of this can be looked at: traced, and not differentiated alone, where results
    have values and only rates are traced."""
    if is_carried_out():
        return False
    return is_traced([jax.lax.stop_gradient(leaf) for leaf in jax.tree.leaves(tree) if isinstance(leaf, Tracer)])
