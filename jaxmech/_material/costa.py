"""The orthotropic exponential solid of Costa, for the heart's muscle."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .._math.small_matmul import times_blocks
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .base import AbstractMaterial
from .lame import check_numbers
from .strain import green_lagrange, log_defect, shear_terms

_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_UNIT = 1e-6  # that three directions may miss to be orthonormal: float32


class Costa(AbstractMaterial):
    """`psi = a/2 (exp(J^(-4/3) Q) - 1) + bulk (J ln J - J + 1)` [J/m^3], with
    `Q = bff Eff^2 + bss Ess^2 + bnn Enn^2 + 2 (bfs Efs^2 + bfn Efn^2 + bsn Esn^2)`.

    `E = (F^T F - I)/2` in the axes of fibres `f`, of their sheets `s`, and normal to these `n`. `a` and `bulk` [Pa]; the
    others are numbers: shared, or one per element or Gauss point. `directions` (3, 3), with such axes in front: the
    orthonormal rows `f, s, n`, x, y, z unless given. In the source `J = 1`; the power of `J` and the term of `bulk` are
    SOFA's, whose parameters `(a, k0, bff, bfs, bss, bfn, bsn, bnn)` are in this order. NaN where `J < 0`.
    Raises `ValueError` unless `a` and `bulk` are positive, none of the others negative, and the directions orthonormal,
    `TypeError` for what is not a real number.
    Source: K. D. Costa, J. W. Holmes and A. D. McCulloch, "Modelling cardiac mechanical properties in three dimensions",
    Phil. Trans. R. Soc. A 359, 2001, doi:10.1098/rsta.2001.0828.

    Example:

        law = jm.material.Costa(1e3, 1e6, bff=8.0, bfs=4.0, bss=3.0, bfn=4.0, bsn=2.0, bnn=3.0)
        sheared = jnp.eye(3).at[0, 1].set(0.1)  # of constant volume; Efs = 0.05, Ess = 0.005
        assert jnp.allclose(law.energy_density(sheared), 500.0 * jnp.expm1(3.0 * 0.005**2 + 8.0 * 0.05**2))  # [J/m^3]
    """

    a: Parameter = parameter()
    bulk: Parameter = parameter()
    bff: Parameter = parameter()
    bfs: Parameter = parameter()
    bss: Parameter = parameter()
    bfn: Parameter = parameter()
    bsn: Parameter = parameter()
    bnn: Parameter = parameter()
    directions: Parameter = parameter(ndim=2, default=_AXES)
    needs_positive_volume = True

    def __check_init__(self):
        check_numbers(self)
        if self.directions.shape[-2:] != (3, 3):
            raise ValueError(f"Costa: directions has shape {self.directions.shape}, expected (3, 3) at the end: f, s, n.")
        rest = {name: (getattr(self, name), lambda b: b >= 0, "at least 0") for name in _ORTHOTROPIC}
        check_range(
            self,
            a=(self.a, lambda a: a > 0, "positive"),
            bulk=(self.bulk, lambda k: k > 0, "positive"),
            directions=(self.directions, _orthonormal, "of orthonormal rows"),
            **rest,
        )

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        a, bulk, axes = (jnp.asarray(c, F.dtype) for c in (self.a, self.bulk, self.directions))
        bff, bfs, bss, bfn, bsn, bnn = (jnp.asarray(getattr(self, name), F.dtype) for name in _ORTHOTROPIC)
        weights = jnp.stack([jnp.stack([bff, bfs, bfn]), jnp.stack([bfs, bss, bsn]), jnp.stack([bfn, bsn, bnn])])
        E = times_blocks(times_blocks(axes, green_lagrange(F)), axes.T)
        _, volume = shear_terms(F)
        log_j = jnp.log1p(volume)
        exponent = jnp.exp(-4 / 3 * log_j) * jnp.sum(weights * E * E)
        return 0.5 * a * jnp.expm1(exponent) + bulk * (volume * log_j - log_defect(volume))


_ORTHOTROPIC = ("bff", "bfs", "bss", "bfn", "bsn", "bnn")


def _orthonormal(axes: np.ndarray) -> Any:
    gram = axes @ np.swapaxes(axes, -1, -2)
    return np.broadcast_to((np.abs(gram - np.eye(3)) < _UNIT).all(axis=(-2, -1), keepdims=True), axes.shape)
