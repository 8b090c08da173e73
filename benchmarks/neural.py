"""A neural energy density beside neo-Hookean's: assembly, equilibrium, the gradient by all weights; and plain functions.

    python -m benchmarks.neural [--cells 12] [--width 32]

A block of `6 cells^3` tetrahedra, float64, glued below and pulled sideways. The density is a network of two hidden layers
of the isochoric invariants. Ratios are of medians of runs that alternate.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

import jaxmech as jm


class Neural(jm.material.AbstractMaterial):
    """`psi = scale (N(x) - N(0)) + bulk/2 (J - 1)^2`, convex in the invariants `x`."""

    weights: eqx.nn.MLP
    form: eqx.nn.MLP = eqx.field(static=True)
    scale: jm.Parameter = jm.parameter()  # [Pa]
    bulk: jm.Parameter = jm.parameter()  # [Pa]
    needs_positive_volume = True

    def energy_density(self, F):
        J = jnp.sum(F[0] * jnp.cross(F[1], F[2]))
        minors = jnp.stack([jnp.cross(F[i - 2], F[i - 1]) for i in range(3)])
        first, second = jnp.sum(F * F) * J ** (-2 / 3), jnp.sum(minors * minors) * J ** (-4 / 3)
        x = jnp.stack([first - 3, second**1.5 - 3**1.5])
        return self.scale * (self.network(x) - self.network(0 * x)) + 0.5 * self.bulk * (J - 1) ** 2

    def network(self, x):
        """Weights that are squares keep it convex."""
        convex = jax.tree.map(lambda w: w * w if w.ndim == 2 else w, self.weights)
        return eqx.combine(convex, self.form)(x)


def neural(width: int) -> Neural:
    """A network that begins with a shear modulus of about 1 kPa."""
    network = eqx.nn.MLP(2, "scalar", width, 2, jax.nn.squareplus, key=jax.random.key(0))
    weights, form = eqx.partition(network, eqx.is_array)
    slope = jax.grad(Neural(weights, form, 1.0, 1.0).network)(jnp.zeros(2))
    return Neural(weights, form, 1e3 / float(2 * slope @ jnp.array([1.0, 1.5 * 3**0.5])), 1e4)


def block(law: Any, cells: int) -> tuple[jm.System, jm.State, jm.MatrixLinearSystem]:
    """The block, and its linear system of stiffness alone."""
    mesh = jm.mesh.box_mesh(cells=(cells,) * 3, size=(1.0, 1.0, 1.0))
    top = mesh.faces_where(lambda x: x[:, 2] == 1.0)
    system = jm.System(
        {"block": jm.Vec3()},
        forces={
            "rubber": jm.force.TetrahedronFEM.from_mesh("block", mesh, law),
            "load": jm.force.Traction.from_mesh("block", top, [100.0, 0.0, 0.0]),
        },
        constraints={"glue": jm.constraint.Fixed(("block", mesh.nodes_where(lambda x: x[:, 2] == 0.0)))},
    )
    rest = system.at_rest({"block": mesh.points})
    return system, rest, jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))


def alternating(*calls: Callable[[], Any], rounds: int) -> list[float]:
    """The median time of each [s], after a first run."""
    for call in calls:
        jax.block_until_ready(call())
    times = np.zeros((rounds, len(calls)))
    for i in range(rounds):
        for j, call in enumerate(calls):
            start = time.perf_counter()
            jax.block_until_ready(call())
            times[i, j] = time.perf_counter() - start
    return np.median(times, axis=0).tolist()


def main(cells: int, width: int) -> None:
    """Print assemblies, solve and gradient, and what two plain functions cost over them."""
    jax.config.update("jax_enable_x64", True)
    plain, rest, linear_system = block(jm.material.NeoHookean(3e3, 0.45), cells)
    own, _, _ = block(neural(width), cells)
    rubber: Any = own.forces["rubber"]
    weights = rubber.material.weights
    assemble = eqx.filter_jit(lambda system: linear_system.assemble(system, rest, jm.Factors(0.0, 0.0, 1.0)))
    a, b = alternating(lambda: assemble(plain), lambda: assemble(own), rounds=9)
    print(f"{6 * cells**3} tetrahedra, weights {sum(w.size for w in jax.tree.leaves(weights))}")
    print(f"assembly: neo-Hookean {1e3 * a:.1f} ms, neural {1e3 * b:.1f} ms, ratio {b / a:.2f}")

    def bent(weights: Any) -> Any:
        trial = eqx.tree_at(lambda s: s.forces["rubber"].material.weights, own, weights)
        return jm.static_solve(trial, rest, linear_system).position["block"]

    solve = eqx.filter_jit(bent)
    both = eqx.filter_jit(jax.value_and_grad(lambda w: jnp.sum(bent(w)[:, 0])))
    c, d = alternating(lambda: solve(weights), lambda: both(weights), rounds=3)
    print(f"equilibrium {c:.2f} s, value and gradient {d:.2f} s: the gradient is {(d - c) / c:.2f} of the solve")
    flat, unravel = jax.flatten_util.ravel_pytree(weights)
    value = jax.jit(lambda theta: bent(unravel(theta)).ravel())
    product = jax.jit(lambda theta, y: jax.vjp(lambda t: bent(unravel(t)).ravel(), theta)[1](y)[0])
    theta, y = np.asarray(flat), np.zeros(rest.position["block"].size)
    y[::3] = 1.0
    e, f, g, h = alternating(
        lambda: solve(weights), lambda: value(theta), lambda: both(weights), lambda: product(theta, y), rounds=3
    )
    print(f"as two plain functions: value {f / e - 1:+.1%}, vector-Jacobian product {h / g - 1:+.1%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=12)
    parser.add_argument("--width", type=int, default=32)
    options = parser.parse_args()
    main(options.cells, options.width)
