"""What stood elsewhere up to 0.1 is found for one more version, with a warning that names the new place."""

import dataclasses
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from public_names import PATHS, TOP

import jaxmech as jm
from jaxmech._runtime.moved_names import _HOME


def test_old_names_lead_to_the_new_ones():
    assert len(_HOME) > 100 and not set(_HOME) & set(TOP)
    for name, module in _HOME.items():
        with pytest.warns(DeprecationWarning, match=f"jaxmech.{name} is jaxmech.{module}.{name} now") as caught:
            assert getattr(jm, name) is PATHS[f"{module}.{name}"]
        assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match="has no attribute 'Sprungs'$"):
        jm.Sprungs  # noqa: B018


def test_a_name_of_a_module_is_told_from_none():
    with pytest.raises(AttributeError, match="has no attribute 'Newmark'; there is jaxmech.integrator.Newmark$"):
        jm.Newmark  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'PointContact'; there is jaxmech.contact.PointContact$"):
        jm.PointContact  # noqa: B018
    assert not hasattr(jm, "_private")


def test_old_names_are_imported():
    code = "from jaxmech import Springs; import jaxmech; assert Springs is jaxmech.force.Springs"
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "jaxmech.force.Springs" in done.stderr, done.stderr


@pytest.fixture(scope="module")
def arm():
    system = jm.System(
        {"frame": jm.Rigid3(), "tip": jm.Vec3()},
        masses={"body": jm.mass.RigidMass(("frame", [0]), 2.0, np.eye(3)), "load": jm.mass.UniformMass(("tip", [0]), 1.0)},
        mappings={"tip": jm.mapping.RigidMapping(("frame", [0]), "tip", [[1.0, 0.0, 0.0]])},
    )
    rest = system.at_rest({"frame": [[0.0, 0.0, 0.0, 0.0, 0.6, 0.0, 0.8]]})
    return system, dataclasses.replace(rest, velocity={"frame": jnp.array([[0.1, 0.0, -0.3, 0.5, 1.0, 2.0]])})


def old_and_new(system, state):
    """Calls of both forms, and the former arguments in words."""
    q, v = state.position, state.velocity
    x, force = jm.kinematics(system, state), {"tip": jnp.array([[1.0, 2.0, 3.0]])}
    rows = jm.mapping.jacobian(system, state, "tip", "tip")
    return {
        "position": [
            (jm.kinematics, (q,), ()),
            (jm.mapping.jacobian, (q, "tip"), ("tip",)),
            (jm.mapping.pull_back, (q, force), (force,)),
            (jm.mapping.pull_back_rows, (q, rows), (rows,)),
        ],
        "position, velocity": [(jm.mass.kinetic_energy, (q, v), ()), (jm.mass.momentum, (q, v), ())],
        "x, velocity": [(jm.mapping.velocities, (x, v), ()), (jm.mapping.accelerations, (x, v, v), (v,))],
    }


def test_arrays_are_taken_where_a_state_stands_now(arm):
    system, state = arm
    for words, calls in old_and_new(system, state).items():
        for function, former, present in calls:
            names = ("system", *words.split(", "))
            match = re.escape(f"{function.__name__}({', '.join(names)}")
            with pytest.warns(DeprecationWarning, match=match) as caught:
                found = function(system, *former)
            assert caught[0].filename == __file__
            jax.tree.map(np.testing.assert_array_equal, found, function(system, state, *present))
            with pytest.warns(DeprecationWarning, match=match):
                again = function(**dict(zip(names, (system, *former), strict=False)), **rest_of(former, present, function))
            jax.tree.map(np.testing.assert_array_equal, again, found)


def rest_of(former, present, function):
    """The arguments that follow the state, by name."""
    names = {"jacobian": "child", "pull_back": "forces", "pull_back_rows": "rows", "accelerations": "acceleration"}
    return {names[function.__name__]: present[0]} if present else {}


def test_old_forms_are_differentiable_and_checked(arm):
    system, state = arm
    with pytest.warns(DeprecationWarning, match="kinematics"):
        slope = jax.grad(lambda q: jm.kinematics(system, q)["tip"].sum())(state.position)["frame"]
    assert np.abs(slope).max() > 0.1
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="position has no state 'frame'"):
        jm.kinematics(system, {})
    with pytest.warns(DeprecationWarning), pytest.raises(TypeError, match="kinetic_energy: velocity is missing"):
        jm.mass.kinetic_energy(system, state.position)
