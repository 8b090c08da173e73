"""The law of one contact in scalars that are written down: its residual, the impulse of its turn, and Newton's."""

from collections.abc import Sequence

import numpy as np

from .._llvm.ir_builder import constant
from .._llvm.ir_scalars import Scalar, ScalarMath


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
    share = _share(math, free, mu * new)
    return [new, *(share * f for f in free)]


def coulomb_impulse(math: ScalarMath, aim: Sequence[Scalar], mu: Scalar) -> list[Scalar]:
    """What Coulomb's law leaves of an impulse: along the normal, then of friction, as much as the first allows."""
    normal = math.maximum(aim[0], _nil(math))
    share = _share(math, aim[1:], mu * normal)
    return [normal, *(share * f for f in aim[1:])]


def coulomb_slope(math: ScalarMath, aim: Sequence[Scalar], held: Sequence[Scalar], mu: Scalar) -> list[list[Scalar]]:
    """By how much a velocity makes `coulomb_impulse` less, of a contact that pushes; it takes `1 / held` from the aim."""
    a, b, radius = aim[1], aim[2], mu * aim[0]
    length = math.sqrt(a * a + b * b)
    slips = length > radius
    scale = math.where(slips, length, 1.0)
    share = math.where(slips, radius / scale, 1.0)
    t = [math.where(slips, x / scale, 0.0) for x in (a, b)]
    normal, nil = _one(math) / held[0], _nil(math)
    along = [share * (_one(math) - t[0] * t[0]), share * (_one(math) - t[1] * t[1])]
    across = -(share * t[0] * t[1]) / held[1]
    return [
        [normal, nil, nil],
        [mu * t[0] * normal, along[0] / held[1], across],
        [mu * t[1] * normal, across, along[1] / held[2]],
    ]


def _share(math: ScalarMath, free: Sequence[Scalar], radius: Scalar) -> Scalar:
    """The part of friction that lies within a disc."""
    length = math.sqrt(free[0] * free[0] + free[1] * free[1])
    return math.where(length > radius, radius / math.where(length > 0.0, length, 1.0), 1.0)


def _one(math: ScalarMath) -> Scalar:
    return math.number(constant(np.ones((), math.dtype)))


def _nil(math: ScalarMath) -> Scalar:
    return math.number(constant(np.zeros((), math.dtype)))
