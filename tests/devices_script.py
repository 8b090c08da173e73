"""Run by `test_devices` with four virtual devices: batches and one large system, divided among them."""

import re
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from divided_scene import SMALL, beam
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxmech as jm
from jaxmech._distributed import device_division
from jaxmech._llvm import ffi
from jaxmech._sparse import spmv as block_product
from jaxmech._sparse.pattern import BlockPattern, unique_pairs

jax.config.update("jax_enable_x64", True)
SAME = 1e-10  # relative: linear solves of 1e-12, and sums in another order
EXACT = 1e-12  # sums over devices are taken in another order
DEVICES = jax.make_mesh((4,), ("parts",), axis_types=(AxisType.Auto,))
SPLIT, WHOLE = NamedSharding(DEVICES, PartitionSpec("parts")), NamedSharding(DEVICES, PartitionSpec())


def step(system, state, linear_system):
    solver = jm.solver.PCG(1e-13)
    return jm.ImplicitEuler(linear_system, solver).step(system, state, None, 0.02, throw=False)[0].position["beam"]


def compiled(function, *arguments):
    """The result, and the text of the program."""
    arrays, static = eqx.partition(arguments, eqx.is_array)
    program = jax.jit(lambda arrays: function(*eqx.combine(arrays, static))).lower(arrays).compile()
    return program(arrays), program.as_text()


def collectives(text):
    return set(re.findall(r"\b(all-reduce|all-gather|all-to-all|collective-permute)\(", text))


def kernels(text):
    return set(re.findall(r"jaxmech_[0-9a-f]+", text))


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
    in_one_line = jm.runtime.in_batches(of_one, size=1, devices=jax.devices())
    assert float(jnp.abs(in_one_line(loads[:7]) - expected[:7]).max()) < EXACT  # of eight places, one is left over
    slope = jax.grad(lambda loads: in_one_line(loads)[:, -1, 2].sum())(loads[:3])
    eps = 1e-4
    ends = [in_one_line(loads[:3] + h)[:, -1, 2] for h in (eps, -eps)]
    assert float(jnp.abs(slope - (ends[0] - ends[1]) / (2 * eps)).max()) < 1e-6 * float(jnp.abs(slope).max())


def one_system():
    system, state, elements = beam()
    expected = eqx.filter_jit(step)(system, state, jm.solver.MatrixFreeSystem())

    def placed(leaf):
        return jax.device_put(leaf, SPLIT if leaf.shape[:1] == (elements,) else WHOLE)

    arrays, static = eqx.partition((system, state), eqx.is_array)
    divided = eqx.combine(jax.tree.map(placed, arrays), static)
    found, text = compiled(step, *divided, jm.solver.MatrixFreeSystem())
    assert collectives(text) <= {"all-reduce", "all-gather"}, collectives(text)
    gathered = re.findall(r"= (\S+) all-gather\(", text)
    assert set(gathered) <= {"pred[4]{0}", "s32[4]{0}"}, f"{gathered}: more than a flag of each device"
    assert f"f64[{elements // 4},12]" in text or f"f64[{elements // 4},4,3]" in text, "a quarter of the elements each"
    assert float(jnp.abs(found - expected).max()) < EXACT


def by_share():
    """Assembly, forces and products divided by jaxmech itself: bit by bit the numbers of one device."""
    for module, numbers in SMALL.items():
        for name, number in numbers.items():
            setattr(module, name, number)
    system, state, count = beam((7, 3, 3))
    linear_system = jm.MatrixLinearSystem.build(system, state)
    assert count % 4, "a share that is not whole"
    u = {"beam": jnp.cos(jnp.arange(state.position["beam"].size, dtype=float)).reshape(-1, 3)}
    free = jm.solver.MatrixFreeSystem()

    def parts(system, state, linear_system, u):
        matrix, force = linear_system.linearized(system, state)
        return matrix["beam", "beam"].values, matrix.mv(u), force, free.unconstrained(system, state).mv(u)

    def tip(young, solver):
        softer = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, young)
        integrator = jm.ImplicitEuler(linear_system, solver)
        return jm.simulate(softer, state, integrator, 0.02, 2, save_every=1).last.position["beam"][-1, 2]

    young = system.forces["elastic"].material.young
    solvers = {"default": None, "PCG": jm.solver.PCG(1e-13)}

    def gradients():
        return {name: jax.value_and_grad(tip)(young, solver) for name, solver in solvers.items()}

    def of_scenes():
        return jax.vmap(lambda factor: tip(factor * young, jm.solver.PCG(1e-13)))(jnp.array([0.5, 2.0]))

    alone, text = compiled(parts, system, state, linear_system, u)
    of_one = kernels(text)
    assert not collectives(text) and of_one, "no kernel, though the program runs on one device"
    found, text = compiled(jm.runtime.over_devices(parts), system, state, linear_system, u)
    assert collectives(text) == {"all-gather", "all-reduce"}, collectives(text)
    assert kernels(text) == of_one, "another form of an element function, because many devices run it"
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(alone), strict=True):
        assert np.allclose(one, other, rtol=0, atol=EXACT * np.abs(other).max())
    expected, found = jax.jit(gradients)(), jax.jit(jm.runtime.over_devices(gradients))()
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.allclose(one, other, rtol=1e-9, atol=0), np.abs(one / other - 1).max()
    for name in ("SparseDirect", "IncompleteFactor"):
        solver = (
            jm.solver.SparseDirect()
            if name == "SparseDirect"
            else jm.solver.PCG(preconditioner=jm.solver.IncompleteFactor())
        )
        try:
            jax.jit(jm.runtime.over_devices(lambda young, solver=solver: tip(young, solver)))(young)
            raise AssertionError(f"{name} would wait for ever")
        except ValueError as error:
            assert "works on the host, for which several devices would wait" in str(error), error
    assert np.allclose(jax.jit(jm.runtime.over_devices(of_scenes))(), jax.jit(of_scenes)(), rtol=0, atol=EXACT)


