"""What gradients cost beside what they are gradients of: a static solve, and a trajectory in reverse mode.

    python -m benchmarks.gradients [--n 4] [--steps 25 100 400]

Static: the neo-Hookean cantilever of `benchmarks.cantilever`, the gradient of `f . u` by one Young's modulus per element.
Trajectory: the corotational cantilever of `benchmarks.step`, the gradient of the height of the tip after so many implicit
steps by one Young's modulus per element and by the velocities at the start. The memory is what XLA reserves for the compiled
program beside its arguments and results. Each gradient is held against a difference along one direction.
"""

import argparse
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import jaxmech as jm
from benchmarks.cantilever import run_jaxmech
from benchmarks.clock import cold_and_warm, report
from benchmarks.step import DT, cantilever

SOLVERS = {"direct": jm.solver.SparseDirect(), "PCG 1e-10": jm.solver.PCG(1e-10)}


def static(n: int) -> None:
    """Value and gradient of a static solve over the solve."""
    row = run_jaxmech(n, "auto")
    both, solve = row["value and gradient"], row["newton"]
    report(what="static", n=n, **{"solve s": solve, "value and gradient s": both, "ratio": both / solve})


def trajectory(n: int, steps: int, solver: str) -> None:
    """Reverse mode through many steps over the steps alone, and the memory of both."""
    system, state = cantilever(n)
    linear_system = jm.MatrixLinearSystem.build(system, state)
    young = jnp.full(system.forces["elastic"].on[0].elements, 1000.0)

    def height(inputs, system, state, linear_system):
        young, velocity = inputs
        system = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, young)
        state = eqx.tree_at(lambda s: s.velocity["beam"], state, velocity)
        integrator = jm.ImplicitEuler(linear_system, SOLVERS[solver])
        last = jm.simulate(system, state, integrator, DT, steps, save_every=steps, throw=False).last
        return last.position["beam"][-1, 2]

    inputs = (young, state.velocity["beam"])
    rest = (system, state, linear_system)
    forward, forward_bytes = compiled(height, inputs, *rest)
    gradient, gradient_bytes = compiled(jax.value_and_grad(height), inputs, *rest)
    first, alone, _ = cold_and_warm(forward, 3)
    first_gradient, both, (_, slope) = cold_and_warm(gradient, 3)
    report(
        what="trajectory",
        n=n,
        tetrahedra=young.size,
        steps=steps,
        solver=solver,
        **{
            "forward s": alone,
            "value and gradient s": both,
            "ratio": both / alone,
            "first s": first,
            "first gradient s": first_gradient,
            "forward MB": forward_bytes / 1e6,
            "gradient MB": gradient_bytes / 1e6,
            "off": disagreement(forward, inputs, slope),
        },
    )


def compiled(function: Callable, inputs: Any, *rest: Any) -> tuple[Callable, int]:
    """The function of its inputs (those it had unless others are given), compiled; the bytes that its program reserves."""
    arrays, static = eqx.partition(rest, eqx.is_array)
    program = jax.jit(lambda inputs, arrays: function(inputs, *eqx.combine(arrays, static))).lower(inputs, arrays).compile()
    memory = program.memory_analysis()
    assert memory is not None
    return lambda given=inputs: program(given, arrays), memory.temp_size_in_bytes


def disagreement(forward: Callable, inputs: Any, slope: Any) -> float:
    """How far the slope along the inputs themselves is from a central difference, as a share of it."""
    young, velocity = inputs
    direction = (0.5 * young, jnp.ones_like(velocity))
    h = 1e-4
    ahead, behind = (forward(jax.tree.map(lambda a, d, s=s: a + s * h * d, inputs, direction)) for s in (1, -1))
    difference = float(ahead - behind) / (2 * h)
    along = sum(float(jnp.vdot(g, d)) for g, d in zip(slope, direction, strict=True))
    return abs(along - difference) / abs(difference)


def main() -> None:
    """Both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=4)
    parser.add_argument("--steps", type=int, nargs="*", default=[25, 100, 400])
    parser.add_argument("--solvers", nargs="*", default=list(SOLVERS), choices=list(SOLVERS))
    arguments = parser.parse_args()
    static(arguments.n)
    for solver in arguments.solvers:
        for steps in arguments.steps:
            trajectory(arguments.n, steps, solver)


if __name__ == "__main__":
    main()
