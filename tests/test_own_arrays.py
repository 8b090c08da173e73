"""What a scene is made of is its own: nobody changes it by changing the arrays that it was made of.

JAX takes the memory of a host array for its own where that begins at a multiple of 64 bytes, which is a matter of chance: of
the small arrays of a script, every fourth. So all arrays begin there here.
"""

import inspect
from typing import Any

import jax
import numpy as np
import pytest
from public_names import PUBLIC
from valid_calls import CALLS

import jaxmech as jm

# Containers of arrays that were made elsewhere; those of NumPy are left what they are.
AS_GIVEN = {"Triplets", "State"}


def aligned(values: np.ndarray) -> np.ndarray:
    """The same numbers, at a multiple of 128 bytes."""
    raw = np.zeros(values.nbytes + 128, np.uint8)
    first = -raw.ctypes.data % 128
    array = raw[first : first + values.nbytes].view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


def arrays_of(value: Any) -> Any:
    """An argument with host arrays of numbers in the place of its lists and arrays."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return value[0], arrays_of(value[1])
    if isinstance(value, list | range | jax.Array | np.ndarray):
        array = np.asarray(value)
        if array.dtype.kind in "if" and array.size:
            whole = array.dtype.kind == "i"
            return aligned(array.astype(np.int32 if whole else jax.numpy.result_type(float)))
    return value


def leaves(made: Any) -> list[np.ndarray]:
    return [np.array(a) for a in jax.tree.leaves(made) if isinstance(a, jax.Array | np.ndarray)]


def is_made(name: str) -> bool:
    """Whether it is a constructor: a class, or a class method of it."""
    parts = name.split(".")
    return len(parts) == 1 or isinstance(inspect.getattr_static(PUBLIC[parts[0]], parts[1], None), classmethod)


BUILDERS = sorted(
    name for name in CALLS if name not in AS_GIVEN and inspect.isclass(PUBLIC.get(name.split(".")[0])) and is_made(name)
)


@pytest.mark.parametrize("name", BUILDERS)
def test_what_is_made_of_arrays_keeps_its_numbers(name):
    call = CALLS[name]()
    given = {key: arrays_of(value) for key, value in call.arguments.items()}
    made = call.function(**given)
    before = leaves(made)
    for value in given.values():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, np.ndarray):
                part[...] = part + 1
    for old, new in zip(before, leaves(made), strict=True):
        assert np.array_equal(old, new, equal_nan=True)


def test_a_state_at_rest_keeps_its_positions():
    points = aligned(np.random.default_rng(0).normal(size=(64, 3)))
    rest = jm.System({"p": jm.Vec3()}).at_rest({"p": points})
    wanted = points.copy()
    points += 1.0
    assert np.array_equal(rest.position["p"], wanted)
