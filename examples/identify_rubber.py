"""Which rubber is it? Three hyperelastic laws fitted to Treloar's tensile test through a finite-element bar.

A bar is pulled through the measured stretches, one static equilibrium each; the force is the reaction at the grip over
the rest area. Least squares by Levenberg-Marquardt, whose Jacobian is exact: `static_solve` differentiates by the
implicit function theorem. Units: mm, N, MPa. Nearly incompressible: the bulk modulus is 2500 shear moduli, which moves
the first two fits by 0.2 %, and the stress at 7.6 times the length by some 4 %.

    python examples/identify_rubber.py [--cells 2 1 1] [--picture output/identify_rubber.png]
"""

import argparse
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm

try:
    import matplotlib.pyplot as plt
    import optimistix as optx
    from tqdm.auto import tqdm
except ImportError as error:
    raise ImportError(f'{error.name} is missing: pip install "jaxmech[fit]".') from error

jax.config.update("jax_enable_x64", True)
TABLE = Path(__file__).parent / "data" / "treloar1944_uniaxial.csv"
STRETCH, STRESS = np.loadtxt(TABLE, delimiter=",", skiprows=4).T  # [-], [MPa]
LENGTH, SIDE, BULK = 20.0, 5.0, 1000.0  # [mm], [mm], [MPa]
COLORS = "tab:orange", "tab:green", "tab:blue"

# Ogden's psi = sum_i mu_i/alpha_i (sum_k lambda_k^alpha_i - 3) contains the others, so that one compiled program fits
# all: one term of exponent 2 is neo-Hooke's (mu_1 = mu), one more of exponent -2 Mooney's (mu_1 = 2 c10, mu_3 = -2 c01).
# Unknowns are ln |mu_i|, which spans ten decades and must keep its sign, and alpha_i. The last exponent stays at -2:
# left free it drifts to zero, because tension alone does not determine it.
START = np.array([np.log(0.4), np.log(1e-4), np.log(0.02), 2.0, 6.0, -2.0])
FITS = {  # name: signs of mu_i (0: no such term), which unknowns are free, largest stretch that counts
    "neo-Hookean": ([1, 0, 0], [1, 0, 0, 0, 0, 0], 3.02),
    "Mooney-Rivlin": ([1, 0, -1], [1, 0, 1, 0, 0, 0], 3.02),
    "Ogden, 3 terms": ([1, 1, -1], [1, 1, 1, 1, 1, 0], 8.0),
}


def bar(cells):
    """The system, its rest state and its stiffness pattern. Symmetry planes leave the section free to contract."""
    mesh = jm.box_mesh(cells=cells, size=(LENGTH, SIDE, SIDE), kind="hexahedron")
    planes = [mesh.nodes_where(lambda x, axis=axis: x[:, axis] == 0.0) for axis in range(3)]
    grip = mesh.nodes_where(lambda x: x[:, 0] == LENGTH)
    x, y, z = (True, False, False), (False, True, False), (False, False, True)
    motion = {"displacements": [[0.0, 0.0, 0.0], [9.0 * LENGTH, 0.0, 0.0]], "times": [1.0, 10.0]}  # time is the stretch
    system = jm.System(
        dofs={"bar": jm.Vec3()},
        forces={"rubber": jm.HexahedronFEM.from_mesh("bar", mesh, jm.Ogden([0.4] * 3, [2.0] * 3, BULK))},
        constraints={
            "foot": jm.FixedComponents(on=("bar", planes[0]), components=x),
            "floor": jm.FixedComponents(on=("bar", planes[1]), components=y),
            "back": jm.FixedComponents(on=("bar", planes[2]), components=z),
            "grip": jm.PrescribedMotion(on=("bar", grip), reference=mesh.points[grip], components=x, **motion),
        },
    )
    rest = system.at_rest({"bar": mesh.points})
    return system, rest, jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))


@jax.jit  # traced once, however often the optimiser asks
def pull(mu, alpha, scene):
    """The nominal stress [MPa] of the bar at every measured stretch."""
    system, rest, stiffness = scene
    system = eqx.tree_at(lambda s: s.forces["rubber"].material, system, jm.Ogden(mu, alpha, BULK))
    grip = system.constraints["grip"].on[0].nodes

    def stress(stretch):
        guess = rest.position["bar"] * jnp.stack([stretch, stretch**-0.5, stretch**-0.5])  # keeps the volume
        start = eqx.tree_at(lambda s: (s.position["bar"], s.time), rest, (guess, stretch))
        pulled = jm.static_solve(system, start, stiffness).state
        return jnp.sum(jm.reactions(system, pulled)["bar"][grip, 0]) / SIDE**2

    return jax.lax.map(stress, jnp.asarray(STRETCH))


