"""The rotation nearest to a deformation gradient, with derivatives of every order.

`R(F)` is the rotation of the polar decomposition `F = R S`, `S` symmetric, `det R = +1` also where `det F <
0`. Differentiating an SVD or an eigenvector divides by differences of singular values, which vanish at rest.
`R` itself does not: it is smooth wherever no two signed singular values add to zero. So its value comes from
any algorithm, here a fixed number of scalar steps, and its derivative from its definition: `R^T F` stays
symmetric, hence `dR = R hat(w)` with `(tr(S) I - S) w = vee(R^T dF - dF^T R)`. That rule is written in terms
of `R(F)` itself, so differentiating it again applies it again: second, third, ... derivatives are exact,
forward and reverse.
"""

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar
from .strain import cofactor, determinant, quadratic_invariant, trace

_SAFE = 1.0  # `D` beyond which the formula alone is exact: stretches within a factor of five
_SAFE_STEPS = 6  # of Newton, to rounding from there
_ROOT_STEPS = 14  # Newton halves its distance to a nearly double root, then squares it: enough for a stretch of 1000
_POLISH_STEPS = 2  # from the 1e-2 of the worst accepted case to rounding


def _product(A: Array, B: Array) -> Array:
    # XLA does not fuse batched dots on the CPU; it does fuse this
    return jnp.sum(A[:, :, None] * B[None, :, :], axis=1)


@jax.jit
def _turned(R: Array, F: Array, change: Array) -> Array:
    """`hat(w)` of the rotation that follows the skew part of `R^T change`, `F` being at `R S`."""
    S, M = _product(R.T, F), _product(R.T, change)
    G = trace(S) * jnp.eye(3, dtype=F.dtype) - 0.5 * (S + S.T)
    # The floor is met only where two singular values cancel (F = 0, a reflection): there R jumps, and no
    # derivative exists. A finite one is returned.
    limits = jnp.finfo(F.dtype)
    size = jnp.sum(F * F)
    det = jnp.maximum(determinant(G), limits.eps * size * jnp.sqrt(size + limits.tiny) + limits.tiny)
    inverse, axial = cofactor(G) / det, jnp.stack([M[2, 1] - M[1, 2], M[0, 2] - M[2, 0], M[1, 0] - M[0, 1]])
    w = jnp.sum(inverse * axial, axis=1)
    zero = jnp.zeros_like(w[0])
    return jnp.stack([jnp.stack([zero, -w[2], w[1]]), jnp.stack([w[2], zero, -w[0]]), jnp.stack([-w[1], w[0], zero])])


def _closed_form(F: Array, steps: int) -> tuple[Array, Scalar]:
    """`(R D, D)`, `D = 2 (s1+s2)(s2+s3)(s3+s1)`, from the largest root `t = tr S` of a quartic, by `steps` of Newton.

    With `a = |F|^2`, `b = |cof F|^2`, `J = det F`: `t^4 - 2 a t^2 - 8 J t + a^2 - 4 b = 0`, and `R = dt/dF`
    follows from the implicit function theorem. H. Lin, F. Chitalu, T. Komura, "Isotropic ARAP energy using
    Cauchy-Green invariants", ACM Trans. Graph. 41(6), 2022, doi:10.1145/3550454.3555507.
    """
    C, minors = _product(F.T, F), cofactor(F)
    a, b, J = trace(C), quadratic_invariant(C), determinant(F)

    def newton(_, t):  # from above: monotone, as the largest of four real roots
        slope = 4 * (t * (t * t - a) - 2 * J)
        value = t * (t * (t * t - 2 * a) - 8 * J) + (a * a - 4 * b)
        return t - jnp.where(slope > 0, value / jnp.where(slope > 0, slope, 1), 0)

    # Few steps are written out, to be one line with what surrounds them; many are compiled once.
    t = jax.lax.fori_loop(0, steps, newton, jnp.sqrt(3 * a), unroll=steps <= _SAFE_STEPS)
    return (t * t + a) * F + 2 * t * minors - 2 * _product(F, C), t * (t * t - a) - 2 * J


@jax.custom_jvp
@jax.jit  # each derivative asks for it again: it is traced once
def rotation(F: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """The rotation `R` that maximises `R:F`; one of them where there are several. Finite for finite `F`."""
    size = jnp.max(jnp.abs(F))
    F = F / jnp.where(size > 0, size, 1)
    F = F * (1 / jnp.sqrt(jnp.maximum(jnp.sum(F * F), 1)))
    scaled, D = _closed_form(F, _SAFE_STEPS)
    # A branch: elements that are evaluated together skip what none of them needs.
    is_safe, R = D > _SAFE, _orthogonalised(scaled * (1 / jnp.maximum(D, _SAFE)))
    return jax.lax.cond(~is_safe, lambda F, R: _careful(F), lambda F, R: R, F, R)


def _careful(F: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """The rotation of a gradient of norm one, or zero, whatever its distortion."""
    eps, eye = float(jnp.finfo(F.dtype).eps), jnp.eye(3, dtype=F.dtype)

    def formula(_, attempt: tuple[Array, Scalar, Array]) -> tuple[Array, Scalar, Array]:
        F, D, _ = attempt
        # Where D vanishes the rotation is not unique (or its rounding error exceeds 1e-2): a nearby F decides.
        lost = 10 * eps**0.5 > D
        F = jnp.where(lost, F + eps**0.2 * jnp.diag(jnp.array([3.0, 2.0, 1.0], F.dtype)), F)
        scaled, D = _closed_form(F, _ROOT_STEPS)
        return F, D, scaled / jnp.maximum(D, eps)

    def polished(_, R: Array) -> Array:
        W = _turned(R, F, F)
        return _orthogonalised(_product(R, eye + W + 0.5 * _product(W, W)))

    F, _, R = jax.lax.fori_loop(0, 2, formula, (F, jnp.ones((), F.dtype), eye))
    R = jax.lax.fori_loop(0, _POLISH_STEPS, polished, R)
    error = _product(R.T, R) - eye
    return jnp.where(jnp.sum(error * error) > 1e-2, eye, R)


def _orthogonalised(R: Array) -> Array:
    """`R` without its strain, to second order."""
    return 1.5 * R - 0.5 * _product(R, _product(R.T, R))


@rotation.defjvp
def _rotation_jvp(primals, tangents):
    (F,), (dF,) = primals, tangents
    R = rotation(F)
    return R, _product(R, _turned(R, F, dF))


@jax.custom_jvp
def rotation_distances(F: Float[Array, "3 3"]) -> tuple[Scalar, Scalar]:
    """`(|F - R|^2, tr(R^T F - I))`. As `R` maximises `R:F`, their gradients are `2 (F - R)` and `R`."""
    R = rotation(F)
    gap = F - R
    return jnp.sum(gap * gap), jnp.sum(R * gap)


@rotation_distances.defjvp
def _rotation_distances_jvp(primals, tangents):
    (F,), (dF,) = primals, tangents
    R = rotation(F)
    # The distances by their own name, so that differentiating them again takes this rule again, and not what R is made of.
    return rotation_distances(F), (2 * jnp.sum((F - R) * dF), jnp.sum(R * dF))
