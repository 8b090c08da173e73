"""The two moduli of an isotropic material, said in two ways, and the checks of a material's numbers.

`mu` is the shear modulus and `lam` Lame's first parameter, both [Pa]; `young` is Young's modulus [Pa] and
`poisson` Poisson's ratio. Formulas: L. D. Landau and E. M. Lifshitz, *Theory of Elasticity*, 3rd ed., 1986,
section 5.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import real_array
from .._runtime.array_types import Array
from .._scene.parameter import check_parameters, check_range, is_concrete


def lame_parameters(young: Array | float, poisson: Array | float) -> tuple[Any, Any]:
    """`(mu, lam)` [Pa]: `mu = E / (2 (1 + nu))`, `lam = E nu / ((1 + nu) (1 - 2 nu))`."""
    return young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))


def engineering_constants(mu: Array | float, lam: Array | float) -> tuple[Any, Any]:
    """`(young, poisson)` [Pa, -]: `E = mu (3 lam + 2 mu) / (lam + mu)`, `nu = lam / (2 (lam + mu))`."""
    for name, value in (("mu", mu), ("lam", lam)):
        if real_array("from_lame", name, value).ndim > 2:
            raise ValueError(
                f"from_lame: {name} has shape {np.shape(value)}, expected one number, or one per element or Gauss point."
            )
    if is_concrete(mu, lam) and not np.all((np.asarray(mu) > 0) & (3 * np.asarray(lam) + 2 * np.asarray(mu) > 0)):
        raise ValueError(f"from_lame: mu and lam + 2/3 mu must be positive, got mu {mu!r:.80} and lam {lam!r:.80}.")
    return mu * (3 * lam + 2 * mu) / (lam + mu), lam / (2 * (lam + mu))


def moduli_like(F: Array, young: Array, poisson: Array) -> tuple[Array, Array]:
    """`(mu, lam)` in the precision of `F`: the state decides in which precision a scene is computed."""
    mu, lam = lame_parameters(young, poisson)
    return jnp.asarray(mu, F.dtype), jnp.asarray(lam, F.dtype)


def check_numbers(material: eqx.Module) -> None:
    """Raise unless every field of a material is a finite number, shared, or one per element or Gauss point."""
    check_parameters(material, ())


def check_engineering(material: Any) -> None:
    """Raise unless `young > 0` and `-1 < poisson < 1/2`, where the strain energy is positive."""
    check_numbers(material)
    check_range(
        material,
        young=(material.young, lambda e: e > 0, "positive"),
        poisson=(material.poisson, lambda n: (n > -1) & (n < 0.5), "between -1 and 0.5, both excluded"),
    )
