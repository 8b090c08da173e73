"""Sweeps over the contacts of free bodies, and groups of them by themselves, against the laws of contact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm
from jaxmech._contact import motion_newton
from jaxmech._contact.cone import scaling
from jaxmech._contact.groups import group_by_group
from jaxmech._contact.problem import errors_of
from jaxmech._contact.sparse_rows import SparseRows
from jaxmech._contact.sweeps import are_swept, free_contacts, swept

MU = 0.5
NATURAL = 1e-8  # the residual of the natural map, relative to the velocities: what is asked of every problem
TWO_WAYS = 1e-6  # velocities of two ways whose residuals are below NATURAL
ROUNDING = 1e-12  # of a return to impulses that were kept
BALANCE = 1e-12  # of momentum, relative


def columns(rng, lengths=(3, 1, 4), each=3):
    """Columns of bodies on the ground, `each` contacts between two: more than hold them. `A`, `b`, rows."""
    nodes, blocks, body = [], [], 0
    for length in lengths:
        for level in range(length):
            for _ in range(each):
                n = np.array([0.0, 0.0, 1.0]) + 0.3 * rng.normal(size=3)
                t = np.cross(n, [1.0, 0.0, 0.0])
                frame = np.stack([n, t, np.cross(n, t)])
                frame /= np.linalg.norm(frame, axis=1)[:, None]
                arms = np.array([*rng.uniform(-0.5, 0.5, 2), -0.5]), np.array([*rng.uniform(-0.5, 0.5, 2), 0.5])
                upper, lower = (np.concatenate([frame, np.cross(a, frame)], axis=1) for a in arms)
                nodes.append([body, body - 1 if level else 0])
                blocks.append(np.stack([upper, -lower if level else 0 * lower], axis=1))
            body += 1
    pattern = jm.matrix.BlockPattern.build(np.arange(body), np.arange(body), shape=(body, body))
    mass = np.stack([np.diag(m * np.array([1, 1, 1, 0.1, 0.1, 0.2])) for m in rng.uniform(0.3, 3.0, body)])
    A = jm.matrix.BlockMatrix.from_entries({("box", "box"): jm.matrix.BlockSparse(jnp.asarray(mass), pattern)})
    b = {"box": jnp.asarray(np.einsum("bij,bj->bi", mass, 0.3 * rng.normal(size=(body, 6)) - [0, 0, 0.2, 0, 0, 0]))}
    return A, b, SparseRows({"box": (jnp.asarray(nodes), jnp.asarray(blocks))})


def solved(A, b, rows, *, by_groups):
    """Velocities, impulses and the residual, by sweeps, or each group by itself."""
    n = len(rows.parts["box"][0])
    contacts, inverse = free_contacts(A, rows, jnp.zeros((n, 3)), jnp.full(n, MU), jnp.zeros((n, 3)).at[:, 0].set(1e-3))
    x = {"box": jnp.einsum("bij,bj->bi", inverse["box"], b["box"])}
    goal, nothing = jnp.asarray(1e-10), jnp.zeros((n, 3))
    if by_groups:
        x, r, _ = group_by_group(contacts, x, nothing, jnp.asarray(np.repeat([0, 3, 4], [9, 3, 12])), goal)
    else:
        x, r, label = swept(contacts, x, nothing, jnp.ones(n, bool), goal)
        r = jnp.where(jnp.any(label >= 0), jnp.nan, r)
    u = rows.across(x, n) + contacts.give * r
    momentum = A.mv(x)["box"] - b["box"] - rows.pushed(r, b)["box"]
    errors = errors_of(r, u, contacts.mu, jnp.ones(n), 0.3)
    return x["box"], r, errors.natural, jnp.abs(momentum).max()


@pytest.fixture(scope="module")
def problem():
    return columns(np.random.default_rng(3))


@pytest.fixture(scope="module")
def by_sweeps(problem):
    return [np.asarray(a) for a in jax.jit(lambda b: solved(problem[0], b, problem[2], by_groups=False))(problem[1])]


@pytest.mark.cpu
def test_sweeps_solve_the_laws_of_contact(problem, by_sweeps):
    assert are_swept(problem[0])
    _, r, natural, momentum = by_sweeps
    assert natural <= NATURAL and momentum <= BALANCE
    assert (r[:, 0] > 0.01).sum() > 5  # [N s] it is a pile that bears
    slips = np.linalg.norm(r[:, 1:], axis=1) > 0.999 * MU * r[:, 0]
    assert 0 < (slips & (r[:, 0] > 0)).sum() < (r[:, 0] > 0).sum()  # some stick, some slip


def at_rest(A, b, rows, u0, mu):
    """Groups that are left, and the natural map, of sweeps from no impulses, and of those; contacts without compliance."""
    n, nothing = len(mu), jnp.zeros((len(mu), 3))

    def found(b):
        contacts, inverse = free_contacts(A, rows, u0, mu, nothing)
        free = {"box": jnp.einsum("bij,bj->bi", inverse["box"], b["box"])}
        x, r, label = swept(contacts, free, nothing, jnp.ones(n, bool), jnp.asarray(1e-10))
        rho = 3 / jnp.einsum("nika,nika->n", rows.parts["box"][1], contacts.moved.parts["box"][1])
        ends = (r, x), (nothing, free)
        return label, *(errors_of(r, rows.across(x, n) + u0, mu, rho, 0.3).natural for r, x in ends)

    return jax.jit(found)(b)


@pytest.mark.cpu
@pytest.mark.parametrize("lengths, gap", [((5,), 1e-6), ((20,), 1e-4)])
def test_impulses_that_creep_under_sweeps_are_solved_by_newton(lengths, gap):
    """Eight contacts between two bodies, whose gaps say that not all of them can hold: sweeps alone do not get there."""
    rng = np.random.default_rng(1)
    A, b, rows = columns(rng, lengths, 8)
    n = 8 * sum(lengths)
    u0 = jnp.zeros((n, 3)).at[:, 0].set(gap * np.abs(rng.normal(size=n)))  # [m/s]
    label, natural, _ = at_rest(A, b, rows, u0, jnp.full(n, MU))
    assert (label == -1).all() and natural <= NATURAL


@pytest.mark.cpu
def test_what_does_not_converge_is_none_worse_than_its_start():
    """Contradictory velocities of gaps, friction up to 1000: sweeps and rounds go ever farther off, and it is seen."""
    rng = np.random.default_rng(3)
    A, b, rows = columns(rng, (20,), 8)
    u0 = jnp.zeros((160, 3)).at[:, 0].set(0.3 * rng.normal(size=160))  # [m/s]
    mu = jnp.asarray(10 ** rng.uniform(2, 3, 160))
    label, natural, begun = at_rest(A, b, rows, u0, mu)
    assert (label >= 0).all()  # none is said to be solved
    assert natural <= (1 + ROUNDING) * begun


@pytest.mark.cpu
@pytest.mark.slow
def test_groups_by_themselves_move_as_sweeps_do(problem, by_sweeps):
    A, b, rows = problem
    x, _, natural, momentum = jax.jit(lambda b: solved(A, b, rows, by_groups=True))(b)
    assert natural <= NATURAL and momentum <= BALANCE
    assert np.abs(x - by_sweeps[0]).max() <= TWO_WAYS


@pytest.mark.cpu
def test_a_batch_of_piles_goes_the_way_of_each(problem, by_sweeps):
    A, b, rows = problem
    faster = {"box": jnp.stack([b["box"], 2 * b["box"]])}  # twice the velocities and the impulses
    x, r, natural, _ = jax.jit(jax.vmap(lambda b: solved(A, b, rows, by_groups=False)))(faster)
    assert np.array_equal(x[0], by_sweeps[0]) and np.array_equal(r[0], by_sweeps[1])
    assert natural.max() <= NATURAL and np.abs(x[1] - 2 * x[0]).max() <= TWO_WAYS


@pytest.mark.cpu
def test_nodes_that_are_not_there_are_nan(problem):
    A, b, rows = problem
    nodes, blocks = rows.parts["box"]
    wrong = SparseRows({"box": (nodes.at[0, 0].set(10**6), blocks)})
    x, _, _, _ = jax.jit(lambda b: solved(A, b, wrong, by_groups=False))(b)
    assert np.isnan(x).any()


def test_without_a_kernel_nothing_is_called_solved(problem):
    A, b, rows = problem
    n = len(rows.parts["box"][0])
    held = np.arange(n) % 3 > 0

    def swept_(b):
        contacts, _ = free_contacts(A, rows, jnp.zeros((n, 3)), jnp.full(n, MU), jnp.zeros((n, 3)))
        return swept(contacts, b, jnp.ones((n, 3)), jnp.asarray(held), jnp.asarray(1e-10))

    with jm.runtime.element_compiler("xla"):
        x, r, label = jax.jit(swept_)(b)
    assert np.array_equal(label, np.where(held, 0, -1))
    assert np.array_equal(x["box"], b["box"]) and np.array_equal(r, np.ones((n, 3)))


@pytest.mark.slow
@pytest.mark.parametrize("whole", [200, pytest.param(4, marks=pytest.mark.slow)])
def test_a_program_that_is_lowered_without_its_kernel_solves_the_laws(problem, whole, monkeypatch):
    """Traced where there is one: by Newton's method for all contacts, and for a group of them."""
    A, b, rows = problem
    n = len(rows.parts["box"][0])
    monkeypatch.setattr(motion_newton, "are_swept", lambda A: True)
    monkeypatch.setattr(motion_newton, "WHOLE", whole)

    def moved(b):
        give = jnp.zeros((n, 3)).at[:, 0].set(1e-3)
        parts = (A, b, rows, jnp.zeros((n, 3)), jnp.full(n, MU), give, jnp.ones(n, bool), jnp.zeros(()), "dense")
        end = motion_newton.move(motion_newton.MovingContacts(*parts), jnp.zeros((n, 3)), 1e-8)
        r = scaling(jnp.full(n, MU)) * end.s
        u = rows.across(end.x, n) + give * r
        momentum = A.mv(end.x)["box"] - b["box"] - rows.pushed(r, b)["box"]
        return end.fine, errors_of(r, u, jnp.full(n, MU), jnp.ones(n), 0.3).natural, jnp.abs(momentum).max()

    with jm.runtime.element_compiler("xla"):
        fine, natural, momentum = jax.jit(moved)(b)
    assert fine and natural <= TWO_WAYS and momentum <= TWO_WAYS


def test_what_is_coupled_is_not_swept(problem):
    pattern = jm.matrix.BlockPattern.build(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), shape=(2, 2))
    A = jm.matrix.BlockMatrix.from_entries({("box", "box"): jm.matrix.BlockSparse(jnp.ones((4, 6, 6)), pattern)})
    assert not are_swept(A)
