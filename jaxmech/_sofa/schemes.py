"""Time integrators, with their linear systems and linear solvers."""

from typing import Any

from .._integrator.base import AbstractIntegrator
from .._integrator.explicit.rk4 import RK4
from .._integrator.implicit.free_motion import FreeMotion
from .._integrator.implicit.implicit_euler import ImplicitEuler
from .._integrator.implicit.trapezoid import Trapezoid
from .._linear_solver.sparse.sparse_direct import SparseDirect
from .._linear_system.matrix import MatrixLinearSystem
from .._model.system import State, System
from .._model.terms import Terms
from .iterated_schemes import ITERATED
from .numerics.attached import SolvedTwoWays
from .numerics.euler_explicit import SofaExplicitEuler
from .numerics.euler_implicit import SofaEuler
from .numerics.minimal_residuals import MinimalResiduals
from .numerics.runge_kutta_4 import SofaRungeKutta4
from .numerics.step_preconditioners import Factored, Unchanged
from .numerics.unconverged_solvers import (
    AbstractStepSolver,
    ConjugateGradients,
    Direct,
    PreconditionedConjugateGradients,
)
from .one_system import dampings
from .part_builder import Make, PartBuilder
from .preconditioners import PRECONDITIONERS, node_turns, step_preconditioner
from .read.component import Component
from .read.graph import SceneObject
from .report import Report

DIRECT = ("SparseLDLSolver", "EigenSimplicialLDLT", "EigenSimplicialLLT", "EigenSparseLU", "EigenSparseQR", "CholeskySolver")
DIRECT += ("AsyncSparseLDLSolver", "SVDLinearSolver", "PrecomputedLinearSolver", "BTDLinearSolver")
DIRECT += ("EigenCholmodSupernodalLLT", "SparseCholeskySolver", "SparseLUSolver", "LULinearSolver", "SparsePARDISOSolver")
_ONE_BEFORE = ("AsyncSparseLDLSolver",)
ITERATIVE = ("MinResLinearSolver", "CGLinearSolver", "ParallelCGLinearSolver", "PCGLinearSolver", "ShewchukPCGLinearSolver")
SOLVERS = (*DIRECT, *ITERATIVE, *PRECONDITIONERS)
SYSTEMS = ("MatrixLinearSystem", "MatrixFreeSystem", "ConstantSparsityPatternSystem", "CompositeLinearSystem")
SYSTEMS += ("TypedMatrixLinearSystem", "PreconditionedMatrixFreeSystem", "PrecomputedMatrixSystem", "RotationMatrixSystem")


def linear_solver(build: PartBuilder, ode: SceneObject, report: Report) -> AbstractStepSolver:
    """The solver of a part: the one that none other links to; a direct one where there is none."""
    found = [o for o in build.within if o.kind in SOLVERS]
    linked = set()
    for object in found:
        part = Component(build.data, object)
        linked |= {id(part.link(name)) for name in ("linearSolver", "preconditioner") if part.has(name)}
    main = [o for o in found if id(o) not in linked and o.kind in (*DIRECT, *ITERATIVE)]
    main = [o for o in main if o.node is ode.node] or main  # those below are never asked
    if len(main) > 1:
        raise main[1].error(f"is a second linear solver beside {main[0].path}")
    if not main:
        report.add(ode, "created", "there is no linear solver: a direct one solves")
        return Direct(SparseDirect())
    part = Component(build.data, main[0])
    if main[0].kind in DIRECT:
        return _direct(build, part, report)
    return _iterative(build, part, report)


def _direct(build: PartBuilder, part: Component, report: Report) -> AbstractStepSolver:
    kind = part.object.kind
    part.ignored("use_file", "jmjt_twostep", "verbose", "parallelInverseProduct", "precomputeSymbolicDecomposition")
    part.ignored("linearSystem", "orderingMethod", "minSingularValue", "conditionNumber", "ordering", "problem")
    part.ignored("subpartSolve", "verification", "enableAssembly", "L_nnz", "tolerance")
    part.done()
    if kind in _ONE_BEFORE and build.sofa:
        report.add(part.object, "equivalent", "the factor of the step before; SOFA's is as old as its thread is late")
        return Direct(SparseDirect(), lags=True)
    keeps = kind == "PrecomputedLinearSolver"
    report.add(part.object, "equal", "to rounding; keeps the matrix of the first step" if keeps else "to rounding")
    return Direct(SparseDirect(), keeps)


