"""Newmark, the variational integrator, backward differences, equilibria: as SOFA has them, or those that converge."""

from collections.abc import Callable
from typing import Any

from .._integrator.implicit.bdf import BDF
from .._integrator.implicit.midpoint import Midpoint
from .._integrator.implicit.newmark import Newmark
from .._linear_solver.sparse.sparse_direct import SparseDirect
from .._linear_system.matrix import MatrixLinearSystem
from .._model.terms import Terms
from .numerics.equilibria import Equilibria
from .numerics.euler_explicit import SofaExplicitEuler
from .numerics.newmark import SofaNewmark
from .numerics.newton_schemes import SofaBackwardDifferences, SofaStatic, SofaVariational
from .numerics.unconverged_solvers import AbstractStepSolver, Direct
from .part_builder import Make, PartBuilder
from .read.component import Component
from .read.graph import SceneObject

Made = tuple[Make, str]


def newmark(build: PartBuilder, part: Component, solver: AbstractStepSolver) -> Made:
    """NewmarkImplicitSolver."""
    rK, rM = part.real("rayleighStiffness", 0.0), part.real("rayleighMass", 0.0)
    beta, gamma = part.real("beta", 0.25), part.real("gamma", 0.5)
    damping = part.real(("vdamping", "velocityDamping"), 0.0)
    part.ignored("threadSafeVisitor")
    if build.sofa:
        options = {"beta": beta, "gamma": gamma, "rayleigh_stiffness": rK, "rayleigh_mass": rM}
        return _sofa(build, SofaNewmark, solver, velocity_damping=damping, **options), "one linear solve"
    options = {"beta": beta, "gamma": gamma, "rayleigh_stiffness": rK, "rayleigh_mass": rM + damping}
    remark = "Newton to convergence" + ("; vdamping is that of the mass" if damping else "")
    return _exact(Newmark, **options), remark


def variational(build: PartBuilder, part: Component, solver: AbstractStepSolver) -> Made:
    """VariationalSymplecticSolver."""
    rK, rM = part.real("rayleighStiffness", 0.0), part.real("rayleighMass", 0.0)
    steps, tolerance = part.whole("steps", 5), part.real("newtonError", 0.01)
    explicit = part.flag("explicitIntegration", False)
    part.ignored("saveEnergyInFile", "file", "computeHamiltonian", "hamiltonianEnergy", "useIncrementalPotentialEnergy")
    part.ignored("threadSafeVisitor", "verbose")
    if not 1 <= steps <= 1000:
        raise part.error(f"steps is {steps}, expected 1 to 1000 iterations")
    if explicit:
        # v1 = v0 + h (M^-1 f - rM v0) is a damping of the mass that acts at the start.
        if rM:
            raise part.error("rayleighMass of the explicit scheme is not translated")

        def made(system: Any, state: Any) -> Any:
            terms = Terms(stiffness=False, damping=False, symmetric=True)
            return SofaExplicitEuler(MatrixLinearSystem.build(system, state, terms), Direct(SparseDirect()), True)

        return made, "symplectic Euler"
    if build.sofa:
        options = {"tolerance": tolerance, "rayleigh_stiffness": rK, "rayleigh_mass": rM, "steps": steps}
        return _sofa(build, SofaVariational, solver, **options), f"at most {steps} linear solves"
    return _exact(Midpoint, rayleigh_stiffness=rK, rayleigh_mass=rM), "the midpoint rule, Newton to convergence"


def backward_differences(build: PartBuilder, part: Component, solver: AbstractStepSolver) -> Made:
    """BDFOdeSolver, with the NewtonRaphsonSolver that it links to."""
    rK, rM, order = part.real("rayleighStiffness", 0.0), part.real("rayleighMass", 0.0), part.whole("order", 1)
    steps, criteria = _newton(build, part)
    if not 1 <= order <= 6:
        raise part.error(f"order is {order}, expected 1 to 6")
    if any(not dof.is_vector_space for dof in build.dofs.values()):
        raise part.error("sums positions of several steps, of points: frames are not translated")
    if build.sofa:
        options = {"rayleigh_stiffness": rK, "rayleigh_mass": rM, "tolerance": criteria["tolerance"], "steps": steps}
        return _sofa(build, SofaBackwardDifferences, solver, largest=order, **options), f"at most {steps} linear solves"
    if order > 3:
        raise part.error("backward differences up to order 3 have an exact counterpart")
    return _exact(BDF, order=order, rayleigh_stiffness=rK, rayleigh_mass=rM), "Newton to convergence"


