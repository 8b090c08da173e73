"""Checkpoints: what comes back to the last bit, what is refused, and runs that are killed."""

import functools
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import restart_script
from valid_calls import linear_system, scene

import jaxmech as jm
from jaxmech._integrator.trajectory import restart
from jaxmech._integrator.trajectory.checkpoint import load_parts
from jaxmech._runtime.array_file import read_arrays
from jaxmech._runtime.function_digest import function_digest


def saved(path):
    """A scene with mappings and constraints, a carry, a key of random numbers, numbers of all kinds."""
    system, state = scene()
    state = eqx.tree_at(lambda s: s.time, state, jnp.asarray(0.1 + 0.2))
    carry = jm.ImplicitEuler(linear_system()).init(system, state)
    extra = {"key": jax.random.key(3), "step": jnp.asarray(7), "names": ("a", 2), "flags": np.array([True, False])}
    jm.integrator.save_checkpoint(path, system, state, carry, extra=extra)
    return system, state, carry, extra


def test_what_was_saved_comes_back_to_the_last_bit(tmp_path):
    path = tmp_path / "run.npz"
    system, state, carry, extra = saved(path)
    # Into the structure of other numbers.
    other = jax.tree.map(lambda a: a + 1 if eqx.is_inexact_array(a) else a, (system, state, carry))
    nothing = {"key": jax.random.key(0), "step": jnp.asarray(0), "names": ("a", 2), "flags": np.array([False, False])}
    found = jm.integrator.load_checkpoint(path, other[0], state, other[2], extra=nothing)
    assert eqx.tree_equal(tuple(found)[:3], (system, state, carry))
    assert float(found.state.time) == 0.1 + 0.2
    assert jnp.array_equal(jax.random.key_data(found.extra.pop("key")), jax.random.key_data(extra.pop("key")))
    assert eqx.tree_equal(found.extra, extra)
    assert b"pickle" not in path.read_bytes()


@pytest.mark.parametrize("number", [np.int64(5), np.float32(0.1), np.bool_(True), np.complex64(1j)], ids=repr)
def test_numbers_of_numpy_come_back_as_they_were(number, tmp_path):
    system, state = scene()
    jm.integrator.save_checkpoint(tmp_path / "run.npz", system, state, extra={"round": number})
    alike = {"round": type(number)(0)}
    found = jm.integrator.load_checkpoint(tmp_path / "run.npz", system, state, extra=alike).extra["round"]
    assert found == number and type(found) is type(number)


THINGS = [{1, 2}, range(3), np.array("text"), np.datetime64("2020"), object()]


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: type(thing).__name__)
def test_what_a_file_cannot_hold_is_refused_when_it_is_saved(thing, tmp_path):
    with pytest.raises(TypeError, match=r"extra\['rounds'\]\[1\] is an? .*which a file cannot hold"):
        jm.integrator.save_checkpoint(tmp_path / "run.npz", *scene(), extra={"rounds": [1, thing]})
    assert not (tmp_path / "run.npz").exists()


def test_what_does_not_fit_is_refused_with_its_name(tmp_path):
    path = tmp_path / "run.npz"
    system, state, carry, extra = saved(path)

    def refused(words, scene=system, at=state, kept=carry, more=extra):
        with pytest.raises(ValueError, match=f"(?s)run.npz.*{words}"):
            jm.integrator.load_checkpoint(path, scene, at, kept, extra=more)

    parts = {f: dict(getattr(system, f)) for f in ("forces", "masses", "mappings", "constraints")}
    other = jm.System(system.dofs, **(parts | {"masses": {"mass": parts["masses"]["mass"]}}))
    refused(r"system.masses is .*'body', 'mass'.*is .*\['mass'\]", scene=other)
    other = jm.System(system.dofs, **(parts | {"constraints": {"hook": jm.constraint.Fixed(("box", [0]))}}))
    refused(r"system.constraints\['hook'\] is FixedPlane, .* is Fixed", scene=other)
    nodes = system.forces["held"].on[0].nodes
    other = eqx.tree_at(lambda s: s.forces["held"].on[0].nodes, system, nodes[::-1])
    refused(r"system.forces\['held'\].on\[0\].nodes.*topology", scene=other)
    other = eqx.tree_at(lambda s: s.forces["held"].stiffness, system, jnp.ones(2))
    refused(r"system.forces\['held'\].stiffness is an array \(\) of float64, .* \(2,\)", scene=other)
    refused("carry is Parts, what is given is None", kept=None)
    refused(r"extra\['names'\]\[1\] is 2, .* is 3", more=extra | {"names": ("a", 3)})
    (tmp_path / "pattern").mkdir()
    linear_system().save(tmp_path / "pattern" / "run.npz")
    with pytest.raises(ValueError, match="run.npz.* is of version .*checkpoint 1"):
        jm.integrator.load_checkpoint(tmp_path / "pattern" / "run.npz", system, state)
    with pytest.raises(FileNotFoundError):
        jm.integrator.load_checkpoint(tmp_path / "nowhere.npz", system, state)
    with pytest.raises(ValueError, match="jit"):
        jax.jit(lambda t: jm.integrator.save_checkpoint(path, system, eqx.tree_at(lambda s: s.time, state, t)))(0.0)


