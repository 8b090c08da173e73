"""The element compiler's switch and its text: the forms agree, are chosen by the caller, and fail into the plain one."""

import os
import re
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import RECOMPILED

import jaxmech as jm
from jaxmech._codegen import map_elements, primitive
from jaxmech._codegen.program.element_jaxpr import ElementProgram
from jaxmech._runtime import ffi_check
from jaxmech._runtime.element_compiler import element_form
from jaxmech._runtime.ffi_layout import described, interface

FORMS = ("off", "xla", "llvm")


@pytest.fixture(scope="module")
def scene():
    """300 tetrahedra and more, springs between some of their nodes, and a weight on a cell that is mapped."""
    mesh = jm.mesh.box_mesh(cells=(4, 4, 4), size=(1.0, 1.0, 1.0))
    ends = np.arange(100)
    system = jm.System(
        {"body": jm.Vec3()},
        forces={
            "solid": jm.force.TetrahedronFEM.from_mesh("body", mesh, jm.material.StVenantKirchhoff(1e3, 0.3)),
            "springs": jm.force.Springs((("body", ends), ("body", ends + 20)), 10.0, 0.3),
        },
        masses={"mass": jm.mass.UniformMass(("body", np.arange(len(mesh.points))), 1.0)},
        gravity=(0.0, 0.0, -9.81),
    )
    rest = system.at_rest({"body": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))
    moved = jnp.asarray(mesh.points + 0.05 * np.sin(3 * mesh.points[:, ::-1]))
    return system, rest, linear_system, moved


def results(scene):
    """Force, stiffness, a gradient through the force, and the stiffness of a batch: one program, its input, its traces."""
    traces = []
    system, rest, linear_system, moved = scene

    def state(x):
        return eqx.tree_at(lambda s: s.position["body"], rest, x)

    def force_and_stiffness(x):
        values = linear_system.unconstrained(system, state(x))["body", "body"].values
        return jm.total_force(system, state(x))["body"], values

    @jax.jit
    def all_of_it(x):
        traces.append(element_form())

        def number(x):
            return jnp.sum(jnp.sin(jm.total_force(system, state(x))["body"]))

        batch = jax.vmap(lambda x: force_and_stiffness(x)[1])(jnp.stack([x, 1.1 * x]))
        return *force_and_stiffness(x), jax.grad(number)(x), batch

    return all_of_it, moved, traces


@pytest.fixture(scope="module")
def of_forms(scene):
    """The function, its input and its traces, and of every form the text and what it gives."""
    function, x, traces = results(scene)
    found, texts = {}, {}
    for form in FORMS:
        with jm.runtime.element_compiler(form):
            texts[form], found[form] = function.lower(x).as_text(), function(x)
    return function, x, traces, texts, found


def test_the_forms_agree_and_a_jitted_function_follows_the_switch(of_forms):
    function, x, traces, _, found = of_forms
    assert element_form() == "llvm" and traces == list(FORMS)
    for form in ("xla", "llvm"):
        for a, b in zip(found[form], found["off"], strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())
    function(x)
    assert traces == list(FORMS), "traced again, though nothing changed"


@pytest.mark.cpu
def test_the_forms_are_those_asked_for(of_forms):
    _, _, _, texts, _ = of_forms
    assert ["jaxmech_" in texts[form] for form in FORMS] == [False, False, True]
    # The scalarised program, whose stages XLA may not inline.
    assert ["inlineable" in texts[form] for form in FORMS] == [False, True, False]


@pytest.mark.cpu
def test_a_long_program_of_a_short_text_is_a_kernel(monkeypatch):
    """Yeoh's law took eight times as long, and Ogden's thirteen: many of their operations are of zeros, or there already."""
    for name, most in (("_LONG_FOR_SOME", 600), ("_UNSURE", 1200), ("_RESULTS", 1000), ("_FOR_ONE_OF_MORE", 1)):
        monkeypatch.setattr(f"jaxmech._codegen.dispatch.{name}", most)
    zeros = np.diag([0.5, 0.5, 0.5])
    x = np.random.default_rng(0).standard_normal((50, 3, 3))

    def power(x, by):
        found = x
        for _ in range(24):  # of 36 operations each
            found = 0.5 * found @ (x if by is None else by)
        return found

    for by, is_kernel in ((None, False), (zeros, True)):
        text = jax.jit(lambda x, by=by: map_elements(partial(power, by=by), (0,), x)).lower(x).as_text()
        assert ("jaxmech_" in text) == is_kernel


