"""Groups of bodies that touch, of a pile the few that sweeps do not solve: a problem of their own, as small as they are."""

from typing import NamedTuple

import jax.numpy as jnp

from .._model.dynamics import Fields
from .._runtime.array_types import Array
from .._runtime.loops import seldom_loop
from .._sparse.block_matrix import BlockMatrix
from .cone import scaling
from .problem import ContactProblem, cone_of
from .scaled import ScaledProblem
from .sparse_rows import SparseRows
from .stages import by_stages

WHOLE = 200  # contacts up to which all of them together are few enough
_MOST = 128  # contacts at once
_STEPS = 1000


class FreeContacts(NamedTuple):
    """Contacts between bodies that nothing else couples: `u = H x + C r + u0`, and the changes of velocity `V^T r`."""

    A: BlockMatrix
    rows: SparseRows
    moved: SparseRows
    u0: Array
    mu: Array
    give: Array

    def chosen(self, take: Array, valid: Array) -> "FreeContacts":
        """Some of them; without effect, and open, where they are not `valid`."""
        rows, moved = (
            SparseRows(
                {s: (nodes[take], blocks[take] * valid[:, None, None, None]) for s, (nodes, blocks) in a.parts.items()}
            )
            for a in (self.rows, self.moved)
        )
        far = jnp.zeros((take.shape[0], 3), self.u0.dtype).at[:, 0].set(1.0)
        u0 = jnp.where(valid[:, None], self.u0[take], far)
        return FreeContacts(self.A, rows, moved, u0, self.mu[take] * valid, self.give[take] * valid[:, None])

    def problem(self, x: Fields) -> ContactProblem:
        """That of their impulses, where bodies have changed their velocities by `x` without them."""
        n, H, V = self.mu.shape[0], *(a.dense(x, self.mu.shape[0]) for a in (self.rows, self.moved))
        W = sum(jnp.einsum("ind,jnd->ij", H[s], V[s]) for s in H) + jnp.diag(self.give.reshape(-1))
        return ContactProblem(W, self.u0 + self.rows.across(x, n), self.mu)

    def pushed(self, x: Fields, r: Array) -> Fields:
        """`x` after impulses."""
        more = self.moved.pushed(r, x)
        return {s: x[s] + more[s] for s in x}


class _Rest(NamedTuple):
    x: Fields
    r: Array
    label: Array
    steps: Array
    going: Array


def group_by_group(contacts: FreeContacts, x: Fields, r: Array, label: Array, goal: Array) -> tuple[Fields, Array, Array]:
    """Changes of velocity, impulses, and steps, where the groups of `label` `(n,)`, -1 of what is solved, are solved too,
    with natural maps as small as `goal`; a group of more than 128 contacts is left."""
    most = min(_MOST, label.shape[0])

    def advance(p: _Rest) -> _Rest:
        key = jnp.where(p.label >= 0, p.label, jnp.iinfo(jnp.int32).max)
        order = jnp.argsort(key)
        take, sorted_ = order[:most], key[order]
        whole = jnp.searchsorted(sorted_, sorted_[:most], side="right") <= most
        valid = (p.label[take] >= 0) & whole
        few, old = contacts.chosen(take, valid), p.r[take] * valid[:, None]
        free = few.pushed(p.x, -old)
        scaled = ScaledProblem.of(few.problem(free))
        start = cone_of(few.mu, old) / scaled.units
        share = goal * scaled.w / scaled.c
        s, _, steps, _ = by_stages(scaled, jnp.zeros((), r.dtype), start, "auto", _STEPS, share)
        new = scaling(few.mu) * s * scaled.units
        end = p.r.at[take].set(jnp.where(valid[:, None], new, p.r[take]))
        label = p.label.at[take].set(jnp.where(valid, -1, p.label[take]))
        return _Rest(few.pushed(free, new), end, label, p.steps + steps, jnp.any(valid) & jnp.any(label >= 0))

    start = _Rest(x, r, label, jnp.zeros((), jnp.int32), jnp.any(label >= 0))
    end = seldom_loop(lambda p: p.going, advance, start)
    return end.x, end.r, end.steps
