"""What every measurement does: time a function cold and warm, and print a row."""

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 20.0  # [s] after which no further run is begun


def cold_and_warm(function: Callable[[], Any], runs: int = 5) -> tuple[float, float, Any]:
    """Seconds of the first call, of the shortest of `runs` more, and the last value; JAX is waited for."""
    first, value = once(function)
    times, spent = [], 0.0
    while len(times) < runs and (not times or spent < PATIENCE):
        seconds, value = once(function)
        times.append(seconds)
        spent += seconds
    return first, min(times), value


def once(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one call, and its value. No factor that an earlier call made is found."""
    import jax

    forget()
    start = time.perf_counter()
    value = jax.block_until_ready(function())
    return time.perf_counter() - start, value


def forget() -> None:
    """What direct solvers remember of other runs, if jaxmech is there at all."""
    solvers = sys.modules.get("jaxmech._linear_solver.sparse.factor_cache")
    if solvers is not None:
        solvers.forget_matrices()


def peak_megabytes() -> float:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report(**row: Any) -> None:
    """One JSON line. Four digits are more than a clock knows; a `norm` is to be compared with another."""
    rounded = {k: float(f"{v:.{12 if k == 'norm' else 4}g}") if isinstance(v, float) else v for k, v in row.items()}
    print(json.dumps(rounded), flush=True)
