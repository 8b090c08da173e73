"""A soft arm learns to reach: a policy by the gradient of what its motions end in.

An arm of rubber hangs from its root, with a row of muscles along each of its sides: springs whose rest lengths a policy sets
at every step. The policy is a small network that sees where the tip is, how fast it moves, and where it should be; its
weights are found by BFGS with the exact gradient of whole motions to four targets at once. Control is in the loop
(`simulate(..., control=)`), and what is recorded are distances, not states (`observe=`).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
LENGTH, WIDTH, DT, STEPS = 0.2, 0.04, 0.02, 40  # [m], [m], [s]
MESH = jm.mesh.box_mesh(cells=(1, 6), size=(WIDTH, LENGTH), origin=(-0.5 * WIDTH, -LENGTH), kind="quad")
X = np.asarray(MESH.points)
TIP = MESH.nodes_where(lambda x: x[:, 1] == -LENGTH)
SIDES = {
    name: np.argsort(X[:, 1])[np.isin(np.argsort(X[:, 1]), MESH.nodes_where(lambda x, s=s: s * x[:, 0] > 0))]
    for name, s in (("left", -1.0), ("right", 1.0))
}
TARGETS = jnp.array([[-0.05, -0.18], [-0.02, -0.19], [0.03, -0.185], [0.06, -0.175]])  # [m]


def scene():
    """The arm at rest, and its linear system."""
    muscles = {
        name: jm.force.Springs((("arm", n[:-1]), ("arm", n[1:])), 800.0, np.linalg.norm(np.diff(X[n], axis=0), axis=1))
        for name, n in SIDES.items()
    }
    rubber = jm.material.NeoHookean(young=2e5, poisson=0.3)
    system = jm.System(
        {"arm": jm.Vec2()},
        forces={"rubber": jm.force.QuadFEM.from_mesh("arm", MESH, rubber, thickness=WIDTH), **muscles},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("arm", MESH, density=1000.0 * WIDTH)},
        constraints={"root": jm.constraint.Fixed(("arm", MESH.nodes_where(lambda x: x[:, 1] == 0.0)))},
        rayleigh={"rubber": 0.03},
        gravity=[0.0, -9.81],
    )
    state = system.at_rest({"arm": X})
    return system, state, jm.MatrixLinearSystem.build(system, state)


class Policy(eqx.Module):
    """How much the muscles of each side contract, at most by 40 %."""

    network: eqx.nn.MLP

    def __call__(self, time, state, task):
        target, rest = task
        x, v = (jnp.mean(a["arm"][TIP], axis=0) for a in (state.position, state.velocity))
        u = 0.4 * jax.nn.sigmoid(self.network(jnp.concatenate([10 * (target - x), 10 * target, v])))
        return {name: {"rest_length": (1 - u[i]) * rest[name]} for i, name in enumerate(SIDES)}


def main(iterations=60):
    """Return the mean distance [m] of the tip from its targets, in the second halves of motions: before and after."""
    system, state, linear_system = scene()
    integrator = jm.ImplicitEuler(linear_system, jm.solver.Dense())
    rest = {name: jnp.asarray(np.linalg.norm(np.diff(X[n], axis=0), axis=1)) for name, n in SIDES.items()}

    def distances(policy, target):
        run = jm.simulate(
            system, state, integrator, DT, STEPS, control=policy, parameters=(target, rest), throw=False,
            observe=lambda system, state: jnp.mean(state.position["arm"][TIP], axis=0) - target,
        )  # fmt: skip
        return run.observed[STEPS // 2 :]

    network = eqx.nn.MLP(6, 2, 8, 1, activation=jax.nn.tanh, key=jax.random.key(0))
    weights, shape = eqx.partition(Policy(network), eqx.is_inexact_array)

    @eqx.filter_jit
    def away(weights):
        d = jax.vmap(lambda target: distances(eqx.combine(weights, shape), target))(TARGETS)
        return jnp.mean(jnp.linalg.norm(d, axis=-1))

    def cost(weights, _):
        d = jax.vmap(lambda target: distances(eqx.combine(weights, shape), target))(TARGETS)
        return 1e4 * jnp.mean(d**2)

    before = float(away(weights))
    solver = optx.BFGS(rtol=1e-6, atol=1e-9)
    learned = optx.minimise(cost, solver, weights, max_steps=iterations, throw=False).value
    after = float(away(learned))
    print(f"mean distance of the tip: {1e3 * before:.1f} mm before, {1e3 * after:.2f} mm after {iterations} iterations")
    return before, after


if __name__ == "__main__":
    main()
