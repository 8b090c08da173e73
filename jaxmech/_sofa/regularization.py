"""Constraints that give: what SOFA adds to the diagonal of `W`."""

import equinox as eqx
import numpy as np

from .._constraint.multiplier import AbstractMultiplierConstraint
from .part_builder import PartBuilder, named
from .read.component import Component
from .read.graph import SceneNode, SceneObject
from .read.links import STATES, of_kind_upward
from .read.scene_data import SceneData

_TERM = "regularizationTerm"
_NIL = 2.3e-16  # what SOFA takes for nothing
# Those that add it to what one body, or all below a node, gives; and those that add it to all of W.
_CORRECTIONS = ("LinearSolverConstraintCorrection", "GenericConstraintCorrection")
_SOLVERS = (
    "GenericConstraintSolver",
    "BlockGaussSeidelConstraintSolver",
    "ProjectedGaussSeidelConstraintSolver",
    "NNCGConstraintSolver",
    "ImprovedJacobiConstraintSolver",
)
REGULARISED = (*_CORRECTIONS, *_SOLVERS)


def term(data: SceneData, object: SceneObject) -> float:
    """The `regularizationTerm` `r` of a constraint solver or correction, 0 of all others."""
    part = Component(data, object)
    if object.kind not in REGULARISED:
        part.neutral(**{_TERM: 0.0})
        return 0.0
    r = part.real(_TERM, 0.0)
    if r > _NIL:
        part.neutral(useSVDForRegularization=False, complianceFactor=1.0)
        part.choice(
            "resolutionMethod", "ProjectedGaussSeidel", ("ProjectedGaussSeidel", "NonsmoothNonlinearConjugateGradient")
        )
    elif r < 0:
        raise part.error(f"{_TERM} is {r}, expected a number that is not negative")
    return r if r > _NIL else 0.0


def gives(data: SceneData, root: SceneNode) -> bool:
    """Whether constraints give somewhere in a scene."""
    return any(term(data, o) > 0 for o in root.walk() if o.kind in REGULARISED)


def give_way(build: PartBuilder, root: SceneNode, dt: float) -> None:
    """Give constraints the compliance `C = dt r` [m/N]: SOFA's rows are `g + (h J A^-1 J^T + r) p = 0`, `p = h lambda`."""
    terms = [(o, term(build.data, o)) for o in root.walk() if o.kind in REGULARISED]
    for object, r in terms:
        if r > 0 and build.contacts:
            raise object.error(f"{_TERM} with contacts is not translated: their friction would give too")
    for name, constraint in build.constraints.items():
        if not isinstance(constraint, AbstractMultiplierConstraint):
            continue
        bodies = _carriers(build, {stencil.state for stencil in constraint.on})
        total = sum(r for o, r in terms if o.kind in _SOLVERS or _corrected(o) & bodies)
        if total:
            build.constraints[name] = eqx.tree_at(lambda c: c.compliance, constraint, np.asarray(total * dt))


def _carriers(build: PartBuilder, states: set[str]) -> set[str]:
    """The main states that some states are mapped from."""
    parents = {m.child: {p.state for p in m.parents} for m in build.mappings.values()}
    while mapped := states & set(parents):
        states = states - mapped | {p for s in mapped for p in parents[s]}
    return states


def _corrected(correction: SceneObject) -> set[str]:
    """The states that a correction is one of: that of its node, or all of those below."""
    if correction.kind == _CORRECTIONS[0]:
        state = of_kind_upward(correction.node, lambda o: o.kind in STATES)
        return set() if state is None else {named(state)}
    return {named(o) for o in correction.node.walk() if o.kind in STATES}
