"""The pictures of the documentation: of its pages and of every example, drawn anew, and the last of every notebook.

    python -m benchmarks.gallery [NAME ...] [--most 50]

`--most`: of the size of a picture [kB]. Without names all are drawn, which takes minutes, to `docs/figures`.
Pictures of notebooks are those that they hold.
"""

import argparse
import base64
import importlib.util
import inspect
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import jax  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402
from PIL import Image  # noqa: E402

import jaxmech as jm  # noqa: E402

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
WIDTHS = (760, 640, 540, 440, 360)  # [pixels]


def small(picture: Path, to: Path, most: int) -> int:
    """A picture of at most `most` kB, as wide as that allows; its size in bytes."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(picture) as image:
        whole = image.convert("RGB")
    for width in WIDTHS:
        height = round(whole.height * width / whole.width)
        whole.resize((width, height), Image.Resampling.LANCZOS).quantize(240).save(to, optimize=True)
        if to.stat().st_size <= 1000 * most:
            break
    return to.stat().st_size


def beam() -> tuple[jm.System, jm.State, Any]:
    """A beam of rubber that a traction bends."""
    mesh = jm.mesh.box_mesh(cells=(16, 4, 4), size=(4.0, 1.0, 1.0))
    system = jm.System(
        {"beam": jm.Vec3()},
        forces={
            "rubber": jm.force.TetrahedronFEM.from_mesh("beam", mesh, jm.material.NeoHookean(1e6, 0.3)),
            "load": jm.force.Traction.from_mesh("beam", mesh.faces_where(lambda x: x[:, 0] == 4.0), [0.0, 0.0, -6e3]),
        },
        masses={"mass": jm.mass.ConsistentMass.from_mesh("beam", mesh, 1e3)},
        constraints={"clamp": jm.constraint.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    rest = system.at_rest({"beam": mesh.points})
    return system, rest, mesh


def pages(folder: Path) -> dict[str, Path]:
    """The pictures of pages, by name: a bent beam, its modes."""
    system, rest, _ = beam()
    bent = jm.static_solve(system, rest)
    axes = jm.viz.plot(system, bent.state, color="von_mises")
    axes.figure.savefig(folder / "beam.png", dpi=140)
    figure = jm.viz.draw_modes(system, rest, jm.modes(system, rest, count=4))
    figure.savefig(folder / "modes.png", dpi=90)
    plt.close("all")
    return {"beam": folder / "beam.png", "modes": folder / "modes.png"}


def example(path: Path, folder: Path) -> Path | None:
    """The picture that an example draws, or none."""
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if "picture" not in inspect.signature(module.main).parameters:
        return None
    module.main(picture=folder / f"{path.stem}.png")
    plt.close("all")
    return folder / f"{path.stem}.png"


def notebook(path: Path, folder: Path) -> Path | None:
    """The last picture that a notebook holds, or none."""
    outputs = [o for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] for o in cell.get("outputs", [])]
    pictures = [o["data"]["image/png"] for o in outputs if "image/png" in o.get("data", {})]
    if not pictures:
        return None
    to = folder / f"nb_{path.stem}.png"
    to.write_bytes(base64.b64decode(pictures[-1]))
    return to


def main(names: list[str], most: int) -> None:
    """Draw those of these names, or all."""
    jax.config.update("jax_enable_x64", True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if not names or "pages" in names:
            for name, picture in pages(folder).items():
                print(f"{name:22} {small(picture, FIGURES / f'{name}.png', most) / 1e3:6.1f} kB")
        found = [(path, notebook) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
        for path, make in found + [(path, example) for path in sorted((ROOT / "examples").glob("*.py"))]:
            if names and path.stem not in names:
                continue
            start = time.perf_counter()
            if (picture := make(path, folder)) is not None:
                size = small(picture, FIGURES / "gallery" / picture.name, most)
                print(f"{picture.stem:22} {size / 1e3:6.1f} kB, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--most", type=int, default=50)
    options = parser.parse_args()
    main(options.names, options.most)
