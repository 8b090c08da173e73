"""What the element compiler makes of a function, to be read."""

import string
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from .._runtime.plain_form import NotCompilable
from .dispatch import in_xla
from .llvm.element_kernel import kernel_text
from .llvm.vector import WIDTH
from .operation_count import operation_count
from .program.element_jaxpr import ElementProgram, reduced
from .scalarize.array_arithmetic import entries
from .scalarize.interpreter import run
from .scalarize.text_arithmetic import Name, TextArithmetic, told


class ElementForms(NamedTuple):
    """The forms of a function of one element, as text; None for one that the function does not have.

    `jaxpr`: what JAX traces, of the arguments that are read. `operations`: how many scalar operations that is at most, by
    which a form is chosen. `scalars`: the scalarised program, known numbers folded and nothing computed twice; `a[0][1]` is
    an entry of argument `a` of the jaxpr. `xla`: its operations on arrays of eight elements. `llvm`: the loop over the
    elements. `refused`: why a form is missing, if one is.
    No units: texts and a count. Raises nothing: `element_forms` does.

    Example:

        forms = jm.runtime.element_forms(lambda x: jnp.sum(x * x), (np.zeros(3),))
        assert isinstance(forms, jm.runtime.ElementForms) and forms.refused is None
        assert "mul" in forms.jaxpr and forms.operations < 10
    """

    jaxpr: str
    operations: int
    scalars: str | None
    xla: str | None
    llvm: str | None
    refused: str | None


def element_forms(function: Callable, arguments: tuple[Any, ...]) -> ElementForms:
    """The forms that the element compiler has of `function(*arguments)`, a function of one element.

        jm.runtime.element_forms(jax.hessian(energy), (np.zeros((4, 3)),)).llvm

    `arguments`: arrays, or trees of them, of the shapes and types of one element; numbers do not matter. Nothing is compiled
    or run. Raises `TypeError` for what is no function or no tuple, and what the function raises when it is traced.
    No units: texts and a count.

    Example:

        forms = jm.runtime.element_forms(jax.grad(lambda x: jnp.sum(x**4)), (np.zeros(3),))
        assert forms.scalars is not None and forms.operations > 0
    """
    if not callable(function):
        raise TypeError(f"element_forms: function must be a function, got {function!r:.80}.")
    if not isinstance(arguments, tuple):
        raise TypeError(f"element_forms: arguments must be a tuple, one entry for each, got {arguments!r:.80}.")
    leaves, structure = jax.tree.flatten(arguments)
    shapes = [jax.ShapeDtypeStruct(np.shape(a), jax.dtypes.canonicalize_dtype(np.result_type(a))) for a in leaves]
    traced = jax.make_jaxpr(lambda *values: function(*structure.unflatten(values)))(*shapes)
    program, used = reduced(traced, (0,) * len(shapes), [True for _ in traced.jaxpr.outvars])
    if not used:
        return ElementForms(str(program.closed), 0, None, None, None, "no result depends on an argument")
    elements = [jax.ShapeDtypeStruct((WIDTH, *shapes[i].shape), shapes[i].dtype) for i in used]
    makers = (
        lambda: _scalars(program),
        lambda: jax.jit(in_xla(program)).lower(*elements).as_text(),
        lambda: kernel_text(program, elements, ()).text,
    )
    texts, refused = [], None
    for make in makers:
        try:
            texts.append(make())
        except NotCompilable as error:
            texts.append(None)
            refused = refused or str(error)
    return ElementForms(str(program.closed), operation_count(program.jaxpr), *texts, refused)


def _scalars(program: ElementProgram) -> str:
    """The lines of the scalarised program, and what its outputs are."""
    arithmetic = TextArithmetic()
    letters = _letters()[len(program.consts) :]
    inputs = [_names(letter, v.aval) for letter, v in zip(letters, program.jaxpr.invars, strict=False)]
    outputs = run(arithmetic, program.jaxpr, [entries(c) for c in program.consts], inputs)
    results = [_shown([told(x) for x in output.flat]) for output in outputs]
    return "\n".join([*arithmetic.lines, *(f"return {result}" for result in results)])


def _letters() -> Sequence[str]:
    """Names for arguments, as JAX gives them to those of a jaxpr."""
    return [a + b for a in ("", *string.ascii_lowercase) for b in string.ascii_lowercase]


def _names(letter: str, aval: Any) -> np.ndarray:
    """A name for every scalar of an array."""
    result = np.empty(aval.shape, object)
    for place in np.ndindex(aval.shape):
        result[place] = Name(letter + "".join(f"[{i}]" for i in place), aval.dtype)
    return result


def _shown(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
