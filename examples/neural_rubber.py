"""A rubber whose energy is a neural network, polyconvex by construction, learnt from Treloar's tensile test of 1944.

The network takes invariants that are convex in F, its cofactor and its determinant; weights that are squares, and a convex
activation that grows, keep it so. A block of it is sheared, and that differentiated by all weights. mm, N, MPa; extra `fit`.
"""

from pathlib import Path

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optimistix as optx

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
STRETCH, STRESS = np.loadtxt(Path(__file__).parent / "data/treloar1944_uniaxial.csv", delimiter=",", skiprows=4).T

learnt = jm.material.function_of_invariants(lambda network, x: network(x))


class NeuralRubber(jm.material.AbstractMaterial):
    """`psi = scale (N(x) - N(0)) + bulk (J - 1 - ln J)`, `x = (I1 - 3, I2^(3/2) - 3^(3/2))` of the isochoric invariants.

    `x` has no slope at rest, so neither has `psi`. Polyconvex: S. Hartmann and P. Neff, doi:10.1016/S0020-7683(03)00086-6.
    """

    weights: eqx.nn.MLP  # its arrays
    form: eqx.nn.MLP = eqx.field(static=True)  # the rest of it
    scale: jm.Parameter = jm.parameter()  # [Pa]
    bulk: jm.Parameter = jm.parameter()  # [Pa]
    needs_positive_volume = True

    def energy_density(self, F):
        J, minors = jnp.sum(F[0] * jnp.cross(F[1], F[2])), jnp.stack([jnp.cross(F[i - 2], F[i - 1]) for i in range(3)])
        first, second = jnp.sum(F * F) * J ** (-2 / 3), jnp.sum(minors * minors) * J ** (-4 / 3)
        x = 0.1 * jnp.stack([first - 3, second**1.5 - 3**1.5])
        convex = jax.tree.map(lambda w: w * w / w.shape[1] if w.ndim == 2 else w, self.weights)
        network = eqx.combine(convex, self.form)
        return self.scale * (learnt(network, x) - network(0 * x)) + self.bulk * (J - 1 - jnp.log(J))


def rubber(width=8, scale=1.0, bulk=100.0):
    network = eqx.nn.MLP(2, "scalar", width, 2, jax.nn.squareplus, key=jax.random.key(0))
    return NeuralRubber(*eqx.partition(network, eqx.is_array), scale, bulk)


def tension(law, stretch):  # the nominal stress of a bar that keeps its volume: the slope of the energy along that path
    slope = jax.grad(lambda l: law.energy_density(jnp.diag(jnp.stack([l, l**-0.5, l**-0.5]))))
    return jax.vmap(slope)(jnp.asarray(stretch))


def block(law, cells=2):
    """A cube, glued below and pulled sideways above; how far its upper face goes, as a function of weights."""
    mesh = jm.mesh.box_mesh(cells=(cells,) * 3, size=(1.0, 1.0, 1.0))
    glued, top = mesh.nodes_where(lambda x: x[:, 2] == 0), mesh.faces_where(lambda x: x[:, 2] == 1)
    solid, load = jm.force.TetrahedronFEM.from_mesh("b", mesh, law), jm.force.Traction.from_mesh("b", top, [0.1, 0.0, 0.0])
    glue = jm.constraint.Fixed(("b", glued))
    system = jm.System({"b": jm.Vec3()}, forces={"rubber": solid, "load": load}, constraints={"glue": glue})
    rest = system.at_rest({"b": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))

    def slide(weights):
        trial = eqx.tree_at(lambda s: s.forces["rubber"].material.weights, system, weights)
        end = jm.static_solve(trial, rest, linear_system).position["b"]
        return jnp.mean((end - mesh.points)[top.cells, 0])

    return slide


def main(picture="output/neural.png", cells=2):
    """The misfit [MPa], how far the block slides [mm], and its derivative in a direction of all weights, twice."""
    law, method = rubber(), optx.LevenbergMarquardt(rtol=1e-5, atol=1e-5)
    changed = lambda weights: eqx.tree_at(lambda m: m.weights, law, weights)  # noqa: E731
    misfit = lambda weights, _: tension(changed(weights), STRETCH) - STRESS  # noqa: E731
    found = optx.least_squares(misfit, method, law.weights, max_steps=300, throw=False)  # there is always a little more
    law = changed(found.value)
    rms = float(jnp.sqrt(jnp.mean((tension(law, STRETCH) - STRESS) ** 2)))
    slide = jax.jit(jax.value_and_grad(block(law, cells)))
    value, slope = slide(law.weights)
    flat, back = jax.flatten_util.ravel_pytree(law.weights)
    direction, h = jnp.sin(jnp.arange(flat.size) + 1.0) * jnp.abs(flat), 1e-4
    exact = float(jax.flatten_util.ravel_pytree(slope)[0] @ direction)
    difference = float(slide(back(flat + h * direction))[0] - slide(back(flat - h * direction))[0]) / (2 * h)
    print(f"rms {rms:.4f} MPa with {flat.size} weights; slides {value:.4f} mm, {exact:.8f} mm by weights, {difference:.8f}")
    (figure, axes), line = plt.subplots(figsize=(6, 4), layout="constrained"), np.linspace(1.0, 7.6, 200)
    axes.plot(line, tension(law, line), label=f"network, rms {1e3 * rms:.0f} kPa")
    axes.plot(STRETCH, STRESS, "o", color="black", mfc="none", label="Treloar 1944")
    axes.set(xlabel="stretch [-]", ylabel="nominal stress [MPa]")
    axes.legend()
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    return rms, float(value), exact, difference


if __name__ == "__main__":
    main()
