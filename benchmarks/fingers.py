"""A batch of soft grasps with friction by `vmap`, and the same fingers in MuJoCo, whose flex is linear and damped.

    python -m benchmarks.fingers [--batch 256] [--steps 10]

The scene of examples/soft_grasp.py: two fingers of 12 nodes each, a rigid box of eight corners, a table; up to 16 contacts.
CPU seconds of all steps, and steps of one scene in a second. MuJoCo (pip install mujoco) steps the scenes one after the
other, on one core; its fingers press by a millimetre, and are not led.
"""

import argparse
import importlib
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.contact import cpu

MODEL = """
<mujoco>
  <option timestep="{dt}" integrator="{integrator}" cone="elliptic"/>
  <worldbody>
    <geom type="plane" size="1 1 0.1" friction="0.3"/>
    <body pos="0 0 0.02"><freejoint/><geom type="box" size="0.02 0.015 0.02" mass="0.2" friction="{mu}"/></body>
    {fingers}
  </worldbody>
</mujoco>
"""
FINGER = """
    <flexcomp name="{name}" type="grid" count="3 2 2" spacing="0.01 0.02 0.02" pos="{x} 0 0.02" dim="3" radius="0.0005"
              mass="0.0088">
      <edge equality="false"/><elasticity young="8e4" poisson="0.4" damping="0.01"/>
      <contact condim="3" friction="{mu}" selfcollide="none"/><pin gridrange="{pins}"/>
    </flexcomp>
"""


def example() -> Any:
    """The module of the example."""
    path = Path(__file__).resolve().parent.parent / "examples" / "soft_grasp.py"
    spec = importlib.util.spec_from_file_location("soft_grasp", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ours(batch: int, steps: int, dt: float = 0.01) -> dict[str, Any]:
    grasp = example()
    bodies = grasp.scene()
    run = eqx.filter_jit(jax.vmap(lambda mu: grasp.grasp(mu, bodies, dt, steps).last.position["box"][0, 2]))
    friction = jnp.linspace(0.3, 0.8, batch)
    first, best = cpu(lambda: run(friction), 2)
    return {
        "code": "jaxmech",
        "batch": batch,
        "steps": steps,
        "seconds": best,
        "rate": batch * steps / best,
        "first_call": first,
    }


def mujoco(batch: int, steps: int, dt: float = 0.01) -> dict[str, Any]:
    mj: Any = importlib.import_module("mujoco")
    integrators = [name for name in ("discrete", "implicitfast") if _known(mj, name)]
    best = np.inf
    for _ in range(2):
        seconds = 0.0
        for mu in np.linspace(0.3, 0.8, batch):
            model = mj.MjModel.from_xml_string(_xml(dt, integrators[0], mu))
            data = mj.MjData(model)
            start = time.process_time()
            for _ in range(steps):
                mj.mj_step(model, data)
            seconds += time.process_time() - start
        best = min(best, seconds)
    return {
        "code": f"mujoco {mj.__version__} {integrators[0]}",
        "batch": batch,
        "seconds": best,
        "rate": batch * steps / best,
    }


def _xml(dt: float, integrator: str, mu: float) -> str:
    fingers = "".join(
        FINGER.format(name=name, x=x, mu=mu, pins=pins)
        for name, x, pins in (("left", -0.029, "0 0 0 0 1 1"), ("right", 0.029, "2 0 0 2 1 1"))
    )
    return MODEL.format(dt=dt, integrator=integrator, mu=mu, fingers=fingers)


def _known(mj: Any, integrator: str) -> bool:
    try:
        mj.MjModel.from_xml_string(_xml(0.01, integrator, 0.5))
    except ValueError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=10)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(json.dumps(ours(given.batch, given.steps)), flush=True)
    if importlib.util.find_spec("mujoco") is None:
        print("# mujoco is not installed: pip install mujoco")
        return
    print(json.dumps(mujoco(given.batch, given.steps)), flush=True)


if __name__ == "__main__":
    main()
