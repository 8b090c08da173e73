"""Several devices: XLA makes four of one CPU, in a process of its own, for their number is fixed at the start."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import jaxmech as jm

SCRIPT = Path(__file__).with_name("devices_script.py")
FLAGS = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"


@pytest.mark.slow
@pytest.mark.parametrize("what", [[], ["parts"]], ids=["work", "nodes"])
def test_work_and_nodes_are_divided_over_four_devices(what):
    environment = {**os.environ, "XLA_FLAGS": FLAGS, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, SCRIPT, *what], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "same numbers" in done.stdout


TWENTY = """
import jax, jax.numpy as jnp
import jaxmech as jm
from jaxmech._codegen import dispatch
from jaxmech._codegen.map_elements import map_elements

dispatch._SHORT = 0
x = jnp.arange(783.0).reshape(261, 3)
divided = jax.jit(jm.runtime.over_devices(lambda x: map_elements(lambda x: jnp.outer(x, x + 1), (0,), x)))
assert "jaxmech_" in divided.lower(x).as_text(), "no kernel"
assert (divided(x) == x[:, :, None] * (x[:, None] + 1)).all()
"""


@pytest.mark.slow
def test_of_many_devices_the_last_have_nothing_left_to_do():
    """261 elements in shares of 14 are 19 shares."""
    environment = {**os.environ, "XLA_FLAGS": FLAGS.replace("count=4", "count=20"), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", TWENTY], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def test_one_device_has_all_of_the_work():
    """Arguments that are no arrays are let through; what cannot be called is refused, by name."""
    scaled = jax.jit(jm.runtime.over_devices(lambda scene, factor: {"sum": factor * scene["a"]}), static_argnums=1)
    assert scaled({"a": jnp.arange(3.0)}, 2)["sum"].tolist() == [0, 2, 4]
    with pytest.raises(TypeError, match=r"over_devices: function must be a function, got 3"):
        jm.runtime.over_devices(3)
