"""What a user waits for first: seconds of a processor from the start of a process to an answer.

    python -m benchmarks.startup [readme] [arm]

`readme`: the first snippet of the README, in a process of its own, with an empty compilation cache and with a warm one; and
the programs that it compiles before its solve. `arm`: the gradient of 200 steps of an arm of one and of seven hinges, traced
and compiled. Seconds are of user and system time, whatever else the machine does; on one core they are seconds on the clock.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from benchmarks.clock import report

ROOT = Path(__file__).parents[1]
STEPS = 200


def readme() -> None:
    """Three processes: without a cache, one that fills it, one that finds it full."""
    snippet = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    with tempfile.TemporaryDirectory() as folder:
        filled = {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        unset = {name: value for name, value in os.environ.items() if name not in {*filled, "PYTHONDONTWRITEBYTECODE"}}
        _process("import jaxmech", unset)  # byte code is there, as it is for whoever has imported it once
        cold, _, warm = (_process(snippet, unset | more) for more in ({}, filled, filled))
    report(what="readme", cold_s=cold, warm_s=warm, import_s=_process("import jaxmech", unset))


def _process(code: str, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def arm(hinges: int, *, newton: bool) -> None:
    """The gradient of the last angles by the stiffness of the motors."""
    bodies = range(hinges)
    placement = [[0.0, 0.0, 0.0], *([0.5, 0.0, 0.0] for _ in bodies[1:])]
    tree = jm.mapping.ArticulatedMapping.tree("joints", "bodies", [j - 1 for j in bodies], placement, [0.0, 1.0, 0.0])
    system = jm.System(
        {"joints": jm.Vec1(), "bodies": jm.Rigid3()},
        mappings={"arm": tree},
        masses={"bodies": jm.mass.RigidMass(("bodies", bodies), 1.0, np.diag([0.01, 0.02, 0.02]))},
        forces={"motors": jm.force.AnchoredSprings(("joints", bodies), 5.0, [[0.1] for _ in bodies])},
        gravity=[0.0, 0.0, -9.81],
    )
    state = system.at_rest({"joints": [[0.2] for _ in bodies]})
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), newton=newton)

    def far(stiffness):
        trial = eqx.tree_at(lambda s: s.forces["motors"].stiffness, system, stiffness)
        last = jm.simulate(trial, state, integrator, 0.005, STEPS, save_every=STEPS, throw=False).last
        return jnp.sum(last.position["joints"] ** 2)

    start = time.process_time()
    lowered = jax.jit(jax.value_and_grad(far)).lower(jnp.asarray(5.0))
    traced = time.process_time()
    program = lowered.compile()
    done = time.process_time()
    begun = time.perf_counter()
    jax.block_until_ready(program(jnp.asarray(5.0)))
    ran = time.perf_counter() - begun
    report(
        what="arm",
        hinges=hinges,
        newton=newton,
        trace_s=traced - start,
        compile_s=done - traced,
        both_s=done - start,
        run_s=ran,
    )


def main() -> None:
    """What is asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["readme", "arm"])
    what = parser.parse_args().what
    if "readme" in what:
        readme()
    if "arm" in what:
        jax.config.update("jax_enable_x64", True)
        jax.jit(lambda x: jnp.linalg.inv(x) @ x).lower(jnp.eye(3)).compile()  # the libraries are loaded
        for hinges, newton in ((1, False), (1, True), (7, False)):
            arm(hinges, newton=newton)


if __name__ == "__main__":
    main()
