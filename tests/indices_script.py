"""Numbers that no node, block or place has, in every index array of a scene and of its linear system. A process of its own:
what this looks for would end it by a signal.

What a program gives must be what it was before (of an array that it does not read), hold a NaN, or say that it failed.
"""

import sys
import tempfile
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import scenes

import jaxmech as jm
from jaxmech._llvm import ffi

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
EXTREMES = (10_000_000, -1, -(2**31), 2**31 - 1)


def is_index(leaf):
    return eqx.is_array(leaf) and leaf.dtype == jnp.int32


def changed(array, rng):
    """The array with one wrong number; and with any numbers at all, of which nothing is asked but that they do no harm."""
    for number in EXTREMES:
        wrong = array.copy()
        wrong.flat[rng.integers(array.size)] = number
        yield wrong, True
    yield np.full_like(array, 10_000_000), True
    for bits in (32, 6):
        yield rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), array.shape).astype(np.int32), False


def programs(solver):
    """Force, matrix, product, solution and gradient."""

    def run(given):
        system, linear_system, state = given
        force = jm.total_force(system, state)
        A = linear_system.assemble(system, state, jm.Factors(mass=1.0, stiffness=0.01, damping=0.1))
        solution = lx.linear_solve(A, force, solver, throw=False)
        failed = solution.result != lx.RESULTS.successful
        x = jax.tree.map(lambda a: jnp.where(failed, jnp.nan, a), solution.value)

        def work(state):
            found = jm.total_force(system, state)
            return sum(jnp.sum(jnp.sin(a)) for a in found.values())

        gradient = jax.grad(lambda x: work(eqx.tree_at(lambda s: s.position, state, x)))(state.position)
        return {
            "force": force,
            "matrix": [e.values for e in A.entries.values()],
            "product": A.mv(force),
            "solution": x,
            "transposed": [e.T.mv(force[r]) for (r, _), e in A.entries.items()],
            "dense": A.to_dense(),
            "gradient": gradient,
        }

    return run


def moved(system, linear_system, state):
    """An equilibrium and steps of three kinds, what they say of themselves, and derivatives by the start and by a number."""

    def equilibrium(scene, state):
        solution = jm.static_solve(scene, state, linear_system, throw=False)
        return (solution.position,), solution.info.result

    def step(scheme, scene, state):
        end, _, info = scheme.step(scene, state, None, 1e-3, throw=False)
        return (end.position, end.velocity), info.result

    runs = {
        "static": equilibrium,
        "linear": partial(step, jm.ImplicitEuler(linear_system)),
        "iterated": partial(step, jm.integrator.Midpoint(linear_system, newton=True)),
        "explicit": partial(step, jm.integrator.VelocityVerlet(check_step=False)),
    }
    found = {}
    for name, run in runs.items():

        def length(young, velocity, run=run):
            scene = eqx.tree_at(lambda s: s.forces["solid"].material.young, system, young)
            end, result = run(scene, eqx.tree_at(lambda s: s.velocity, state, velocity))
            return sum(jnp.sum(jnp.sin(9 * a)) for a in jax.tree.leaves(end)), (end, result)

        given = system.forces["solid"].material.young, state.velocity
        (_, (end, result)), slopes = jax.value_and_grad(length, (0, 1), has_aux=True)(*given)
        # Of what says that it failed nothing is asked; what says that it succeeded has the numbers of the right scene.
        failed = result != jm.RESULTS.successful
        found[name] = jax.tree.map(lambda a, failed=failed: jnp.where(failed, jnp.nan, a), end)
        found[f"slope of {name}"] = slopes[:1] if name == "static" else slopes
    return found


def check_motion():
    """Steps and equilibria ask once about the numbers that they read rows by many times."""
    system, state = body()
    linear_system = jm.MatrixLinearSystem.build(system, state)
    return check((system, linear_system, state), lambda given: moved(*given), np.random.default_rng(2))


def same(found, expected):
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True))


