"""Scenes at random: main states of mixed kinds, any acyclic graph of mappings, forces anywhere; three routes to a matrix."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes
from hypothesis import HealthCheck, given, settings
from jax.flatten_util import ravel_pytree

import jaxmech as jm
from jaxmech._model.dynamics import force_at, zero_forces

TOLERANCE = 1e-11  # chains of up to six mappings, each with its own rounding
NODES = 3  # of every main state


class Builder:
    """Draws one scene."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.dofs, self.position, self.counts, self.mappings = {}, {}, {}, {}

    def nodes(self, state, *shape):
        return self.rng.integers(0, self.counts[state], shape)

    def some(self, kind):
        """A state of a kind, later ones as likely as main ones; None if there is none."""
        fitting = [s for s, dof in self.dofs.items() if isinstance(dof, kind)]
        return fitting[self.rng.integers(len(fitting))] if fitting else None

    def two(self, state):
        """Two columns of nodes that differ."""
        first = self.nodes(state, 2)
        return first, (first + 1) % self.counts[state]

    def main(self, name, kind):
        self.dofs[name], self.counts[name] = kind, NODES
        if isinstance(kind, jm.Rigid3):
            self.position[name] = scenes.frames(*scenes.points(NODES, seed=int(self.rng.integers(99))))
        else:
            self.position[name] = self.rng.normal(size=(NODES, kind.coord_size))

    def mapped(self, name):
        r = self.rng
        makers = [self.of_points, self.of_points, self.of_frames, self.of_frames, self.of_scalars, self.of_both]
        while True:
            made = makers[r.integers(len(makers))](name)
            if made is not None:
                kind, mapping = made
                self.dofs[name], self.mappings[f"{r.integers(100)} {name}"] = kind, mapping
                self.counts[name] = mapping.parents[0].elements
                return

    def of_points(self, name):
        s, r = self.some(jm.Vec3), self.rng
        if s is None:
            return None
        a, b = self.two(s)
        third = (a + 2) % self.counts[s]
        return [
            lambda: (jm.Vec3(), jm.mapping.SubsetMapping((s, self.nodes(s, 2)), name)),
            lambda: (jm.Vec3(), jm.mapping.SumMapping((s, self.nodes(s, 2, 2)), name, r.normal(size=(2, 2)))),
            lambda: (jm.Vec1(), jm.mapping.DistanceMapping(((s, a), (s, b)), name)),
            lambda: (jm.Vec1(), jm.mapping.SquaredDistanceMapping(((s, a), (self.some(jm.Vec3), [0, 1])), name)),
            lambda: (jm.Vec1(), jm.mapping.AreaMapping((s, np.stack([a, b, third], axis=1)), name)),
        ][r.integers(5)]()

    def of_frames(self, name):
        s, r = self.some(jm.Rigid3), self.rng
        if s is None:
            return None
        a, b = self.two(s)
        local = r.normal(size=(2, 3))
        weights = np.array([[0.3, 0.7], [0.6, 0.4]])
        return [
            lambda: (jm.Vec3(), jm.mapping.RigidMapping((s, a), name, local)),
            lambda: (
                jm.Vec3(),
                jm.mapping.SkinningMapping((s, np.stack([a, b], axis=1)), name, weights, r.normal(size=(2, 2, 3))),
            ),
            lambda: (jm.Rigid3(), jm.mapping.RigidMapping((s, a), name, scenes.frames(*local))),
        ][r.integers(3)]()

    def of_scalars(self, name):
        s = self.some(jm.Vec1)
        return None if s is None else (jm.Vec1(), jm.mapping.SquareMapping((s, self.nodes(s, 2)), name))

    def of_both(self, name):
        s, t = self.some(jm.Rigid3), self.some(jm.Vec3)
        if s is None or t is None:
            return None
        return jm.Vec3(), jm.mapping.DeformableOnRigidFrameMapping(((s, self.nodes(s, 2)), (t, self.nodes(t, 2))), name)

    def force(self, state):
        r, nodes = self.rng, self.nodes(state, 2)
        if isinstance(self.dofs[state], jm.Rigid3):
            return jm.force.AnchoredFrames((state, nodes), 8.0, 3.0, scenes.frames(*r.normal(size=(2, 3))))
        return [
            lambda: jm.force.AnchoredSprings(
                (state, nodes), r.uniform(1, 9, 2), r.normal(size=(2, self.dofs[state].coord_size))
            ),
            lambda: jm.force.VelocityDamping((state, nodes), r.uniform(0.2, 0.9, 2)),
            lambda: jm.force.ConstantForce((state, nodes), r.normal(size=(2, self.dofs[state].deriv_size))),
        ][r.integers(3)]()

    def mass(self, state):
        if isinstance(self.dofs[state], jm.Rigid3):
            return jm.mass.RigidMass((state, self.nodes(state, 2)), 0.7, scenes.INERTIA)
        return jm.mass.UniformMass((state, self.nodes(state, 2)), 0.5)

    def build(self):
        r = self.rng
        kinds = [jm.Vec3(), jm.Rigid3(), jm.Vec1(), jm.Vec3()]
        for i, k in enumerate(r.permutation(4)[: r.integers(2, 5)]):
            self.main(f"main {i}", kinds[k])
        for i in range(r.integers(2, 7)):
            self.mapped(f"{r.integers(100)} mapped {i}")
        states = list(self.dofs)
        forces = {f"force {i}": self.force(states[r.integers(len(states))]) for i in range(3)}
        forces["last"] = self.force(states[-1])
        s, t = self.some(jm.Vec3), self.some(jm.Vec3)
        if s is not None and t is not None:
            forces["link"] = jm.force.Springs(((s, self.nodes(s, 2)), (t, self.nodes(t, 2))), 9.0, 0.3, damping=0.4)
        masses = {f"mass {i}": self.mass(states[r.integers(len(states))]) for i in range(2)}
        system = jm.System(self.dofs, forces=forces, masses=masses, mappings=self.mappings, gravity=(0.3, 0.1, -9.81))
        return system, scenes.perturbed(system, system.at_rest(self.position), 0.2, r)


