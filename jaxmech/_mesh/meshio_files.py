"""What meshio reads of a file, its kinds of cells under our names, and one error for whatever is wrong with it."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import numpy as np

from .announced import check_announced, check_ply
from .ending_files import ending
from .gmsh_files import is_first_gmsh, read_first_gmsh, with_some_cells_in_no_group
from .obj_files import read_obj
from .xdmf_files import with_all_kinds

MESHIO_KINDS = {"line": "edge", "triangle": "triangle", "quad": "quad", "tetra": "tetrahedron"}
MESHIO_KINDS |= {"wedge": "prism", "hexahedron": "hexahedron", "pyramid": "pyramid"}
MESHIO_KINDS |= {"line3": "edge3", "tetra10": "tetrahedron10", "wedge15": "prism15"}
MESHIO_KINDS |= {name: name for name in ("triangle6", "quad8", "quad9", "hexahedron20", "hexahedron27", "pyramid13")}
MESHIO_NAMES = {kind: name for name, kind in MESHIO_KINDS.items()}


def content_of(owner: str, path: str | os.PathLike) -> tuple[np.ndarray, list[tuple[str, np.ndarray]], Any]:
    """Points, blocks `(meshio's name, cells)`, and all that meshio has read. Raises `FileNotFoundError`, `ValueError`."""
    meshio = import_meshio()
    if not os.path.exists(path):
        raise FileNotFoundError(f"{owner}: there is no file '{os.fspath(path)}'.")
    with one_error(f"{owner}: path '{os.fspath(path)}' cannot be read"):
        if is_first_gmsh(path):
            content = read_first_gmsh(path)
        elif os.fspath(path).lower().endswith(".obj"):
            content = read_obj(path)
        else:
            check_announced(path)
            mended = ending(meshio._files, meshio.tetgen._tetgen), with_some_cells_in_no_group(), with_all_kinds()
            with mended[0], mended[1], mended[2], np.errstate(over="ignore"):
                content = meshio.read(path)
        blocks = [(block.type, np.asarray(block.data)) for block in content.cells]
        if os.fspath(path).lower().endswith(".ply"):
            check_ply(path, len(content.points), blocks)
        # Binary VTK is big-endian, which JAX refuses.
        return content.points.astype(content.points.dtype.newbyteorder("=")), blocks, content


@contextmanager
def one_error(failed: str) -> Iterator[None]:
    """A `ValueError` for whatever a reader or writer finds wrong: each format raises errors of its own, some print the
    reason and leave the interpreter, and some run out of memory for numbers that a damaged file announces.
    """
    said = StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said), warnings.catch_warnings():
            warnings.filterwarnings("error", message="string or file could not be read")  # numbers cut short
            yield
    except PermissionError:
        raise
    except (Exception, SystemExit) as error:
        own = "" if isinstance(error, SystemExit) or not str(error) else f"{type(error).__name__}: {error}"
        reason = own or " ".join(said.getvalue().split()) or type(error).__name__  # what is printed may be of something else
        if isinstance(error, KeyError):
            reason = f"{reason}, which it names, but does not define, or which is not known"
        raise ValueError(f"{failed}: {reason:.500}") from error


def import_meshio() -> Any:
    """meshio, or an `ImportError` that says how to have it."""
    try:
        import meshio
    except ImportError as error:
        raise ImportError('Mesh files need meshio: pip install "jaxmech[mesh]"') from error
    for kind in ("wedge15", "pyramid13"):  # of which meshio 5.3 knows everything but this
        meshio._mesh.topological_dimension.setdefault(kind, 3)
    return meshio
