"""The program of one element as one loop over all of them, in the language of LLVM, and as a call of XLA's.

XLA:CPU makes a loop of every few operations, and what one hands to the next goes through memory. Here a program is the body
of one loop, four or eight elements at a time: what stands at the nodes is read where they are, and only results are
written. The program of one element alone is written in scalars.

Numbers of nodes and of rows are data, and may be traced. Where one does not exist, nothing is read or added: all that the
kernel gives is NaN, or -1 of whole numbers.
"""

import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..._llvm.ffi import ForeignFunction
from ..._llvm.ir_builder import pointers
from ..._runtime.array_types import Array
from ..._runtime.collector import collector_at_rest
from ..program.element_jaxpr import ElementProgram
from ..program.nodal_gather import NodeRows
from ..program.scatter_plan import Places
from ..scalarize.arithmetic import NotScalarisable
from ..scalarize.array_arithmetic import entries
from ..scalarize.interpreter import run
from ..scalarize.supported import kind
from .element_inputs import at_nodes, memory_type, of_all, of_each, read_before
from .index_check import IndexCheck
from .rows import store_rows
from .scatter_add import add_rows, filled
from .stored import WrittenOver
from .vector import WIDTH, width_for, width_of_handful
from .vector_arithmetic import VectorArithmetic

# Lines of a kernel of fewer elements than it takes at once beyond which LLVM does not optimise it: 30 microseconds a line
# for 10, and 50 of more than 20,000. The gradient of a step of an arm of seven hinges takes 0.6 of the time for it.
_LONG_FOR_A_HANDFUL = 30_000
# A step of a loop is carried out thousands of times: one of 93,000 lines takes half the time optimised, after 7 s for 1.
_LONG_FOR_A_STEP = 80_000


class Kernel:
    """A program compiled for a CPU, of arrays or `NodeRows` of all elements.

    The first outputs, of which `places` says where their rows go, are not given back: each row is added to one of a sum.
    `lanes`: the elements, where these are all there are, a handful that it takes at once; None: any number from `WIDTH` on.
    `most`: results, beyond which it is not compiled. Raises `NotCompilable` for a program that has no such form.
    """

    @collector_at_rest()
    def __init__(
        self,
        program: ElementProgram,
        arrays: Sequence[Any],
        places: Sequence[Places] = (),
        lanes: int | None = None,
        most: int | None = None,
    ):
        self._shapes = [(v.aval.shape, v.aval.dtype) for v in program.jaxpr.outvars]
        text = kernel_text(program, arrays, places, lanes, most)
        longest = _LONG_FOR_A_STEP if program.is_whole else _LONG_FOR_A_HANDFUL
        optimised = lanes is None or text.text.count("\n") < longest
        self._function = ForeignFunction(*text, optimised=optimised)
        self.loop = self._function.each  # the name by which other kernels call it

    def __call__(
        self,
        arrays: Sequence[Any],
        places: Sequence[Places],
        count: int,
        start: Array | int = 0,
        unsummed: Array | int = 0,
        own: Mapping[int, bool] | None = None,
    ) -> list[Array]:
        """The sums, and the other outputs of `count` elements from `start` on.

        `unsummed`: the first element whose rows are added to the sums. `own`: by the `id` of an array, whether every scene
        has one of its own, and the array another axis in front; so do results.
        """
        if any(p.rows == 0 for p in places):
            raise NotScalarisable("sums without a row, of which none would be seen to be lost")
        values, nodes = _buffers(arrays)
        operands = [*values, *nodes, *_indices(places)]
        flags = [own is not None and own.get(id(a), False) for a in operands]
        there = [v.shape[mine] for a, v, mine in zip(arrays, values, flags, strict=False) if isinstance(a, NodeRows)]
        numbers = start, count, unsummed, *(p.rows for p in places), *there
        scenes = [next(a.shape[0] for a, mine in zip(operands, flags, strict=True) if mine)] if own else []
        sums = [
            ((*scenes, p.rows, *p.of_row(shape)), dtype) for p, (shape, dtype) in zip(places, self._shapes, strict=False)
        ]
        others = self._shapes[len(places) :]
        listed = [((*scenes, count, *shape), dtype) for shape, dtype in others]
        results = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in (*sums, *listed)]
        return list(self._function(operands, results, numbers, [*flags, *(True for _ in results)] if own else None))


def form_of(arrays: Sequence[Any], places: Sequence[Places]) -> Hashable:
    """What a kernel depends on beside its program: which arrays are read at which nodes, and what has mirror images."""
    nodes = list({id(a.nodes): None for a in arrays if isinstance(a, NodeRows)})

    def read(a: Any) -> Hashable:
        return (nodes.index(id(a.nodes)), str(a.nodes.dtype), a.nodes.shape[1:]) if isinstance(a, NodeRows) else None

    return (*map(read, arrays), *((p.mirror is not None, p.single) for p in places))


def _buffers(arrays: Sequence[Any]) -> tuple[list[Array], list[Array]]:
    """The values of the arrays, and the distinct numbers of nodes at which some of them stand."""
    values = [a.values if isinstance(a, NodeRows) else a for a in arrays]
    nodes = {id(a.nodes): a.nodes for a in arrays if isinstance(a, NodeRows)}
    return values, list(nodes.values())


def _indices(places: Sequence[Places]) -> list[Array]:
    """Where rows go, and mirror images."""
    return [a for p in places for a in (p.slots, p.mirror) if a is not None]


class KernelText(NamedTuple):
    """The arguments of `ForeignFunction`."""

    text: str
    arguments: int
    results: int
    numbers: int
    called: list[str]