def test_the_switch_is_of_a_process_or_of_a_block_in_a_thread():
    seen = {}

    def look(name):
        thread = threading.Thread(target=lambda: seen.update({name: element_form()}))
        thread.start()
        thread.join()

    try:
        with jm.runtime.element_compiler("off"):
            look("beside a block")
            with jm.runtime.element_compiler("xla"):
                assert element_form() == "xla"
            assert element_form() == "off"
        assert element_form() == "llvm"
        jm.runtime.element_compiler("xla")
        assert element_form() == "xla"
        look("after a setting")
    finally:
        jm.runtime.element_compiler("llvm")
    assert seen == {"beside a block": "llvm", "after a setting": "xla"}


def test_wrong_choices_are_refused():
    with pytest.raises(ValueError, match="form must be one of off, xla, llvm, got 'gpu'"):
        jm.runtime.element_compiler("gpu")
    with pytest.raises(RuntimeError, match="outside of functions that JAX traces"):
        jax.jit(lambda x: (jm.runtime.element_compiler("off"), x)[1])(1.0)
    assert element_form() == "llvm"


@pytest.mark.parametrize(
    "value, said",
    [("xla", "chosen: xla"), pytest.param("fast", "JAXMECH_ELEMENTS must be one of off, xla, llvm, got 'fast'")],
)
def test_the_environment_chooses(value, said):
    script = "from jaxmech._runtime.element_compiler import element_form; print('chosen:', element_form())"
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "JAXMECH_ELEMENTS": value}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert said in done.stdout + done.stderr


def energy(x, k):
    d = x[1] - x[0]
    length = jnp.sqrt(d @ d)
    return 0.5 * k * jnp.where(length > 1.0, (length - 1.0) ** 2, 0.0)


OPERATIONS = {
    "add": lambda a, b: a + b,
    "add_any": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "sqrt": np.sqrt,
    "gt": lambda a, b: a > b,
    "select_n": lambda which, if_false, if_true: if_true if which else if_false,
    "integer_pow": lambda a, y: a ** int(y.removeprefix("y=")),
    "select": lambda which, a, b: b if which > 0 else a,
}


def carried_out(text, **arguments):
    """What the lines of a scalarised program compute."""
    values = {}

    def value(word):
        if match := re.fullmatch(r"([a-z])((?:\[\d+\])*)", word):
            return arguments[match[1]][tuple(map(int, re.findall(r"\d+", match[2])))]
        return values[word] if word in values else word if "=" in word else float(word)

    *lines, last = text.splitlines()
    for line in lines:
        name, operation, *operands = line.replace(" = ", " ").split()
        values[name] = OPERATIONS[operation](*map(value, operands))
    return np.array([value(word) for word in re.findall(r"[^(), ]+", last.removeprefix("return "))])


def test_the_scalars_that_are_shown_are_the_function(rng, monkeypatch):
    monkeypatch.setattr("jaxmech._codegen.llvm.vector.register_bytes", lambda: 64)
    gradient = jax.grad(energy)
    forms = jm.runtime.element_forms(gradient, (np.zeros((2, 2)), 1.0))
    x, k = rng.normal(size=(2, 2)) * 2, 3.0
    np.testing.assert_allclose(carried_out(forms.scalars, a=x, b=np.asarray(k)), np.ravel(gradient(x, k)), rtol=1e-14)
    assert forms.refused is None and forms.jaxpr.startswith("{ lambda ; a:f64[2,2] b:f64[]")
    assert "tensor<8xf64>" in forms.xla and "define internal void @each(" in forms.llvm
    assert forms.llvm.count("fsub contract <8 x double>") == 3, "a difference that is computed twice"