def static(build: PartBuilder, part: Component, solver: AbstractStepSolver) -> Made:
    """StaticSolver: Newton iterations in each time step."""
    steps, criteria = _newton(build, part)
    part.ignored("absolute_correction_tolerance_threshold", "relative_correction_tolerance_threshold")
    part.ignored("should_diverge_when_residual_is_growing")
    if not build.sofa:
        terms = Terms(mass=False, damping=False)
        made = lambda system, state: Equilibria(MatrixLinearSystem.build(system, state, terms), SparseDirect())  # noqa: E731
        return made, "the equilibrium of each step, Newton to convergence, with a direct solver"
    return _sofa(build, SofaStatic, solver, steps=steps, **criteria), f"at most {steps} linear solves in each time step"


def _newton(build: PartBuilder, part: Component) -> tuple[int, dict[str, Any]]:
    """Iterations, and where `SofaStatic` ends them: of the component itself, or of the NewtonRaphsonSolver it links to."""
    steps = part.whole("newton_iterations", 1)
    absolute = part.real("absolute_residual_tolerance_threshold", 1e-5)
    relative = part.real("relative_residual_tolerance_threshold", 1e-5)
    further: dict[str, Any] = {"successive": 0.0}
    newton = part.link("newtonSolver")
    if part.object.kind.endswith("IntegrationScheme"):  # of these, the iterations are their own
        steps, absolute, relative = part.whole("maxNbIterationsNewton", 10), part.real("residueThreshold", 1e-9), 0.0
        part.neutral(newtonStepSize=1.0, alwaysAdvanceNewton=False)
        part.ignored("maxNbIterationsLineSearch", "lineSearchReductionRate", "lineSearchArmijoFactor", "currentResidue")
    elif newton is None:
        found = [o for o in build.within if o.kind == "NewtonRaphsonSolver"]
        newton = found[0] if found else None
    if isinstance(newton, SceneObject):
        theirs = Component(build.data, newton)
        steps = theirs.whole("maxNbIterationsNewton", 1)
        absolute = theirs.real("absoluteResidualStoppingThreshold", 1e-5)
        relative = theirs.real("relativeInitialStoppingThreshold", 1e-5)
        further = {"successive": max(theirs.real("relativeSuccessiveStoppingThreshold", 1e-5), 0.0)}
        further |= {
            "searches": theirs.whole("maxNbIterationsLineSearch", 1),
            "shrink": theirs.real("lineSearchCoefficient", 0.5),
        }
        if not 1 <= further["searches"] <= 1000 or not 0 < further["shrink"] < 1:
            raise theirs.error("expected 1 to 1000 iterations of its line search, and a coefficient between 0 and 1")
        theirs.ignored("relativeEstimateDifferenceThreshold", "absoluteEstimateDifferenceThreshold", "status")
        theirs.ignored("updateStateWhenDiverged", "residualGraph", "warnWhenLineSearchFails", "warnWhenDiverge")
        theirs.done()
    if not 1 <= steps <= 1000:
        raise part.error(f"takes {steps} Newton iterations, expected 1 to 1000")
    return steps, {"tolerance": max(absolute, 0.0), "relative": max(relative, 0.0)} | further


def _sofa(build: PartBuilder, scheme: Any, solver: AbstractStepSolver, **options: Any) -> Make:
    def made(system: Any, state: Any) -> Any:
        terms = Terms(symmetric=not build.skew, damping=build.implicit_damping, rayleigh=bool(build.rayleigh))
        return scheme(MatrixLinearSystem.build(system, state, terms), solver, **options)

    return made


def _exact(scheme: Any, **options: Any) -> Make:
    return lambda system, state: scheme(MatrixLinearSystem.build(system, state), SparseDirect(), newton=True, **options)


ITERATED: dict[str, Callable[[PartBuilder, Component, AbstractStepSolver], Made]] = {
    "NewmarkImplicitSolver": newmark,
    "VariationalSymplecticSolver": variational,
    "BDFOdeSolver": backward_differences,
    "BDF1OdeSolver": backward_differences,
    "StaticSolver": static,
    "StaticOdeSolver": static,
    "NewmarkIntegrationScheme": newmark,
    "BDFIntegrationScheme": backward_differences,
    "StaticEquilibriumIntegrationScheme": static,
}