def kernel_text(
    program: ElementProgram,
    arrays: Sequence[Any],
    places: Sequence[Places],
    lanes: int | None = None,
    most: int | None = None,
) -> KernelText:
    """The loop over all elements."""
    dtypes = [v.aval.dtype for v in (*program.jaxpr.invars, *program.jaxpr.outvars)]
    width = width_for(dtypes) if lanes is None else width_of_handful(lanes)
    made = functools.partial(VectorArithmetic, most, width if lanes is None else lanes, width, calls=program.is_whole)
    try:
        return _text(program, arrays, places, made(), again=lanes is None)
    except WrittenOver:
        return _text(program, arrays, places, made(in_memory=False), again=lanes is None)


def _text(
    program: ElementProgram, arrays: Sequence[Any], places: Sequence[Places], arithmetic: VectorArithmetic, again: bool
) -> KernelText:
    """The same, as an arithmetic writes it; `again`: there are more elements than it takes at once."""
    for v in (*program.jaxpr.invars, *program.jaxpr.outvars):
        if v.aval.size == 0:
            raise NotScalarisable("arrays of nothing as a kernel")
        kind(v.aval.dtype)
    if any(kind(v.aval.dtype) != "f" for v in program.jaxpr.outvars[: len(places)]):
        raise NotScalarisable("sums of whole numbers")
    lanes, width = arithmetic.lanes, arithmetic.width
    values, nodes = _buffers(arrays)
    numbers = {id(n): len(values) + i for i, n in enumerate(nodes)}
    before: list[str] = []
    inputs, read, check = [], [], IndexCheck(1 if width == 1 else WIDTH)
    for i, (a, axis) in enumerate(zip(arrays, program.axes, strict=True)):
        if axis is None:
            inputs.append(of_all(i, a))
        elif isinstance(a, NodeRows):
            inputs.append(at_nodes(arithmetic, i, a, numbers[id(a.nodes)], lanes))
            read.append(i)
        else:
            inputs.append(of_each(arithmetic, i, a, lanes))
    for n in nodes:
        there = [f"%there{i}" for i in read if arrays[i].nodes is n]
        if there:
            check.of_elements(f"%a{numbers[id(n)]}", memory_type(n.dtype), int(np.prod(n.shape[1:])), there)
    outputs = run(arithmetic, program.jaxpr, [entries(c) for c in program.consts], inputs)
    arguments = len(values) + len(nodes)
    poisoned: list[str] = []
    for i, (output, v) in enumerate(zip(outputs, program.jaxpr.outvars, strict=True)):
        is_sum = i < len(places)
        shape = places[i].of_row(v.aval.shape) if is_sum else v.aval.shape
        size = int(np.prod(shape))
        nothing = 1 if v.aval.dtype == bool else 0xFF
        poisoned += filled(f"%r{i}", f"%rows{i}" if is_sum else "%count", size * v.aval.dtype.itemsize, nothing)
        if not is_sum:
            store_rows(arithmetic, i, output, v.aval.dtype, lanes)
            continue
        before += filled(f"%r{i}", f"%rows{i}", size * v.aval.dtype.itemsize, 0)
        mirror = None if places[i].mirror is None else f"%a{arguments + 1}"
        rows = output.reshape(-1, *(shape or (1,)))
        check.of_elements(f"%a{arguments}", "i32", len(rows), [f"%rows{i}"])
        if mirror is not None:
            check.of_rows(mirror, f"%rows{i}")
        add_rows(arithmetic, i, f"%a{arguments}", mirror, rows, v.aval.dtype, lanes, again=again)
        arguments += 1 if mirror is None else 2
    given = ["start", "count", "unsummed", *(f"rows{i}" for i in range(len(places))), *(f"there{i}" for i in read)]
    parameters = [*pointers(arguments, len(outputs)), *(f"i64 %{name}" for name in given)]
    before += arithmetic.before
    before += [line for place, x in arithmetic.shared.items() for line in read_before(x, *place, width)]
    loop = _loop("each" if not check.functions else "checked", before, arithmetic.lines, parameters, lanes, width)
    arithmetic.declarations["declare i64 @llvm.smin.i64(i64, i64)"] = None  # which the least of two whole numbers is too
    text = "\n".join([*arithmetic.declarations, loop, *check.finished(parameters, poisoned)])
    return KernelText(text, arguments, len(outputs), len(given), sorted(arithmetic.called))


def _loop(name: str, before: Sequence[str], lines: Sequence[str], parameters: Sequence[str], lanes: int, width: int) -> str:
    """So many elements at a time; the last overlap those before, so that every one of them is computed alike."""
    return "\n".join(
        [
            # A function by itself: LLVM would merge it into its caller, and take a third longer to compile the two.
            f"define internal void @{name}({', '.join(parameters)}) noinline {{",
            "begin:",
            *before,
            "  %any = icmp sgt i64 %count, 0",
            "  %added = sub i64 %unsummed, %start",
            f"  %last = sub i64 %count, {lanes}",
            "  br label %loop",
            "loop:",
            "  %reached = phi i64 [ 0, %begin ], [ %next, %done ]",
            "  %lane = call i64 @llvm.smin.i64(i64 %reached, i64 %last)",
            "  %element = add i64 %start, %lane",
            *lines,
            "  br label %done",
            "done:",
            f"  %next = add i64 %reached, {width}",
            "  %more = icmp slt i64 %next, %count",
            "  br i1 %more, label %loop, label %end",
            "end:",
            "  ret void",
            "}",
        ]
    )
