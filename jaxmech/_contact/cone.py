"""The cone of Coulomb's law: projections, plain and smoothed, and what interior points need of it.

A contact has three components: along the normal, and along two tangents. `r = D s`, `D = diag(1, mu, mu)`, makes Coulomb's
cone `|r_T| <= mu r_n` of the second-order cone `|s_T| <= s_n`, which is its own dual; velocities go the other way,
`y = D (u + mu |u_T| n)`, so that `s . y = r . (u + mu |u_T| n)`. `n` is the normal, and `mu |u_T|` the term of De Saxce:
with it Signorini's and Coulomb's laws are one, `s` and `y` in the cone, `s . y = 0`.
"""

import jax.numpy as jnp

from .._math.safe_norm import safe_length
from .._runtime.array_types import Array, Float, Scalar


def scaling(mu: Array) -> Array:
    """The diagonal of `D`."""
    return jnp.stack([jnp.ones_like(mu), mu, mu], axis=-1)


def dual(u: Float[Array, "3"], mu: Scalar) -> Float[Array, "3"]:
    """`y = D (u + mu |u_T| n)`."""
    return jnp.concatenate([(u[0] + mu * safe_length(u[1:]))[None], mu * u[1:]])


def smoothed_projection(w: Float[Array, "3"], kappa: Scalar) -> Float[Array, "3"]:
    """The point `s` of the second-order cone where `s o (s - w) = kappa^2 e`: the nearest to `w` for `kappa = 0`.

    `(w + (w^2 + 4 kappa^2 e)^(1/2)) / 2` with products and roots of the Jordan algebra of the cone. The two spectral values
    enter by their sum `S = s_1 + s_2`, `s_i = sqrt((w_n +- |w_T|)^2 + 4 kappa^2)`, a function of `|w_T|^2`: smooth at 0.
    Source: M. Fukushima, Z.-Q. Luo, P. Tseng, SIAM J. Optim. 12 (2002) 436, doi:10.1137/S1052623400380365.
    """
    t, k = w[1:] @ w[1:], 4 * kappa**2
    product = (w[0] ** 2 - t) ** 2 + 2 * k * (w[0] ** 2 + t) + k * k
    total = 2 * (w[0] ** 2 + t + k) + 2 * _root(product)
    S = _root(total)
    share = w[0] / jnp.where(S > 0, S, 1.0)
    return jnp.concatenate([(0.5 * w[0] + 0.25 * S)[None], (0.5 + share) * w[1:]])


def _root(x: Array) -> Array:
    """Of what is nil where neither it nor its derivative matters."""
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)


def coulomb_projection(w: Float[Array, "3"], mu: Scalar) -> Float[Array, "3"]:
    """The point of Coulomb's cone `|r_T| <= mu r_n` nearest to `w`."""
    length = safe_length(w[1:])
    t = w[1:] / jnp.where(length > 0, length, 1.0)
    inside, below = mu * w[0] - length, w[0] + mu * length
    edge = jnp.maximum(below, 0.0) / (1 + mu**2)
    # Without friction the cone is a half line, and what is opposite to it not within.
    return jnp.where((inside >= 0) & (w[0] >= 0), w, jnp.concatenate([edge[None], mu * edge * t]))


def determinant(x: Array) -> Array:
    """`x_n^2 - |x_T|^2` of `(n, 3)`: positive within the cone."""
    length = jnp.linalg.norm(x[:, 1:], axis=1)
    return (x[:, 0] - length) * (x[:, 0] + length)


def inverse(x: Array) -> Array:
    """`x o x^-1 = e`."""
    return x * jnp.array([1.0, -1.0, -1.0], x.dtype) / determinant(x)[:, None]


def longest_step(x: Array, d: Array) -> Array:
    """For each cone the largest `a` of at most 1 for which `x + a d` does not leave it; `x` is within."""
    a, b, c = _form(d, d), _form(x, d), jnp.maximum(determinant(x), 0.0)
    # The least positive root of a t^2 + 2 b t + c, in the form without cancellation.
    root = jnp.sqrt(jnp.maximum(b * b - a * c, 0.0))
    crosses = (b - root < 0) & ((b * b - a * c) >= 0)
    t = jnp.where(crosses, c / jnp.where(crosses, root - b, 1.0), jnp.inf)
    t = jnp.where(a < 0, jnp.where(b > 0, (b + root) / jnp.where(a < 0, -a, 1.0), t), t)
    tip = jnp.where(d[:, 0] < 0, x[:, 0] / jnp.where(d[:, 0] < 0, -d[:, 0], 1.0), jnp.inf)
    return jnp.minimum(jnp.minimum(t, tip), 1.0)


def _form(x: Array, y: Array) -> Array:
    return x[:, 0] * y[:, 0] - jnp.sum(x[:, 1:] * y[:, 1:], axis=1)


def scaling_point(s: Array, y: Array) -> Array:
    """The symmetric positive `Q` of Nesterov and Todd with `Q s = y`, `(n, 3, 3)`, `s` and `y` within the cone.

    Source: L. Vandenberghe, *The CVXOPT linear and quadratic cone program solvers*, 2010, section 4.2.
    """
    J = jnp.array([1.0, -1.0, -1.0], s.dtype)
    ds, dy = determinant(s), determinant(y)
    ss, yy = s / jnp.sqrt(ds)[:, None], y / jnp.sqrt(dy)[:, None]
    g = jnp.sqrt(0.5 * (1 + jnp.sum(ss * yy, axis=1)))
    v = (J * ss + yy) / (2 * g)[:, None]
    return jnp.sqrt(dy / ds)[:, None, None] * (2 * v[:, :, None] * v[:, None, :] - jnp.diag(J))
