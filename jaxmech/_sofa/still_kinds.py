"""Components that no motion depends on: what is drawn, watched, or looks for contacts where nothing collides."""

from .read.graph import SceneObject

# What is drawn, loaded, selected, sorted or looped over: no motion depends on it.
NO_MECHANICS = ("RequiredPlugin", "DefaultAnimationLoop", "DefaultVisualManagerLoop", "LineAxis", "BackgroundSetting")
NO_MECHANICS += ("InteractiveCamera", "LightManager", "DirectionalLight", "PositionalLight", "SpotLight", "MeshObjMaterial")
NO_MECHANICS += ("ViewerSetting", "MouseButtonSetting", "APIVersion", "AddResourceRepository", "InfoComponent", "Camera")
NO_MECHANICS += ("GlobalSystemMatrixImage", "GlobalSystemMatrixExporter", "MatrixImageExporter", "VTKExporter", "Monitor")
NO_MECHANICS += ("MeshExporter", "WriteState", "AssetInfo", "SceneCheckerListener", "NotePad", "TextureInterpolation")
NO_MECHANICS += ("StateWriter", "TimeProfiling", "ViewerSetting", "Visual3DText", "ClipPlane", "StatsSetting", "InfoAction")
# Of collisions: without a model of a surface there is nothing to collide.
PIPELINE = ("CollisionPipeline", "DefaultPipeline", "BruteForceDetection", "BruteForceBroadPhase", "BVHNarrowPhase")
PIPELINE += (
    "DefaultContactManager",
    "CollisionResponse",
    "DiscreteIntersection",
    "NewProximityIntersection",
    "CollisionGroup",
)
PIPELINE += ("MinProximityIntersection", "LocalMinDistance", "DefaultCollisionGroupManager", "ParallelBVHNarrowPhase")
PIPELINE += (
    "CollisionGroup",
    "ParallelBruteForceBroadPhase",
    "RayTraceNarrowPhase",
    "DirectSAPNarrowPhase",
    "IncrSAP",
    "DirectSAP",
)
DRAWN_BEGINNINGS = ("Ogl", "Visual", "Recorded")
DRAWN_ENDS = ("GeometryAlgorithms", "TopologyModifier", "OrderingMethod", "TopologyAlgorithms")


def collides(object: SceneObject) -> bool:
    """Whether the scene has both surfaces and what looks for contacts between them."""
    kinds = {o.kind for o in object.node.root.walk()}
    return any(kind.endswith("CollisionModel") for kind in kinds) and bool(kinds & set(PIPELINE))
