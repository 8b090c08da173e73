"""What the first call costs: tracing and compilation of a step and of the gradient of a trajectory, whatever the size.

    python -m benchmarks.compile [elements ...] [--gradient] [--solver pcg]

The corotational cantilever of `benchmarks.step` with about so many tetrahedra. Nothing is run: what is timed is the work of
JAX and XLA, which should not know the size. A program is compiled once before, so that the libraries are loaded.
With `JAX_COMPILATION_CACHE_DIR` set, a second run shows what the persistent cache saves.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import jaxmech as jm
from benchmarks.clock import report
from benchmarks.step import DT, cantilever

SOLVERS = {"direct": jm.solver.SparseDirect(), "pcg": jm.solver.PCG(1e-6)}
STEPS = 100


def step(system, state, linear_system, solver) -> Any:
    """One step."""
    return jm.ImplicitEuler(linear_system, solver).step(system, state, None, DT, throw=False)[0]


def gradient(system, state, linear_system, solver) -> Any:
    """The height of the tip after a hundred steps, and its gradient by one Young's modulus per element."""

    def height(young):
        trial = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, young)
        integrator = jm.ImplicitEuler(linear_system, solver)
        return jm.simulate(trial, state, integrator, DT, STEPS, save_every=STEPS, throw=False).last.position["beam"][-1, 2]

    return jax.value_and_grad(height)(jnp.full(system.forces["elastic"].on[0].elements, 1000.0))


def seconds(function: Callable, *arguments: Any) -> dict[str, float]:
    """Of tracing and of compiling; and of all cores together, which a busy machine leaves as they are."""
    jax.clear_caches()
    busy = time.process_time()
    arrays, static = eqx.partition(arguments, eqx.is_array)
    start = time.perf_counter()
    lowered = jax.jit(lambda arrays: function(*eqx.combine(arrays, static))).lower(arrays)
    traced = time.perf_counter()
    lowered.compile()
    done, busy = time.perf_counter(), time.process_time() - busy
    return {"trace s": traced - start, "compile s": done - traced, "both s": done - start, "CPU s": busy}


def main() -> None:
    """Every size asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("elements", type=int, nargs="*", default=[1_000, 1_000_000])
    parser.add_argument("--gradient", action="store_true", help="of a trajectory, instead of a step")
    parser.add_argument("--solver", default="direct", choices=list(SOLVERS))
    arguments = parser.parse_args()
    what, solver = (gradient if arguments.gradient else step), SOLVERS[arguments.solver]
    jax.jit(lambda x: jnp.linalg.inv(x) @ x).lower(jnp.eye(3)).compile()
    for wanted in arguments.elements:
        n = max(1, round((wanted / 24) ** (1 / 3)))
        system, state = cantilever(n)
        linear_system = jm.MatrixLinearSystem.build(system, state)
        found = seconds(what, system, state, linear_system, solver)
        report(what=what.__name__, solver=arguments.solver, tetrahedra=24 * n**3, **found)


if __name__ == "__main__":
    main()
