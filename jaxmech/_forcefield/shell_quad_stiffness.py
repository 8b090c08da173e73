"""The force and the stiffness of a shell quad, whose strains are quadratic forms of positions and directors.

Derived once more by hand: a tenth of the operations of the Hessian of the energy, which is the same, to rounding.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array, Float
from .shell_quad import Drilling

_CROSS = np.zeros((3, 3, 3))  # `(w x u)_i = _CROSS[i, j, m] w_j u_m`
_CROSS[[0, 1, 2], [1, 2, 0], [2, 0, 1]], _CROSS[[0, 1, 2], [2, 0, 1], [1, 2, 0]] = 1.0, -1.0


class QuadModuli(NamedTuple):
    """What does work on strains [J]."""

    membrane: Float[Array, "5 5"]
    bending: Float[Array, "5 5"]
    shear: Float[Array, "4 4"]
    drilling: Float[Array, " q"]

    def of_forms(self, strains: Float[Array, "9 ..."]) -> Float[Array, "9 ..."]:
        """On the strains that are forms of positions and directors, or on each of their derivatives."""
        return jnp.concatenate([self.bending @ strains[:5], self.shear @ strains[5:]])


def quad_derivatives(
    forms: Float[Array, "9 4 4"],
    x: Float[Array, "4 3"],
    d: Float[Array, "4 3"],
    strains: tuple[Float[Array, "5"], Float[Array, "9"]],
    at: Drilling,
    moduli: QuadModuli,
) -> tuple[Float[Array, "4 6"], Float[Array, "4 6 4 6"]]:
    """The derivatives of the energy by displacements, and turns about axes of the world: `K = J^T D J + geometric`."""
    stress, moments = (moduli.membrane @ strains[0], moduli.of_forms(strains[1])), moduli.drilling * at.off
    M, U = _work(forms, d, stress, at, moments)
    gradient = jnp.concatenate([M @ x + jnp.sum(U, axis=1), jnp.sum(jnp.cross(U, x[:, None]), axis=0)], axis=1)
    by_director = jnp.einsum("ikl,kc->ilc", forms, x)  # the first five also stretch
    rates = [jnp.einsum("ikl,lc->ikc", forms, d), jnp.cross(d, by_director)]
    drilled = _drilling_rates(at)
    J = [jnp.concatenate(pair) for pair in zip(rates, drilled, strict=True)]
    DJ = [
        jnp.concatenate([moduli.of_forms(a.reshape(9, 12)).reshape(9, 4, 3), moduli.drilling[:, None, None] * b])
        for a, b in zip(rates, drilled, strict=True)
    ]
    stretched = _products(by_director[:5], (moduli.membrane @ by_director[:5].reshape(5, 12)).reshape(5, 4, 3))
    xx, xw, ww = _geometric_stiffness(x, M, U)
    xx, xw, ww = xx + stretched + _products(J[0], DJ[0]), xw + _products(J[0], DJ[1]), ww + _products(J[1], DJ[1])
    rows = jnp.concatenate([xx, xw], axis=3), jnp.concatenate([xw.transpose(2, 3, 0, 1), ww], axis=3)
    return gradient, jnp.concatenate(rows, axis=1)


def _products(a: Float[Array, "n 4 3"], b: Float[Array, "n 4 3"]) -> Float[Array, "4 3 4 3"]:
    return jnp.einsum("ika,ilb->kalb", a, b)


def _work(
    forms: Float[Array, "9 4 4"],
    d: Float[Array, "4 3"],
    stress: tuple[Array, Array],
    at: Drilling,
    moments: Float[Array, " q"],
) -> tuple[Float[Array, "4 4"], Float[Array, "4 4 3"]]:
    """`M` and `U`: of given stresses, strains do the work `x_k M_kl x_l / 2 + x_k . U_kl`; `U_kl` turns with corner `l`."""
    half = 0.5 * moments[:, None, None] * at.slopes
    first, second = (jnp.einsum("qk,qlc->klc", half[:, :, 1 - a], at.carried[..., a]) for a in (0, 1))
    mixed = jnp.einsum("i,ikl->kl", stress[1], forms)
    return jnp.einsum("i,ikl->kl", stress[0], forms[:5]), mixed[:, :, None] * d + first - second


def _drilling_rates(at: Drilling) -> tuple[Float[Array, "q 4 3"], Float[Array, "q 4 3"]]:
    """The derivatives of `off` by positions and turns."""
    axes = 0.5 * jnp.sum(at.carried, axis=1)
    by_position = at.slopes[:, :, 1:] * axes[:, None, :, 0] - at.slopes[:, :, :1] * axes[:, None, :, 1]
    first, second = (jnp.cross(at.carried[..., a], 0.5 * at.tangents[:, None, :, 1 - a]) for a in (0, 1))
    return by_position, first - second


def _geometric_stiffness(
    x: Float[Array, "4 3"], M: Float[Array, "4 4"], U: Float[Array, "4 4 3"]
) -> tuple[Float[Array, "4 3 4 3"], Float[Array, "4 3 4 3"], Float[Array, "4 3 4 3"]]:
    """The second derivatives of `x_k M_kl x_l / 2 + x_k . exp(w_l) U_kl`: by positions, by both, and by turns `w`."""
    one, cross = jnp.eye(3, dtype=x.dtype), jnp.asarray(_CROSS, x.dtype)
    moment = jnp.einsum("ki,klj->lij", x, U)
    turned = 0.5 * (moment + moment.swapaxes(1, 2)) - jnp.einsum("lii->l", moment)[:, None, None] * one
    return (
        M[:, None, :, None] * one[:, None],
        jnp.einsum("ijm,klm->kilj", cross, U),
        jnp.eye(4, dtype=x.dtype)[:, None, :, None] * turned[:, :, None],
    )
