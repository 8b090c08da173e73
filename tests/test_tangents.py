"""Components whose tangent is not the derivative of their force: the same solution, and its true gradient."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm
from jaxmech._assembly.structure import Plan
from jaxmech._forcefield.base import stiffness_is_symmetric, tangent_is_exact

pytestmark = pytest.mark.quick

FINITE = 1e-6  # central differences of a relative step of 1e-4
STIFFNESS = 100.0
STEP = 1e-2


class Truss(jm.force.AbstractEnergyForceField):
    """`E = k/2 (|x|^2 - l^2)^2` of a bar from the origin."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jnp.ndarray = jm.parameter()

    def element_energy(self, x):
        return 0.5 * self.stiffness * (x @ x - 1.0) ** 2


class MaterialTangent(Truss):
    """Without the part of the stiffness that a stress makes, as SOFA leaves it out of many."""

    def element_hessian(self, x):
        return ((4.0 * self.stiffness * (jnp.outer(x, x) + 0.05 * jnp.eye(2)),),)


class FalseTangent(MaterialTangent):
    tangent_is_exact = True  # which is not true


class OwnStiffness(jm.force.AbstractForceField):
    """The same bar by its force, with an unsymmetric tangent."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jnp.ndarray = jm.parameter()

    def element_force(self, x, v):
        return (-2.0 * self.stiffness * (x[0] @ x[0] - 1.0) * x[0],)

    def element_stiffness(self, x, v):
        tangent = 4.0 * self.stiffness * (jnp.outer(x[0], x[0]) + jnp.array([[0.05, 0.01], [0.0, 0.05]]))
        return ((tangent,),)


class Faster(Truss):
    """A tangent that is exact, and said to be."""

    tangent_is_exact = True

    def element_hessian(self, x):
        square = (x @ x - 1.0) * jnp.eye(2)
        return ((self.stiffness * (4.0 * jnp.outer(x, x) + 2.0 * square),),)


def scene(*kinds):
    """A bar of every kind, each on a point of its own."""
    states = [f"end {number}" for number in range(len(kinds))]
    bars = {f"bar {s}": kind((s, [0]), STIFFNESS) for s, kind in zip(states, kinds, strict=True)}
    pulls = {f"pull {s}": jm.force.ConstantForce((s, [0]), [[30.0, 12.0]]) for s in states}
    holds = {f"hold {s}": jm.force.AnchoredSprings((s, [0]), 40.0, [[1.0, 0.1]]) for s in states}
    masses = {s: jm.mass.UniformMass((s, [0]), 1.0) for s in states}
    system = jm.System({s: jm.Vec2() for s in states}, forces=bars | pulls | holds, masses=masses)
    return system, system.at_rest({s: [[1.0, 0.1]] for s in states})


def slopes(how, *kinds):
    """The derivatives of the height of every end by the stiffness of its bar: reverse mode, and central differences."""
    system, state = scene(*kinds)
    linear_system = jm.MatrixLinearSystem.build(system, state)
    bars = sorted(name for name in system.forces if name.startswith("bar"))

    def heights(stiffness):
        varied = eqx.tree_at(lambda s: [s.forces[bar].stiffness for bar in bars], system, list(stiffness))
        if how == "static":
            end = jm.static_solve(varied, state, linear_system, jm.solver.Dense(), rtol=1e-12, throw=False).state
        else:
            newton = {"newton": True, "rtol": 1e-12} if how == "newton" else {}
            euler = jm.ImplicitEuler(linear_system, jm.solver.Dense(), **newton)
            end, _, _ = euler.step(varied, state, euler.init(varied, state), 0.1, throw=False)
        values = jnp.stack([end.position[s][0, 1] for s in sorted(end.position)])
        return jnp.sum(values), values

    program = eqx.filter_jit(jax.value_and_grad(heights, has_aux=True))
    at = jnp.full(len(kinds), STIFFNESS)
    ends = [program(at + sign * STEP)[0][1] for sign in (1, -1)]
    return np.asarray(program(at)[1]), np.asarray(ends[0] - ends[1]) / (2 * STEP)


@pytest.mark.slow_cases("step")
@pytest.mark.parametrize("how", ["static", "step", pytest.param("newton", marks=pytest.mark.slow)])
def test_gradients_are_of_what_was_computed(how):
    """Of the equilibrium, whatever tangent led there; of a linearised step, with the tangent that it has."""
    found, expected = slopes(how, MaterialTangent, OwnStiffness)
    assert np.abs(expected).min() > 1e-5
    np.testing.assert_allclose(found, expected, rtol=FINITE)


@pytest.mark.slow
def test_a_tangent_that_is_said_to_be_exact_is_believed():
    found, expected = slopes("static", FalseTangent, Faster)
    assert abs(found[0] / expected[0] - 1) > 1e-2  # what the default saves users from
    np.testing.assert_allclose(found[1], expected[1], rtol=FINITE)


def test_who_says_nothing_is_not_believed():
    kinds = (Truss, MaterialTangent, FalseTangent, OwnStiffness, Faster)
    assert [tangent_is_exact(kind(("end", [0]), 1.0)) for kind in kinds] == [True, False, True, False, True]

    class Again(Faster):
        def element_gradient(self, x):
            return (2.0 * x,)

    assert not tangent_is_exact(Again(("end", [0]), 1.0))  # its parent's word is not its own
    exact = [jm.MatrixLinearSystem.build(*scene(kind)).is_exact(scene(kind)[0]) for kind in (Truss, MaterialTangent, Faster)]
    assert exact == [True, False, True]
    unsymmetric = jm.MatrixLinearSystem.build(*scene(OwnStiffness)).assemble(*scene(OwnStiffness)).to_dense()
    np.testing.assert_allclose(unsymmetric[0, 1] - unsymmetric[1, 0], 4.0 * STIFFNESS * 0.01)


class Netting(jm.force.AbstractForceField):
    """Springs along both edges of a corner, by their force; their tangent is frozen, and symmetric."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jnp.ndarray = jm.parameter()

    def element_force(self, x, v):
        first, second = (jnp.linalg.norm(x[0][i] - x[0][0]) * (x[0][i] - x[0][0]) for i in (1, 2))
        return (self.stiffness * jnp.stack([first + second, -first, -second]),)

    def element_stiffness(self, x, v):
        ends = jnp.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])[:, :, None] * (x[0][1:] - x[0][0])[:, None]
        return ((self.stiffness * jnp.einsum("eka,elb->kalb", ends, ends),),)


