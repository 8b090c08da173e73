"""Components that no motion depends on: what is drawn, watched, or looks for contacts where nothing collides."""

from collections.abc import Container

from .read.graph import SceneObject

# What is drawn, loaded, selected, sorted or looped over: no motion depends on it.
_NO_MECHANICS = """
RequiredPlugin APIVersion AddResourceRepository AddDataRepository AssetInfo NotePad InfoComponent InfoAction Visual3DText
DefaultAnimationLoop DefaultVisualManagerLoop SceneCheckerListener PauseAnimation PauseAnimationOnEvent TimeProfiling
LineAxis BackgroundSetting InteractiveCamera BaseCamera Camera ViewerSetting MouseButtonSetting StatsSetting
SofaDefaultPathSetting LightManager DirectionalLight PositionalLight
SpotLight MeshObjMaterial TextureInterpolation ClipPlane DataDisplay
TrailRenderer AttachBodyButtonSetting FixPickedParticleButtonSetting PickParticleSetting
GlobalSystemMatrixImage GlobalSystemMatrixExporter MatrixImageExporter ComplianceMatrixExporter ComplianceMatrixImage
VTKExporter MeshExporter OBJExporter STLExporter BlenderExporter VisualModelOBJExporter WriteState StateWriter WriteTopology
Monitor ExtraMonitor EvalPointsDistance EvalSurfaceDistance CompareState TopologyChecker VonMisesStress StateMonitor
"""
# Of collisions: without a model of a surface there is nothing to collide.
_PIPELINE = """
CollisionPipeline DefaultPipeline BruteForceDetection BruteForceBroadPhase ParallelBruteForceBroadPhase BVHNarrowPhase
ParallelBVHNarrowPhase RayTraceNarrowPhase DirectSAPNarrowPhase IncrSAP DirectSAP DefaultContactManager CollisionResponse
RuleBasedContactManager DiscreteIntersection NewProximityIntersection MinProximityIntersection LocalMinDistance
CollisionGroup DefaultCollisionGroupManager ContactListener
"""
# Of constraints with multipliers: without one, the motion is the free one.
_CONSTRAINT_LOOP = """
FreeMotionAnimationLoop GenericConstraintSolver BlockGaussSeidelConstraintSolver ProjectedGaussSeidelConstraintSolver
UnbuiltGaussSeidelConstraintSolver NNCGConstraintSolver ImprovedJacobiConstraintSolver LCPConstraintSolver
GenericConstraintCorrection LinearSolverConstraintCorrection UncoupledConstraintCorrection PrecomputedConstraintCorrection
"""
NO_MECHANICS, PIPELINE, CONSTRAINT_LOOP = (names.split() for names in (_NO_MECHANICS, _PIPELINE, _CONSTRAINT_LOOP))
DRAWN_BEGINNINGS = ("Ogl", "Visual", "Recorded")
DRAWN_ENDS = ("GeometryAlgorithms", "TopologyModifier", "OrderingMethod", "TopologyAlgorithms")


def collides(object: SceneObject) -> bool:
    """Whether the scene has both surfaces and what looks for contacts between them."""
    kinds = {o.kind for o in object.node.root.walk()}
    return any(kind.endswith("CollisionModel") for kind in kinds) and bool(kinds & set(PIPELINE))


def constrains(object: SceneObject, projective: Container[str]) -> bool:
    """Whether the scene has constraints other than these `projective` ones, or may come to have them by collision."""
    kinds = {o.kind for o in object.node.root.walk()} - set(CONSTRAINT_LOOP)
    return collides(object) or any("Constraint" in kind and kind not in projective for kind in kinds)
