"""Preconditioners of SOFA's conjugate gradients, and the linear systems that say how often they are made anew."""

from .._linear_solver.sparse.sparse_direct import SparseDirect
from .numerics.corotational_cells import CorotationalCells
from .numerics.node_turns import NodeTurns
from .numerics.step_preconditioners import (
    AbstractStepPreconditioner,
    BackwardForwardSweeps,
    Diagonal,
    DiagonalBlocks,
    Factored,
    Nil,
)
from .part_builder import PartBuilder
from .read.component import Component
from .read.graph import SceneObject
from .report import Report

_DIRECT = (
    "AsyncSparseLDLSolver",
    "SparseLDLSolver",
    "EigenSimplicialLDLT",
    "EigenSimplicialLLT",
    "EigenSparseLU",
    "CholeskySolver",
)
PRECONDITIONERS = ("JacobiPreconditioner", "BlockJacobiPreconditioner", "SSORPreconditioner")
PRECONDITIONERS += ("WarpPreconditioner", "PrecomputedWarpPreconditioner")
_NIL = "nil: SOFA never assembles the matrix of the solver that it links to, and nothing moves (exact: it does)"
_MOST_SWEPT = 4000  # unknowns, of a matrix that is dense


def step_preconditioner(
    build: PartBuilder, cg: Component, object: SceneObject, report: Report
) -> AbstractStepPreconditioner:
    """What stands for the preconditioner `object` of the solver `cg`."""
    part = Component(build.data, object)
    rate = _rate(cg, cg.whole("update_step", 1))
    part.ignored("linearSystem", "verbose", "parallelInverseProduct", "jmjt_twostep", "use_file", "share_matrix")
    made, remark = _made(build, part, rate)
    part.done()
    report.add(object, "equal", remark)
    return made


def _made(build: PartBuilder, part: Component, rate: int) -> tuple[AbstractStepPreconditioner, str]:
    kind = part.object.kind
    if kind == "JacobiPreconditioner" or kind == "BlockJacobiPreconditioner":
        return (Diagonal() if kind == "JacobiPreconditioner" else DiagonalBlocks()), ""
    if kind == "SSORPreconditioner":
        unknowns = sum(len(x) * build.dofs[s].deriv_size for s, x in build.position.items())
        if unknowns > _MOST_SWEPT:
            raise part.error(f"sweeps a dense matrix here, of {_MOST_SWEPT} unknowns at most, not {unknowns}")
        omega = part.real("omega", 1.0)
        if not 0 < omega < 2:
            raise part.error(f"omega is {omega}, expected a number between 0 and 2")
        return BackwardForwardSweeps(omega), ""
    if kind == "PrecomputedWarpPreconditioner":
        turned = part.flag("use_rotations", True)
        if part.link("linearSolver") is not None:
            return Nil(), _NIL
        return Factored(SparseDirect(), 0, turned), "the inverse of the first matrix, " + _how(turned)
    if kind == "WarpPreconditioner":
        part.ignored("linearSolver", "useRotationFinder")
        rate = _rate(part, part.whole("update_step", rate))
        return Factored(SparseDirect(), rate, turned=rate != 1), f"the matrix of every {rate}. step, " + _how(rate != 1)
    if kind in _DIRECT:
        part.ignored("orderingMethod", "ordering", "precomputeSymbolicDecomposition")
        return Factored(SparseDirect(), rate), f"the factor of every {rate}. step"
    raise part.error("is no preconditioner that is translated")


def _how(turned: bool) -> str:
    return "turned with the nodes" if turned else "not turned"


def _rate(part: Component, usual: int) -> int:
    """Every how many steps the matrix of a preconditioner is assembled: what its linear system says."""
    system = part.link("linearSystem")
    found = usual
    if isinstance(system, SceneObject) and "assemblingRate" in system.data:
        found = Component(part.data, system).whole("assemblingRate", usual)
    if not 1 <= found <= 1_000_000:
        raise part.error(f"a matrix is assembled every {found} steps, expected at least 1")
    return found


def node_turns(build: PartBuilder) -> NodeTurns | None:
    """The rotations of nodes by the first force field that knows them."""
    for name, field in build.forces.items():
        if isinstance(field, CorotationalCells) and field.rotation != "small":
            count = len(build.position[field.on[0].state])
            return NodeTurns.of(name, field.on[0].nodes, count, last=name in build.cut)
    return None
