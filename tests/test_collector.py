"""Python's collector of cycles rests while programs are traced, and is afterwards what it was."""

import gc
import threading

import jax
import jax.numpy as jnp
import pytest

from jaxmech._runtime.collector import collector_at_rest
from jaxmech._runtime.precision import compiled


@pytest.fixture(params=[True, False])
def was_on(request):
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_it_is_afterwards_what_it_was(was_on):
    with pytest.raises(ValueError, match="within"), collector_at_rest():
        with collector_at_rest():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError("within")
    assert gc.isenabled() == was_on


def test_the_last_of_several_threads_wakes_it(was_on):
    entered, leave = threading.Event(), threading.Event()

    def other():
        with collector_at_rest():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with collector_at_rest():
        thread.start()
        entered.wait()
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled() == was_on


def test_it_rests_in_a_trace_and_not_in_a_run():
    seen = []

    @compiled
    def double(x):
        seen.append(gc.isenabled())
        return jax.pure_callback(lambda x: (seen.append(gc.isenabled()), 2 * x)[1], x, x)

    gc.enable()
    for _ in range(2):
        assert double(jnp.ones(())) == 2.0
    assert seen == [False, True, True]