def products_by_share():
    """Rows that four devices cannot share evenly, and so few that one has none; by kernels and by operations on arrays."""
    block_product._DIVIDED = 1
    rng = np.random.default_rng(0)
    is_available = ffi.is_available
    for rows in (27, 5, 3):
        places = rng.integers(0, (rows, 9), (4 * rows, 2))
        pattern = BlockPattern.build(*unique_pairs(*places.T, (rows, 9))[:2], (rows, 9))
        A = jm.matrix.BlockSparse(jnp.asarray(rng.normal(size=(pattern.blocks, 3, 2))), pattern)
        x = jnp.asarray(rng.normal(size=(9, 2)))
        expected = (np.asarray(A.to_dense()) @ np.ravel(x)).reshape(rows, 3)
        for has_kernels in (True, False):
            ffi.is_available = is_available if has_kernels else lambda: False
            found, text = compiled(jm.runtime.over_devices(lambda A, x: A.mv(x)), A, x)
            assert collectives(text) == {"all-gather"} and ("jaxmech_" in text) == has_kernels
            assert np.allclose(found, expected, rtol=0, atol=EXACT), (rows, has_kernels)
    ffi.is_available = is_available


def turned():
    """Newton's method by the exact derivative, of a frame that turns under a torque, and its gradient."""
    system = jm.System(
        {"arm": jm.Rigid3()},
        forces={"torque": jm.force.ConstantTorque(("arm", [0]), [[0.0, 3.0, 1.0]])},
        masses={"mass": jm.mass.RigidMass(("arm", [0]), 1.0, np.diag([0.2, 0.3, 0.4]))},
    )
    state = system.at_rest({"arm": [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]})
    linear_system = jm.MatrixLinearSystem.build(system, state)

    def turn(torque):
        heavier = eqx.tree_at(lambda s: s.forces["torque"].torque, system, torque)
        integrator = jm.ImplicitEuler(linear_system, jm.solver.GMRES(1e-12), newton=True)
        return jm.simulate(heavier, state, integrator, 0.3, 2, save_every=2).last.position["arm"][0, 4]

    torque = system.forces["torque"].torque
    expected = jax.jit(jax.value_and_grad(turn))(torque)
    found = jax.jit(jm.runtime.over_devices(jax.value_and_grad(turn)))(torque)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.allclose(one, other, rtol=0, atol=SAME)


def parts():
    """Nodes divided over two devices and over four, without a matrix: the statics and gradients of one, in less memory."""
    device_division._BODY = 12  # so that a small bar has several bodies
    system, state, _ = beam((20, 2, 2))
    numbers = system.forces["elastic"].material.young, system.gravity
    held, known, solve = [], jm.static_solve(system, state, rtol=1e-11), jm.distributed.static_solve_over_devices
    for count in (2, 4):
        division = jm.distributed.divide_over_devices(system, state, jax.devices()[:count])
        assert division.is_own.sum() == state.position["beam"].shape[0], "every node has one owner"
        found = solve(system, state, division, rtol=1e-11, linear_rtol=1e-12).position["beam"]
        assert np.allclose(found, known.position["beam"], rtol=0, atol=SAME), count
        own = jax.tree.leaves((division.part(system, state)[0], division.tables[0]))
        held.append(sum(a.addressable_shards[0].data.nbytes for a in own))
    assert held[1] < 0.7 * held[0], f"{held}: the ghosts of inner parts are on two sides"

    def height(numbers, end):
        heavier = eqx.tree_at(lambda s: (s.forces["elastic"].material.young, s.gravity), system, numbers)
        return jnp.sum(end(heavier).position["beam"][-3:, 2] ** 2)

    expected = jax.grad(height)(numbers, lambda s: jm.static_solve(s, state, rtol=1e-11))
    found = jax.grad(height)(numbers, lambda s: solve(s, state, division, rtol=1e-11, linear_rtol=1e-12))
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(one, other, rtol=0, atol=SAME * np.abs(other).max()), np.abs(one / other - 1).max()
    try:
        repelling = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, -numbers[0])
        solve(repelling, state, division, rtol=1e-11, linear_rtol=1e-12)
        raise AssertionError("a matrix that is negative definite is solved")
    except jm.FailedComputation as error:
        assert error.result == jm.RESULTS.indefinite and "static_solve_over_devices: " in str(error), error


if __name__ == "__main__":
    assert len(jax.devices()) == 4
    if sys.argv[1:] == ["parts"]:
        parts()
        print("same numbers")
        sys.exit()
    batch()
    one_system()
    products_by_share()
    by_share()
    turned()
    print("same numbers")
