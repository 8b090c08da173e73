"""What is found in `jaxmech` only when it is asked for: modules that few scripts need, and, with a warning, old names.

Up to 0.1 names stood in `jaxmech` itself that stand in one of its modules since.
"""

import importlib
import sys
import warnings
from typing import Any

_PACKAGE = __name__.split(".")[0]
# With what they import, a third of the time of all of it.
ON_DEMAND = ("contact", "distributed", "identify", "integrator", "output", "sofa", "viz")
_MOVED = {
    "component": """
        AbstractDof each_element internal nodal_parameter time_step
    """,
    "constraint": """
        AbstractProjectiveConstraint Fixed FixedComponents FixedLine FixedPlane PrescribedMotion
    """,
    "force": """
        AbstractEnergyForceField AbstractForceField AnchoredFrames AnchoredSprings ConstantForce ConstantTorque
        HexahedronFEM PenaltyPlane Pressure QuadFEM Springs TetrahedronFEM Traction TriangleFEM VelocityDamping
    """,
    "integrator": """
        AbstractIntegrator Trajectory load_checkpoint save_checkpoint
    """,
    "mapping": """
        AbstractMapping AreaMapping ArticulatedMapping BarycentricMapping BeamMapping CenterOfMassMapping
        DeformableOnRigidFrameMapping DistanceFromTargetMapping DistanceMapping DistanceToPlaneMapping FunctionMapping
        IdentityMapping LineSetSkinningMapping RigidMapping SkinningMapping SquareMapping SquaredDistanceMapping
        SubsetMapping SumMapping TubularMapping VolumeMapping accelerations geometric_product jacobian pull_back
        pull_back_rows velocities
    """,
    "mass": """
        AbstractMass ConsistentMass DiagonalMass PlanarRigidMass RigidMass UniformMass inertial_force kinetic_energy
        momentum
    """,
    "material": """
        AbstractMaterial Corotational LinearElastic MooneyRivlin NeoHookean Ogden StVenantKirchhoff StableNeoHookean
    """,
    "matrix": """
        AssemblyPattern BlockMatrix BlockPattern BlockSparse PreconditionedOperator StateLayout Triplets assemble
        compliance_matrix component_matrix eliminate_rows eliminate_rows_and_columns impose_penalty
        impose_weak_penalty write_matrix
    """,
    "mesh": """
        Mesh ReferenceElement TopologicalMapping boundary_faces boundary_of box_mesh edges_to_quads
        hexahedra_to_prisms hexahedra_to_quads hexahedra_to_tetrahedra quads_to_triangles read_mesh reference_element
        submesh tetrahedra_to_triangles triangles_to_edges vertex_normals write_mesh
    """,
    "runtime": """
        keep_freed_memory over_devices
    """,
    "solver": """
        AbstractLinearSystem AbstractPreconditioner AutoLinearSolver BiCGStab BlockJacobi BlockTridiagonal Buckling
        Cholesky CompositeLinearSystem Dense Fallback GMRES IncompleteFactor Jacobi LinearProblem MINRES
        MatrixFreeSystem Modes ModesInfo NewtonInfo NoPreconditioner PCG PrecomputedMatrixSystem
        PreconditionedMatrixFreeSystem SSOR SVD SmoothedAggregation SparseDirect StaleFactor StaticSolution
        WarpedFactor default_solver share_pattern static_problem
    """,
}
_HOME = {name: module for module, names in _MOVED.items() for name in names.split()}
_SEARCHED = sorted({*_MOVED, "contact", "output"})


def __getattr__(name: str) -> Any:
    """The module `jaxmech.name`, or the attribute of one that it was (PEP 562)."""
    if name in ON_DEMAND:
        return importlib.import_module(f"{_PACKAGE}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module '{_PACKAGE}' has no attribute '{name}'{_where_it_is(name)}")
    place = f"{_PACKAGE}.{_HOME[name]}"
    message = f"{_PACKAGE}.{name} is {place}.{name} now; the old name will be gone in the next version."
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return getattr(importlib.import_module(place), name)


def _where_it_is(name: str) -> str:
    """Which modules have a name that is not here, in words; `hasattr` and the like ask for private ones by the dozen."""
    if name.startswith("_"):
        return ""
    modules = [importlib.import_module(f"{_PACKAGE}.{module}") for module in _SEARCHED]
    places = [f"{_PACKAGE}.{m}.{name}" for m, module in zip(_SEARCHED, modules, strict=True) if hasattr(module, name)]
    return f"; there is {' and '.join(places)}" if places else ""


def __dir__() -> list[str]:
    """The names of `jaxmech`, with the modules that nobody has asked for yet."""
    return sorted({*vars(sys.modules[_PACKAGE]), *ON_DEMAND})
