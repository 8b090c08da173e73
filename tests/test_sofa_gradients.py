"""SOFA's own regression scenes, solved exactly: the gradient of the last state is that of finite differences."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

SHARED = Path(__file__).parents[2] / "shared" / "sofa-scenes"
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="SOFA's scenes are not beside the checkout")

LINES = (SHARED / "dev.regression-tests").read_text().splitlines() if SHARED.is_dir() else []
SCENES = [line.split()[0] for line in LINES if line.strip() and not line.startswith("#")]
STEPS = 10
# Springs that have little to do for long; a pendulum whose differences see, later on, where Newton's iterations stop.
STEPS_OF = {"EulerExplicitSolver.scn": 1000, "DistanceMapping.scn": 3}
MODULI = ("youngModulus", "stiffness", "bendingStiffness")
QUICK = ("Pendulum.scn", "DistanceMapping.scn")
RELATIVE = 1e-6


def modulus(part):
    """The first elastic modulus or stiffness of a part: its leaf, and its value."""
    found = [(path, leaf) for path, leaf in part.parameters.items() if path[1] in MODULI or path[1].endswith("sStiffness")]
    return (found[0][1], np.asarray(found[0][1](part.system))) if found else None


@pytest.mark.parametrize(
    "scene", [pytest.param(s, marks=pytest.mark.slow if Path(s).name in QUICK else pytest.mark.exhaustive) for s in SCENES]
)
def test_the_exact_gradient_is_that_of_differences(scene):
    graph = jm.sofa.load(SHARED / "examples" / scene, solver="exact")
    steps, asked = STEPS_OF.get(Path(scene).name, STEPS), 0
    for part in graph.parts.values():
        known = modulus(part)
        if known is None:
            continue
        asked += 1
        leaf, value = known

        def last(log, part=part, leaf=leaf, value=value):
            system = eqx.tree_at(leaf, part.system, jnp.asarray(value) * jnp.exp(log))
            return jm.simulate(system, part.state, part.integrator, part.dt, steps, save_every=steps).last.position

        base = jax.jit(last)(jnp.zeros(()))

        def far(log, last=last, base=base):
            """Weighted displacements from the end with the scene's own number."""
            x = last(log)
            return sum(jnp.sum(jnp.cos(jnp.arange(x[s].size)) * (x[s] - base[s]).ravel()) for s in sorted(x))

        slope, difference = jax.jit(jax.grad(far))(jnp.zeros(())), jax.jit(far)
        errors = []
        for e in (0.03, 0.01, 0.003):  # rounding or curvature, whichever is less
            near, double = (float(difference(s * e) - difference(-s * e)) / (2 * s * e) for s in (1, 2))
            errors.append(abs((4 * near - double) / 3 - float(slope)))
        assert slope != 0 and min(errors) < RELATIVE * abs(float(slope))
    assert asked
