"""Run by `test_devices` with four virtual devices: batches and one large system, divided among them."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxmech as jm

jax.config.update("jax_enable_x64", True)
EXACT = 1e-12  # sums over devices are taken in another order
DEVICES = jax.make_mesh((4,), ("parts",), axis_types=(AxisType.Auto,))
SPLIT, WHOLE = NamedSharding(DEVICES, PartitionSpec("parts")), NamedSharding(DEVICES, PartitionSpec())


def beam():
    """288 tetrahedra clamped at one side, each with its own modulus; how many they are."""
    mesh = jm.box_mesh(cells=(8, 3, 2), size=(2.0, 1.0, 1.0))
    young = jnp.linspace(900.0, 1100.0, mesh.cells.shape[0])
    system = jm.System(
        {"beam": jm.Vec3()},
        forces={"elastic": jm.TetrahedronFEM.from_mesh("beam", mesh, jm.StVenantKirchhoff(young, 0.3))},
        masses={"mass": jm.UniformMass(("beam", np.arange(len(mesh.points))), 0.01)},
        constraints={"clamp": jm.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        gravity=(0.0, 0.0, -10.0),
    )
    return system, system.at_rest({"beam": mesh.points}), mesh.cells.shape[0]


def step(system, state, linear_system):
    solver = jm.PCG(1e-13)
    return jm.ImplicitEuler(linear_system, solver).step(system, state, 0.02, throw=False)[0].position["beam"]


def compiled(function, *arguments):
    """The result, and the text of the program."""
    arrays, static = eqx.partition(arguments, eqx.is_array)
    program = jax.jit(lambda arrays: function(*eqx.combine(arrays, static))).lower(arrays).compile()
    return program(arrays), program.as_text()


def collectives(text):
    return set(re.findall(r"\b(all-reduce|all-gather|all-to-all|collective-permute)\(", text))


def batch():
    system, state, _ = beam()
    linear_system = jm.MatrixLinearSystem.build(system, state)

    def of_one(load):
        return step(eqx.tree_at(lambda s: s.gravity, system, load * system.gravity), state, linear_system)

    loads = jnp.linspace(0.5, 2.0, 8)
    expected = jax.jit(jax.vmap(of_one))(loads)
    parts = PartitionSpec("parts")
    shared = jax.shard_map(jax.vmap(of_one), mesh=DEVICES, in_specs=parts, out_specs=parts, check_vma=False)
    found, text = compiled(shared, jax.device_put(loads, SPLIT))
    assert found.sharding.is_equivalent_to(SPLIT, found.ndim)
    assert not collectives(text), "the devices have nothing to tell each other"
    assert float(jnp.abs(found - expected).max()) < EXACT


def one_system():
    system, state, elements = beam()
    expected = eqx.filter_jit(step)(system, state, jm.MatrixFreeSystem())

    def placed(leaf):
        return jax.device_put(leaf, SPLIT if leaf.shape[:1] == (elements,) else WHOLE)

    arrays, static = eqx.partition((system, state), eqx.is_array)
    divided = eqx.combine(jax.tree.map(placed, arrays), static)
    found, text = compiled(step, *divided, jm.MatrixFreeSystem())
    assert collectives(text) == {"all-reduce"}, collectives(text)
    assert f"f64[{elements // 4},12]" in text or f"f64[{elements // 4},4,3]" in text, "a quarter of the elements each"
    assert float(jnp.abs(found - expected).max()) < EXACT


if __name__ == "__main__":
    assert len(jax.devices()) == 4
    batch()
    one_system()
    print("same numbers")
