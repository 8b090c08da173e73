"""The types of the operands of every instruction and of every function that is called, checked before it is written: LLVM
itself does not compare a call with the function, and would hand it the bits of other numbers."""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from .vector import vector_type

Dtypes = Sequence[np.dtype]
Types = Callable[[np.dtype, Dtypes], bool]


def check_types(operation: str, result: np.dtype, operands: Dtypes) -> None:
    """Raises `TypeError` for an operation (`fadd contract`, `fmod`, ...) that has no such operands, or not this result."""
    name = operation.split()[0]
    if name not in _EXPECTED or not _EXPECTED[name](result, operands):
        raise TypeError(f"ill-typed instruction: {operation} of {', '.join(map(str, operands))} to {result}")


@functools.cache  # a kernel has tens of thousands of lines, of a few operations
def instruction(operation: str, result: np.dtype, operands: tuple[np.dtype, ...], width: int) -> str:
    """The start of an instruction for so many elements, of operands of one type, which are checked."""
    check_types(operation, result, operands)
    return f"{operation} {vector_type(operands[0], width)} "


def _all_like(kinds: str, count: int) -> Types:
    """So many operands, and the result, of one type of these kinds."""
    return lambda result, operands: list(operands) == [result] * count and result.kind in kinds


def _compared(kinds: str) -> Types:
    return lambda result, operands: (
        result.kind == "b" and len(operands) == 2 and operands[0] == operands[1] and operands[0].kind in kinds
    )


def _selected(result: np.dtype, operands: Dtypes) -> bool:
    return list(operands) == [np.dtype(bool), result, result]


def _cast(*kinds: str, wider: bool | None = None) -> Types:
    """From one kind to another, to more bytes or to fewer."""

    def holds(result: np.dtype, operands: Dtypes) -> bool:
        (operand,) = operands
        grows = result.itemsize > operand.itemsize
        return operand.kind + result.kind in kinds and (wider is None or (grows == wider and result != operand))

    return holds


# fmt: off
_EXPECTED: dict[str, Types] = {
    **dict.fromkeys(("fadd", "fsub", "fmul", "fdiv"), _all_like("f", 2)),
    "fneg": _all_like("f", 1),
    **dict.fromkeys(("add", "sub", "mul"), _all_like("iu", 2)),
    **dict.fromkeys(("ashr", "lshr", "sdiv", "srem"), _all_like("i", 2)),
    **dict.fromkeys(("udiv", "urem"), _all_like("u", 2)),
    **dict.fromkeys(("and", "or", "xor"), _all_like("iub", 2)),
    "fcmp": _compared("f"),
    "icmp": _compared("iub"),
    "select": _selected,
    "uitofp": _cast("bf", "uf"),
    "zext": _cast("bi", "bu", "ui", wider=True),
    "sitofp": _cast("if"),
    "trunc": _cast("ii", "iu", wider=False),
    "sext": _cast("ii", wider=True),
    "bitcast": lambda result, operands: (
        {result.kind, operands[0].kind} == {"f", "i"} and result.itemsize == operands[0].itemsize
    ),
    "fptrunc": _cast("ff", wider=False),
    "fpext": _cast("ff", wider=True),
    # Intrinsic functions of LLVM.
    "fptosi.sat": _cast("fi"),
    **dict.fromkeys(("smax", "smin"), _all_like("i", 2)),
    **dict.fromkeys(("umax", "umin"), _all_like("u", 2)),
    **dict.fromkeys(("copysign", "maximum", "minimum"), _all_like("f", 2)),
    **dict.fromkeys(("ceil", "fabs", "floor", "round", "roundeven", "sqrt"), _all_like("f", 1)),
    # Functions of the C library.
    **dict.fromkeys(("atan2", "fmod", "nextafter", "pow"), _all_like("f", 2)),
    **dict.fromkeys((
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "exp", "exp2", "expm1", "log",
        "log1p", "log2", "sin", "sinh", "tan", "tanh",
    ), _all_like("f", 1)),
}
# fmt: on
