"""Components that no motion depends on: what is drawn, watched, or looks for contacts where nothing collides."""

from collections.abc import Container
from itertools import combinations
from typing import NamedTuple

from .read import values
from .read.graph import SceneNode, SceneObject
from .read.links import is_link, linked_data
from .read.scene_error import SceneError

# What is drawn, loaded, selected, sorted or looped over: no motion depends on it.
_NO_MECHANICS = """
RequiredPlugin APIVersion AddResourceRepository AddDataRepository AssetInfo NotePad InfoComponent InfoAction Visual3DText
DefaultAnimationLoop DefaultVisualManagerLoop SceneCheckerListener PauseAnimation PauseAnimationOnEvent TimeProfiling
LineAxis BackgroundSetting InteractiveCamera BaseCamera Camera ViewerSetting MouseButtonSetting StatsSetting
SofaDefaultPathSetting LightManager DirectionalLight PositionalLight
SpotLight MeshObjMaterial TextureInterpolation ClipPlane DataDisplay MechanicalStateController
TrailRenderer AttachBodyButtonSetting ConstraintAttachButtonSetting FixPickedParticleButtonSetting PickParticleSetting
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
# What makes data of data, and is not translated: where nothing reads it, no motion depends on it.
_ENGINES = """
MeshSampler MeshSplittingEngine MeshSubsetEngine MergeROIs ValuesFromPositions
SelectLabelROI SelectConnectedLabelsROI ExtrudeSurface GenerateRigidMass MeshBarycentricMapperEngine
MeshClosingEngine MeshTetraStuffing NormEngine NormalsFromPoints RandomPointDistributionInSurface Spiral
VolumeFromTetrahedrons VolumeFromTriangles JoinPoints MapIndices MathOp AverageCoord ClusteringEngine
HausdorffDistance ShapeMatching SumEngine Distances DisplacementMatrixEngine DisplacementTransformEngine
InvertTransformMatrixEngine RigidToQuatEngine QuatToRigidEngine Vertex2Frame SmoothMeshEngine TransformMatrixEngine
TransformPosition DilateEngine MeshTrianLoader MeshXspLoader GIDMeshLoader OffSequenceLoader VoxelGridLoader
"""
NO_MECHANICS, PIPELINE, CONSTRAINT_LOOP = (names.split() for names in (_NO_MECHANICS, _PIPELINE, _CONSTRAINT_LOOP))
FREE_MOTION = "FreeMotionAnimationLoop"
UNREAD = _ENGINES.split()
# Data of what collides, and of what looks for it: others are refused.
_OF_MODELS = """active moving simulated selfCollision proximity contactDistance contactStiffness contactFriction
contactRestitution contactResponse color group numberOfContacts topology"""
_OF_EACH = {
    "TriangleCollisionModel": "bothSide computeNormals useCurvature",
    "LineCollisionModel": "bothSide displayFreePosition",
    "PointCollisionModel": "bothSide computeNormals displayFreePosition",
    "SphereCollisionModel": "radius listRadius showImpostors enable_ray_intersection",
    "CollisionPipeline": "verbose draw depth",
    "DefaultPipeline": "verbose draw depth",
    "BruteForceBroadPhase": "box",
    "BruteForceDetection": "box",
    "BVHNarrowPhase": "",
    "DiscreteIntersection": "",
    "MinProximityIntersection": """alarmDistance contactDistance useSphereTriangle usePointPoint useSurfaceNormals
    useLinePoint useLineLine""",
    "NewProximityIntersection": "alarmDistance contactDistance useLineLine",
    "LocalMinDistance": "alarmDistance contactDistance filterIntersection angleCone coneFactor useLMDFilters",
    "CollisionResponse": "response responseParams",
    "DefaultContactManager": "response responseParams",
}


def collision_data(kind: str) -> list[str] | None:
    """The data that a component of collisions has; None of those that are not known."""
    if kind not in _OF_EACH:
        return None
    return _OF_EACH[kind].split() + (_OF_MODELS.split() if kind.endswith("CollisionModel") else [])


_MOST_SURFACES = 1000  # that are compared with one another
DRAWN_BEGINNINGS = ("Ogl", "Visual", "Recorded")
DRAWN_ENDS = ("GeometryAlgorithms", "TopologyModifier", "OrderingMethod", "TopologyAlgorithms")


class Model(NamedTuple):
    """A collision model, whether anything may move it, and the groups that it does not touch."""

    object: SceneObject
    moves: bool
    groups: frozenset[str]


def models(root: SceneNode) -> list[Model]:
    """The collision models of a scene that are active."""
    found = [o for o in root.walk() if o.kind.endswith("CollisionModel") and _says(o, "active", True)]
    moves = [_says(o, "simulated", True) and _says(o, "moving", True) for o in found]
    groups = [frozenset(o.data.get("group", "").split()) - {"0"} for o in found]
    return [Model(*one) for one in zip(found, moves, groups, strict=True)]


def may_touch(one: Model, other: Model) -> bool:
    """Not two of one body, two that nothing moves, or two of one group."""
    return one.object.node is not other.object.node and (one.moves or other.moves) and not one.groups & other.groups


def collides(root: SceneNode) -> bool:
    """Whether a scene looks for contacts, and has two surfaces that may touch, or one that may touch itself."""
    if not {o.kind for o in root.walk()} & set(PIPELINE):
        return False
    found = models(root)
    if any(_says(model.object, "selfCollision", False) for model in found):
        return True
    alike = {(id(m.object.node), m.moves, m.groups): m for m in found}
    return len(alike) > _MOST_SURFACES or any(may_touch(a, b) for a, b in combinations(alike.values(), 2))


def _says(object: SceneObject, name: str, usual: bool) -> bool:
    return values.flag(object, name, object.data[name]) if name in object.data else usual


def constrains(root: SceneNode, projective: Container[str]) -> bool:
    """Whether the scene has constraints other than these `projective` ones."""
    kinds = {o.kind for o in root.walk()} - set(CONSTRAINT_LOOP)
    return any("Constraint" in kind and kind not in projective for kind in kinds)


def linked_to(root: SceneNode) -> set[SceneObject]:
    """The objects that a link of the scene leads to: not those of what is drawn, nor of what nothing reads."""
    leads: dict[SceneObject, set[SceneObject]] = {}
    for owner in root.walk():
        if is_still(owner.kind):
            continue
        for name, text in owner.data.items():
            for word in text.split() if is_link(text) else ():
                try:
                    leads.setdefault(owner, set()).add(linked_data(owner, name, word)[0])
                except SceneError:
                    continue
    found: set[SceneObject] = set()
    waiting = [o for o in leads if o.kind not in UNREAD]
    while waiting:
        fresh = leads.get(waiting.pop(), set()) - found
        found |= fresh
        waiting += [o for o in fresh if o.kind in UNREAD]
    return found


def is_still(kind: str) -> bool:
    """Whether components of this kind are drawn, watched or printed, and move nothing."""
    return kind in NO_MECHANICS or kind.startswith(DRAWN_BEGINNINGS) or kind.endswith(DRAWN_ENDS)
