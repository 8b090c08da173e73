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
from .numerics.newton_iterations import NewtonRules
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
    rK, rM = part.real("rayleighStiffness", 0.0), part.real("rayleighMass", 0.0)
    order = 1 if part.object.kind == "BDF1OdeSolver" else part.whole("order", 1)
    rules = _newton(build, part)
    if not 1 <= order <= 6:
        raise part.error(f"order is {order}, expected 1 to 6")
    if any(not dof.is_vector_space for dof in build.dofs.values()):
        raise part.error("sums positions of several steps, of points: frames are not translated")
    if build.sofa:
        options = {"rayleigh_stiffness": rK, "rayleigh_mass": rM, "rules": rules}
        made = _sofa(build, SofaBackwardDifferences, solver, largest=order, **options)
        return made, f"at most {rules.steps} linear solves"
    if order > 3:
        raise part.error("backward differences up to order 3 have an exact counterpart")
    return _exact(BDF, order=order, rayleigh_stiffness=rK, rayleigh_mass=rM), "Newton to convergence"


def static(build: PartBuilder, part: Component, solver: AbstractStepSolver) -> Made:
    """StaticSolver: Newton iterations in each time step."""
    rules = _newton(build, part)
    part.ignored("should_diverge_when_residual_is_growing")
    if not build.sofa:
        terms = Terms(mass=False, damping=False)
        made = lambda system, state: Equilibria(MatrixLinearSystem.build(system, state, terms), SparseDirect())  # noqa: E731
        return made, "the equilibrium of each step, Newton to convergence, with a direct solver"
    return _sofa(build, SofaStatic, solver, rules=rules), f"at most {rules.steps} linear solves in each time step"


def _newton(build: PartBuilder, part: Component) -> NewtonRules:
    """Where iterations end, by the NewtonRaphsonSolver that a component links to, or that is there; else by its own data."""
    newton, kind = part.link("newtonSolver"), part.object.kind
    own = _own_rules(part)
    if newton is None and not kind.endswith("IntegrationScheme"):
        newton = next((o for o in build.within if o.kind == "NewtonRaphsonSolver"), None)
    if isinstance(newton, SceneObject):
        return _rules_of(Component(build.data, newton))
    if kind.startswith("BDF") and kind.endswith("OdeSolver") and build.sofa:
        raise part.error("needs a NewtonRaphsonSolver, without which nothing moves in SOFA")
    return _checked(part, **own)


def _own_rules(part: Component) -> dict[str, Any]:
    """Those of its own data: of schemes that iterate themselves, or by the older names of StaticSolver's."""
    if part.object.kind.endswith("IntegrationScheme"):
        part.neutral(newtonStepSize=1.0, alwaysAdvanceNewton=False)
        part.ignored("maxNbIterationsLineSearch", "lineSearchReductionRate", "lineSearchArmijoFactor", "currentResidue")
        steps, squared = part.whole("maxNbIterationsNewton", 10), part.real("residueThreshold", 1e-9)
        return {"steps": steps, "tolerance": max(squared, 0.0) ** 0.5, "relative": 0.0, "successive": 0.0}
    if not part.object.kind.startswith("Static"):
        return {"steps": 1}
    # SOFA sets both relative ones as thresholds of changes, the second one last.
    relative = part.real("relative_correction_tolerance_threshold", 0.0)
    return {
        "steps": part.whole("newton_iterations", 1),
        "tolerance": part.real("absolute_residual_tolerance_threshold", 1e-5),
        "absolute_change": part.real("absolute_correction_tolerance_threshold", 0.0),
        "relative_change": part.real("relative_residual_tolerance_threshold", relative),
    }


def _rules_of(part: Component) -> NewtonRules:
    """Those of a NewtonRaphsonSolver."""
    rules = {
        "steps": part.whole("maxNbIterationsNewton", 1),
        "tolerance": part.real("absoluteResidualStoppingThreshold", 1e-5),
        "relative": part.real("relativeInitialStoppingThreshold", 1e-5),
        "successive": part.real("relativeSuccessiveStoppingThreshold", 1e-5),
        "absolute_change": part.real("absoluteEstimateDifferenceThreshold", 0.0),
        "relative_change": part.real("relativeEstimateDifferenceThreshold", 0.0),
        "searches": max(part.whole("maxNbIterationsLineSearch", 1), 1),
        "shrink": part.real("lineSearchCoefficient", 0.5),
    }
    if rules["searches"] > 1000 or not 0 < rules["shrink"] < 1:
        raise part.error("expected 1 to 1000 iterations of its line search, and a coefficient between 0 and 1")
    part.ignored("status", "updateStateWhenDiverged", "residualGraph", "warnWhenLineSearchFails", "warnWhenDiverge")
    part.done()
    return _checked(part, **rules)


def _checked(part: Component, steps: int, searches: int = 1, **numbers: float) -> NewtonRules:
    if not 1 <= steps <= 1000:
        raise part.error(f"takes {steps} Newton iterations, expected 1 to 1000")
    return NewtonRules(steps=steps, searches=searches, **{name: max(number, 0.0) for name, number in numbers.items()})


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
