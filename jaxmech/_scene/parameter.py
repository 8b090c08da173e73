"""What a component knows about one element: its parameters, and how they are spread over the elements.

A component (force field, mass, mapping, constraint) describes **one** element. Its physical numbers are declared with
`parameter()` (shared, or one per element) or `nodal_parameter()` (one per node of a state); `over_elements` then maps
a method of the component over all elements, handing each call a view that holds that element's own numbers.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

from .._codegen import AbstractElementSums, NodeRows, is_compiled, map_elements, trace_and_map, vmap_elements
from .._runtime.argument_checks import check_real, has_numbers, numeric_array
from .._runtime.host_arrays import as_data
from .._runtime.jax_internals import Tracer
from .stencil import Stencil

KIND = "jaxmech"  # the key of what a field is declared to be
_LARGEST = 10**308  # whole numbers beyond are no floating-point number


def is_concrete(*arrays: Any) -> bool:
    """Whether values may be looked at (they are not being traced)."""
    return not any(isinstance(a, Tracer) for a in arrays)


def as_array(value: Any) -> Any:
    """An array of what was given, whole numbers made real; what cannot be one passes, to be refused by `check_real`."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST:
        value = as_data(np.asarray(float(value), jnp.result_type(float)))
    elif isinstance(value, (bool, float, complex, np.bool_)) or (isinstance(value, np.number) and has_numbers(value.dtype)):
        value = as_data(value)
    elif isinstance(value, (list, tuple, np.ndarray)):
        try:
            value = numeric_array("", "", value)
        except TypeError:
            return value
        if isinstance(value, np.ndarray):
            kind = jnp.result_type(float) if value.dtype.kind in "iu" else None
            value = as_data(value, kind)
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.integer):
        value = value.astype(jnp.result_type(float))
    return value


def parameter(*, ndim: int = 0, **kwargs: Any) -> Any:
    """Declare a physical number of one element, itself an array of `ndim` axes.

    The stored leaf has `ndim` axes (shared by all elements) or `ndim + 1` (one per element, element axis first). It is
    always a differentiable leaf, never static.
    Its unit is for the component's docstring to say, [Pa] say. A leaf that is no real number, not finite, or of another
    number of axes raises `ValueError` or `TypeError` when the component is built.

    Example:

        class Spring(jm.force.AbstractEnergyForceField):
            on: tuple = jm.stencils()
            k: jax.Array = jm.parameter()  # [N/m]

            def element_energy(self, x):
                return 0.5 * self.k * jnp.sum(x**2)  # `self.k` is one number, whether or not each element has its own

        scene = jm.System({"p": jm.Vec1()}, forces={"springs": Spring(("p", [0, 1]), [2.0, 4.0])})
        assert jnp.allclose(jm.energy(scene, scene.at_rest({"p": [[1.0], [1.0]]})), 3.0)  # [J]
    """
    return eqx.field(converter=as_array, metadata={KIND: ("element", ndim, 0)}, **kwargs)


def nodal_parameter(*, ndim: int = 0, stencil: int = 0, **kwargs: Any) -> Any:
    """Declare a number that lives on the nodes of the state of stencil number `stencil`.

    The stored leaf has `ndim + 1` axes, node axis first; the element sees the rows of its own nodes (axes `k, ...`, or
    `...` where the stencil names one node per element), exactly as it sees positions.
    Its unit is for the component's docstring to say, [m] of rest positions say. A leaf of another number of axes, or with
    too few nodes, raises `ValueError` when the component is built.

    Example:

        class Spring(jm.force.AbstractEnergyForceField):
            on: tuple = jm.stencils()
            rest: jax.Array = jm.component.nodal_parameter(ndim=1)  # [m], of every node of the state

            def element_energy(self, x):  # (k, c), as `self.rest` is
                return 0.5 * jnp.sum((x - self.rest) ** 2)

        scene = jm.System({"p": jm.Vec1()}, forces={"springs": Spring(("p", [[0, 1]]), [[0.0], [5.0]])})
        assert jnp.allclose(jm.energy(scene, scene.at_rest({"p": [[1.0], [5.0]]})), 0.5)  # [J]
    """
    return eqx.field(converter=as_array, metadata={KIND: ("node", ndim, stencil)}, **kwargs)