class SymmetricNetting(Netting):
    stiffness_is_symmetric = True

    def element_stiffness(self, x, v):
        return super().element_stiffness(x, v)


def test_a_stiffness_that_is_said_to_be_symmetric_is_summed_by_halves():
    corners = np.random.default_rng(0).permuted(np.tile(np.arange(12), (20, 1)), axis=1)[:, :3]
    points = np.random.default_rng(1).standard_normal((12, 2))
    matrices, symmetric = [], []
    for kind in (Netting, SymmetricNetting):
        system = jm.System({"p": jm.Vec2()}, forces={"net": kind(("p", corners), STIFFNESS)})
        linear_system = jm.MatrixLinearSystem.build(system, state := system.at_rest({"p": points}))
        matrices.append(linear_system.assemble(system, state).to_dense())
        symmetric.append(Plan.build(system, linear_system.terms).items[0].upper(system))
    assert symmetric == [(), (0,)]
    np.testing.assert_allclose(*matrices, rtol=0, atol=1e-13 * np.abs(matrices[0]).max())

    class Again(SymmetricNetting):
        def element_stiffness(self, x, v):
            return ((super().element_stiffness(x, v)[0][0].at[0, 0, 0, 1].add(1.0),),)

    assert not stiffness_is_symmetric(Again(("p", corners), 1.0))  # its parent's word is not its own