@jax.jit
def three_routes(system, state, linear_system, factors):
    """The assembled matrix; that of matrix-free products; that of automatic derivatives of the whole scene's functions."""
    zero, unravel = ravel_pytree(zero_forces(system, state.position))
    v = ravel_pytree(state.velocity)[0]
    free = jm.solver.MatrixFreeSystem().unconstrained(system, state, factors)
    columns = jax.vmap(lambda u: ravel_pytree(free.mv(unravel(u)))[0], out_axes=1)(jnp.eye(zero.size))

    def force(d, v):
        return ravel_pytree(force_at(system, state, unravel(d), unravel(v)))[0]

    K, B = jax.jacrev(force, argnums=(0, 1))(zero, v)
    M = jax.hessian(lambda v: jm.mass.kinetic_energy(system, jm.State(state.position, unravel(v), state.time)))(v)
    dense = factors.mass * M - factors.damping * B - factors.stiffness * K
    return linear_system.unconstrained(system, state, factors).to_dense(), columns, dense


@pytest.mark.slow
@settings(max_examples=2, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**9))
def test_three_routes_to_one_matrix(seed):
    system, state = Builder(seed).build()
    factors = jm.Factors(*(jnp.asarray(f) for f in (0.7, 0.3, 1.3)))
    assembled, free, dense = three_routes(system, state, jm.MatrixLinearSystem.build(system, state), factors)
    scale = np.abs(dense).max()
    assert np.isfinite(scale) and scale > 0
    assert np.abs(assembled - free).max() <= TOLERANCE * scale
    assert np.abs(assembled - dense).max() <= TOLERANCE * scale


@pytest.mark.slow
def test_names_do_not_matter():
    """The same diamond under names of the opposite order: the same matrix."""

    def diamond(left, right, top, first, second, last):
        system = jm.System(
            {"body": jm.Rigid3(), left: jm.Vec3(), right: jm.Vec3(), top: jm.Vec1()},
            forces={
                "gap": jm.force.AnchoredSprings((top, [0, 1]), 3.0, [[0.1], [0.2]]),
                "hold": jm.force.AnchoredSprings((left, [0, 1]), 5.0, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
            },
            mappings={
                first: jm.mapping.RigidMapping(("body", [0, 0]), left, [[0.5, 0.0, 0.1], [0.6, 0.3, 0.0]]),
                second: jm.mapping.RigidMapping(("body", [0, 0]), right, [[-0.5, 0.1, 0.0], [-0.4, -0.3, 0.2]]),
                last: jm.mapping.DistanceMapping(((left, [0, 1]), (right, [1, 0])), top),
            },
        )
        state = system.at_rest({"body": scenes.frames((0.2, 0.1, 0.0))})
        return jm.MatrixLinearSystem.build(system, state).assemble(system, state).to_dense()

    one = diamond("a", "b", "c", "x", "y", "z")
    other = diamond("c", "b", "a", "z", "y", "x")
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * np.abs(one).max())


def test_a_mapped_spring_is_the_direct_spring():
    """Between children of two states that are mapped by identity: what SOFA 26.12 gets wrong (its issue 6256)."""
    direct = jm.System(
        {"p": jm.Vec3(), "q": jm.Vec3()},
        forces={"spring": jm.force.Springs((("p", [0]), ("q", [1])), 5.0, 0.3, damping=0.1)},
    )
    mapped = jm.System(
        {"p": jm.Vec3(), "q": jm.Vec3(), "p copy": jm.Vec3(), "q copy": jm.Vec3()},
        forces={"spring": jm.force.Springs((("p copy", [0]), ("q copy", [1])), 5.0, 0.3, damping=0.1)},
        mappings={
            "p": jm.mapping.IdentityMapping.of("p", "p copy", nodes=2),
            "q": jm.mapping.IdentityMapping.of("q", "q copy", nodes=2),
        },
    )
    position = {"p": scenes.points(2, seed=1), "q": scenes.points(2, seed=2)}
    state = scenes.perturbed(direct, direct.at_rest(position), 0.1, np.random.default_rng(0))
    one, other = (jm.MatrixLinearSystem.build(s, state).assemble(s, state).to_dense() for s in (direct, mapped))
    np.testing.assert_allclose(other, one, rtol=0, atol=1e-13 * np.abs(one).max())


