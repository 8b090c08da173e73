"""The notebooks run from their first cell to their last."""

import warnings
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason='pip install "jaxmech[test]"')
nbclient = pytest.importorskip("nbclient", reason='pip install "jaxmech[test]"')
pytest.importorskip("ipykernel", reason='pip install "jaxmech[test]"')
ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, monkeypatch):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert len(notebook.cells) <= 25
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # as in conftest.py: small scenes mostly compile
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    with warnings.catch_warnings():
        # Jupyter's own plumbing, in this process: sockets and event loops closed late. The kernel is another process.
        warnings.filterwarnings("ignore", category=ResourceWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"(jupyter_client|nbclient|zmq|asyncio)")
        client.execute()  # raises CellExecutionError with the traceback of the cell
    texts = [o.get("text", "") for cell in notebook.cells for o in cell.get("outputs", [])]
    assert "warning" not in "".join(texts).lower()
