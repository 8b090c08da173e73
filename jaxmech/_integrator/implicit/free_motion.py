"""Time steps with contact: the motion without it, then impulses, by the compliance that the factor of the step makes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._contact.base import AbstractContact
from ..._contact.contact_set import ContactSet, check_contacts, no_memory
from ..._contact.solve import METHODS, SolveOptions
from ..._linear_solver.base.derivative import mark_failure
from ..._linear_solver.base.vectors import dtype_of
from ..._linear_system.compatibility import BuiltFor
from ..._model.accept import unless_failed
from ..._model.dynamics import Fields
from ..._model.failure_report import DERIVATIVE, raise_failure
from ..._model.fault import Fault, given
from ..._model.system import State, System, check_inputs
from ..._runtime.argument_checks import (
    check_choice,
    check_counts,
    check_flags,
    check_instance,
    check_tolerances,
    plain,
    real_array,
)
from ..._runtime.array_types import Array
from ..._runtime.precision import compiled
from ..._runtime.results import RESULTS, is_traced
from ..._scene.parameter import as_array, is_concrete
from ..._solve.equilibrium import StepInfo
from ..base import AbstractIntegrator
from ..time_step import check_time_step
from .contact_equations import ContactNumbers, StepContacts
from .contact_steps import approximate_step, linear_step, newton_step
from .implicit_euler import ImplicitEuler
from .scheme_carry import prepared_for

CORRECTIONS = ("full", "uncoupled")


def _by_name(contacts: Any) -> Any:
    """Sorted, as JAX sorts them when it takes a pytree apart; what is no dictionary is refused later."""
    known = isinstance(contacts, Mapping) and all(isinstance(name, str) for name in contacts)
    return {name: contacts[name] for name in sorted(contacts)} if known else contacts


class ContactStepInfo(eqx.Module):
    """What happened in a step with contact; of a trajectory, every array with a leading axis of steps.

    `result`: a member of `RESULTS`. `motion`: the `StepInfo` of the motion, of Newton's iterations where there are some.
    `contacts`: impulses, gaps and errors, `StepContacts`. `residuals`: the errors of Signorini's law, Coulomb's law, the
    dissipation [N s, N s, J], as messages tell them; `floor`: that of the natural map. `rooms`: the names of the contacts,
    and how many pairs each has room for. Raises nothing.

    Example:

        floor = jm.contact.PointContact(("cube", range(8)), jm.contact.Plane(), friction=0.5)
        scheme = jm.integrator.FreeMotion(jm.ImplicitEuler(linear_system), {"floor": floor})
        info = jm.simulate(system, state, scheme, dt=0.01, steps=4).info
        assert info.contacts.impulse.shape == (4, 8, 3)  # [N s], of every step
        assert (info.result == jm.RESULTS.successful).all()
    """

    result: Any
    motion: StepInfo
    contacts: StepContacts
    residuals: Array
    floor: Array
    fault: Fault
    unconstrained_state: Array
    rooms: tuple[tuple[str, int], ...] = eqx.field(static=True, default=())


class FreeMotion(AbstractIntegrator):
    """Implicit Euler with contact and Coulomb friction: `A v1 = b + H^T r`, `0 <= g(x1) _|_ r_n >= 0`, friction in the cone.

    `motion`: an `ImplicitEuler`. With `newton=False` a step is what SOFA's FreeMotionAnimationLoop does: one linear solve
    without contact, the compliance `W = H A^-1 H^T` by the same factor, impulses `r` from gaps and slips linearised at the
    start of the step (`ContactProblem`), and the motion they make. With `newton=True` contact and deformation converge
    together: gaps, slips and forces are those of the end of the step. Contacts touch points of all states, mapped ones too,
    and so bodies and what deforms in one system; constraints on nodes and with multipliers hold as without contact.
    `contacts`: `{name: contact}`; their numbers are leaves of this integrator, differentiable as those of a scene are. Pairs
    are found at the start of the step.

    `correction`: what stands for `A^-1` where impulses act: "full", the factor; "uncoupled", the inverses of its diagonal
    blocks, as SOFA's UncoupledConstraintCorrection has it; or `precomputed`, `A^-1` as a dense matrix of another state, by
    `FreeMotion.precompute`. The last two for `newton=False`. `kappa`, `kappa_grad` [J^1/2], `method`, `tolerance`,
    `contact_steps`: as in `solve_contacts`. `contact_iterations`: of Newton, at most.

    The carry has the impulses of every pair, with which the next step starts. Gradients are by the implicit rule of all
    equations together: one solve more with the same factor, in forward and in reverse mode.
    Raises `ValueError` or `TypeError` that names the contact; a step raises `FailedComputation`: with the errors of each law
    where contacts were not solved, for a capacity that is too small (`contact_capacity`), for bodies that begin too deep in
    each other (`interpenetration`).
    Source: C. Duriez et al., IEEE Trans. Vis. Comput. Graph. 12 (2006) 36, doi:10.1109/TVCG.2006.13 (free motion, `W`); D.
    E. Stewart and J. C. Trinkle, Int. J. Numer. Meth. Eng. 39 (1996) 2673 (implicit steps with friction).

    Example:

        floor = jm.contact.PointContact(("cube", range(8)), jm.contact.Plane(), friction=0.5)
        scheme = jm.integrator.FreeMotion(jm.ImplicitEuler(linear_system), {"floor": floor})
        run = jm.simulate(system, state, scheme, dt=0.01, steps=4)
        assert run.last.position["cube"][:, 2].min() > -1e-9  # nothing falls through [m]
    """

    motion: ImplicitEuler
    contacts: dict[str, AbstractContact] = eqx.field(converter=_by_name)
    kappa: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    kappa_grad: Array | None = eqx.field(default=None, kw_only=True)
    correction: str = eqx.field(static=True, default="full", kw_only=True)
    precomputed: Array | None = eqx.field(default=None, kw_only=True)
    method: str = eqx.field(static=True, default="auto", kw_only=True)
    tolerance: float = eqx.field(static=True, default=1e-9, kw_only=True)
    contact_steps: int = eqx.field(static=True, converter=plain, default=1000, kw_only=True)
    contact_iterations: int = eqx.field(static=True, converter=plain, default=30, kw_only=True)

    order = 1

    @property
    def has_impacts(self) -> bool:
        """Whether contacts bounce; those that do not end an impact where it began, and a step of any size fails there."""
        rebounds = [c.restitution for c in self.contacts.values() if is_concrete(c.restitution)]
        return any(np.any(np.asarray(e) > 0) for e in rebounds)

    def __check_init__(self):
        check_instance("FreeMotion", "motion", self.motion, ImplicitEuler)
        if not isinstance(self.contacts, Mapping) or not self.contacts:
            raise TypeError(f"FreeMotion: contacts must be a dictionary of named contacts, got {self.contacts!r:.80}.")
        for name, contact in self.contacts.items():
            check_instance("FreeMotion", f"contacts[{name!r}]", contact, AbstractContact)
        check_choice("FreeMotion", "correction", self.correction, CORRECTIONS)
        check_choice("FreeMotion", "method", self.method, METHODS)
        check_counts("FreeMotion", contact_steps=self.contact_steps, contact_iterations=self.contact_iterations)
        check_tolerances("FreeMotion", kappa=self.kappa, tolerance=self.tolerance)
        if self.kappa_grad is not None:
            check_tolerances("FreeMotion", kappa_grad=self.kappa_grad)
        if self.precomputed is not None:
            shape = real_array("FreeMotion", "precomputed", self.precomputed, (None, None)).shape
            if shape[0] != shape[1]:
                raise ValueError(f"FreeMotion: precomputed has shape {shape}, expected a square matrix.")
        if self.motion.newton and (self.correction != "full" or self.precomputed is not None):
            raise ValueError("FreeMotion: with newton=True contacts take the full factor, correction='full'.")

    @property
    def built_for(self) -> BuiltFor | None:
        return self.motion.built_for

    def init(self, system: System, state: State) -> Any:
        """What the motion keeps, and impulses of no contact."""
        check_contacts(self.contacts, system)
        return self.motion.init(system, state), no_memory(self.contacts, state.time.dtype)

    def revalued(self, system: System, state: State, carry: Any) -> Any:
        return self.motion.revalued(system, state, carry[0]), carry[1]

    def after_event(self, system: System, state: State, carry: Any) -> Any:
        return self.motion.after_event(system, state, carry[0]), carry[1]

    def precompute(self, system: System, state: State, dt: Any) -> "FreeMotion":
        """This integrator with the inverse of the matrix of a step of `dt` [s] at `state`, dense, for all steps to come."""
        check_inputs("FreeMotion.precompute", system, state)
        check_time_step(dt)
        A = self.motion.problem(system, state, dt).A
        inverse = jnp.linalg.inv(A.as_matrix())
        return eqx.tree_at(lambda i: i.precomputed, self, inverse, is_leaf=lambda a: a is None)

    def step(
        self, system: System, state: State, carry: Any, dt: Any = None, *, throw: bool = True
    ) -> tuple[State, Any, ContactStepInfo]:
        """The state after `dt` [s], the carry of the next step, and what happened; as `ImplicitEuler.step`."""
        check_inputs("FreeMotion", system, state)
        check_flags("FreeMotion", throw=throw)
        check_contacts(self.contacts, system)
        check_time_step(dt, carried_by="FreeMotion")
        if carry is not None and not (isinstance(carry, tuple) and len(carry) == 2):
            raise TypeError(f"FreeMotion: the carry must be what init or a step gave, got {carry!r:.80}.")
        h = jnp.asarray(dt, state.time.dtype)
        raises = throw and is_traced((self, system, state, h))
        result = self.advanced(system, state, carry, h, DERIVATIVE.format("FreeMotion") if raises else "")
        if not throw:
            return result
        numbers, ends = partial(given, system, state, h), lambda: replace(state, time=state.time + h)
        return raise_failure(result, result[2], system, "FreeMotion", numbers, moves=True, held_at=ends)

    def advanced(self, system: System, state: State, carry: Any, h: Any, derivatives_of: str = "") -> Any:
        kept, memory = (None, None) if carry is None else carry
        ready, kept, _ = prepared_for(self.motion, system, state, kept, h)
        memory = no_memory(self.contacts, state.time.dtype) if memory is None else memory
        ready = eqx.tree_at(lambda i: i.motion, self, ready)
        end, memory, info = _step(ready, system, state, memory, h, derivatives_of)
        return end, None if carry is None else (kept, memory), info

    @property
    def numbers(self) -> ContactNumbers:
        """How the law of contact is solved."""
        options = SolveOptions(self.method, self.tolerance, self.contact_steps)
        grad = None if self.kappa_grad is None else jnp.asarray(self.kappa_grad)
        return ContactNumbers(self.kappa, grad, options)


def _in_type(dtype: Any, of: Any) -> Any:
    """With real numbers of that type: the loops of contact have one, that of the state."""
    return jax.tree.map(lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, of)


@compiled
def _step(
    scheme: FreeMotion, system: System, state: State, memory: Fields, h: Array, derivatives_of: str
) -> tuple[State, Any, ContactStepInfo]:
    scheme, system = _in_type(dtype_of(state.position), (scheme, system))
    contacts = ContactSet.found(scheme.contacts, system, state.position)
    warm = jax.lax.stop_gradient(contacts.remembered(memory))
    exact = scheme.correction == "full" and scheme.precomputed is None
    one = newton_step if scheme.motion.newton else linear_step if exact else approximate_step
    end, motion, said, how = one(scheme, system, state, contacts, warm, h, derivatives_of)
    (over, *many), (deep, *pair) = contacts.overfull(), contacts.deepest(said.gap)
    result = RESULTS.where(deep, RESULTS.interpenetration, how)
    result = RESULTS.where(over, RESULTS.contact_capacity, result)
    fault = _in_contact(motion.fault, (motion.result == RESULTS.successful) & (over | deep), over, many, pair)
    result = RESULTS.where(motion.result == RESULTS.successful, result, motion.result)
    result = RESULTS.where(contacts.are_finite(), result, RESULTS.nonfinite_input)
    failed = result != RESULTS.successful
    end = mark_failure(unless_failed(failed, state, end), failed)
    said = eqx.tree_at(lambda c: c.impulse, said, mark_failure(said.impulse, failed))
    e = said.errors
    residuals = jnp.stack([e.signorini, e.coulomb, e.dissipation])
    info = ContactStepInfo(result, motion, said, residuals, e.natural, fault, motion.unconstrained_state, contacts.rooms)
    return end, jax.lax.stop_gradient(contacts.memory(said.impulse)), info


def _in_contact(fault: Fault, so: Array, over: Array, many: Sequence[Array], pair: Sequence[Array]) -> Fault:
    """The fault of a contact: its number, and how many pairs it has, if that is too many, or which is too deep."""
    found = [jnp.where(so, jnp.where(over, m, p), -1) for m, p in zip(many, pair, strict=True)]
    numbers = jnp.stack([fault.load_step, fault.given, *(a.astype(jnp.int32) for a in found)])
    return Fault(jnp.where(so, numbers, fault.numbers))