def named_parameters(**kwargs: Any) -> Any:
    """Declare numbers of one element by name: a dictionary, each value shared, one per element, or one per Gauss point.

    A value may be a module that declares numbers of its own, vectors and tensors say.
    """

    def convert(values: Any) -> Any:
        return {name: as_array(value) for name, value in values.items()} if isinstance(values, dict) else values

    return eqx.field(converter=convert, metadata={KIND: ("named", 0, 0)}, **kwargs)


def each_element(**kwargs: Any) -> Any:
    """Declare numbers that every element has of its own: a tuple of arrays, element axis first, of any further axes.

    `(e, ...)` each; what of it belongs to one element, `(...)`, is seen by the element function. An array of another leading
    axis raises `ValueError` when the component is built. Units are for the component's docstring to say.

    Example:

        class Pull(jm.force.AbstractEnergyForceField):
            on: tuple = jm.stencils()
            table: tuple = jm.component.each_element(default=())

            def element_energy(self, x):
                return -self.table[0] @ x

        scene = jm.System({"p": jm.Vec2()}, forces={"pull": Pull(("p", [0, 1]), ([[1.0, 0.0], [0.0, 3.0]],))})
        assert jnp.allclose(jm.energy(scene, scene.at_rest({"p": [[1.0, 1.0], [1.0, 1.0]]})), -4.0)  # [J]
    """

    def convert(values: Any) -> tuple[Any, ...]:
        values = values if isinstance(values, tuple | list) else (values,)
        return tuple(as_array(value) for value in values)

    return eqx.field(converter=convert, metadata={KIND: ("each", 0, 0)}, **kwargs)


def declaration(component: eqx.Module, path: tuple[Any, ...]) -> tuple[str, int, int] | None:
    """The innermost declaration met on the way from the component to a leaf."""
    owner, found = component, None
    for key in path:
        match key:
            case GetAttrKey(name=name):
                fields = getattr(type(owner), "__dataclass_fields__", {})
                if name in fields:
                    found = fields[name].metadata.get(KIND, found)
                owner = getattr(owner, name)
            case SequenceKey(idx=index):
                owner = owner[index]  # pyright: ignore[reportIndexIssue]
            case DictKey(key=name):
                owner = owner[name]  # pyright: ignore[reportIndexIssue]
            case FlattenedIndexKey():
                return found
    return found


def leaves_with_paths(component: eqx.Module) -> tuple[list[tuple[tuple[Any, ...], Any]], Any]:
    """The leaves of a component, each with the way to it, and its structure."""
    return jax.tree_util.tree_flatten_with_path(component)


class ElementLeaves(NamedTuple):
    """The leaves of a component, nodal parameters as `NodeRows`, and the `vmap` axis of each."""

    values: list[Any]
    axes: list[int | None]
    structure: Any


def element_leaves(component: eqx.Module, stencils: tuple[Stencil, ...]) -> ElementLeaves:
    """What one element sees of each."""
    _check_given(component)
    leaves, treedef = leaves_with_paths(component)
    values, axes = [], []
    for path, leaf in leaves:
        kind = declaration(component, path)
        if kind is None or not eqx.is_array(leaf):
            if kind is not None:
                _check_plain(component, path, kind, leaf)
            values.append(leaf)
            axes.append(None)
        elif kind[0] == "node":
            values.append(NodeRows(leaf, stencils[kind[2]].nodes))
            axes.append(0)
        else:
            if leaf.ndim < kind[1]:
                name = jax.tree_util.keystr(path).lstrip(".")
                raise ValueError(
                    f"{type(component).__name__}: {name} has shape {leaf.shape}, expected {_each(kind[1], leaf)}."
                )
            spread = kind[0] == "each" or leaf.ndim > kind[1]
            if spread and stencils and leaf.shape[0] != stencils[0].elements:
                name = jax.tree_util.keystr(path).lstrip(".")
                raise ValueError(
                    f"{type(component).__name__}: {name} has shape {leaf.shape}, expected a leading axis of "
                    f"{stencils[0].elements} (one per element)."
                )
            values.append(leaf)
            axes.append(0 if spread else None)
    return ElementLeaves(values, axes, treedef)


