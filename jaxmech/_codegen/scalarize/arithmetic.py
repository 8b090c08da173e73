"""Operations on single scalars of an element: numbers known while tracing are folded, and nothing is computed twice."""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._runtime.jax_internals import primitives
from ..._runtime.plain_form import NotCompilable

# A number known while tracing; or what the arithmetic makes of a scalar that every element has, or that they share.
Scalar = Any
Branch = Callable[["AbstractArithmetic", list[Scalar]], list[Scalar]]


class Change(NamedTuple):
    """One of some scalars is replaced by a value, or combined with it, if it is there: so many after the one of a number."""

    number: Scalar
    offset: int
    value: Scalar
    is_there: Scalar


class NotScalarisable(NotCompilable):
    """A program cannot be made of scalar operations: it is mapped by `jax.vmap`. Never seen by a user."""


def is_number(x: Scalar) -> bool:
    """Whether the value is known while tracing."""
    return isinstance(x, np.generic)


class AbstractArithmetic(abc.ABC):
    """Applies elementwise primitives to scalars of one program, for all elements at once.

    Products with zero and one, sums with zero and choices already made are not carried out: most directions of a
    derivative are zeros and ones. (A zero times what is not finite is therefore zero, and so is a zero divided by zero; a
    sum with a zero leaves zeros their sign.) What was computed once is found again.
    """

    keeps_loops: bool  # whether a loop may stay one
    calls = False  # whether elements that are mapped may be a call of the loop over them
    has_places = False  # whether scalars may be put where a number says

    def __init__(self):
        self._known: dict[Any, tuple[Any, Any]] = {}

    @abc.abstractmethod
    def computed(self, primitive: Any, dtype: Any, operands: tuple[Scalar, ...], params: dict[str, Any]) -> Scalar:
        """The result of an operation that has to be carried out."""

    @abc.abstractmethod
    def behind_barrier(self, scalars: list[Scalar]) -> list[Scalar]:
        """The scalars behind a barrier to optimisation."""

    @abc.abstractmethod
    def chosen(
        self, which: Scalar, first: Branch, second: Branch, scalars: list[Scalar], dtypes: Sequence[Any]
    ) -> list[Scalar]:
        """The result of a conditional on `scalars`: its first branch is computed for all elements, its second for those
        that take it (`which` is 1), and only if one of them does.
        """

    @abc.abstractmethod
    def repeated(
        self, going: Branch, advanced: Branch, start: list[Scalar], dtypes: Sequence[Any], written: Sequence[slice] = ()
    ) -> list[Scalar]:
        """The first of `start`, `advanced(start)`, ... that is not `going`, a truth value: of every element. `written`:
        which of these are arrays that a round writes to at places that are computed."""

    def apply(self, primitive: Any, dtype: Any, *operands: Scalar, **params: Any) -> Scalar:
        """`primitive(*operands)`, of type `dtype`."""
        name, are_known = primitive.name, [isinstance(x, np.generic) for x in operands]
        found = _folded(name, dtype, operands) if any(are_known) or name == "select_n" else None
        if found is not None:
            return found
        if all(are_known):
            if name in _OF_NUMBERS and _is_of_numpy(name, dtype, operands[0].dtype):
                with np.errstate(all="ignore"):
                    return np.asarray(_OF_NUMBERS[name](*operands)).astype(dtype)[()]
            with jax.ensure_compile_time_eval():
                return np.asarray(primitive.bind(*map(jnp.asarray, operands), **params))[()]
        make = functools.partial(self.computed, primitive, dtype, operands, params)
        return self.once(f"{name}{params}" if params else name, operands, make, name in _COMMUTATIVE)

    def product(self, dtype: Any, left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
        """`left right^T` of scalars `(m, k)` and `(n, k)` as one operation; None: its products and sums are carried out."""
        del dtype, left, right
        return None

    def read(self, scalars: np.ndarray, some: slice, number: Scalar) -> Scalar | None:
        """One of some scalars by its number, which one of them has, as one operation; None: it is chosen from among them."""
        del scalars, some, number
        return None

    def prepare(self, scalars: np.ndarray) -> None:
        """Says that some scalars will be read by number in a loop that follows."""
        del scalars

    def write(
        self, scalars: Sequence[Scalar], number: Scalar, values: Sequence[tuple[int, Scalar]], is_there: Scalar
    ) -> list[Scalar] | None:
        """Scalars some of which are replaced, each so many after the one of a number, if they are there, as one operation;
        None: each of them is chosen."""
        del scalars, number, values, is_there
        return None

    def changed(self, scalars: Sequence[Scalar], changes: Sequence[Change], combined: str | None) -> list[Scalar] | None:
        """Scalars after changes of some of them, one after the other; None: each of them is chosen, as without places."""
        del scalars, changes, combined
        return None

    def combine(self, name: str, dtype: Any, a: Scalar, b: Scalar) -> Scalar:
        """`a + b`, `a b`, ... : one of the operations that reductions are made of."""
        return self.apply(getattr(primitives, f"{name}_p"), dtype, a, b)

    def once(self, name: str, operands: Sequence[Scalar], make: Callable[[], Any], in_any_order: bool = False) -> Any:
        """What `make` makes of the operands, or what it made before under the same name. `in_any_order`: of two operands."""
        # Numbers by their bits: zeros of either sign are equal, and NaN is not.
        names = [(x.dtype.char, x.tobytes()) if isinstance(x, np.generic) else id(x) for x in operands]
        key = name, frozenset(names) if in_any_order else tuple(names)
        if key not in self._known:
            # Operands are kept, so that no other takes their identity.
            self._known[key] = make(), operands
        return self._known[key][0]


_COMMUTATIVE = ("mul", "add", "add_any")
_OF_NUMBERS = {  # the others are evaluated by JAX, which takes a thousand times longer
    "mul": np.multiply,
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "div": np.divide,
    "neg": np.negative,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "not": np.invert,
    "convert_element_type": np.asarray,
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "select_n": lambda which, *cases: cases[int(which)],
}


def _is_of_numpy(name: str, dtype: Any, operand: np.dtype) -> bool:
    """Whether NumPy does what XLA does: it divides whole numbers, and makes them of what is none, in another way."""
    return operand.kind == "f" if name == "div" else not (operand.kind == "f" and np.dtype(dtype).kind in "iu")


def _is(x: Scalar, value: float) -> bool:
    return isinstance(x, np.generic) and bool(x == value)


def _folded(name: str, dtype: Any, operands: tuple[Scalar, ...]) -> Scalar | None:
    """The result where no operation is needed."""
    match name, operands:
        case "mul", (a, b):
            if _is(a, 0) or _is(b, 0):
                return np.zeros((), dtype)[()]
            return b if _is(a, 1) else a if _is(b, 1) else None
        case (("add" | "add_any"), (a, b)):
            return b if _is(a, 0) else a if _is(b, 0) else None
        case "sub", (a, b):
            return a if _is(b, 0) else None
        case "div", (a, b):
            if _is(a, 0) and not is_number(b) and np.dtype(dtype).kind == "f":
                return np.zeros((), dtype)[()]
            return a if _is(b, 1) else None
        case "select_n", (which, *cases) if is_number(which):
            return cases[int(which)]
        case "select_n", (_, first, *others) if all(first is other for other in others):
            return first
    return None
