"""Which form element functions are compiled to: a setting that is part of the key of everything JAX has compiled."""

import os
from contextlib import AbstractContextManager
from typing import Any, Literal, cast, get_args

import jax

from .jax_internals import is_tracing

Form = Literal["off", "xla", "llvm"]

_VARIABLE = "JAXMECH_ELEMENTS"


def element_compiler(form: Form) -> AbstractContextManager[None]:
    """Choose what element functions are compiled to: for the whole process, or in a `with` block for this thread.

        jm.runtime.element_compiler("xla")            # from here on
        with jm.runtime.element_compiler("off"):      # in this block
            force = jax.jit(dynamics)(state)

    `"off"`: `jax.vmap` of the function, nothing of jaxmech's own. `"xla"`: the scalarised program as operations on arrays,
    which XLA compiles. `"llvm"`, the default: a kernel for this CPU where there can be one, otherwise as `"xla"`. Without
    `"llvm"`, products of matrices and conjugate gradients are operations on arrays as well. The environment variable
    `JAXMECH_ELEMENTS` has the same values, and is read when jaxmech is imported.

    Another form is another key in JAX's caches: jitted functions are traced and compiled again when they are next called,
    and found again when the form is set back. Programs that are compiled ahead of time (`lower(...).compile()`) stay as
    they are.

    Raises `ValueError` for another form, and `RuntimeError` in a function that is being traced: whoever calls it decides.
    No units.

    Example:

        with jm.runtime.element_compiler("off"):
            plain = jm.energy(system, state)
        assert jnp.allclose(jm.energy(system, state), plain)  # [J], in any form
    """
    if is_tracing():
        raise RuntimeError("element_compiler: choose a form outside of functions that JAX traces, where they are called.")
    return _Choice(_checked("element_compiler: form", form))


def element_form() -> Form:
    """The form that is chosen."""
    return _context.value


def _checked(name: str, form: Any) -> Form:
    if not isinstance(form, str) or form not in get_args(Form):
        raise ValueError(f"{name} must be one of {', '.join(get_args(Form))}, got {form!r:.80}.")
    return cast(Form, form)


class _Choice(AbstractContextManager):
    """Made for the process; entered, it is one of the thread alone."""

    def __init__(self, form: Form):
        self._form, self._before = form, _context.get_global()
        _context.set_global(form)

    def __enter__(self) -> None:
        if _context.get_global() == self._form:
            _context.set_global(self._before)
        self._block = _context(self._form)
        self._block.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._block.__exit__(*raised)


_context = jax.make_user_context(_checked(_VARIABLE, os.environ.get(_VARIABLE, "llvm")))
