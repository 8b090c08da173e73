"""Treloar's rubber in uniaxial tension: the incompressible laws fitted in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

# L. R. G. Treloar, Trans. Faraday Soc. 40 (1944) 59, doi 10.1039/TF9444000059: stretch, nominal stress [MPa]
STRETCH = jnp.array([1.0, 1.24, 1.585, 2.18, 3.02])
STRESS = np.array([0.0, 0.225553, 0.407957, 0.588399, 0.862985])

# At J = 1 the volumetric modulus does nothing, whatever its value
LAWS = {
    "neo-hookean": (lambda p: jm.material.NeoHookean.from_lame(p[0], 1e3), [0.30396508], 0.031450),
    "mooney": (lambda p: jm.material.MooneyRivlin(p[0], p[1], 1e3), [0.12205659, 0.07337110], 0.013833),
}


def nominal_stress(material):
    """`d psi / d stretch` along `F = diag(l, l^-1/2, l^-1/2)`, where the pressure does no work."""

    def energy(stretch):
        return material.energy_density(jnp.diag(jnp.array([stretch, stretch**-0.5, stretch**-0.5])))

    return jax.jit(jax.vmap(jax.grad(energy)))(STRETCH)


@pytest.mark.parametrize("law", LAWS)
def test_f1_f2_least_squares(law):
    build, expected, rms = LAWS[law]
    columns = jax.jit(jax.jacfwd(lambda p: nominal_stress(build(p))))(jnp.full(len(expected), 0.1))
    found = np.linalg.lstsq(np.asarray(columns), STRESS)[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)  # [MPa]
    np.testing.assert_allclose(np.sqrt(np.mean((nominal_stress(build(found)) - STRESS) ** 2)), rms, rtol=1e-4)
