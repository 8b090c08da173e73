"""Which instruction of LLVM, or function, a primitive is that is one of them."""

from jax.lax import RoundingMethod

# By the kind of the operands: of floating point, whole numbers, those without a sign, truth values.
LINES = {
    "f": {
        **{"add": "fadd contract", "sub": "fsub contract", "mul": "fmul contract", "div": "fdiv", "neg": "fneg"},
        **{"eq": "fcmp oeq", "ne": "fcmp une", "lt": "fcmp olt", "le": "fcmp ole", "gt": "fcmp ogt", "ge": "fcmp oge"},
    },
    "i": {
        **{"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"},
        **{"eq": "icmp eq", "ne": "icmp ne", "lt": "icmp slt", "le": "icmp sle", "gt": "icmp sgt", "ge": "icmp sge"},
        **{"lt_to": "icmp slt", "le_to": "icmp sle"},
    },
    "u": {
        **{"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"},
        **{"eq": "icmp eq", "ne": "icmp ne", "lt": "icmp ult", "le": "icmp ule", "gt": "icmp ugt", "ge": "icmp uge"},
        **{"lt_to": "icmp ult", "le_to": "icmp ule"},
    },
    "b": {
        **{"and": "and", "or": "or", "xor": "xor", "max": "or", "min": "and"},
        **{"eq": "icmp eq", "ne": "icmp ne", "lt": "icmp ult", "le": "icmp ule", "gt": "icmp ugt", "ge": "icmp uge"},
        **{"lt_to": "icmp ult", "le_to": "icmp ule"},
    },
}
# By a number that is known: LLVM does not say what a division by nothing is, nor that of the least number by -1.
DIVISIONS = {"i": {"div": "sdiv", "rem": "srem"}, "u": {"div": "udiv", "rem": "urem"}}
INTRINSICS: dict[str, dict[str, str]] = {
    "f": {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "max": "maximum", "min": "minimum"},
    "i": {"max": "smax", "min": "smin"},
    "u": {"max": "umax", "min": "umin"},
    "b": {},
}
ROUNDED = {RoundingMethod.AWAY_FROM_ZERO: "round", RoundingMethod.TO_NEAREST_EVEN: "roundeven"}
# fmt: off
OF_THE_C_LIBRARY = {  # for one number at a time
    "rem": "fmod",
    **{name: name for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "exp", "exp2", "expm1",
        "log", "log1p", "log2", "nextafter", "pow", "sin", "sinh", "tan", "tanh",
    )},
}
# fmt: on
