"""Scalars of elements as vectors of four or eight elements: instructions of LLVM, for the vector units of a CPU.

Of one element alone they are scalars: a vector of which one entry is somebody's takes as many registers as eight elements.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..._llvm.ffi import TYPES, number_type
from ..._llvm.ir_builder import constant
from ..._runtime.jax_internals import primitives
from ..scalarize.arithmetic import AbstractArithmetic, Branch, Change, NotScalarisable, Scalar, is_number
from . import branches
from .composed import COMPOSED, number, power
from .indexed_read import indexed_read, table_of
from .instructions import check_types, instruction
from .operations import DIVISIONS, INTRINSICS, LINES, OF_THE_C_LIBRARY, ROUNDED
from .shared_product import shared_product
from .stored import Stored, changed, loaded, memory_of, put_at, value_at
from .vector import WIDTH, Vector, vector_type

_BLOCK = 500  # lines after which another block begins


class VectorArithmetic(AbstractArithmetic):
    """Each operation is a line of LLVM's language, appended to `lines`; `declarations` says what these call.

    `width`: the elements of a value; if it is one, loops may keep arrays `in_memory`. `lanes`: those of them that there are;
    functions of a library are called for no others. `calls`: elements that the program maps may be a call of their loop.
    Sums may take products into a fused multiply-add, as XLA's do. Raises `NotCompilable` for what has no instruction, and
    beyond so many results as are the `most`; never writes an instruction or a call with operands of other types than it
    takes (`TypeError`).
    """

    keeps_loops = False

    def __init__(
        self, most: int | None = None, lanes: int = WIDTH, width: int = WIDTH, *, in_memory: bool = True, calls: bool = False
    ):
        super().__init__()
        self._most, self.lanes, self.width, self.calls = most, lanes, width, calls
        self.has_places = width == 1
        self.lines: list[str] = []
        self.before: list[str] = []  # the loop: room for what functions take and give
        self.shared: dict[tuple[int, int], Vector] = {}  # what elements share that is read, by its place
        self.declarations: dict[str, None] = {}
        self.called: set[str] = set()  # functions of the C library, and loops of other kernels
        self._count = self._began = self.taken = 0  # the last in bytes
        self.writes = in_memory and self.width == 1  # whether loops may write to memory here

    def fresh(self) -> str:
        """A name that nothing has."""
        self._count += 1
        if self._most is not None and self._count > self._most:
            raise NotScalarisable(f"a program of more than {self._most} results")
        return f"%v{self._count}"

    def named_line(self, line: str) -> str:
        """The name of the result of an instruction."""
        name = self.fresh()
        self.lines.append(f"  {name} = {line}")
        return name

    def _divided(self) -> None:
        """Begins another block where one is long, of which LLVM takes longer for a line. The jump looks as if it could be to
        the end, or both would be joined."""
        if self.width == 1 and len(self.lines) - self._began > _BLOCK:
            label = self.fresh()[1:]
            self.lines += [f"  br i1 %any, label %{label}.on, label %end", f"{label}.on:"]
            self._began = len(self.lines)

    def computed(self, primitive: Any, dtype: Any, operands: tuple[Scalar, ...], params: dict[str, Any]) -> Scalar:
        self._divided()
        name, kind = primitive.name.removesuffix("_any"), _kind(operands[0].dtype)
        if name in LINES[kind]:
            return self.line(LINES[kind][name], dtype, operands)
        if name in INTRINSICS[kind]:
            return self._intrinsic(INTRINSICS[kind][name], dtype, operands)
        if name in DIVISIONS.get(kind, ()) and is_number(operands[1]) and operands[1] not in (0, -1):
            return self.line(DIVISIONS[kind][name], dtype, operands)
        if name == "select_n" and kind == "b":
            which, if_false, if_true = operands
            return self.select(which, if_true, if_false)
        if name == "select_n":
            return self._numbered(*operands)
        if name == "convert_element_type":
            return self._converted(operands[0], np.dtype(dtype))
        if name == "integer_pow":
            return power(self, operands[0], params["y"])
        if name == "pow":
            return self._each(name, dtype, [self._converted(x, np.dtype(dtype)) for x in operands])
        if kind == "f" and name == "round":
            return self._intrinsic(ROUNDED[params["rounding_method"]], dtype, operands)
        if kind == "f" and name in OF_THE_C_LIBRARY:
            return self._each(name, dtype, operands)
        if name in _COMPOSED[kind]:
            return _COMPOSED[kind][name](self, *operands)
        raise NotScalarisable(f"{name} of {operands[0].dtype} as an instruction")

    def product(self, dtype: Any, left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
        return shared_product(self, dtype, left, right)

    def read(self, scalars: np.ndarray, some: slice, number: Scalar) -> Scalar | None:
        return indexed_read(self, scalars, some, number)

    def prepare(self, scalars: np.ndarray) -> None:
        if self.has_places and len(scalars) and scalars[0].dtype.kind != "b" and memory_of(list(scalars)) is None:
            table_of(self, scalars)

    def changed(self, scalars: Sequence[Scalar], changes: Sequence[Change], combined: str | None) -> list[Scalar]:
        return changed(self, scalars, changes, combined)

    def write(
        self, scalars: Sequence[Scalar], number: Scalar, values: Sequence[tuple[int, Scalar]], is_there: Scalar
    ) -> list[Scalar] | None:
        memory = memory_of(scalars) if self.writes else None
        if memory is None:
            return None
        if not is_number(is_there):
            old = [value_at(self, memory, number, offset) for offset, _ in values]
            values = [(k, self.select(is_there, x, a)) for (k, x), a in zip(values, old, strict=True)]
        put_at(self, memory, number, values)
        return memory.entries

    def behind_barrier(self, scalars: list[Scalar]) -> list[Scalar]:
        return scalars

    def chosen(
        self, which: Scalar, first: Branch, second: Branch, scalars: list[Scalar], dtypes: Sequence[Any]
    ) -> list[Scalar]:
        return branches.chosen(self, which, first, second, scalars, dtypes)

    def repeated(
        self, going: Branch, advanced: Branch, start: list[Scalar], dtypes: Sequence[Any], written: Sequence[slice] = ()
    ) -> list[Scalar]:
        return branches.repeated(self, going, advanced, start, dtypes, written)

    @contextlib.contextmanager
    def forgetting(self) -> Iterator[None]:
        """For lines that may not be carried out: what they compute is not known after them."""
        known = dict(self._known)
        yield
        self._known = known

    def named(self, x: Scalar) -> str:
        """A scalar as an operand."""
        if isinstance(x, Stored):
            return loaded(self, x).name
        if is_number(x):
            return constant(x) if self.width == 1 else f"splat ({number_type(x.dtype)} {constant(x)})"
        if x.place is not None:
            self.shared[x.place] = x
        return x.name

    def again(self, name: str, *operands: Scalar) -> Scalar:
        """Another primitive, whose result is of the type of its operands."""
        params = {"accuracy": None} if name == "sqrt" else {}
        return self.apply(getattr(primitives, f"{name}_p"), operands[0].dtype, *operands, **params)

    def type_of(self, dtype: Any) -> str:
        """The type of a value."""
        return vector_type(dtype, self.width)

    def _typed(self, x: Scalar) -> str:
        return f"{self.type_of(x.dtype)} {self.named(x)}"

    def any_of(self, holds: Scalar) -> str:
        """Whether a truth value is true of some element that there is."""
        if self.width == 1:
            return self.named(holds)
        mask = self.named_line(f"bitcast {self._typed(holds)} to i{self.width}")
        if self.lanes < self.width:
            mask = self.named_line(f"and i{self.width} {mask}, {2**self.lanes - 1}")
        return self.named_line(f"icmp ne i{self.width} {mask}, 0")

    def line(self, operation: str, dtype: Any, operands: Sequence[Scalar]) -> Vector:
        start = instruction(operation, np.dtype(dtype), tuple([x.dtype for x in operands]), self.width)
        return Vector(self.named_line(start + ", ".join([self.named(x) for x in operands])), dtype)

    def select(self, which: Scalar, if_true: Scalar, if_false: Scalar) -> Vector:
        dtype, operands = if_true.dtype, (which, if_true, if_false)
        check_types("select", dtype, [x.dtype for x in operands])
        if self.width > 1 or _kind(dtype) != "f":
            return Vector(self.named_line(f"select {', '.join(map(self._typed, operands))}"), dtype)
        # Of two whole numbers a processor takes one. Of two real ones LLVM makes a jump, and moves all that follows.
        bits = [self._cast("bitcast", np.dtype(f"i{dtype.itemsize}"), x) for x in (if_true, if_false)]
        return self._cast("bitcast", dtype, self.select(which, *bits))

    def _numbered(self, which: Scalar, chosen: Scalar, *others: Scalar) -> Scalar:
        """The case of a number; the nearest of none, as XLA has it."""
        for k, case in enumerate(others, 1):
            chosen = self.select(self.line("icmp sge", bool, (which, number(k, which))), case, chosen)
        return chosen

    def _intrinsic(self, name: str, dtype: Any, operands: Sequence[Scalar]) -> Vector:
        check_types(name, np.dtype(dtype), [x.dtype for x in operands])
        many = "" if self.width == 1 else f"v{self.width}"
        sizes = (f"{many}{_kind(t)}{8 * np.dtype(t).itemsize}" for t in dict.fromkeys([np.dtype(dtype), operands[0].dtype]))
        function, types = ".".join(["llvm", name, *sizes]), ", ".join(self.type_of(x.dtype) for x in operands)
        self.declarations[f"declare {self.type_of(dtype)} @{function}({types})"] = None
        return self._call(function, dtype, operands)

    def _call(self, function: str, dtype: Any, operands: Sequence[Scalar]) -> Vector:
        values = ", ".join(map(self._typed, operands))
        return Vector(self.named_line(f"call {self.type_of(dtype)} @{function}({values})"), dtype)

    def _each(self, name: str, dtype: Any, operands: Sequence[Scalar]) -> Vector:
        """A function of the C library, of one element after the other."""
        check_types(OF_THE_C_LIBRARY[name], np.dtype(dtype), [x.dtype for x in operands])
        scalar, vector = TYPES[np.dtype(dtype).name], self.type_of(dtype)
        function = OF_THE_C_LIBRARY[name] + ("f" if scalar == "float" else "")
        self.called.add(function)
        numbers = range(len(operands))
        declared = f"declare {scalar} @{function}({', '.join(scalar for _ in numbers)})"
        if self.width == 1:
            self.declarations[f"{declared} nobuiltin"] = None  # or LLVM would put another function in its place
            return self._call(function, dtype, operands)
        lines = [declared]
        lines.append(
            f"define internal {vector} @each.{function}({', '.join(f'{vector} %x{i}' for i in numbers)}) noinline {{"
        )
        for lane in range(self.lanes):
            lines += [f"  %x{i}.{lane} = extractelement {vector} %x{i}, i32 {lane}" for i in numbers]
            given = ", ".join(f"{scalar} %x{i}.{lane}" for i in numbers)
            lines.append(f"  %y{lane} = call {scalar} @{function}({given})")
            before = f"%r{lane - 1}" if lane else "%x0"  # what else the lanes hold is a number, and nobody's
            lines.append(f"  %r{lane} = insertelement {vector} {before}, {scalar} %y{lane}, i32 {lane}")
        self.declarations["\n".join([*lines, f"  ret {vector} %r{self.lanes - 1}", "}"])] = None
        return self._call(f"each.{function}", dtype, operands)

    def _converted(self, x: Scalar, dtype: np.dtype) -> Scalar:
        before, after = _kind(x.dtype), _kind(dtype)
        if x.dtype == dtype:
            return x
        if after == "b":
            return self.apply(primitives.ne_p, bool, x, number(0, x))
        if before + after == "fi":
            return self._intrinsic("fptosi.sat", dtype, (x,))
        if {before, after} == {"i", "u"} and dtype.itemsize == x.dtype.itemsize:
            return Vector(self.named(x), dtype)  # the same bits
        wider = dtype.itemsize > x.dtype.itemsize
        casts = {
            **{"bf": "uitofp", "uf": "uitofp", "if": "sitofp", "ff": ("fptrunc", "fpext")[wider]},
            **{"bi": "zext", "bu": "zext", "ui": "zext", "iu": "trunc", "ii": ("trunc", "sext")[wider]},
        }
        if before + after not in casts:
            raise NotScalarisable(f"{x.dtype} as {dtype}")
        return self._cast(casts[before + after], dtype, x)

    def _cast(self, operation: str, dtype: np.dtype, x: Scalar) -> Vector:
        check_types(operation, dtype, [x.dtype])
        return Vector(self.named_line(f"{operation} {self._typed(x)} to {self.type_of(dtype)}"), dtype)

    def _ordered(self, x: Scalar) -> Scalar:
        """Whole numbers in the total order of real ones, zeros and NaN by sign: bits, of negative ones turned round."""
        whole = np.dtype(f"i{x.dtype.itemsize}")
        bits = self._cast("bitcast", whole, x)
        signs = self.line("ashr", whole, (bits, number(8 * whole.itemsize - 1, bits)))
        return self.line("xor", whole, (bits, self.line("lshr", whole, (signs, number(1, bits)))))

    def _sign(self, x: Scalar) -> Scalar:
        """1 with the sign of the operand; zeros and NaN as they are."""
        one = self._intrinsic("copysign", x.dtype, (number(1, x), x))
        return self.select(self.line("fcmp one", bool, (x, number(0, x))), one, x)

    def _logistic(self, x: Scalar) -> Scalar:
        falling = self._each("exp", x.dtype, [self.again("neg", x)])
        return self.again("div", number(1, x), self.again("add", number(1, x), falling))


_COMPOSED = {  # of instructions, or functions, that are written here
    **COMPOSED,
    "f": {
        **COMPOSED["f"],
        "le_to": lambda arithmetic, a, b: arithmetic.apply(primitives.le_p, bool, *map(arithmetic._ordered, (a, b))),
        "logistic": VectorArithmetic._logistic,
        "lt_to": lambda arithmetic, a, b: arithmetic.apply(primitives.lt_p, bool, *map(arithmetic._ordered, (a, b))),
        "sign": VectorArithmetic._sign,
    },
}


@functools.cache
def _kind(dtype: Any) -> str:
    """`f`, `i`, `u` or `b`."""
    number_type(dtype)
    return np.dtype(dtype).kind