def _iterative(build: PartBuilder, part: Component, report: Report) -> AbstractStepSolver:
    most, tolerance = part.whole("iterations", 25), part.real("tolerance", 1e-5)
    if not 1 <= most <= 10_000_000:
        raise part.error(f"iterations is {most}, expected at least 1")
    part.ignored("verbose", "linearSystem", "parallelInverseProduct")
    if part.object.kind == "MinResLinearSolver":
        part.done()
        solver: AbstractStepSolver = MinimalResiduals(tolerance, most)
    elif part.object.kind in ("CGLinearSolver", "ParallelCGLinearSolver"):
        threshold, warm = part.real("threshold", 1e-5), part.flag("warmStart", False)
        part.done()
        solver = ConjugateGradients(tolerance, threshold, most, warm)
    else:
        preconditioner, made = part.link("preconditioner"), Unchanged()
        if part.flag("use_precond", True) and isinstance(preconditioner, SceneObject):
            made = step_preconditioner(build, part, preconditioner, report) if build.sofa else made
            if not build.sofa:
                report.add(preconditioner, "ignored")
        part.ignored("update_step")
        part.done()
        solver = PreconditionedConjugateGradients(tolerance, most, made)
    if not build.sofa:
        report.add(part.object, "equivalent", "its exact counterpart is a direct solver")
        return Direct(SparseDirect())
    report.add(part.object, "equal", "stops where SOFA's does")
    return solver


def _turned(solver: AbstractStepSolver) -> bool:
    """Whether a solver asks for the rotations of nodes."""
    if not isinstance(solver, PreconditionedConjugateGradients):
        return False
    return isinstance(solver.preconditioner, Factored) and solver.preconditioner.turned


def _damped_afterwards(build: PartBuilder) -> tuple[float, float]:
    """The rates of the DampVelocitySolvers of its node, `v *= exp(-rate h)` when the step is over, and the speed below which
    nodes then stop."""
    parts = [Component(build.data, o) for o in build.node.objects if o.kind == DAMPING]
    threshold = parts[0].real("threshold", 0.0) if len(parts) == 1 else 0.0
    for part in parts[1:] if len(parts) == 1 else parts:
        part.neutral(threshold=0.0)
    if threshold and (build.couples or not build.sofa):
        raise parts[0].error("a threshold is translated with solver='sofa' alone, and without contacts")
    return sum(part.real("rate", 0.99) for part in parts), abs(threshold)


def _two_ways(build: PartBuilder, part: Component, solver: AbstractStepSolver) -> AbstractStepSolver:
    """A solver that knows of nodes that are attached both ways: in SOFA they are in no matrix."""
    both = tuple(pairs for pairs in build.attached if pairs.two_ways)
    if both and not isinstance(solver, ConjugateGradients):
        raise part.error("nodes that are attached both ways go with a CGLinearSolver: SOFA leaves them out of matrices")
    return SolvedTwoWays(solver, both) if both else solver


def euler_implicit(build: PartBuilder, part: Component, solver: AbstractStepSolver) -> tuple[Make, str]:
    """EulerImplicitSolver."""
    rK, rM = part.real("rayleighStiffness", 0.0), part.real("rayleighMass", 0.0)
    afterwards, threshold = _damped_afterwards(build)
    damping = part.real(("vdamping", "velocityDamping"), 0.0) + afterwards
    first, trapezoidal = part.flag("firstOrder", False), part.flag("trapezoidalScheme", False)
    part.neutral(solveConstraint=False)
    part.ignored("threadSafeVisitor", "computeResidual", "residual", "parallelODESolving")
    if build.couples:
        part.neutral(firstOrder=False, trapezoidalScheme=False)
        if build.sofa and damping:
            raise part.error("vdamping beside contacts and constraints with multipliers is not translated")
        if dampings(build, part.object) is not None:  # of each of several: `damp_each`
            rK = rM = 0.0
        return _coupled(build, rayleigh_stiffness=rK, rayleigh_mass=rM + damping)
    if build.sofa or first:
        solver = _two_ways(build, part, solver)

        def sofa(system: System, state: State) -> AbstractIntegrator:
            terms = Terms(symmetric=not build.skew, damping=build.implicit_damping, rayleigh=bool(build.rayleigh))
            linear_system = MatrixLinearSystem.build(system, state, terms)
            options: dict[str, Any] = {"rayleigh_stiffness": rK, "rayleigh_mass": rM, "velocity_damping": damping}
            options["turns"] = node_turns(build) if _turned(solver) else None
            options["attached"] = tuple(build.attached)
            options["threshold"] = threshold or None
            return SofaEuler(linear_system, solver, trapezoidal=trapezoidal, first_order=first, **options)

        return sofa, ""

    def exact(system: System, state: State) -> AbstractIntegrator:
        scheme = Trapezoid if trapezoidal else ImplicitEuler
        linear_system = MatrixLinearSystem.build(system, state)
        options = {"rayleigh_stiffness": rK, "rayleigh_mass": rM + damping, "newton": True}
        return scheme(linear_system, SparseDirect(), **options)

    remark = "Newton to convergence" + (", of second order" if trapezoidal else "")
    return exact, remark + ("; vdamping is that of the mass" if damping else "")