@pytest.mark.slow
def test_a_file_cut_off_anywhere_or_changed_is_refused(tmp_path, rng):
    system = jm.System({"p": jm.Vec1()})
    state = system.at_rest({"p": [[1.0]]})
    path = tmp_path / "run.npz"
    jm.integrator.save_checkpoint(path, system, state)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match="run.npz"):
            load_parts(path, {"system": system, "state": state, "carry": None, "extra": None})
    refused = 0
    for place in rng.integers(0, len(data), size=100):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        try:
            found = jm.integrator.load_checkpoint(path, system, state)
        except ValueError as error:
            refused += 1
            assert "run.npz" in str(error)
        else:  # a byte that nobody reads, in the table of contents
            assert eqx.tree_equal(found.state, state)
    assert refused > 60


@pytest.fixture(scope="module")
def unbroken():
    return restart_script.run()


def killed(path, script, seconds, *arguments):
    """Start the run, let it write a file, and kill it some time later; whether it was still at it."""
    command = [sys.executable, script, str(path), *arguments]
    here = os.environ | {"PYTHONPATH": str(Path(jm.__file__).parents[1])}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=here) as process:
        while not path.exists() and process.poll() is None:
            time.sleep(0.001)
        before = path.stat().st_mtime_ns if path.exists() else 0
        while process.poll() is None and path.stat().st_mtime_ns == before:
            time.sleep(0.001)  # it has gone on from the file
        time.sleep(seconds)
        process.kill()
        _, errors = process.communicate()
    assert process.returncode in (0, -9), errors.decode()
    return process.returncode == -9


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_to_the_last_bit(tmp_path, unbroken, rng):
    path = tmp_path / "run.npz"
    assert killed(path, restart_script.__file__, float(rng.uniform(0, 0.3)))
    assert 0 < _done(path) < restart_script.STEPS
    assert eqx.tree_equal(restart_script.run(path), unbroken)
    assert _done(path) == restart_script.STEPS
    assert eqx.tree_equal(restart_script.run(path), unbroken)  # from the end of it


