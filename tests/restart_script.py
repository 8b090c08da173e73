"""A run that a file can be gone on from, for `tests/test_checkpoint.py` to kill: `restart_script.py FILE [adaptive]`."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
STEPS, EVERY = 600, 3


def chain():
    """Beads on springs, swinging, with what an integrator keeps: masses."""
    numbers = np.arange(4)
    system = jm.System(
        {"chain": jm.Vec2()},
        forces={"links": jm.force.Springs((("chain", numbers[:-1]), ("chain", numbers[1:])), 100.0, 0.1)},
        masses={"beads": jm.mass.UniformMass(("chain", numbers), 0.1)},
        constraints={"nail": jm.constraint.Fixed(("chain", [0]))},
        gravity=[0.0, -9.81],
    )
    state = system.at_rest({"chain": np.stack([0.1 * numbers, 0.0 * numbers], axis=1)})
    # A preconditioner's matrix, renewed at every seventh step: a carry that changes, with a count in it.
    near = jm.solver.PreconditionedMatrixFreeSystem.build(system, state, every=7)
    return system, state, jm.ImplicitEuler(near, jm.solver.PCG(preconditioner=jm.solver.BlockJacobi()))


def swaying(time, state, gain):
    return {"gravity": jnp.stack([gain * jnp.sin(9 * time), -9.81])}


SWAYED = {"control": swaying, "parameters": jnp.asarray(3.0)}


def run(path=None):
    system, state, integrator = chain()
    files = {} if path is None else {"restart_file": path, "restart_every": EVERY}
    return jm.simulate(system, state, integrator, 0.005, STEPS, save_every=3, **SWAYED, **files)


def adaptive(path=None):
    system, state, integrator = chain()
    files = {} if path is None else {"restart_file": path, "restart_every": EVERY}
    low = jm.integrator.Event(lambda system, state: state.position["chain"][3, 1] + 0.2)
    allowed = {"rtol": 1e-3, "atol": 1e-3, "extrapolate": True, "max_steps": 600}
    return jm.simulate_adaptive(system, state, integrator, [0.2, 0.5], events=[low], **allowed, **SWAYED, **files)


if __name__ == "__main__":
    found = (adaptive if sys.argv[2:] else run)(sys.argv[1])
    print(eqx.tree_equal(found, found))
