"""Statics of a scene divided among devices: one program, in which each knows the nodes of its part and their neighbours.

Newton's method, conjugate gradients and the cycle are those of one device: `dot` is the sum over the parts, and a product
fills in the ghosts first and gives rows of own nodes only. In reverse mode the same system gives `w`, of which each part
keeps the rows of its nodes: what they say of the numbers of the part is its share of the derivative (`solve.py`).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from jax.sharding import PartitionSpec

from .._linear_solver.base.outcome import reason
from .._linear_solver.krylov.pcg import PCG
from .._linear_solver.preconditioner.rigid_bodies import PartOfBodies, RigidBodies
from .._linear_system.base import AbstractLinearSystem
from .._linear_system.matrix_free import MatrixFreeSystem
from .._model.constraint_projection import project
from .._model.dynamics import Fields
from .._model.system import State, System, check_inputs
from .._model.terms import Factors, Terms
from .._runtime.argument_checks import check_counts, check_instance, check_tolerances, plain
from .._runtime.array_types import Array
from .._runtime.devices import PARTS, over_parts
from .._runtime.failure_messages import describe_result
from .._runtime.jax_internals import is_tracing
from .._runtime.precision import compiled
from .._runtime.results import RESULTS, FailedComputation
from .._solve.equilibrium import AbstractEquilibrium, NewtonOptions
from .._solve.newton_iteration import newton_iteration
from .._solve.static import StaticEquilibrium
from .device_division import DeviceDivision, Halo, divide_over_devices
from .solve import rates_by_problem

_ACCURATE = 1e-10  # of a linear solve
_SPECS = PartitionSpec(PARTS), PartitionSpec()


def static_solve_over_devices(
    system: System,
    state: State,
    division: DeviceDivision | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    max_steps: int = 50,
    linear_rtol: float = _ACCURATE,
) -> State:
    """The equilibrium of a whole scene, by Newton's method without a matrix, its nodes divided among devices of JAX.

    `division`: of `divide_over_devices`, made here unless given. Each device has the nodes, elements and vectors of its
    part. It tells the others its nodes beside them, sums, and the motions of groups of some 80 nodes as rigid bodies, whose
    matrix, small and on every device, is the coarse level of a multigrid cycle (`SmoothedAggregation` above it).
    Converged when the residual over the free directions is at most `rtol` times the right-hand side of the first step,
    plus `atol` [N]; `rtol=None` takes what `jm.static_solve` takes, the root of the rounding unit or the rounding floor. A
    step that is not finite, or inverts an element, is halved. `linear_rtol`: of conjugate gradients.

    Reverse mode gives derivatives by every number of `system` and by where constraints hold nodes of `state`; not under
    `jit`: this is a program by itself. Raises what `divide_over_devices` raises, `ValueError` for arguments out of range
    and a stiffness that is not symmetric, and `FailedComputation`.
    Source: J. Nocedal and S. J. Wright, *Numerical Optimization*, 2006, doi:10.1007/978-0-387-40065-5, chapter 11.

    Example:

        division = jm.distributed.divide_over_devices(system, state)  # once for all loads and moduli
        try:
            jax.jit(lambda x: jm.distributed.static_solve_over_devices(system, x, division).position)(state)
        except ValueError as error:
            refused = str(error)
        assert "call it outside of jit" in refused  # outside, it gives the equilibrium
    """
    who = "jm.distributed.static_solve_over_devices"
    check_tolerances(who, rtol=rtol, atol=atol, linear_rtol=linear_rtol)
    max_steps = plain(max_steps)
    check_counts(who, max_steps=max_steps)
    check_inputs(who, system, state)
    if division is not None:
        check_instance(who, "division", division, DeviceDivision)
    if is_tracing():
        raise ValueError(f"{who}: it is a program by itself: call it outside of jit.")
    division = divide_over_devices(system, state) if division is None else division
    division.check(who, system)
    parts, divided = division.part(system, state)
    means = Means(division.tables, division, divided, NewtonOptions(rtol, atol, max_steps), linear_rtol, who)
    rows = _solved(parts, means)
    (name,), (x,) = state.position, state.position.values()
    return State({name: division.whole(rows, x)}, {name: jnp.zeros_like(x)}, state.time)


class DividedEquilibrium(AbstractEquilibrium):
    """The equilibrium of one part among others: vectors are nil at ghosts, and positions follow those of the owners."""

    alone: StaticEquilibrium
    halo: Halo

    @property
    def system(self) -> System:
        return self.alone.system

    @property
    def linear_system(self) -> AbstractLinearSystem:
        return self.alone.linear_system

    @property
    def factors(self) -> Factors:
        return self.alone.factors

    def state(self, u: Fields) -> State:
        return self.alone.state(u)

    def residual(self, u: Fields) -> Fields:
        return self._masked(self.alone.residual(u))

    def gap(self, u: Fields) -> Fields:
        return self._masked(self.alone.gap(u))

    def move(self, u: Fields, d: Fields) -> Fields:
        return self.alone.move(u, self._filled(d))

    def operator(self, u: Fields) -> lx.FunctionLinearOperator:
        local = self.alone.operator(u)
        product = eqx.Partial(_product, self.halo, local)
        return lx.FunctionLinearOperator(product, local.in_structure(), lx.symmetric_tag)

    def is_valid(self, u: Fields) -> Array:
        return over_parts(jnp.int32(~self.alone.is_valid(u))) == 0

    def rounding(self, u: Fields) -> Fields:
        return self._masked(
            {s: jnp.full_like(a, jax.lax.pmax(jnp.max(a), PARTS)) for s, a in self.alone.rounding(u).items()}
        )

    def is_exact(self) -> bool:
        return self.alone.is_exact()

    def _filled(self, u: Fields) -> Fields:
        return {s: self.halo.filled(a) for s, a in u.items()}

    def _masked(self, u: Fields) -> Fields:
        return {s: self.halo.masked(a) for s, a in u.items()}


def _product(halo: Halo, local: lx.FunctionLinearOperator, x: Fields) -> Fields:
    y = local.mv({s: halo.filled(a) for s, a in x.items()})
    return {s: halo.masked(a) for s, a in y.items()}


class Means(eqx.Module):
    """What a solve has beside its problem. `tables`: of the division, arguments of its programs."""

    tables: Any
    division: DeviceDivision = eqx.field(static=True)
    divided: tuple[bool, ...] = eqx.field(static=True)
    options: NewtonOptions = eqx.field(static=True)
    linear_rtol: float = eqx.field(static=True)
    who: str = eqx.field(static=True)

    def over_devices(self, function: Any, parts: Any, more: Any, results: Any) -> Any:
        """`function(problem, start, levels, part of the bodies, more)` on every device, for its part."""
        leaves, form = jax.tree.flatten(parts)
        arrays = [a for a in leaves if eqx.is_array(a)]
        specs = [_SPECS[0] if d else _SPECS[1] for a, d in zip(leaves, self.divided, strict=True) if eqx.is_array(a)]
        (tables, levels), mesh = self.tables, self.division.mesh

        def of_device(arrays: Any, tables: Any, levels: Any, more: Any) -> Any:
            own = iter(a[0] if spec == _SPECS[0] else a for a, spec in zip(arrays, specs, strict=True))
            system, position, time = form.unflatten([next(own) if eqx.is_array(a) else a for a in leaves])
            halo, bodies = jax.tree.map(lambda a: a[0], tables)
            alone = StaticEquilibrium(system, MatrixFreeSystem(Terms(mass=False, damping=False)), time)
            bodies = _held(system, bodies)
            return function(DividedEquilibrium(alone, halo), position, RigidBodies(levels, bodies), more)

        run = jax.shard_map(of_device, mesh=mesh, in_specs=(specs, *_SPECS, _SPECS[0]), out_specs=results, check_vma=False)
        return run(arrays, tables, levels, more)


def _held(system: System, bodies: PartOfBodies) -> PartOfBodies:
    """The motions of bodies, as far as constraints let their nodes follow."""
    (name,) = system.main_states
    columns = [project(system, {name: bodies.basis[:, :, k]})[name] for k in range(bodies.basis.shape[2])]
    return eqx.tree_at(lambda b: b.basis, bodies, jnp.stack(columns, 2))


@eqx.filter_custom_vjp
def _solved(parts: Any, means: Means) -> Array:
    """The positions of the nodes that each part owns, `(parts, owned, ...)`."""
    rows, result, _ = iterated(parts, means)
    return _unless_failed(rows, result, means)


@compiled
def iterated(parts: Any, means: Means) -> tuple[Array, Any, Array]:
    def solve(problem: DividedEquilibrium, start: Fields, cycle: RigidBodies, _: None) -> Any:
        solver = PCG(means.linear_rtol, preconditioner=cycle)
        p = newton_iteration(problem, start, means.options, solver, jnp.array(True))
        (u,) = p.u.values()
        return u[None, : means.division.owned], p.result, p.linear_steps

    return means.over_devices(solve, parts, None, (*_SPECS, _SPECS[1]))


@_solved.def_fwd
def _solved_fwd(perturbed: Any, parts: Any, means: Means) -> tuple[Array, Array]:
    del perturbed
    rows = _solved(parts, means)
    return rows, rows


@_solved.def_bwd
def _solved_bwd(rows: Array, rate: Any, perturbed: Any, parts: Any, means: Means) -> Any:
    form = jax.tree.structure(parts)
    rates, result = _adjoint(rows, rate, tuple(form.flatten_up_to(perturbed)), parts, means)
    return form.unflatten(_unless_failed(rates, result, means))


@compiled
def _adjoint(rows: Array, rate: Array, wanted: tuple[bool, ...], parts: Any, means: Means) -> Any:
    """`w` of `A w = rate`, and what it says of every leaf that is wanted."""
    form = jax.tree.structure(parts)

    def solve(problem: DividedEquilibrium, start: Fields, cycle: RigidBodies, more: Any) -> Any:
        ((name, like),) = start.items()
        u, goal = ({name: _padded(a[0], like)} for a in more)
        u = {name: problem.halo.filled(u[name])}
        A = problem.linear_system.constrain(problem.system, problem.operator(u))
        solution = lx.linear_solve(A, goal, PCG(means.linear_rtol, preconditioner=cycle), throw=False)
        system, position, time = form.unflatten(wanted)
        none = jax.tree.map(lambda _: False, problem.alone)
        by = eqx.tree_at(lambda p: (p.system, p.time), none, (system, time)), position
        found, of_start = rates_by_problem(problem.alone, start, u, by, solution.value)
        each = form.flatten_up_to((found.system, of_start, found.time))
        flags = zip(each, wanted, means.divided, strict=True)
        return [None if not w else a[None] if d else over_parts(a) for a, w, d in flags], reason(solution)

    specs = [_SPECS[0 if d else 1] if w else None for w, d in zip(wanted, means.divided, strict=True)]
    return means.over_devices(solve, parts, (rows, rate), (specs, _SPECS[1]))


def _padded(rows: Array, like: Array) -> Array:
    return jnp.concatenate([rows, jnp.zeros((like.shape[0] - rows.shape[0], *like.shape[1:]), rows.dtype)])


def _unless_failed(value: Any, result: Any, means: Means) -> Any:
    if not bool(result == RESULTS.successful):
        raise FailedComputation(f"{means.who}: {describe_result(result)}", result)
    return value