def test_a_state_that_carries_nothing_costs_nothing():
    """A fine surface that is only looked at: neither force, nor matrix, nor inertia knows of it."""
    mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0))
    dofs = {"body": jm.Vec3(), "seen": jm.Vec3(), "edges": jm.Vec1(), "felt": jm.Vec3()}
    embedded = jm.mapping.BarycentricMapping.from_mesh("body", "felt", mesh, [[0.3, 0.2, 0.4]])
    looked_at = {
        "seen": jm.mapping.BarycentricMapping.from_mesh(
            "body", "seen", mesh, np.random.default_rng(0).uniform(0, 1, (50, 3))
        ),
        "edges": jm.mapping.DistanceMapping((("seen", range(49)), ("seen", range(1, 50))), "edges"),
    }
    parts = {
        "forces": {
            "solid": jm.force.TetrahedronFEM.from_mesh("body", mesh, jm.material.StVenantKirchhoff(9.0, 0.3)),
            "pull": jm.force.ConstantForce(("felt", [0]), (0.0, 0.0, 1.0)),
        },
        "masses": {"mass": jm.mass.UniformMass(("body", range(12)), 1.0)},
        "gravity": (0.0, 0.0, -9.81),
    }
    plain = jm.System({s: dofs[s] for s in ("body", "felt")}, mappings={"felt": embedded}, **parts)
    seen = jm.System(dofs, mappings={"felt": embedded, **looked_at}, **parts)
    state = plain.at_rest({"body": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(seen, state)

    def operations(system):
        def run(system, state):
            A = linear_system.unconstrained(system, state)
            product = jm.solver.MatrixFreeSystem().unconstrained(system, state).mv(state.velocity)
            return jm.total_force(system, state), A.to_dense(), product, jm.mass.momentum(system, state)

        return str(jax.make_jaxpr(run)(system, state)).count("\n")

    # Equal but for the lines that name the arguments: the numbers of two mappings more.
    assert operations(seen) - operations(plain) <= len(jax.tree.leaves(looked_at)) + 2
    assert jm.kinematics(seen, state)["edges"].shape == (49, 1)


def test_nested_mappings_are_their_composition():
    """A subset of a sum of points, in one step and in three."""
    W = np.random.default_rng(3).normal(size=(4, 3))
    base = {"q": jm.Vec3(), "p": jm.Vec3()}
    spring = {"spring": jm.force.AnchoredSprings(("p", [0, 1]), 5.0, scenes.points(2, seed=1))}
    at_once = jm.System(
        base,
        forces=spring,
        mappings={"m": jm.mapping.SumMapping(("q", [[0, 1, 2]] * 2), "p", (W[:, :] @ np.eye(3))[[3, 1]])},
    )
    nested = jm.System(
        {**base, "r": jm.Vec3(), "s": jm.Vec3()},
        forces=spring,
        mappings={
            "z": jm.mapping.IdentityMapping.of("q", "r", nodes=3),
            "y": jm.mapping.SumMapping(("r", [[0, 1, 2]] * 4), "s", W),
            "x": jm.mapping.SubsetMapping(("s", [3, 1]), "p"),
        },
    )
    state = at_once.at_rest({"q": scenes.points(3, seed=2)})
    one, other = (jm.MatrixLinearSystem.build(s, state).assemble(s, state).to_dense() for s in (at_once, nested))
    np.testing.assert_allclose(other, one, rtol=0, atol=1e-13 * np.abs(one).max())


@pytest.mark.parametrize("wrong", ["cycle", "twice", "constraint", "position"])
def test_what_is_no_graph(wrong):
    dofs = {"a": jm.Vec3(), "b": jm.Vec3(), "c": jm.Vec3()}
    mappings = {"ab": jm.mapping.IdentityMapping.of("a", "b", nodes=1)}
    constraints, position, match = {}, {"a": [[0.0, 0.0, 0.0]], "c": [[1.0, 0.0, 0.0]]}, "a"
    if wrong == "cycle":
        mappings["ba"], match = jm.mapping.IdentityMapping.of("b", "a", nodes=1), "cycle|circle|depend"
    if wrong == "twice":
        mappings["cb"], match = jm.mapping.IdentityMapping.of("c", "b", nodes=1), "'b'"
    if wrong == "constraint":
        constraints, match = {"clamp": jm.constraint.Fixed(("b", [0]))}, "clamp"
    if wrong == "position":
        position, match = {**position, "b": [[0.0, 0.0, 0.0]]}, "'b'"
    with pytest.raises(ValueError, match=match):
        jm.System(dofs, mappings=mappings, constraints=constraints).at_rest(position)
