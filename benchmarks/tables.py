"""What was measured, as tables of ratios and as a picture of cost over size."""

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Results = dict[str, list[Row]]  # by measurement
BEGIN, END = "<!-- begin: python -m benchmarks --write -->", "<!-- end -->"
AGREED = 1e-9  # the most by which the answers of two codes to one problem may differ

# Of every measurement: what it is about, and the columns in their order.
COLUMNS = {
    "assembly": (
        "Assembly and products of tetrahedra, by autodiff",
        (
            "material",
            "dtype",
            "devices",
            "tetrahedra",
            "pattern s",
            "first assembly s",
            "assembly s",
            "M tets/s",
            "product / SciPy",
            "copy GB/s",
            "product GB/s",
            "peak MB",
        ),
    ),
    "peers": (
        "The same neo-Hookean assembly by other codes, and how many times as long it takes as jaxmech's",
        ("code", "tetrahedra", "set-up s", "first assembly s", "assembly s", "M tets/s", "/ jaxmech", "same", "peak MB"),
    ),
    "newton": (
        "Cantilever of neo-Hookean hexahedra, Newton to 1e-8 (`benchmarks.cantilever`)",
        (
            "code",
            "n",
            "backend",
            "iterations",
            "newton",
            "/ felupe",
            "tangent",
            "gradient",
            "value and gradient",
            "first",
            "same",
            "peak MB",
        ),
    ),
    "step": (
        "A step of implicit Euler, milliseconds; SOFA's figures scaled by SciPy's product (`benchmarks.step`)",
        ("scene", "n", "law", "unknowns", "solver", "iterations", "ms", "first s", "SOFA ms", "SOFA / jaxmech", "off"),
    ),
    "adaptive": (
        "Adaptive steps and the fewest equal ones of the same accuracy, CPU seconds (`benchmarks.adaptive`)",
        ("N/m", "error m", "steps", "s", "equal steps", "equal s", "equal / adaptive"),
    ),
    "gradient": (
        "Value and gradient over the value alone (`benchmarks.gradients`)",
        (
            "what",
            "n",
            "steps",
            "solver",
            "solve s",
            "forward s",
            "value and gradient s",
            "ratio",
            "forward MB",
            "gradient MB",
            "first gradient s",
            "off",
        ),
    ),
    "compile": (
        "Tracing and compilation (`benchmarks.compile`)",
        ("what", "solver", "tetrahedra", "trace s", "compile s", "both s", "CPU s"),
    ),
    "batch": (
        "Batches of soft fingers (`benchmarks.batch`)",
        ("scenes", "nodes", "devices", "chunk", "solver", "scene steps / s", "loop / this", "MB", "off"),
    ),
}


def machine() -> str:
    """Where this was measured, and with what."""
    versions = []
    for name in (
        "jax",
        "jaxlib",
        "numpy",
        "scipy",
        "equinox",
        "lineax",
        "llvmlite",
        "pypardiso",
        "feral-solver",
        "felupe",
        "scikit-fem",
    ):
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{platform.machine()}, {cores} cores, Python {platform.python_version()}; {', '.join(versions)}."


def tables(found: Results) -> str:
    """All of them, in Markdown."""
    compared(found)
    return "\n\n".join(table(name, rows) for name, rows in found.items() if rows)


def compared(found: Results) -> None:
    """The ratios between codes, and whether they found the same."""
    own = {r["tetrahedra"]: r for r in found.get("assembly", []) if is_double_neo_hookean(r)}
    for row in found.get("peers", []):
        mine = own.get(row["tetrahedra"])
        if mine is not None:
            row["/ jaxmech"] = row["assembly s"] / mine["assembly s"]
            row["same"] = same(row["norm"], mine["norm"])
    felupe = {r["n"]: r for r in found.get("newton", []) if r["code"] == "felupe"}
    for row in found.get("newton", []):
        if row["n"] in felupe:
            row["/ felupe"] = row["newton"] / felupe[row["n"]]["newton"]
            row["same"] = same(row["work"], felupe[row["n"]]["work"])


def is_double_neo_hookean(row: Row) -> bool:
    """Whether a row is of the problem that other codes are given."""
    return is_double(row) and row.get("material", "NeoHookean") == "NeoHookean"


def is_double(row: Row) -> bool:
    """Whether a row is of an assembly in double precision, on one device."""
    return "tetrahedra" in row and row.get("dtype") != "float32" and row.get("devices", 1) == 1


def same(a: float, b: float) -> str:
    """Whether two answers agree."""
    return "yes" if abs(a - b) <= AGREED * abs(b) else f"NO: {abs(a / b - 1):.1e}"


def table(name: str, rows: list[Row]) -> str:
    """One measurement: its title, its commands, its rows; columns that no row has are left out."""
    title, columns = COLUMNS[name]
    commands = dict.fromkeys(f"`python {row['command']}`" for row in rows)
    rows = [row for row in rows if "device" not in row and len(row.keys() & set(columns)) > 2]  # others say where it ran
    shown = [c for c in columns if any(c in row for row in rows)]
    lines = [f"### {title}", "", ", ".join(commands) + ".", ""]
    lines += [f"| {' | '.join(shown)} |", "|" + "---|" * len(shown)]
    lines += [f"| {' | '.join(cell(row.get(c)) for c in shown)} |" for row in rows]
    return "\n".join(lines)


def cell(value: Any) -> str:
    """Three digits."""
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def write(text: str, found: Results, root: Path) -> None:
    """The tables into `RESULTS.md`, between its two marks, and the picture."""
    results = root / "benchmarks" / "RESULTS.md"
    before, rest = results.read_text().split(BEGIN)
    after = rest.split(END)[1]
    results.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
    draw(found, root / "docs" / "figures" / "speed.svg")


def draw(found: Results, picture: Path) -> None:
    """Seconds over size, both axes logarithmic: a line of slope one is a cost in proportion."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    curves = dict(curves_of(found))
    if not curves:
        return
    matplotlib.rcParams["svg.hashsalt"] = "jaxmech"
    figure, axes = pyplot.subplots(figsize=(6.8, 4.2), layout="constrained")
    for name, points in curves.items():
        sizes, seconds = zip(*sorted(points), strict=True)
        axes.loglog(sizes, seconds, marker="o", markersize=3, linewidth=1.2, label=name)
    axes.set(xlabel="tetrahedra", ylabel="seconds, warm", title="Cost over size")
    axes.grid(which="major", alpha=0.3)
    axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, metadata={"Date": None})


def curves_of(found: Results):
    """Name and points of every curve with at least two sizes."""
    curves: dict[str, set[tuple[int, float]]] = {}

    def add(name: str, size: int, seconds: float) -> None:
        curves.setdefault(name, set()).add((size, seconds))

    for row in found.get("assembly", []):
        if is_double(row):
            add(f"assembly, {row.get('material', 'NeoHookean')}", row["tetrahedra"], row["assembly s"])
            if is_double_neo_hookean(row):
                add("product", row["tetrahedra"], row["product s"])
                add("SciPy's product", row["tetrahedra"], row["SciPy product s"])
    for row in found.get("peers", []):
        add(f"assembly, NeoHookean, {row['code']}", row["tetrahedra"], row["assembly s"])
    for row in found.get("step", []):
        if row.get("scene") == "cantilever":
            add(f"step, {row['solver']}", 24 * row["n"] ** 3, 1e-3 * row["ms"])
    return [(name, points) for name, points in curves.items() if len({size for size, _ in points}) > 1]
