"""A batch of soft hands that grasp a box and lift it, each with its own friction: scene steps a second, by `vmap`.

    python -m benchmarks.grasping [--scenes 256] [--chunks 0 16 256] [--steps 60]

The scene of `examples/soft_grasp.py`: two fingers of silicone, 48 nodes, 20 possible contacts. A chunk of 0 is one scene
after the other, one of `--scenes` is `vmap` of all at once; all must end where the first do. CPU seconds of this process,
the memory that XLA reserves, how many scenes failed, and how many boxes were lifted. Beside it MuJoCo's flex (integrator
`discrete`), if it is installed (`pip install mujoco`): two fingers of as many nodes that stand still and hold a box with
friction, one scene after the other. `warnings`: steps of the last whose solve it calls singular.
"""

import argparse
import importlib.util
import json
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm
from examples.soft_grasp import HALF, LENGTH, THICK, WIDTH, lifted, scene

DT = 0.01  # [s]
FLEX = """
<mujoco>
  <option timestep="{dt}" integrator="discrete"/>
  <worldbody>
    <geom type="plane" size="1 1 0.1"/>
    <body pos="0 0 {half}"><freejoint/><geom type="box" size="{half} {half} {half}" mass="0.02" friction="0.5"/></body>
    {fingers}
  </worldbody>
</mujoco>
"""
FINGER = """
    <flexcomp name="{name}" type="grid" dim="3" count="2 2 6" spacing="{x} {y} {z}" pos="{place} 0 0.037"
              mass="0.017" radius="0.001">
      <elasticity young="1.5e6" poisson="0.4" damping="0.01"/><contact selfcollide="none"/>
      <pin gridrange="0 0 5 1 1 5"/>
    </flexcomp>
"""


def said(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def measure(scenes: int, chunks: list[int], steps: int) -> None:
    hand = scene()
    slippery = jnp.asarray(1 / np.linspace(0.25, 0.8, scenes))

    def one(s: Any) -> Any:
        z, run = lifted(s, hand, DT, steps, throw=False)
        return z[-1], jnp.any(run.info.result != jm.RESULTS.successful)

    first = None
    for chunk in chunks:
        start = time.process_time()
        program = (
            jax.jit(lambda s, c=chunk: jax.lax.map(one, s, batch_size=min(c, scenes) or None)).lower(slippery).compile()
        )
        compiled = time.process_time() - start
        start = time.process_time()
        heights, failed = (np.asarray(a) for a in program(slippery))
        seconds = time.process_time() - start
        first = heights if first is None else first
        memory: Any = program.memory_analysis()
        said(
            what="jaxmech", scenes=scenes, chunk=chunk, steps=steps, compile=compiled, seconds=seconds,
            scene_steps_per_second=scenes * steps / seconds, MB=memory.temp_size_in_bytes / 1e6,
            failed=int(failed.sum()), off=float(np.abs(heights - first).max()), lifted=int((heights > 1.2 * HALF).sum()),
        )  # fmt: skip


def measure_mujoco(scenes: int, steps: int) -> None:
    if importlib.util.find_spec("mujoco") is None:
        print("# mujoco is not installed", flush=True)
        return
    mujoco: Any = importlib.import_module("mujoco")
    mujoco.set_mju_user_warning(lambda message: None)  # they are counted, and need no file
    away = HALF + 0.5 * THICK - 0.002  # of the axis of a finger from the middle of the box: so deep it is pressed [m]
    sizes = {"x": THICK, "y": WIDTH, "z": LENGTH / 5}
    fingers = "".join(FINGER.format(name=name, place=sign * away, **sizes) for name, sign in (("right", 1), ("left", -1)))
    model = mujoco.MjModel.from_xml_string(FLEX.format(dt=DT, half=HALF, fingers=fingers))
    data, contacts = mujoco.MjData(model), 0
    start = time.process_time()
    for _ in range(scenes):
        mujoco.mj_resetData(model, data)
        for _ in range(steps):
            mujoco.mj_step(model, data)
        contacts = data.ncon
    seconds = time.process_time() - start
    said(
        what="mujoco", version=mujoco.__version__, scenes=scenes, steps=steps, seconds=seconds, nodes=model.nflexvert,
        scene_steps_per_second=scenes * steps / seconds, contacts=contacts, warnings=int(data.warning.number.sum()),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=256)
    parser.add_argument("--chunks", type=int, nargs="*", default=[0, 16, 256])
    parser.add_argument("--steps", type=int, default=60)
    given = parser.parse_args()
    measure_mujoco(given.scenes, given.steps)
    measure(given.scenes, given.chunks, given.steps)


if __name__ == "__main__":
    main()
