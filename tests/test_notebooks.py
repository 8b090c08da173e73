"""The notebooks run from their first cell to their last."""

import warnings
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason='pip install "jaxmech[test]"')
nbclient = pytest.importorskip("nbclient", reason='pip install "jaxmech[test]"')
pytest.importorskip("ipykernel", reason='pip install "jaxmech[test]"')
ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Run smaller than they are read, as the examples are: what is replaced in their cells.
SMALLER = {
    "compliant_mechanism": {"= 5, 4, 8  #": "= 2, 2, 3  #", '"maxiter": 25': '"maxiter": 5'},
    "finger_policy": {"(8,)": "(4,)", "(16,)": "(4,)", "0.028, 16)": "0.028, 4)", "max_steps=60": "max_steps=30"},
    "neural_rubber": {"(12, 6)": "(6, 4)", "(8, 4)": "(4, 2)", "max_steps=40": "max_steps=6"},
    "rubber_three_modes": {
        "models = {": 'LAWS = {name: LAWS[name] for name in ("Mooney-Rivlin", "Ogden, 3 terms")}\nmodels = {',
        'for name in ("neo-Hookean", "Mooney-Rivlin", "Yeoh", "Ogden, 2 terms"):': 'for name in ("Mooney-Rivlin",):',
    },
    "plate_with_hole": {"n = 10\n": "n = 4\n", "grid(12, n": "grid(6, n", "grid(10, n": "grid(5, n"},
    "silicone_beam": {
        "cells=(5, 1, 1)": "cells=(3, 1, 1)",
        "load_steps=8": "load_steps=4",
        "0.06 * np.arange(38)": "0.12 * np.arange(19)",
    },
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_what_it_draws(path):
    """Read where nothing runs, on a page of a repository, it shows its pictures; and the gallery shows the last."""
    cells = nbformat.read(path, as_version=4).cells
    assert all(c.outputs or c.execution_count for c in cells if c.cell_type == "code")
    assert any("image/png" in o.get("data", {}) for c in cells for o in c.get("outputs", []))
    assert f"figures/gallery/nb_{path.stem}.png" in (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert (ROOT / "docs" / "figures" / "gallery" / f"nb_{path.stem}.png").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("smaller", [True, pytest.param(False, marks=pytest.mark.exhaustive)], ids=["smaller", "whole"])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, smaller, monkeypatch):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert len(notebook.cells) <= 25
    for text, less in SMALLER.get(path.stem, {}).items() if smaller else ():
        assert any(text in cell.source for cell in notebook.cells), text
        for cell in notebook.cells:
            cell.source = cell.source.replace(text, less)
    monkeypatch.setenv("MPLBACKEND", "agg")
    # As in conftest.py: small scenes mostly compile.
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", str(int(smaller)))
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
