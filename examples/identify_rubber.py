"""Which rubber is it? Three hyperelastic laws fitted to Treloar's tensile test through a finite-element bar.

A bar is pulled through the measured stretches, one equilibrium each; the force is the reaction at the grip over the rest
area. Levenberg-Marquardt with the exact Jacobian (implicit function theorem). Units: mm, N, MPa. The bulk modulus is 2500
shear moduli: that moves the first two fits by 0.2 %, the stress at 7.6 times the length by some 4 %. Needs the extra `fit`.
"""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optimistix as optx

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
STRETCH, STRESS = np.loadtxt(Path(__file__).parent / "data/treloar1944_uniaxial.csv", delimiter=",", skiprows=4).T
LENGTH, SIDE, BULK = 20.0, 5.0, 1000.0  # [mm], [mm], [MPa], as the stress is
# Ogden's psi = sum_i mu_i/alpha_i (sum_k lambda_k^alpha_i - 3) contains the others, so that one compiled program fits all:
# one term of exponent 2 is neo-Hooke's (mu_1 = mu), one more of exponent -2 Mooney's (mu_1 = 2 c10, mu_3 = -2 c01). Unknowns
# are ln |mu_i| and alpha_i; the last exponent stays at -2: tension alone does not determine it.
START = np.array([np.log(0.4), np.log(1e-4), np.log(0.02), 2.0, 6.0, -2.0])
FITS = {  # name: signs of mu_i (0: no such term), which unknowns are free, largest stretch that counts, color
    "neo-Hookean": ([1, 0, 0], [1, 0, 0, 0, 0, 0], 3.02, "tab:orange"),
    "Mooney-Rivlin": ([1, 0, -1], [1, 0, 1, 0, 0, 0], 3.02, "tab:green"),
    "Ogden, 3 terms": ([1, 1, -1], [1, 1, 1, 1, 1, 0], 8.0, "tab:blue"),
}


def bar(cells):
    """The system, its rest state and its stiffness pattern. Symmetry planes leave the section free to contract."""
    mesh = jm.mesh.box_mesh(cells=cells, size=(LENGTH, SIDE, SIDE), kind="hexahedron")
    only = [tuple(axis == i for i in range(3)) for axis in range(3)]
    walls = [mesh.nodes_where(lambda x, i=i: x[:, i] == 0) for i in range(3)]
    held = {f"x{i}": jm.constraint.FixedComponents(("bar", walls[i]), only[i]) for i in range(3)}
    grip = mesh.nodes_where(lambda x: x[:, 0] == LENGTH)
    ends = [[0.0, 0.0, 0.0], [9.0 * LENGTH, 0.0, 0.0]]  # at the times 1 and 10: time is the stretch
    moved = jm.constraint.PrescribedMotion(("bar", grip), mesh.points[grip], ends, [1.0, 10.0], only[0])
    rubber = jm.force.HexahedronFEM.from_mesh("bar", mesh, jm.material.Ogden([0.4] * 3, [2.0] * 3, BULK))
    system = jm.System({"bar": jm.Vec3()}, forces={"rubber": rubber}, constraints=held | {"grip": moved})
    rest = system.at_rest({"bar": mesh.points})
    return system, rest, jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))


@jax.jit  # traced once, however often the optimiser asks
def pull(mu, alpha, system, rest, stiffness):
    """The nominal stress [MPa] of the bar at every measured stretch."""
    system = eqx.tree_at(lambda s: s.forces["rubber"].material, system, jm.material.Ogden(mu, alpha, BULK))

    def stress(stretch):
        guess = rest.position["bar"] * jnp.stack([stretch, stretch**-0.5, stretch**-0.5])  # keeps the volume
        start = eqx.tree_at(lambda s: (s.position["bar"], s.time), rest, (guess, stretch))
        pulled = jm.static_solve(system, start, stiffness)
        return jnp.sum(jm.reactions(system, pulled.state)["bar"][system.constraints["grip"].on[0].nodes, 0]) / SIDE**2

    return jax.lax.map(stress, jnp.asarray(STRETCH))


@jax.jit
def fit(signs, free, counts, scene):
    """`mu`, `alpha`, the stresses and the number of steps, for the points that count."""

    def misfit(change, _):
        p = START + free * change
        stress = pull(signs * jnp.exp(p[:3]), p[3:], *scene)
        return counts * (stress - STRESS), (signs * jnp.exp(p[:3]), p[3:], stress)

    found = optx.least_squares(misfit, optx.LevenbergMarquardt(rtol=1e-6, atol=1e-6), jnp.zeros(6), has_aux=True)
    return *found.aux, found.stats["num_steps"]


def main(cells=(2, 1, 1), picture="output/identify_rubber.png"):
    """Fit the three laws; returns `{name: (mu [MPa], alpha, rms [MPa], steps, stresses [MPa])}`."""
    scene, x, results = bar(cells), np.linspace(1.0, 7.6, 200)[:, None], {}
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for name, (signs, free, largest, color) in FITS.items():
        fitted = largest >= STRETCH
        mu, alpha, stress, steps = map(np.asarray, fit(np.array(signs), np.array(free), 1.0 * fitted, scene))
        rms = float(np.sqrt(np.mean((stress - STRESS)[fitted] ** 2)))
        results[name] = (mu, alpha, rms, int(steps), stress)
        print(f"{name:14}: rms {rms:.6f} MPa after {steps} steps, mu_i {np.round(mu, 6)} MPa, alpha_i {np.round(alpha, 3)}")
        line = np.sum(mu * (x ** (alpha - 1) - x ** (-alpha / 2 - 1)), axis=1)  # closed form, incompressible
        left.plot(x, line, color=color, label=f"{name}, rms {1e3 * rms:.1f} kPa")
        left.plot(STRETCH[fitted], stress[fitted], "x", color=color)
        right.plot(STRETCH[fitted], 1e3 * (stress - STRESS)[fitted], "x-", color=color, lw=0.8)
    left.plot(STRETCH, STRESS, "o", color="black", mfc="none", ms=8, label="Treloar 1944")
    left.set(title="Crosses: bar; lines: closed form", xlabel="stretch [-]", ylabel="nominal stress [MPa]")
    left.legend(frameon=False)
    right.set(title="Residuals at the fitted points", xlabel="stretch [-]", ylabel="bar - data [kPa]")
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    return results


if __name__ == "__main__":
    main()
