"""Which operations a scalarised program may have: by primitive, the types of numbers and the parameters that its rule knows.

The one table. What is not in it is mapped by `jax.vmap`: a scalarised program computes the same, or is not made.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import lax

from .arithmetic import NotScalarisable

Dtypes = Sequence[np.dtype]

_KINDS = {  # of numbers, by type; no others (complex, of 16 bits, random keys) are taken apart into scalars
    np.dtype(name): np.dtype(name).kind
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float32", "float64"),
    )
}


def kind(dtype: Any) -> str:
    """`f`, `i`, `u` or `b`. Raises `NotScalarisable` for other types."""
    if dtype not in _KINDS:
        raise NotScalarisable(f"numbers of type {dtype} as scalars")
    return _KINDS[dtype]


_PLACEMENTS = ("sharding", "out_sharding")  # where arrays are, which does not change them


class Supported(NamedTuple):
    """What is known of a primitive."""

    types: Callable[[Dtypes, Dtypes], bool]  # of operands and of results
    parameters: dict[str, Callable[[Any], bool]] | None = {}  # of others, only None and False; None: any


def calls_host(eqn: Any) -> bool:
    """Whether an equation does something outside of the program: of known numbers too, and only where a branch is taken."""
    return bool(eqn.effects) or eqn.primitive.name == "pure_callback"


def check(eqn: Any) -> None:
    """Raises `NotScalarisable` for an equation that cannot be scalarised."""
    name = eqn.primitive.name
    types = [[v.aval.dtype for v in variables] for variables in (eqn.invars, eqn.outvars)]
    for dtype in {*types[0], *types[1]}:
        kind(dtype)
    if calls_host(eqn):
        raise NotScalarisable(f"{name}, which the host carries out")
    known = SUPPORTED.get(name)
    if known is None:
        return  # of numbers that are known, JAX evaluates anything
    if not known.types(*types):
        raise NotScalarisable(f"{name} of {', '.join(map(str, types[0]))} to {', '.join(map(str, types[1]))}")
    if known.parameters is not None:
        for key, value in eqn.params.items():
            is_known = key in _PLACEMENTS or value is None or value is False
            if not is_known and not known.parameters.get(key, _never)(value):
                raise NotScalarisable(f"{name} with {key} = {value}")


def _any(value: Any) -> bool:
    del value
    return True


def _never(value: Any) -> bool:
    del value
    return False


def _all_like(kinds: str) -> Callable[[Dtypes, Dtypes], bool]:
    """One type throughout, of these kinds."""
    return lambda ins, outs: len({*ins, *outs}) == 1 and kind(outs[0]) in kinds


def _compared(ins: Dtypes, outs: Dtypes) -> bool:
    return len({*ins}) == 1 and kind(outs[0]) == "b"


def _finite(ins: Dtypes, outs: Dtypes) -> bool:
    return kind(ins[0]) == "f" and kind(outs[0]) == "b"


def _selected(ins: Dtypes, outs: Dtypes) -> bool:
    return ins[0] in (bool, np.int32) and len({*ins[1:], *outs}) == 1


def _raised(ins: Dtypes, outs: Dtypes) -> bool:
    """A power, whose exponent may be a whole number."""
    base, exponent = ins
    return kind(base) == "f" and base == outs[0] and (exponent == base or kind(exponent) in "iu")


def _multiplied(ins: Dtypes, outs: Dtypes) -> bool:
    """Sums of products in the type of the result, that of the wider operand."""
    return kind(outs[0]) in "fiu" and outs[0] in ins and all(kind(t) == kind(outs[0]) for t in ins)


def _read(ins: Dtypes, outs: Dtypes) -> bool:
    """An array, and whole numbers that say where."""
    return ins[0] == outs[0] and all(kind(t) in "iu" for t in ins[1:])


def _written(ins: Dtypes, outs: Dtypes) -> bool:
    """The same, and a part that goes there."""
    return ins[0] == ins[1] == outs[0] and all(kind(t) in "iu" for t in ins[2:])


def _put(ins: Dtypes, outs: Dtypes) -> bool:
    return ins[0] == ins[2] == outs[0] and kind(ins[1]) in "iu"


def _put_numbers(ins: Dtypes, outs: Dtypes) -> bool:
    return _put(ins, outs) and kind(outs[0]) in "fiu"


def _factored(ins: Dtypes, outs: Dtypes) -> bool:
    return kind(ins[0]) == "f" and outs[0] == ins[0] and all(kind(t) == "i" for t in outs[1:])


def _kept(ins: Dtypes, outs: Dtypes) -> bool:
    """Each result of the type of its operand."""
    return list(ins) == list(outs)


def _placed(ins: Dtypes, outs: Dtypes) -> bool:
    return kind(ins[0]) in "fiub" and kind(outs[0]) == "i"


def _spread(ins: Dtypes, outs: Dtypes) -> bool:
    return ins[0] == outs[0]


def _of_any(ins: Dtypes, outs: Dtypes) -> bool:
    del ins, outs
    return True


def _of_usual_precision(value: Any) -> bool:
    """Not one of the algorithms that round operands first."""
    return all(isinstance(p, lax.Precision) for p in (value if isinstance(value, tuple) else (value,)))


def _with(*names: str, **ranges: Callable[[Any], bool]) -> dict[str, Callable[[Any], bool]]:
    return {**dict.fromkeys(names, _any), **ranges}


# Custom derivatives have had their say: nothing differentiates a program of scalars, see `elements`. Custom rules of `vmap`
# have not, and are left to it.
CALLS = (
    *("jit", "pjit", "closed_call", "core_call", "eval_jaxpr", "remat", "remat2", "checkpoint", "custom_jvp_call"),
    "custom_linear_solve",  # the program of its solution
)

# Identities, which say something to JAX's transformations, or to Equinox's; the numbers are as they are.
UNCHANGED = "name", "nondifferentiable", "nondifferentiable_backward", "nontraceable", "stop_gradient"

# fmt: off
ELEMENTWISE = {
    **dict.fromkeys((
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "cos", "cosh", "erf", "exp", "exp2",
        "expm1", "floor", "log", "log1p", "log2", "logistic", "nextafter", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh",
    ), Supported(_all_like("f"))),
    **dict.fromkeys(
        ("abs", "add", "add_any", "div", "mul", "neg", "one_minus_square", "rem", "sign", "square", "sub"),
        Supported(_all_like("fiu")),
    ),
    **dict.fromkeys(("clamp", "copy", "copy_p", "max", "min"), Supported(_all_like("fiub"))),
    **dict.fromkeys(("and", "not", "or", "xor"), Supported(_all_like("iub"))),
    **dict.fromkeys(("eq", "ge", "gt", "le", "le_to", "lt", "lt_to", "ne"), Supported(_compared)),
    "convert_element_type": Supported(_of_any, _with("new_dtype", "weak_type")),
    "integer_pow": Supported(_all_like("fiu"), _with("y")),
    "is_finite": Supported(_finite),
    "pow": Supported(_raised),
    "round": Supported(_all_like("f"), _with("rounding_method")),
    "select_n": Supported(_selected),
}
_SCATTERED = _with(
    "dimension_numbers", "indices_are_sorted", "mode", "unique_indices", "update_consts", "update_jaxpr",
)
SUPPORTED: dict[str, Supported] = {
    **ELEMENTWISE,
    **dict.fromkeys(("reduce_max", "reduce_min"), Supported(_all_like("fiub"), _with("axes"))),
    **dict.fromkeys(("reduce_prod", "reduce_sum"), Supported(_all_like("fiu"), _with("axes"))),
    **dict.fromkeys(("reduce_and", "reduce_or"), Supported(_all_like("iub"), _with("axes"))),
    **dict.fromkeys(("argmax", "argmin"), Supported(_placed, _with("axes", "index_dtype"))),
    "reduce": Supported(_of_any, None),
    "unvmap_any": Supported(_all_like("b")),
    "dot_general": Supported(
        _multiplied, _with("dimension_numbers", "preferred_element_type", precision=_of_usual_precision)
    ),
    "lu": Supported(_factored),
    "lu_pivots_to_permutation": Supported(lambda ins, outs: list(ins) == list(outs), _with("permutation_size")),
    "cholesky": Supported(_all_like("f")),
    "triangular_solve": Supported(_all_like("f"), _with("left_side", "lower", "transpose_a", "unit_diagonal")),
    "sort": Supported(_kept, _with("dimension", "is_stable", "num_keys")),
    "broadcast_in_dim": Supported(_spread, _with("shape", "broadcast_dimensions")),
    "concatenate": Supported(_all_like("fiub"), _with("dimension")),
    "dynamic_slice": Supported(_read, _with("slice_sizes")),
    "dynamic_update_slice": Supported(_written),
    "expand_dims": Supported(_all_like("fiub"), _with("dimensions")),
    "gather": Supported(_read, _with(
        "dimension_numbers", "fill_value", "indices_are_sorted", "mode", "slice_sizes", "unique_indices",
    )),
    "optimization_barrier": Supported(_kept),
    "pad": Supported(_all_like("fiub"), _with("padding_config")),
    "reshape": Supported(_all_like("fiub"), _with("new_sizes")),
    "reshard": Supported(_all_like("fiub"), _with("dst_sharding", "concrete_mesh")),  # in programs of many devices
    "rev": Supported(_all_like("fiub"), _with("dimensions")),
    "scatter": Supported(_put, _SCATTERED),
    **dict.fromkeys(("scatter-add", "scatter-max", "scatter-min"), Supported(_put_numbers, _SCATTERED)),
    "slice": Supported(_all_like("fiub"), _with("start_indices", "limit_indices", "strides")),
    "split": Supported(_all_like("fiub"), _with("sizes", "axis")),
    "squeeze": Supported(_all_like("fiub"), _with("dimensions")),
    "stack": Supported(_all_like("fiub"), _with("axis")),
    **dict.fromkeys(UNCHANGED, Supported(_kept, None)),
    "reduce_precision": Supported(_all_like("f"), _with("exponent_bits", "mantissa_bits")),
    "transpose": Supported(_all_like("fiub"), _with("permutation")),
    "unstack": Supported(_all_like("fiub"), _with("axis")),
    "cond": Supported(_of_any, _with("branches", "branches_platforms")),  # which compute the same
    "scan": Supported(_of_any, _with(
        "_split_transpose", "ft_in", "ft_out", "jaxpr", "length", "linear", "num_carry", "num_consts", "reverse", "unroll",
    )),
    "while": Supported(_of_any, _with("body_jaxpr", "body_nconsts", "cond_jaxpr", "cond_nconsts")),
    # Programs called; how they are compiled does not matter.
    **dict.fromkeys(CALLS, Supported(_of_any, None)),
    **dict.fromkeys(("jaxmech_mapped", "jaxmech_symmetric"), Supported(_of_any, None)),
}
# fmt: on
