"""Run by `test_processes`, once for each of some processes: batches and one system, divided over all of them.

Arguments: port, how many processes, which one, and "numbers" or the number of one that is lost.
"""

import os
import signal
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from divided_scene import SMALL, beam

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
PORT, COUNT, NUMBER, WHAT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
LOST_AFTER = 10  # [s]
EXACT = 1e-12  # sums over devices are taken in another order


def numbers():
    """Of all processes together, and of each by itself."""
    for module, few in SMALL.items():
        for name, number in few.items():
            setattr(module, name, number)
    system, state, _ = beam((2, 1, 1))
    linear_system = jm.MatrixLinearSystem.build(system, state)
    loads = jnp.linspace(0.5, 2.0, 5)

    def work(load):
        return jm.energy(eqx.tree_at(lambda s: s.gravity, system, load * system.gravity), state)

    def both(of):
        together, alone = (jm.runtime.in_batches(of, size=2, devices=d) for d in (jax.devices(), None))
        return together, together(loads), alone(loads)

    together, found, expected = both(work)
    assert found.is_fully_replicated and found.shape == (5,)
    assert np.allclose(found, expected, rtol=EXACT, atol=0)
    slopes = jax.grad(lambda loads: (together(loads) ** 2).sum())(loads)
    assert np.allclose(slopes, 2 * expected * jax.vmap(jax.grad(work))(loads), rtol=EXACT, atol=0), slopes

    def parts(system, state, linear_system, u):
        matrix, force = linear_system.linearized(system, state)
        return matrix.mv(u), force

    u = {"beam": jnp.cos(jnp.arange(state.position["beam"].size, dtype=float)).reshape(-1, 3)}
    divided, alone = (eqx.filter_jit(of)(system, state, linear_system, u) for of in (jm.runtime.over_devices(parts), parts))
    for one, other in zip(jax.tree.leaves(divided), jax.tree.leaves(alone), strict=True):
        assert np.allclose(one, other, rtol=0, atol=EXACT * np.abs(other).max())
    if COUNT == 2:
        integrator = jm.ImplicitEuler(linear_system, jm.solver.PCG(1e-13))

        def tip(load):
            heavier = eqx.tree_at(lambda s: s.gravity, system, load * system.gravity)
            return integrator.step(heavier, state, None, 0.02, throw=False)[0].position["beam"][-1, 2]

        _, found, expected = both(tip)
        assert np.allclose(found, expected, rtol=0, atol=EXACT)
    print("same numbers")


def lost(which):
    """One is killed while the others wait for it."""
    total = jax.jit(jm.runtime.over_devices(lambda x: jax.lax.psum(x, "jaxmech")))
    x = jnp.ones(3)
    total(x).block_until_ready()
    if which == NUMBER:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(10_000):
        total(x).block_until_ready()
        time.sleep(0.01)
    print("nobody told")


if __name__ == "__main__":
    assert jm.runtime.join_processes(f"127.0.0.1:{PORT}", COUNT, NUMBER, lost_after=LOST_AFTER) == COUNT
    assert len(jax.devices()) == COUNT and len(jax.local_devices()) == 1
    numbers() if WHAT == "numbers" else lost(int(WHAT))
