"""What an element remembers: internal variables, and the time step that laws with a rate are told.

A component declares them as it declares its parameters, with `internal()` and `time_step()`; what it holds of them is how
they begin. `System.at_rest` copies that into the `State`, one for each element (and Gauss point), and before anything is
evaluated what the state has takes the place of what the component holds (`with_internal`): from there on they are arrays
that every element has of its own, and go the way of any other parameter.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array
from .._runtime.host_arrays import as_data
from .parameter import KIND, as_array, declaration, is_concrete, leaves_with_paths

_INTERNAL, _STEP = "internal", "step"


def internal(initial: Any = None, **kwargs: Any) -> Any:
    """Declare an internal variable: what one element, or one Gauss point of a material, remembers of its past.

    `initial`: its value before anything has happened, an array of any shape, 0 unless given. The field may be given another
    one: of that many axes (shared), with an axis of elements in front, or, of a material in a solid, with axes of elements
    and points. It is a differentiable leaf. `System.at_rest` makes `(elements, ...)`, or `(elements, points, ...)`, of it in
    `State.internal`; an element function sees there what was last accepted, and `element_update` (`point_update` of a
    material) says what becomes of it when a step is. Its unit is for the component's docstring to say. Raises `ValueError`
    or `TypeError` when the component is built, for a leaf of another number of axes, and for a component that never says how
    its variables change.
    Source: J. C. Simo and T. J. R. Hughes, *Computational Inelasticity*, 1998, doi:10.1007/b98904, chapter 1.

    Example:

        class Slider(jm.force.AbstractEnergyForceField):  # a spring of 10 N/m behind a slider that gives way at 2 N
            on: tuple = jm.stencils()
            slip: jax.Array = jm.component.internal()  # [m]

            def element_energy(self, x):  # the work of a step: min over s of k/2 (x - s)^2 + 2 |s - slip|
                pull = jnp.abs(10.0 * (x[0] - self.slip))
                return jnp.where(pull > 2.0, 2.0 * pull / 10.0 - 0.2, pull**2 / 20.0)

            def element_update(self, x, v):
                stretch = x[0][0] - self.slip
                return {"slip": self.slip + jnp.sign(stretch) * jnp.maximum(jnp.abs(stretch) - 0.2, 0.0)}

        scene = jm.System({"p": jm.Vec1()}, forces={"slider": Slider(("p", [0]))})
        start = scene.at_rest({"p": [[0.0]]})
        pulled = jm.integrator.accepted(scene, start, dataclasses.replace(start, position={"p": jnp.array([[1.0]])}), 0.0)
        assert jnp.allclose(pulled.internal["slider"]["slip"], 0.8)  # [m]
        assert jnp.allclose(jm.total_force(scene, pulled)["p"], -2.0)  # [N]
    """
    first = np.asarray(
        0.0 if initial is None else initial, float
    )  # on the host: a class may be defined before JAX is set up

    def begun() -> Any:
        return as_data(first, jnp.result_type(float))

    options = {"converter": as_array, "default_factory": begun, "kw_only": True}
    return eqx.field(metadata={KIND: (_INTERNAL, first.ndim, 0)}, **(options | kwargs))


def time_step(**kwargs: Any) -> Any:
    """Declare the field in which a law with a rate finds the time step [s] that is being taken.

    Whoever takes a step fills it in (`jm.integrator.in_step`); where no time passes, as in `total_force` of a state, it is
    0, and the law must be defined there. A differentiable leaf. Raises `ValueError` when the component is built, for one
    that is not a number.
    Source: J. C. Simo and T. J. R. Hughes, *Computational Inelasticity*, 1998, doi:10.1007/b98904, chapter 10.

    Example:

        class Creep(jm.force.AbstractEnergyForceField):  # a spring of 1 N/m in series with a dashpot of 1 N s/m
            on: tuple = jm.stencils()
            flow: jax.Array = jm.component.internal()  # [m]
            dt: jax.Array = jm.component.time_step()

            def element_energy(self, x):
                return 0.5 * (x[0] - self.flow) ** 2 / (1.0 + self.dt)

            def element_update(self, x, v):
                return {"flow": self.flow + self.dt * (x[0][0] - self.flow) / (1.0 + self.dt)}

        scene = jm.System({"p": jm.Vec1()}, forces={"creep": Creep(("p", [0]))})
        held = scene.at_rest({"p": [[1.0]]})
        for _ in range(10):
            held = jm.integrator.accepted(scene, held, held, 0.1)
        assert jnp.allclose(jm.total_force(scene, held)["p"], -(1.1**-10.0))  # near exp(-1) [N]
    """
    options = {"converter": as_array, "default": 0.0, "kw_only": True}
    return eqx.field(metadata={KIND: (_STEP, 0, 0)}, **(options | kwargs))


@dataclass(frozen=True)
class InternalVariable:
    """One internal variable of a component: how it begins, and of what shape it is in a state."""

    initial: Any
    shape: tuple[int, ...]
    leading: int  # how many of its axes are of elements and points

    def at_rest(self, dtype: Any) -> Array:
        """One for each element, or for each of its points."""
        spread = jnp.ndim(self.initial) - (len(self.shape) - self.leading)
        middle = (1,) * (self.leading - spread) if spread else ()
        shape = (*self.initial.shape[:spread], *middle, *self.initial.shape[spread:])
        if is_concrete(self.initial):  # on the host: no program for each shape
            return as_data(np.broadcast_to(np.asarray(self.initial).reshape(shape), self.shape), dtype)
        return jnp.broadcast_to(jnp.reshape(self.initial, shape), self.shape).astype(dtype)


def internal_variables(component: Any) -> dict[str, InternalVariable]:
    """Those of a force field by name, `material.plastic_strain` of what it is made of; sorted, as JAX sorts them."""
    found: dict[str, InternalVariable] = {}
    if not _declares(component, _INTERNAL):
        return found
    elements, points = component.on[0].elements, component.quadrature_points
    for path, leaf in leaves_with_paths(component)[0]:
        kind = declaration(component, path)
        if kind is not None and kind[0] == _INTERNAL:
            leading = (elements,) if points is None or len(path) == 1 else (elements, points)
            own = jnp.shape(leaf)[jnp.ndim(leaf) - kind[1] :]
            found[name_of(path)] = InternalVariable(leaf, (*leading, *own), len(leading))
    return dict(sorted(found.items()))


def has_own_internal(component: Any) -> bool:
    """Whether a component itself declares internal variables, and not only what it is made of."""
    return _own_declarations(type(component), _INTERNAL)[0]


def own_internal(component: Any) -> dict[str, Any]:
    """What a component itself holds of internal variables, by name."""
    fields = component.__dataclass_fields__.values()
    return {
        field.name: getattr(component, field.name) for field in fields if field.metadata.get(KIND, ("",))[0] == _INTERNAL
    }


def remembers(component: Any) -> bool:
    """Whether a component has internal variables. Asked at every step, and so without a look at leaves."""
    return _declares(component, _INTERNAL)


def knows_time_step(component: Any) -> bool:
    """Whether a component asks for the time step."""
    return _declares(component, _STEP)


def with_values(component: Any, values: Mapping[str, Any]) -> Any:
    """A component with other internal variables, by name."""
    return _replaced(component, _INTERNAL, lambda name, old: values.get(name, old))


def with_time_step(component: Any, dt: Any) -> Any:
    """A component that is told the time step."""
    return _replaced(component, _STEP, lambda _, old: dt)


def name_of(path: tuple[Any, ...]) -> str:
    """How a leaf is called: `material.plastic_strain`."""
    return jax.tree_util.keystr(path).lstrip(".")


def _replaced(component: Any, kind: str, new: Callable[[str, Any], Any]) -> Any:
    leaves, structure = leaves_with_paths(component)
    declared = [(path, leaf, declaration(component, path)) for path, leaf in leaves]
    return structure.unflatten(
        [new(name_of(p), leaf) if k is not None and k[0] == kind else leaf for p, leaf, k in declared]
    )


def _declares(value: Any, kind: str) -> bool:
    if isinstance(value, eqx.Module):
        own, others = _own_declarations(type(value), kind)
        return own or any(_declares(getattr(value, name), kind) for name in others)
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (tuple, list)) else ()
    return any(_declares(part, kind) for part in parts)


@functools.cache
def _own_declarations(owner: type, kind: str) -> tuple[bool, tuple[str, ...]]:
    """Whether a class declares such a field, and the fields that may hold a component that does."""
    fields = getattr(owner, "__dataclass_fields__", {})
    kinds = {name: field.metadata.get(KIND, (None,))[0] for name, field in fields.items()}
    others = (n for n, f in fields.items() if kinds[n] is None and not f.metadata.get("static", False))
    return kind in kinds.values(), tuple(others)
