"""The interfaces of JAX and Equinox that may change from one minor version to the next, all that jaxmech uses of them.

No other module imports them (`tests/test_layers.py`). They are looked up when jaxmech is imported: a JAX that lacks one is
refused there, not in the middle of a computation. What differs between versions is a function here. Tested with JAX
0.10 and 0.12, which pip brings, and in part with 0.11; `pyproject.toml` binds it to these.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax

try:
    from equinox.internal import unvmap_any
    from equinox.internal import while_loop as equinox_while_loop
    from jax.core import ShapedArray, Tracer
    from jax.experimental.xla_metadata import set_xla_metadata
    from jax.extend.backend import backends
    from jax.extend.core import ClosedJaxpr, Literal, Primitive, jaxpr_as_fun, primitives, take_current_trace
    from jax.interpreters.ad import (
        Zero,
        deflinear2,
        instantiate_zeros,
        is_undefined_primal,
        primitive_jvps,
        primitive_transposes,
    )
    from jax.interpreters.batching import defvectorized, primitive_batchers
    from jax.interpreters.mlir import lower_fun, register_lowering
    from jax.interpreters.partial_eval import dce_jaxpr, dce_rules
except ImportError as missing:
    raise ImportError(f"jaxmech needs JAX 0.10 to 0.12, and this is JAX {jax.__version__}: {missing}") from missing

__all__ = [
    "ClosedJaxpr",
    "Literal",
    "Primitive",
    "ShapedArray",
    "Tracer",
    "backends",
    "bounded_loop",
    "deflinear2",
    "define",
    "defvectorized",
    "device_count_of",
    "enumeration_of",
    "index_of",
    "instantiate_zeros",
    "is_carried_out",
    "is_tracing",
    "is_undefined_primal",
    "is_zero",
    "jaxpr_as_fun",
    "lower_fun",
    "manual_axes",
    "message_of",
    "names_of",
    "primitives",
    "register_lowering",
    "rewired",
    "scan_sizes",
    "set_xla_metadata",
    "traced_as_in_rules",
    "unvmap_any",
    "without_unused",
    "zero_of",
    "zero_tangent",
]


def define(
    primitive: Primitive,
    *,
    jvp: Callable[..., Any] | None = None,
    transpose: Callable[..., Any] | None = None,
    batch: Callable[..., Any] | None = None,
    unused: Callable[[Sequence[bool], Any], tuple[list[bool], Any]] | None = None,
) -> None:
    """Says how a primitive is differentiated, transposed and batched.

    `unused`: from the outputs that are wanted and an equation, the inputs that it reads then, and the equation that is left.
    """
    tables = ((primitive_jvps, jvp), (primitive_transposes, transpose), (primitive_batchers, batch))
    for table, rule in tables:
        if rule is not None:
            table[primitive] = rule
    if unused is not None:
        # From JAX 0.12 on the inputs whose contents are read later stand between the two; arrays have no contents.
        dce_rules[primitive] = lambda wanted, *others: unused(wanted, others[-1])


def without_unused(jaxpr: Any, wanted: Sequence[bool]) -> tuple[Any, list[bool]]:
    """The equations that some outputs are made of, and which inputs these read."""
    return dce_jaxpr(jaxpr, list(wanted))


def is_tracing() -> bool:
    """Whether operations are being recorded, not carried out."""
    with take_current_trace() as trace:
        while type(trace).__name__ != "DynamicJaxprTrace" and getattr(trace, "parent_trace", None) is not None:
            trace = trace.parent_trace  # what differentiates or batches hands on what it knows nothing of
    return type(trace).__name__ != "EvalTrace"


def is_carried_out() -> bool:
    """Whether operations are carried out at once: neither recorded, nor differentiated, nor batched."""
    with take_current_trace() as trace:
        return type(trace).__name__ == "EvalTrace"


def is_zero(tangent: Any) -> bool:
    """Whether a tangent or a cotangent is known to be zero while tracing."""
    return type(tangent) is Zero


def zero_of(aval: Any) -> Zero:
    """The known zero of an abstract value."""
    return Zero(aval)


def zero_tangent(array: Any) -> Zero:
    """The known zero tangent of an array."""
    return Zero(jax.typeof(array).to_tangent_aval())


def device_count_of(context: Any) -> int:
    """The devices that the program which is being lowered is compiled for."""
    return getattr(context.module_context.axis_context, "num_devices", jax.device_count())


def manual_axes() -> tuple[str, ...]:
    """The axes of the mesh of devices along which each device runs what is being traced for itself."""
    return tuple(jax.sharding.get_abstract_mesh().manual_axes)


def traced_as_in_rules() -> contextlib.AbstractContextManager[Any]:
    """Within, functions are traced as they are within rules of derivatives, which JAX evaluates in the mesh that equations
    remember: to it a mesh of no devices is another than none, and under each it traces anew."""
    return jax.sharding.use_abstract_mesh(jax.sharding.get_abstract_mesh())


def scan_sizes(params: dict[str, Any]) -> tuple[int, int]:
    """How many of the operands of a `scan` are constants, and how many are carried from round to round."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    constants, carried, _ = params["ft_in"].unpack()  # since JAX 0.11
    return len(constants), len(carried)


def rewired(jaxpr: Any, inputs: list[Any], outputs: list[Any], eqns: list[Any], constants: Sequence[Any] = ()) -> Any:
    """Some equations of a program, from other inputs to other outputs."""
    names = jaxpr.debug_info._replace(arg_names=("",) * len(inputs), result_paths=("",) * len(outputs))
    return jaxpr.replace(constvars=list(constants), invars=inputs, outvars=outputs, eqns=eqns, debug_info=names)


def index_of(item: Any) -> Any:
    """The number of a member of an enumeration of Equinox, of each batch member where it is of a batch."""
    return item._value


def enumeration_of(item: Any) -> Any:
    """The enumeration of Equinox that a member is of; None of anything else."""
    return getattr(item, "_enumeration", None)


def names_of(enumeration: Any) -> list[str]:
    """The members of an enumeration of Equinox, in the order of their numbers."""
    return list(enumeration._name_to_item)


def message_of(enumeration: Any, index: int) -> str:
    """What the member of an enumeration of Equinox says that has a number."""
    return enumeration._index_to_message[index]


def bounded_loop(condition: Callable, body: Callable, start: Any, most: int) -> Any:
    """`jax.lax.while_loop` of at most so many rounds, which both modes differentiate."""
    return equinox_while_loop(condition, body, start, max_steps=most, kind="bounded")