def fitting(progress):
    """The compiled fit: signs, free unknowns, weights of the points -> mu, alpha, stresses, number of steps."""

    def show(num_steps, loss_this_step, **_):
        def advance(_, loss):
            progress.set_postfix_str(f"misfit {loss:.3e} MPa2", refresh=False)
            progress.update()

        jax.debug.callback(advance, num_steps[1], loss_this_step[1])

    def fit(signs, free, counts, scene):
        def law(change):
            p = START + free * change
            return signs * jnp.exp(p[:3]), p[3:]

        def misfit(change, _):
            stress = pull(*law(change), scene)
            return counts * (stress - STRESS), stress

        method = optx.LevenbergMarquardt(rtol=1e-6, atol=1e-6, verbose=show)
        found = optx.least_squares(misfit, method, jnp.zeros(6), has_aux=True)
        return *law(found.value), found.aux, found.stats["num_steps"]

    return jax.jit(fit)


def main(cells=(2, 1, 1), picture="output/identify_rubber.png"):
    """Fit the three laws; returns `{name: (mu [MPa], alpha, rms [MPa], steps, stresses [MPa])}`."""
    scene, results = bar(cells), {}
    with tqdm(desc="compiling", unit=" steps") as progress:
        fit = fitting(progress)
        for name, (signs, free, largest) in FITS.items():
            counts = np.where(largest >= STRETCH, 1.0, 0.0)
            mu, alpha, stress, steps = map(np.asarray, fit(np.array(signs), np.array(free), counts, scene))
            jax.effects_barrier()
            progress.set_description_str(f"fitted {name}")
            rms = float(np.sqrt(np.sum(counts * (stress - STRESS) ** 2) / np.sum(counts)))
            results[name] = (mu, alpha, rms, int(steps), stress)
    print(f"{'law':15} {'rms [MPa]':>10} {'steps':>6}   mu_i [MPa]: alpha_i")
    for name, (mu, alpha, rms, steps, _) in results.items():
        terms = ", ".join(f"{m:.5g}: {a:.4g}" for m, a in zip(mu, alpha, strict=True) if m)
        print(f"{name:15} {rms:10.6f} {steps:6}   {terms}")
    draw(results, Path(picture))
    return results


def draw(results, path):
    """Data, bar (crosses), incompressible closed form (lines; dashed beyond the fitted points), residuals."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    for (name, (mu, alpha, rms, _, stress)), color in zip(results.items(), COLORS, strict=True):
        largest = FITS[name][2]
        fitted = largest >= STRETCH
        for axis, end in zip(axes, (7.6, 3.02), strict=False):
            for low, high, style in ((1.0, min(largest, end), "-"), (largest, end, "--")):
                x = np.linspace(low, high, 200 if low < high else 0)[:, None]
                axis.plot(x, np.sum(mu * (x ** (alpha - 1) - x ** (-alpha / 2 - 1)), axis=1), style, color=color)
            label = f"{name}, rms {1e3 * rms:.1f} kPa"
            axis.plot(STRETCH[fitted], stress[fitted], "x", color=color, label=label)
        axes[2].plot(STRETCH[fitted], 1e3 * (stress - STRESS)[fitted], "x-", color=color, lw=0.8)
    for axis in axes[:2]:
        axis.plot(STRETCH, STRESS, "o", color="black", mfc="none", ms=8, label="Treloar 1944")
        axis.set(xlabel="stretch [-]", ylabel="nominal stress [MPa]")
    axes[0].set_title("Crosses: bar; lines: closed form")
    axes[0].legend(frameon=False)
    axes[1].set(title="Up to a stretch of 3.02", xlim=(0.9, 3.2), ylim=(-0.03, 0.95))
    axes[2].set(title="Residuals at the fitted points", xlabel="stretch [-]", ylabel="bar - data [kPa]")
    axes[2].axhline(0.0, color="black", lw=0.8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, nargs=3, default=(2, 1, 1), help="hexahedra along each axis")
    parser.add_argument("--picture", default="output/identify_rubber.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
