"""Bring a SOFA scene, leave with its gradient: how stiff is a beam that sags so far?

    python examples/sofa_scene.py

A scene in SOFA's format is read, run as it is, and differentiated by a number of the scene, named by its SOFA path. The
number that explains a sag is found by Gauss-Newton steps on its logarithm, and written back into a copy of the scene.
"""

import tempfile
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp

import jaxmech as jm

SCENE = Path(__file__).parent / "data" / "beam.scn"
YOUNG = "@/beam/fem.youngModulus"


def main(true_young=1.3e5, steps=10, iterations=4, picture="output/sofa_scene.png"):
    """The Young's modulus [Pa] found, and the text of the scene that has it."""
    jax.config.update("jax_enable_x64", True)
    scene = jm.sofa.load(SCENE, solver="exact")  # "sofa": with the linear solves unconverged, as SOFA leaves them
    print(scene.report)
    where = scene.where(YOUNG)
    tip = int(jnp.argmax(scene.state.position["beam/dofs"][:, 2]))

    def sag(log_young):
        system = eqx.tree_at(where, scene.system, jnp.exp(log_young))
        last = jm.simulate(system, scene.state, scene.integrator, scene.dt, steps, save_every=steps).last
        return last.position["beam/dofs"][tip, 1], last

    both = jax.jit(jax.value_and_grad(sag, has_aux=True))
    (measured, _), _ = both(jnp.log(true_young))
    log_young = jnp.log(where(scene.system))
    for _ in range(iterations):
        (found, _), rate = both(log_young)
        gap = found - measured
        print(f"E = {float(jnp.exp(log_young)):.6g} Pa, off by {float(gap):+.2e} m")
        log_young = log_young - gap / rate
    (_, end), _ = both(log_young)
    found = float(jnp.exp(log_young))
    softer = eqx.tree_at(where, scene.system, jnp.asarray(found))
    axes = jm.viz.plot(softer, end, color="displacement", reference=scene.state)
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    axes.figure.savefig(picture, dpi=150)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "identified.scn")
        print("written:", scene.write(copy, softer))
        return found, copy.read_text()


if __name__ == "__main__":
    main()