def check(given, program, rng):
    """Every index array of the arguments, one after the other; how many were tried."""
    leaves, structure = jax.tree.flatten_with_path(given)
    traced = jax.jit(lambda arrays: program(eqx.combine(arrays, static)))
    arrays, static = eqx.partition(given, eqx.is_array)
    expected = jax.device_get(traced(arrays))
    assert all(np.isfinite(a).all() for a in jax.tree.leaves(expected))
    count = 0
    for place, (path, leaf) in enumerate(leaves):
        if not (is_index(leaf) and leaf.size):
            continue
        for wrong, is_wrong in changed(np.asarray(leaf), rng):
            others = [jnp.asarray(wrong) if i == place else a for i, (_, a) in enumerate(leaves)]
            try:
                found = jax.device_get(traced(eqx.filter(structure.unflatten(others), eqx.is_array)))
            except Exception as error:  # an error is an answer
                assert "pattern" in str(error), error
                continue
            count += 1
            for name, one in found.items():
                seen = same(one, expected[name]) or any(np.isnan(a).any() for a in jax.tree.leaves(one))
                assert seen or not is_wrong, f"{jax.tree_util.keystr(path)}: {name} of {wrong.flat[:9]} is finite"
    return count


def check_files(system, state, linear_system, rng):
    """Files whose arrays were changed, and files that were written with such arrays."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pattern.npz"
        linear_system.save(path)
        with np.load(path) as file:
            stored = dict(file)
        for name, array in stored.items():
            if array.dtype == np.int32 and array.size:
                wrong = next(changed(array, rng))[0]
                np.savez(path, **{**stored, name: wrong})
                refused(path, system, state)
        # Files that were written with such arrays, whose hash is right: one number is enough, wherever it stands.
        leaves, structure = jax.tree.flatten_with_path(linear_system)
        for place, (where, leaf) in enumerate(leaves):
            if is_index(leaf) and leaf.size:
                wrong = np.array(leaf)
                wrong.flat[rng.integers(leaf.size)] = rng.choice(EXTREMES)
                others = [jnp.asarray(wrong) if i == place else a for i, (_, a) in enumerate(leaves)]
                structure.unflatten(others).save(path)
                refused(path, system, state, jax.tree_util.keystr(where).rsplit(".", 1)[-1])
    return len(stored) + len(leaves)


def refused(path, system, state, array=""):
    try:
        jm.MatrixLinearSystem.load(path, system, state)
    except ValueError as error:
        assert str(path) in str(error) and array in str(error), f"{array}: {error}"
    else:
        raise AssertionError(f"{path} was taken with a wrong number in {array or 'an array'}")


def body():
    """Enough elements for kernels: a solid with embedded points that springs hold, a clamp, and ropes of few elements."""
    mesh = jm.mesh.box_mesh(cells=(2, 2, 1), size=(1.0, 1.0, 0.5))
    points = np.random.default_rng(0).uniform(0.1, 0.4, (9, 3))
    system = jm.System(
        {"body": jm.Vec3(), "skin": jm.Vec3()},
        forces={
            "solid": jm.force.TetrahedronFEM.from_mesh("body", mesh, jm.material.NeoHookean(900.0, 0.3)),
            "held": jm.force.AnchoredSprings(("skin", range(9)), 10.0, points),
            "rope": jm.force.Springs((("body", [0, 1]), ("body", [1, 2])), 20.0, 0.3),
        },
        masses={"body": jm.mass.UniformMass(("body", range(len(mesh.points))), 4.0)},
        mappings={"embed": jm.mapping.BarycentricMapping.from_mesh("body", "skin", mesh, points)},
        constraints={"clamp": jm.constraint.Fixed(("body", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        gravity=(0.0, 0.0, -9.81),
    )
    return system, scenes.perturbed(system, system.at_rest({"body": mesh.points}), 0.02, np.random.default_rng(1))


def main(form, solver=""):
    if form == "motion":
        print(f"{check_motion()} answers, no signal")
        return
    rng = np.random.default_rng(0)
    if form == "arrays":
        ffi.is_available = lambda: False
    system, state = body()
    linear_system = jm.MatrixLinearSystem.build(system, state)
    program = programs(jm.solver.PCG() if solver == "pcg" else jm.solver.SparseDirect())
    count = check((system, linear_system, state), program, rng)
    if solver == "pcg" and form == "kernels":
        count += check_files(system, state, linear_system, rng)
    print(f"{count} answers, no signal")


if __name__ == "__main__":
    for run in sys.argv[1:]:
        main(*run.split())