def _done(path):
    described, arrays = read_arrays(path, "checkpoint 1")
    place = described["arrays"].index("progress['done']")
    return int(arrays[f"a{place}"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["run", "adaptive"])
def test_a_run_that_is_killed_at_fifty_moments_goes_on_to_the_last_bit(kind, tmp_path, rng):
    """Over and over from the beginning, until it has been killed fifty times; every file that it left is whole."""
    function = getattr(restart_script, kind)
    arguments = [] if kind == "run" else ["adaptive"]
    expected, kills, ends = function(), 0, 0
    path = tmp_path / "run.npz"
    while kills < 50:
        if killed(path, restart_script.__file__, float(rng.uniform(0, 0.3)), *arguments):
            kills += 1
            read_arrays(path, "checkpoint 1")
        else:
            ends += 1
            assert eqx.tree_equal(function(path), expected)
            path.unlink()
    assert eqx.tree_equal(function(path), expected)
    assert len(list(tmp_path.glob(".jaxmech-*/run.npz"))) == 0  # what was being written is gone
    print(f"{kills} kills, {ends} runs that came to their end before, and one after them")


def test_a_restart_file_of_another_run_is_refused(tmp_path):
    system, state, integrator = restart_script.chain()
    path = tmp_path / "run.npz"

    def run(at=state, steps=4, scene=system, **options):
        return jm.simulate(scene, at, integrator, 0.01, steps, restart_file=path, **({"restart_every": 2} | options))

    whole = run()
    assert eqx.tree_equal(run(), whole) and os.listdir(tmp_path) == ["run.npz"]
    other = eqx.tree_at(lambda s: s.forces["links"].stiffness, system, jnp.asarray(99.0))
    with pytest.raises(ValueError, match=r"another run: system.forces\['links'\].stiffness differs"):
        run(scene=other)
    with pytest.raises(ValueError, match="npz': steps is 4, what is given is 6"):
        run(steps=6)
    with pytest.raises(ValueError, match="observe is whole_state, what is given is .*lambda"):
        run(observe=lambda system, state: state)
    with pytest.raises(ValueError, match="save_every=2 does not divide restart_every=3"):
        run(steps=6, save_every=2, restart_every=3)
    with pytest.raises(ValueError, match="jit"):
        jax.jit(lambda t: run(at=eqx.tree_at(lambda s: s.time, state, t)))(0.0)
    with pytest.raises(ValueError, match="restart_file"):
        jm.simulate(system, state, integrator, 0.01, 4, restart_every=2)


def test_a_folder_that_is_not_there_is_told_before_the_first_step(tmp_path, monkeypatch):
    system, state, integrator = restart_script.chain()
    monkeypatch.setattr(restart, "save_parts", lambda *_: pytest.fail("steps were taken"))
    with pytest.raises(FileNotFoundError, match="restart_file '.*missing/run.npz': there is no folder '.*missing'"):
        jm.simulate(system, state, integrator, 0.01, 4, restart_file=tmp_path / "missing" / "run.npz")


@pytest.mark.slow
def test_a_restart_under_another_control_is_refused(tmp_path):
    system, state, integrator = restart_script.chain()

    def run(control):
        path = tmp_path / "run.npz"
        return jm.simulate(system, state, integrator, 0.01, 4, control=control, restart_file=path)

    def stiffer(rate):
        return lambda time, state, parameters: {"links": {"stiffness": 100.0 + rate * time}}

    whole = run(stiffer(3.0))
    assert eqx.tree_equal(run(stiffer(3.0)), whole)  # another object, the same function
    for other in (stiffer(4.0), lambda time, state, parameters: {"links": {"stiffness": 100.0 - 3.0 * time}}):
        with pytest.raises(ValueError, match="control"):
            run(other)


def pulling(factor):
    """A class of controls whose code has a number."""

    class Pulling(jm.integrator.AbstractControl):
        def init(self, system, state):
            return jnp.zeros(())

        def __call__(self, time, state, parameters, memory):
            return {"links": {"stiffness": 100.0 + factor * time}}, memory

    return Pulling


def test_a_restart_under_a_control_whose_class_has_changed_is_refused(tmp_path):
    """Its numbers were compared, and its name: a run went on under another control, and was a success."""
    system, state, integrator = restart_script.chain()

    def run(factor):
        options = {"control": pulling(factor)(), "restart_file": tmp_path / "run.npz", "restart_every": 2}
        return jm.simulate(system, state, integrator, 0.01, 2, **options)

    whole = run(3.0)
    assert eqx.tree_equal(run(3.0), whole)
    with pytest.raises(ValueError, match=r"functions\['.*Pulling'\] is"):
        run(4.0)


def test_functions_are_the_same_if_their_code_and_what_they_close_over_are():
    """Made anew they are, whatever they close over; wrapped, and with another number anywhere, they are not."""

    def closing(value):
        return lambda time: (value, time)

    def net(key, activation=jnp.tanh):
        return eqx.nn.MLP(2, 2, 4, 1, activation=activation, key=jax.random.key(key))

    def table(kind):
        return jm.integrator.Table([0.0, 1.0], [0.0, 1.0], kind=kind)

    kinds = {
        "numbers": (lambda: closing(1.0), lambda: closing(2.0)),
        "arrays": (lambda: closing(jnp.arange(3.0)), lambda: closing(jnp.arange(1.0, 4.0))),
        "keys": (lambda: closing(jax.random.key(0)), lambda: closing(jax.random.key(1))),
        "names": (lambda: closing({"a": 1.0}), lambda: closing({"b": 1.0})),
        "networks": (lambda: closing(net(0)), lambda: closing(net(1))),
        "activations": (lambda: closing(net(0)), lambda: closing(net(0, jnp.sin))),
        "functions": (lambda: closing(closing(1.0)), lambda: closing(closing(2.0))),
        "partials": (lambda: functools.partial(closing, 1.0), lambda: functools.partial(closing, 2.0)),
        "jit": (lambda: jax.jit(closing(1.0)), lambda: jax.jit(closing(2.0))),
        "vmap": (lambda: jax.vmap(closing(1.0)), lambda: jax.vmap(closing(2.0))),
        "sets": (lambda: lambda time: time in {1, 2}, lambda: lambda time: time in {1, 3}),
        "tables": (lambda: closing(table("hold")), lambda: closing(table("linear"))),
        "built in": (lambda: closing(math.sin), lambda: closing(math.cos)),
        "of NumPy": (lambda: closing((np.sin, jnp.add)), lambda: closing((np.sin, jnp.multiply))),
        "slices": (lambda: closing(slice(1, 2)), lambda: closing(slice(1, 3))),
        "classes": (lambda: closing(pulling(1)), lambda: closing(pulling(2))),
        "objects": (lambda: closing(pulling(1)()), lambda: closing(pulling(2)())),
    }
    for kind, (one, other) in kinds.items():
        assert function_digest(one()) == function_digest(one()) != function_digest(other()), kind


@pytest.mark.slow
def test_an_adaptive_run_goes_on_to_the_last_bit(tmp_path, monkeypatch):
    """Stopped after each file once: what is in the file is all that the loop knows."""
    from jaxmech._integrator.trajectory import restart

    path, save = tmp_path / "run.npz", restart.save_parts

    class Stop(Exception):
        pass

    def stopping(*arguments):
        save(*arguments)
        raise Stop

    monkeypatch.setattr(restart_script, "EVERY", 30)
    monkeypatch.setattr(restart, "save_parts", stopping)
    for _ in range(3):
        with pytest.raises(Stop):
            restart_script.adaptive(path)
    monkeypatch.setattr(restart, "save_parts", save)
    whole = restart_script.adaptive()
    assert eqx.tree_equal(restart_script.adaptive(path), whole) and int(whole.info.turns) > 90
    assert Path(path).exists()
