"""The matrices of the scenes of the catalogue, each assembled once in a process.

Compiling is what costs: every scene compiles each of a few functions once, at XLA's lowest level of optimisation.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes

import jaxmech as jm

# Numbers at random; then M, B and K alone, and the Rayleigh damping C alone.
FACTORS = jm.Factors(
    mass=jnp.array([0.7, 1.0, 0.0, 0.0, 0.0]),
    damping=jnp.array([0.31, 0.0, 1.0, 0.0, 0.0]),
    stiffness=jnp.array([1.3, 0.0, 0.0, 1.0, 0.0]),
    rayleigh=jnp.array([0.9, 0.0, 0.0, 0.0, 1.0]),
)
MASS, DAMPING, STIFFNESS = 1, 2, 3
ALL = jm.Terms()


def per_scene(names, argument="name"):
    """A test of each of these scenes. All tests of one are run by one process (`process_groups.py`), which compiles its
    matrices once."""
    return pytest.mark.parametrize(argument, names)


@jax.jit
def assembled(linear_system, system, state, factors):
    """`A` for several factors, and `P A P + I - P` for the first."""

    def both(factors):
        A = linear_system.unconstrained(system, state, factors)
        return A, linear_system.constrain(system, A)

    plain, constrained = jax.vmap(both)(factors)
    return plain, jax.tree.map(lambda a: a[0], constrained)


@functools.cache
def linear_system(name, terms=ALL):
    scene = scenes.build(name)
    return jm.MatrixLinearSystem.build(scene.system, scene.state, terms)


@functools.cache
def matrices(name):
    scene = scenes.build(name)
    return assembled(linear_system(name), scene.system, scene.state, FACTORS)


@functools.cache
def dense(name):
    """The five assembled matrices."""
    plain = matrices(name)[0]
    return np.asarray(jax.vmap(lambda A: A.to_dense())(plain))
