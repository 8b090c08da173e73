"""A step of SOFA's own regression scenes, beside SOFA's figures where there are some.

    python -m benchmarks.sofa FOLDER [--only WORD ...] [--solver sofa|exact] [--steps 20]

FOLDER holds SOFA's `examples`, `share` and `dev.regression-tests`. For every time integrator of every scene: seconds
to load it and until its first steps are there (tracing and compiling), milliseconds of a step within a compiled loop
(the median of five). All are CPU seconds of the process, which other work disturbs least. SOFA's milliseconds were
measured on another day, on one thread, for scenes of these sizes: they are scaled by SciPy's BSR product over 128,581
blocks, then and now.
"""

import argparse
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxmech as jm
from benchmarks.clock import forget, report
from benchmarks.mappings import scipy_product

SCIPY_THEN = 0.51  # [ms]
# SOFA's milliseconds a step, by words of the path of a scene; of CG with 25 iterations, where FEMBAR's takes more.
SOFA = {
    "FEMBAR_CGLinearSolver": 2.4,
    "FEMBAR_SparseLDLSolver": 1.8,
    "CompositeLinearSystem": 21.0,
    "MatrixAssembly_direct": 10.0,
    "MatrixAssembly_assembled": 5.2,
    "MatrixAssembly_matrixfree": 4.5,
    "Mapping/NonLinear/DistanceMapping": 0.11,
}


def processor_seconds() -> float:
    """CPU seconds of this process and its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def spent(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function gives, and the CPU seconds that it takes."""
    start = processor_seconds()
    found = jax.block_until_ready(function())
    return found, processor_seconds() - start


def measured(path: Path, solver: str, steps: int) -> list[dict[str, Any]]:
    """A row for every time integrator of a scene."""
    parts, loading = spent(lambda: dict(jm.sofa.load(path, solver=solver).parts))
    rows = []
    for name, part in parts.items():

        def run(part: Any = part) -> Any:
            forget()  # factors of the runs before
            return jm.simulate(part.system, part.state, part.integrator, part.dt, steps, save_every=steps).last.position

        end, first = spent(run)
        times = [spent(run)[1] for _ in range(5)]
        unknowns = sum(np.size(v) for s, v in part.state.velocity.items() if s in end)
        warm = float(np.median(times))
        rows.append(
            {"part": name, "unknowns": unknowns, "load s": loading, "compile s": first - warm, "ms": 1e3 * warm / steps}
        )
    return rows


def sofa_milliseconds(scene: str) -> float | None:
    """What SOFA's step took, of the scene as a whole."""
    return next((ms for word, ms in SOFA.items() if word in scene), None)


def main() -> None:
    """Every scene, or those whose path has a word."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--solver", choices=("sofa", "exact"), default="sofa")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    lines = (options.folder / "dev.regression-tests").read_text().splitlines()
    scenes = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    scale = scipy_product() / SCIPY_THEN
    report(scene="SciPy's product", scale=scale)
    for scene in scenes:
        if options.only and not any(word in scene for word in options.only):
            continue
        rows = measured(options.folder / "examples" / scene, options.solver, options.steps)
        theirs, ours = sofa_milliseconds(scene), sum(row["ms"] for row in rows)
        for row in rows:
            report(scene=scene, **row)
        if theirs is not None:
            report(scene=scene, ms=ours, **{"SOFA ms": theirs * scale, "SOFA / jaxmech": theirs * scale / ours})


if __name__ == "__main__":
    main()