def element_view(component: eqx.Module, stencils: tuple[Stencil, ...]) -> tuple[Any, Any]:
    """The component with its nodal parameters as `NodeRows`, and the `vmap` axes of every one of its leaves."""
    values, axes, treedef = element_leaves(component, stencils)
    return treedef.unflatten(values), treedef.unflatten(axes)


def element_of(component: Any, stencils: tuple[Stencil, ...], number: Any) -> Any:
    """The component as the element of this number sees it."""
    leaves, treedef = leaves_with_paths(component)
    values = []
    for path, leaf in leaves:
        kind = declaration(component, path)
        if kind is None or not eqx.is_array(leaf):
            values.append(leaf)
        elif kind[0] == "node":
            values.append(leaf[stencils[kind[2]].nodes[number]])
        else:
            values.append(leaf[number] if kind[0] == "each" or leaf.ndim > kind[1] else leaf)
    return treedef.unflatten(values)


def over_elements(
    component: eqx.Module,
    stencils: tuple[Stencil, ...],
    function: Callable,
    *args: Any,
    sums: AbstractElementSums | None = None,
) -> Any:
    """`function(component of one element, *args of one element)`, mapped over the elements (axis 0 of every arg).

    With `sums`, not that but its sums over the elements, and what of it is not summed. An arg may be `NodeRows`.
    """
    view, axes = element_view(component, stencils)
    return map_elements(function, (axes, *(0 for _ in args)), view, *args, sums=sums)


def trace_elements(component: eqx.Module, stencils: tuple[Stencil, ...], function: Callable, *args: Any) -> Any:
    """`over_elements` of arguments that are being traced, where only the trace is read, and nothing is run."""
    view, axes = element_view(component, stencils)
    mapped = trace_and_map if is_compiled() else vmap_elements  # what was traced once is known again
    return mapped(function, (axes, *(0 for _ in args)), view, *args)


def point_axes(component: eqx.Module) -> Any:
    """In a function of one element: the `vmap` axis, over the points of the element, of every leaf; None if all are shared.

    What the component is made of, a material, may have numbers for each point; its own are of the element.
    """
    leaves, treedef = leaves_with_paths(component)
    axes: list[int | None] = []
    for path, leaf in leaves:
        kind = declaration(component, path) if len(path) > 1 and eqx.is_array(leaf) else None
        axes.append(0 if kind is not None and kind[0] not in ("node", "each") and leaf.ndim > kind[1] else None)
    return treedef.unflatten(axes) if any(axis == 0 for axis in axes) else None


def check_parameters(component: eqx.Module, stencils: tuple[Stencil, ...], points: int | None = None) -> None:
    """Raise a `ValueError` or `TypeError` naming the field whose leaf is no real number, is not finite, or fits neither
    one element nor all of them.

    `points`: how many points each element has at which what it is made of, a material, may have numbers of its own. Of a
    material by itself, without stencils, nobody knows yet.
    """
    owner = type(component).__name__
    elements = stencils[0].elements if stencils else None
    _check_given(component)
    _check_arrays(component)
    for path, leaf in leaves_with_paths(component)[0]:
        kind = declaration(component, path)
        if kind is None:
            continue
        name = jax.tree_util.keystr(path).lstrip(".")
        check_real(owner, name, leaf)
        extra = leaf.ndim - kind[1]
        if kind[0] == "each":
            if elements is not None and leaf.shape[:1] != (elements,):
                raise ValueError(f"{owner}: {name} has shape {leaf.shape}, expected a leading axis of {elements}.")
        elif kind[0] == "node":
            if extra != 1:
                raise ValueError(f"{owner}: {name} has shape {leaf.shape}, expected (nodes, + {kind[1]} axes).")
            nodes = stencils[kind[2]].nodes
            if is_concrete(nodes) and nodes.size and int(np.max(np.asarray(nodes))) >= leaf.shape[0]:
                raise ValueError(
                    f"{owner}: {name} is of {leaf.shape[0]} nodes, but node {np.max(np.asarray(nodes))} is named."
                )
        else:
            pointwise = points is not None and len(path) > 1
            leading = (elements, points) if pointwise else (elements,)
            fits = elements is None or leaf.shape[: max(extra, 0)] == leading[: max(extra, 0)]
            if not 0 <= extra <= (2 if elements is None else len(leading)) or not fits:
                raise ValueError(f"{owner}: {name} has shape {leaf.shape}, expected {_shapes(kind[1], leaf, leading)}.")


