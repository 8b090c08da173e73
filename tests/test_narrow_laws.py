"""Densities that go through a few numbers, a network of invariants say: cheaper Hessians, and the same."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import ROUND_OFF

import jaxmech as jm
from jaxmech._codegen.operation_count import operation_count
from jaxmech._codegen.program.shared_part import without_shared_part
from jaxmech._material.hessian_of_few import hessian_of_few
from jaxmech._material.narrow import narrowed

F_TEST = np.eye(3) + 0.1 * np.random.default_rng(3).normal(size=(3, 3))


class Network(jm.material.AbstractMaterial):
    """As a user writes one: no word of how it is differentiated, and its value at rest taken off."""

    weights: eqx.nn.MLP
    form: eqx.nn.MLP = eqx.field(static=True)
    needs_positive_volume = True

    def energy_density(self, F):
        J = F[0] @ jnp.cross(F[1], F[2])  # of `jnp.linalg.det` newer versions of JAX make a factorisation
        x = jnp.stack([jnp.sum(F * F) * J ** (-2 / 3) - 3, J - 1])
        squares = jax.tree.map(lambda w: w * w, self.weights)
        network = eqx.combine(squares, self.form)
        return network(x) - network(0 * x) + 5.0 * (J - 1) ** 2


def network(width):
    return Network(*eqx.partition(eqx.nn.MLP(2, "scalar", width, 2, jax.nn.softplus, key=jax.random.key(1)), eqx.is_array))


def distance(a, b):
    """Of two trees of numbers, relative to the largest."""
    a, b = (np.concatenate([np.ravel(x) for x in jax.tree.leaves(tree)]) for tree in (a, b))
    return np.abs(a - b).max() / np.abs(b).max()


def of_three(scale, x):
    """Products, quotients, powers, a function with a rule of its own, a number that does not move, and one used twice."""
    y = jnp.stack([x[0] * x[1], x[1] / x[2], x[2] ** 3]) @ jnp.arange(9.0).reshape(3, 3)
    return scale * jnp.sum(jax.nn.softplus(y) * y) + jnp.sum(jnp.exp(x) * jnp.exp(x)) + jnp.log(scale) * x[0]


def with_a_choice(scale, x):
    return jnp.where(x[0] > x[1], scale * jnp.sum(x**3), jnp.prod(x))


@pytest.mark.slow
@pytest.mark.parametrize("function", [of_three, with_a_choice])
def test_the_second_derivatives_of_a_function_of_few_numbers(function):
    x, own = jnp.array([0.3, 0.2, 0.7]), hessian_of_few(function)
    plain = lambda scale, x: jax.hessian(function, argnums=1)(scale, x)  # noqa: E731
    both = jax.jit(lambda x: [(h(1.3, x), jax.jacrev(h, argnums=(0, 1))(1.3, x)) for h in (own, plain)])
    assert distance(*both(x)) < ROUND_OFF


@pytest.mark.slow
def test_a_network_is_differentiated_by_its_invariants():
    """Stress, elasticity, and what reverse and forward mode make of the elasticity, by `F` and by every weight."""
    law = network(4)
    arrays, form = eqx.partition(law, eqx.is_array)
    F = jnp.asarray(F_TEST)

    def of(make):
        def elasticity(arrays, F):
            return jax.hessian(make(eqx.combine(arrays, form).energy_density, F))(F)

        total = lambda arrays, F: jnp.sum(jnp.sin(elasticity(arrays, F)))  # noqa: E731
        rate = jax.jvp(lambda F: elasticity(arrays, F), (F,), (F,))[1]
        return elasticity(arrays, F), jax.grad(total, argnums=(0, 1))(arrays, F), rate

    few, plain = jax.jit(lambda: (of(narrowed), of(lambda density, F: density)))()
    assert distance(few, plain) < ROUND_OFF


@pytest.mark.slow
def test_only_what_has_a_waist_is_cut_there():
    wide, F = network(16).energy_density, jnp.asarray(F_TEST)
    assert narrowed(wide, F) is not wide
    plain = jm.material.NeoHookean(1e3, 0.3).energy_density
    assert narrowed(plain, F) is plain
    once = operation_count(jax.make_jaxpr(wide)(F).jaxpr)
    scalars = jm.runtime.element_forms(jax.hessian(narrowed(wide, F)), (F_TEST,)).scalars
    assert scalars.count(" = ") < 4 * once  # nine directions, there and back, are twenty


def test_what_elements_share_is_computed_once():
    """The squares of weights leave the program of an element; what depends on the element, and small parts, stay."""

    def element(x, w, s):
        return jnp.sum((w * w) @ x) * s

    shapes = [jax.ShapeDtypeStruct(shape, np.float64) for shape in ((30,), (30, 30), ())]
    program = jax.make_jaxpr(element)(*shapes)
    shared, own, axes = without_shared_part(program, (0, None, None), operation_count, 500)
    assert [e.primitive.name for e in shared.jaxpr.eqns] == ["mul"] and axes == (0, None, None, None)
    assert len(own.jaxpr.eqns) == len(program.jaxpr.eqns) - 1
    assert without_shared_part(program, (0, None, None), operation_count, 5000) is None
    assert without_shared_part(program, (0, 0, None), operation_count, 500) is None


def test_a_call_that_returns_nothing_is_no_part():
    """What is left of a function whose results nobody reads stands for no output, and may read what elements own."""

    def element(x, w, s):
        jax.jit(lambda y: None)(x * s)
        return jnp.sum((w * w) @ x) * s

    shapes = [jax.ShapeDtypeStruct(shape, np.float64) for shape in ((30,), (30, 30), ())]
    program = jax.make_jaxpr(element)(*shapes)
    assert [] in [e.outvars for e in program.jaxpr.eqns]
    shared, own, _ = without_shared_part(program, (0, None, None), operation_count, 500)
    given = [np.linspace(0.1, 1.0, 30), np.outer(np.arange(30.0), np.linspace(0.0, 1.0, 30)), np.float64(2.0)]
    handed = jax.core.eval_jaxpr(shared.jaxpr, shared.consts, *given[1:])
    (found,) = jax.core.eval_jaxpr(own.jaxpr, own.consts, *given, *handed)
    assert found == element(*given)


@pytest.mark.slow
def test_assembly_by_kernels_is_that_of_plain_jax():
    """Of a network with shared squares of weights: forces and stiffness of all elements, and by weights."""
    mesh = jm.mesh.box_mesh(cells=(4, 4, 3), size=(1.0, 1.0, 1.0))
    system = jm.System({"u": jm.Vec3()}, forces={"rubber": jm.force.TetrahedronFEM.from_mesh("u", mesh, network(24))})
    state = system.at_rest({"u": mesh.points * jnp.array([1.1, 0.95, 1.0])})
    linear_system = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))

    def blocks(weights):
        trial = eqx.tree_at(lambda s: s.forces["rubber"].material.weights, system, weights)
        return jax.tree.leaves(linear_system.assemble(trial, state, jm.Factors(0.0, 0.0, 1.0)))[0]

    def asked():
        weights = system.forces["rubber"].material.weights
        return blocks(weights), jax.grad(lambda w: jnp.sum(jnp.sin(blocks(w))))(weights)

    found = []
    for form in ("off", "llvm"):
        with jm.runtime.element_compiler(form):
            found.append(jax.jit(asked)())
    assert distance(*found) < ROUND_OFF
