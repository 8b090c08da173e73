"""Meshes: boxes, files, boundaries, other cells, reference elements."""

from ._mesh.box import box_mesh as box_mesh
from ._mesh.faces import boundary_of as boundary_of
from ._mesh.faces import hexahedra_to_quads as hexahedra_to_quads
from ._mesh.faces import tetrahedra_to_triangles as tetrahedra_to_triangles
from ._mesh.faces import triangles_to_edges as triangles_to_edges
from ._mesh.io import read_mesh as read_mesh
from ._mesh.io import write_mesh as write_mesh
from ._mesh.mesh import Mesh as Mesh
from ._mesh.mesh import boundary_faces as boundary_faces
from ._mesh.mixed import MixedMesh as MixedMesh
from ._mesh.mixed_io import read_mixed_mesh as read_mixed_mesh
from ._mesh.quadratic import quadratic_mesh as quadratic_mesh
from ._mesh.reference import ReferenceElement as ReferenceElement
from ._mesh.reference import reference_element as reference_element
from ._mesh.split import hexahedra_to_prisms as hexahedra_to_prisms
from ._mesh.split import hexahedra_to_tetrahedra as hexahedra_to_tetrahedra
from ._mesh.split import quads_to_triangles as quads_to_triangles
from ._mesh.submesh import submesh as submesh
from ._mesh.topological_mapping import TopologicalMapping as TopologicalMapping
from ._mesh.tube import edges_to_quads as edges_to_quads
from ._mesh.vertex_normals import vertex_normals as vertex_normals