def _each(ndim: int, leaf: Any) -> str:
    """What one element has, in words, and what a single number that was given in its place would be."""
    count = "one number" if ndim == 0 else f"an array of {ndim} {'axis' if ndim == 1 else 'axes'}"
    given = leaf.shape == () and ndim == 1 and isinstance(leaf, jax.Array) and is_concrete(leaf)
    return f"{count}, such as [{float(leaf)}]," if given else count


def _shapes(ndim: int, leaf: Any, leading: tuple[int | None, ...]) -> str:
    """What a number of one element may look like, in words."""
    count = _each(ndim, leaf)
    if leading == (None,):
        return f"{count} shared by all elements, or with leading axes of elements, or of elements and Gauss points"
    each = f"a leading axis of {leading[0]} (one per element)"
    if len(leading) == 1:
        return f"{count} (shared by all elements) or {each}"
    return f"{count} (shared by all elements), {each}, or leading axes {leading} (one per Gauss point)"


def _check_given(component: eqx.Module) -> None:
    """Raise a `TypeError` naming a declared field without a leaf, an empty subtree to JAX, of which nothing is checked."""
    for name, field in component.__dataclass_fields__.items():
        value, kind = getattr(component, name), field.metadata.get(KIND)
        optional = kind is not None and (kind[0] == "each" or (value is None and field.default is None))
        optional = optional or (kind is not None and kind[0] == "named" and value == {})
        if kind is not None and not jax.tree.leaves(value) and not optional:
            raise TypeError(f"{type(component).__name__}: {name} must be a number or an array, got {value!r:.80}.")


def _check_arrays(component: eqx.Module) -> None:
    """Raise a `TypeError` naming a declared field with a list that became no array: rows of unequal length, text."""
    for name, field in component.__dataclass_fields__.items():
        value, kind = getattr(component, name), field.metadata.get(KIND)
        if kind is not None and kind[0] in ("element", "node") and isinstance(value, list | tuple):
            raise TypeError(f"{type(component).__name__}: {name} must be numbers in an array, got {value!r:.80}.")


def _check_plain(component: eqx.Module, path: tuple[Any, ...], kind: tuple[str, int, int], leaf: Any) -> None:
    """Raise a `TypeError` naming a declared field that was filled, past its constructor, with what is no array: a list."""
    plain = isinstance(leaf, (bool, int, float, complex, np.number)) and isinstance(path[-1], GetAttrKey | DictKey)
    if not (plain and kind[1] == 0 and kind[0] in ("element", "named")) and not isinstance(leaf, jax.ShapeDtypeStruct):
        name = jax.tree_util.keystr(path).lstrip(".")
        raise TypeError(
            f"{type(component).__name__}: {name} must be an array, got {leaf!r:.80}; the constructor makes arrays of lists, "
            "`eqx.tree_at` does not."
        )


Ranges = dict[str, tuple[Any, Callable[[Any], Any], str]]


def check_range(component: eqx.Module, **conditions: tuple[Any, Callable[[Any], Any], str]) -> None:
    """Raise a `ValueError` unless `condition(value)` holds everywhere: `check_range(self, young=(E, lambda e: e > 0,
    "positive"))`. Values under tracing, and placeholders, cannot be looked at and pass."""
    for name, (value, condition, expected) in conditions.items():
        if not isinstance(value, jax.Array) or not is_concrete(value):
            continue
        numbers = np.asarray(value)
        good = np.asarray(condition(numbers))
        if not good.all():
            raise ValueError(f"{type(component).__name__}: {name} must be {expected}, got {numbers[~good].ravel()[:3]}.")
