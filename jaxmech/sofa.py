"""Scenes of SOFA: read, run, compared, differentiated."""

from ._sofa.read.scene_error import SceneError as SceneError
from ._sofa.record import record as record
from ._sofa.scene_graph import SceneGraph as SceneGraph
from ._sofa.scene_graph import load as load
