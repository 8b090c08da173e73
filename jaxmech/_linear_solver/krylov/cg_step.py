"""A step of conjugate gradients, in operations on arrays."""

import jax.numpy as jnp

from ..base.vectors import Vector, dot, norm, plus
from .cg_recurrence import CGState, direction, length


def towards(last: CGState, z: Vector) -> CGState:
    """With the next direction `p`, from the preconditioned residual `z`."""
    rz = dot(last.r, z)
    beta, pMp = direction(jnp, rz, last.rz, last.pMp)
    return last._replace(p=plus(z, beta, last.p), rz=rz, pMp=pMp)


def along(last: CGState, Ap: Vector) -> CGState:
    """After the step along `p`, whose product is `Ap`."""
    eps = float(jnp.finfo(last.rz.dtype).eps)
    alpha, steepest, flaw = length(jnp, dot(last.p, Ap), last.rz, last.pMp, last.steepest, eps)
    r, flaw = plus(last.r, -alpha, Ap), flaw.astype(jnp.int32)
    return last._replace(d=plus(last.d, alpha, last.p), r=r, steepest=steepest, residual=norm(r), flaw=flaw)