def _coupled(build: PartBuilder, **options: Any) -> tuple[Make, str]:
    """Motion, contacts and constraints with multipliers, solved together by a direct solver."""
    contacts, newton = dict(build.contacts), not build.sofa

    def made(system: System, state: State) -> AbstractIntegrator:
        motion = ImplicitEuler(MatrixLinearSystem.build(system, state), SparseDirect(), newton=newton, **options)
        return FreeMotion(motion, contacts) if contacts else motion

    return made, "with contacts and constraints" + (": Newton to convergence" if newton else ", linearised once")


def euler_explicit(build: PartBuilder, part: Component, solver: AbstractStepSolver) -> tuple[Make, str]:
    """EulerExplicitSolver."""
    del build, solver
    symplectic = part.flag("symplectic", True)
    part.ignored("threadSafeVisitor", "linearSolver")
    return explicit(symplectic=symplectic), ""


def central_difference(build: PartBuilder, part: Component, solver: AbstractStepSolver) -> tuple[Make, str]:
    """CentralDifferenceSolver: velocities are those between steps."""
    del build, solver
    damping = part.real("rayleighMass", 0.0)
    part.ignored("threadSafeVisitor")
    return explicit(symplectic=True, rayleigh_mass=damping), "velocities are those between steps"


def runge_kutta_2(build: PartBuilder, part: Component, solver: AbstractStepSolver) -> tuple[Make, str]:
    """RungeKutta2Solver."""
    del build, solver
    part.ignored("threadSafeVisitor")
    return explicit(symplectic=False, halfway=True), ""


def explicit(*, symplectic: bool, **options: Any) -> Make:
    """A scheme of one or two solves with the mass."""

    def make(system: System, state: State) -> AbstractIntegrator:
        terms = Terms(stiffness=False, damping=False, symmetric=True)
        linear_system = MatrixLinearSystem.build(system, state, terms)
        return SofaExplicitEuler(linear_system, Direct(SparseDirect()), symplectic, **options)

    return make


def runge_kutta_4(build: PartBuilder, part: Component, solver: AbstractStepSolver) -> tuple[Make, str]:
    """RungeKutta4Solver."""
    del solver
    part.ignored("threadSafeVisitor")
    plain = RK4(check_step=False)
    scheme = SofaRungeKutta4(plain) if build.rayleigh else plain
    return lambda system, state: scheme, ""


SCHEMES = {
    "EulerImplicitSolver": euler_implicit,
    "EulerImplicit": euler_implicit,
    "EulerExplicitSolver": euler_explicit,
    "EulerSolver": euler_explicit,
    "EulerSymplecticSolver": euler_explicit,
    "EulerImplicitIntegrationScheme": euler_implicit,
    "EulerExplicitIntegrationScheme": euler_explicit,
    "RungeKutta4Solver": runge_kutta_4,
    "RungeKutta4IntegrationScheme": runge_kutta_4,
    "RungeKutta2Solver": runge_kutta_2,
    "RungeKutta2IntegrationScheme": runge_kutta_2,
    "CentralDifferenceSolver": central_difference,
    "CentralDifferenceIntegrationScheme": central_difference,
    **ITERATED,
}
_EXPLICIT = ("EulerExplicit", "EulerSolver", "EulerSymplectic", "RungeKutta", "Central")
EXPLICIT = tuple(kind for kind in SCHEMES if kind.startswith(_EXPLICIT))
DAMPING = "DampVelocitySolver"