def test_a_function_without_scalars_says_why():
    forms = jm.runtime.element_forms(jnp.linalg.eigvalsh, (np.eye(3),))
    assert forms.scalars is forms.xla is forms.llvm is None and "as a program of scalars" in forms.refused
    assert jm.runtime.element_forms(lambda x: 1.0, (np.eye(3),)).refused == "no result depends on an argument"


@pytest.mark.parametrize("rule", ["tangent", "transposed", "with_axes"])
def test_a_rule_that_fails_gives_way_to_jax(rule, monkeypatch):
    """Once told; the derivatives are those of the plain form."""

    def broken(*arguments, **options):
        raise KeyError(f"the rule {rule}")

    monkeypatch.setattr(ElementProgram, rule, broken)
    x = jnp.linspace(0.5, 2.0, 18).reshape(9, 2)

    def scaled(x):
        return map_elements(lambda x: (jnp.sin(x) * x[::-1], jnp.cos(x), jnp.int32(3)), (0,), x)

    cases = {
        "tangent": lambda x: jax.jvp(scaled, [x], [2 * x])[1][:2],
        "transposed": jax.grad(lambda x: jnp.sum(scaled(x)[0] * scaled(x)[1])),
        "with_axes": lambda x: jax.vmap(scaled)(jnp.stack([x, 2 * x])),
    }
    with jm.runtime.element_compiler("off"):
        expected = jax.jit(cases[rule])(x)
    with pytest.warns(RuntimeWarning, match=rf"an element function of \d arrays.*KeyError: 'the rule {rule}'"):
        found = jax.jit(cases[rule])(x)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=RECOMPILED)


def test_a_rule_of_what_is_unused_that_fails_leaves_all(monkeypatch):
    monkeypatch.setattr(ElementProgram, "reduced", lambda *arguments: 1 / 0)
    jaxpr = jax.make_jaxpr(lambda x: map_elements(lambda x: (x + 1, x * x), (0,), x))(jnp.ones(9)).jaxpr
    (eqn,) = [eqn for eqn in jaxpr.eqns if "call" in eqn.params]
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"):
        assert primitive._without_unused([True, False], eqn) == ([True], eqn)


def test_an_error_of_the_users_own_is_no_bug_of_ours(recwarn):
    def wrong(x):
        raise OverflowError("the user's own")

    with pytest.raises(OverflowError, match="the user's own"):
        jax.jit(lambda x: map_elements(wrong, (0,), x))(jnp.ones(9))
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


@pytest.mark.parametrize("kind", ["CallFrame", "Args", "Rets", "Buffer", "Metadata_Extension"])
def test_a_frame_of_another_size_is_not_read(kind, monkeypatch):
    own = interface()
    other = own._replace(sizes_of=tuple((name, at, size + 8 * (name == kind)) for name, at, size in own.sizes_of))
    monkeypatch.setattr(ffi_check, "interface", lambda: other)
    monkeypatch.setattr(ffi_check, "_TARGET", f"jaxmech.check.{kind}")
    monkeypatch.setattr(ffi_check, "_register", ffi_check._register.__wrapped__)
    with pytest.warns(RuntimeWarning, match=rf"{kind} of (\d+) bytes, not"):
        assert ffi_check.checked_interface.__wrapped__() is None


@pytest.mark.cpu
def test_a_header_with_a_field_that_the_library_lacks_gives_arrays(monkeypatch):
    """A minor version that puts a field before the arguments: everything behind it would be read from the wrong place."""
    text = (Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text()
    shifted = described(text.replace("  XLA_FFI_Args args;", "  int64_t another;\n  XLA_FFI_Args args;"))
    assert shifted.arguments == interface().arguments + 8
    monkeypatch.setattr(ffi_check, "interface", lambda: shifted)
    with pytest.warns(RuntimeWarning, match="CallFrame of"):
        monkeypatch.setattr("jaxmech._llvm.ffi.checked_interface", ffi_check.checked_interface.__wrapped__)
        double = jax.jit(lambda x: map_elements(lambda x: jnp.sin(x) @ jnp.cos(x).T, (0,), x))
        x = jnp.ones((300, 3, 3))
        assert "jaxmech_" not in double.lower(x).as_text()
