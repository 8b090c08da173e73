"""Viscoelasticity at large strains: a material with Maxwell branches beside it."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._runtime.host_arrays import as_data
from .._scene.internal import internal, time_step
from .._scene.parameter import Ranges, as_array, check_range, parameter
from .base import AbstractMaterial
from .lame import check_numbers
from .strain import cofactor, determinant, determinants
from .wrapped import innermost

_DEFECT = 1e-4  # of `flow` in float32, after many steps


class Viscoelastic(AbstractMaterial):
    """`psi = psi_0(F) + sum_b mu_b/2 (tr(C' V_b^-1) - 3)`, `C' = J^(-2/3) F^T F` [J/m^3]: a material with branches beside
    it, each a neo-Hookean spring in series with a dashpot, which resist changes of shape for a while.

    `V_b` is the `C'` to which a branch has flowed. A step of `dt` flows to `V = A / det(A)^(1/3)`, `A = V_old + (dt/tau_b)
    C'`, which makes `mu/2 tr(C' V^-1) + tau mu/(2 dt) tr(V_old V^-1)` least, what is stored and what is dissipated: that is
    its energy density, whose derivative is the stress. At small strains a branch is Maxwell's: `s' + s/tau = 2 mu e'`, by
    implicit Euler.

    `elastic`: the material `psi_0` that is left in the end, one without memory. `modulus` `mu_b` [Pa] and `relaxation_time`
    `tau_b` [s]: `(branches,)`, with axes of elements, and of Gauss points, in front. Internal variable of every point:
    `flow` `V_b` (branches, 3, 3), symmetric and of determinant 1, the identity at the start unless given. Volume has no
    viscosity. Raises `ValueError` or `TypeError` for numbers that are not positive, or that do not fit.
    Source: A. V. Shutov, R. Landgraf and J. Ihlemann, Comput. Methods Appl. Mech. Eng. 265, 2013,
    doi:10.1016/j.cma.2013.07.004 (the update in closed form); J. C. Simo and T. J. R. Hughes, *Computational Inelasticity*,
    1998, doi:10.1007/b98904, chapter 10.

    Example:

        law = jm.material.Viscoelastic(jm.material.NeoHookean(1e6, 0.25), modulus=[5e5], relaxation_time=[0.1])
        sheared = jnp.eye(3).at[0, 1].set(0.01)
        P = jax.grad(law.energy_density)(sheared)  # where no time passes
        assert jnp.allclose(P[0, 1], (4e5 + 5e5) * 0.01, rtol=1e-3)  # (mu + mu_b) gamma [Pa]
    """

    elastic: AbstractMaterial
    modulus: Parameter = parameter(ndim=1)
    relaxation_time: Parameter = parameter(ndim=1)
    flow: Parameter = internal(np.eye(3)[None])
    dt: Parameter = time_step()
    needs_positive_volume = True

    def __init__(self, elastic: AbstractMaterial, modulus: Any, relaxation_time: Any, *, flow: Any = None):
        self.elastic = elastic
        self.modulus = as_array(modulus)
        self.relaxation_time = as_array(relaxation_time)
        branches = getattr(self.modulus, "shape", ())[-1:]
        self.flow = as_data(np.tile(np.eye(3), (*branches, 1, 1))) if flow is None else as_array(flow)
        self.dt = as_array(0.0)

    def __check_init__(self):
        check_instance("Viscoelastic", "elastic", innermost(self.elastic), AbstractMaterial)
        check_numbers(self)
        sizes = {self.modulus.shape[-1], self.relaxation_time.shape[-1], *self.flow.shape[-3:-2]}
        if len(sizes) != 1 or sizes == {0} or self.flow.shape[-2:] != (3, 3):
            raise ValueError(
                f"Viscoelastic: modulus of shape {self.modulus.shape}, relaxation_time of {self.relaxation_time.shape} and "
                f"flow of {self.flow.shape} must have as many branches, at least one, flow (branches, 3, 3)."
            )
        check_range(
            self,
            modulus=(self.modulus, lambda mu: mu > 0, "positive"),
            relaxation_time=(self.relaxation_time, lambda tau: tau > 0, "positive"),
            **self.internal_ranges(),
        )

    def internal_ranges(self) -> Ranges:
        return {"flow": (self.flow, _has_flowed, "symmetric, positive and of determinant 1")}

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        modulus, flow, ratio = self._numbers(F)
        C = _isochoric(F)
        # With `det V = det C' = 1`: det(V + r C') = 1 + r y, and (det^(1/3) - 1) / r = y / (c^2 + c + 1), also where r = 0.
        first = jnp.stack([jnp.sum(cofactor(V) * C) for V in flow])
        second = jnp.stack([jnp.sum(V * cofactor(C)) for V in flow])
        y = first + ratio * (second + ratio)
        c = jnp.cbrt(1 + ratio * y)
        return self.elastic.energy_density(F) + 1.5 * jnp.sum(modulus * (y / (c * c + c + 1) - 1))

    def point_update(self, F: Float[Array, "3 3"]) -> dict[str, Array]:
        _, flow, ratio = self._numbers(F)
        A = flow + ratio[:, None, None] * _isochoric(F)
        return {"flow": jnp.stack([B / jnp.cbrt(determinant(B)) for B in A])}

    def _numbers(self, F: Array) -> tuple[Array, Array, Array]:
        modulus, flow, time, dt = (jnp.asarray(a, F.dtype) for a in (self.modulus, self.flow, self.relaxation_time, self.dt))
        return modulus, flow, dt / time


def _has_flowed(V: Any) -> Any:
    """Of each tensor. What rounding adds up in a history is allowed."""
    defect = abs(V - V.swapaxes(-1, -2)).max((-1, -2)) + abs(determinants(V) - 1)
    minor = V[..., 0, 0] * V[..., 1, 1] - V[..., 0, 1] * V[..., 1, 0]
    return (defect < _DEFECT) & (V[..., 0, 0] > 0) & (minor > 0)  # and the determinant: all of them positive


def _isochoric(F: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """`C' = J^(-2/3) F^T F`."""
    return F.T @ F / jnp.cbrt(determinant(F)) ** 2
