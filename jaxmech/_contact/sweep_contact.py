"""What a sweep makes of one contact, in scalars that are written down: the impulse of its turn, and how far it may creep."""

from collections.abc import Sequence

import numpy as np

from .._llvm.ir_builder import constant
from .._llvm.ir_scalars import Scalar, ScalarMath

_EDGE, _ROUND = 1e-6, 0.2  # what is an edge, in squares of friction; how far a change goes along it, in radians


def natural_map(math: ScalarMath, r: Sequence[Scalar], u: Sequence[Scalar], w: Sequence[Scalar], mu: Scalar) -> list[Scalar]:
    """`r - P(r - (u + mu |u_T| n) / w)`, `w` the mean mobility."""
    rho = 3.0 * (_one(math) / (w[0] + w[4] + w[8]))
    slip = math.sqrt(u[1] * u[1] + u[2] * u[2])
    z = [r[0] - rho * (u[0] + mu * slip), r[1] - rho * u[1], r[2] - rho * u[2]]
    length = math.sqrt(z[1] * z[1] + z[2] * z[2])
    inside, reach = length <= mu * z[0], z[0] + mu * length
    edge = math.where(reach > 0.0, reach / (_one(math) + mu * mu), 0.0)
    share = mu * edge / math.where(length > 0.0, length, 1.0)
    within = inside & ~(z[0] < 0.0)
    return [r[0] - math.where(within, z[0], edge), *(r[i] - math.where(within, z[i], share * z[i]) for i in (1, 2))]


def turn(math: ScalarMath, r: Sequence[Scalar], u: Sequence[Scalar], w: Sequence[Scalar], mu: Scalar) -> list[Scalar]:
    """The impulse along the normal, then that of friction, as `gauss_seidel` has them."""
    normal = math.where(w[0] > 0.0, w[0], 1.0)
    tangent = math.maximum(0.5 * (w[4] + w[8]) + math.abs(w[5]), 1e-12 * normal)
    new = math.maximum(r[0] - u[0] / normal, _nil(math))
    change = new - r[0]
    free = [r[i] - (u[i] + w[3 * i] * change) / tangent for i in (1, 2)]
    length, radius = math.sqrt(free[0] * free[0] + free[1] * free[1]), mu * new
    share = math.where(length > radius, radius / math.where(length > 0.0, length, 1.0), 1.0)
    return [new, *(share * f for f in free)]


def reach(math: ScalarMath, r: Sequence[Scalar], d: Sequence[Scalar], mu: Scalar) -> Scalar:
    """How often a change takes an impulse from within its cone to the edge, or along the edge a little way round."""
    a, b, c = (mu * mu * p[0] * q[0] - p[1] * q[1] - p[2] * q[2] for p, q in ((d, d), (r, d), (r, r)))
    within = c > _EDGE * (mu * mu * r[0] * r[0])
    disc = b * b - a * c
    root = math.sqrt(math.maximum(disc, _nil(math)))
    crosses, turns = b - root < 0.0, a < 0.0
    near = math.where(crosses, c / math.where(crosses, root - b, 1.0), np.inf)
    far = math.where(turns, (b + root) / math.where(turns, -a, 1.0), np.inf)
    inner = math.where(disc < 0.0, np.inf, math.where(near < np.inf, near, far))
    slip = math.sqrt(d[1] * d[1] + d[2] * d[2])
    slips = slip > 0.0
    outer = math.where(slips, _ROUND * (mu * r[0]) / math.where(slips, slip, 1.0), np.inf)
    edge, opens = math.where(within, inner, outer), d[0] < 0.0
    tip = math.where(opens, r[0] / math.where(opens, -d[0], 1.0), np.inf)
    return math.where(r[0] > 0.0, math.where(edge < tip, edge, tip), np.inf)


def _one(math: ScalarMath) -> Scalar:
    return math.number(constant(np.ones((), math.dtype)))


def _nil(math: ScalarMath) -> Scalar:
    return math.number(constant(np.zeros((), math.dtype)))
