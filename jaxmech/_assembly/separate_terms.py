"""The parts of a matrix kept apart: other factors make another sum of the same arrays."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._model.subsystem import with_only
from .._model.system import State, System
from .._model.terms import Factors, Terms
from .._runtime.array_types import Array, Float
from .._sparse.block_matrix import Pair
from .block_assembly import BlockAssembly
from .evaluation import evaluate
from .structure import MatrixKind, Plan, contributions


class Parts(eqx.Module):
    """`m M + b B + k K + g G + c C` for any factors: one array of blocks for every part that is more than nothing."""

    values: dict[Pair, Float[Array, "p z r c"]]
    names: tuple[str, ...] = eqx.field(static=True)  # of the fields of `Factors`

    @classmethod
    def of(cls, blocks: Callable[[Factors], dict[Pair, Array]], names: tuple[str, ...], dtype: Any) -> "Parts":
        """The parts of what is linear in the factors. Nothing but them is batched: elements are evaluated once."""
        one, nothing = jnp.eye(len(names), dtype=dtype), jnp.zeros(len(names), dtype)
        factors = {part: one[names.index(part)] if part in names else nothing for part in vars(Factors.only())}
        return cls(jax.vmap(blocks)(Factors(**factors)), names)

    def sum(self, factors: Factors) -> dict[Pair, Float[Array, "z r c"]]:
        """The matrix of these factors."""

        def weighted(values: Array) -> Array:
            terms = [jnp.asarray(factors.of(part), values.dtype) * values[i] for i, part in enumerate(self.names)]
            return sum(terms[1:], terms[0]) if terms else jnp.zeros(values.shape[1:], values.dtype)

        return {pair: weighted(values) for pair, values in self.values.items()}

    def part(self, name: str) -> dict[Pair, Float[Array, "z r c"]] | None:
        """One part alone, if it is there."""
        if name not in self.names:
            return None
        number = self.names.index(name)
        return {pair: values[number] for pair, values in self.values.items()}


def present(plan: Plan, terms: Terms, system: System) -> tuple[str, ...]:
    """The parts that are more than nothing."""
    kinds = {kind for item in plan.items for kind in item.kinds}
    there = {
        "mass": terms.mass and MatrixKind.MASS in kinds,
        "damping": MatrixKind.DAMPING in kinds,
        "stiffness": terms.stiffness and MatrixKind.STIFFNESS in kinds,
        "multipliers": terms.stiffness and any(item.name in system.multiplier_constraints for item in plan.items),
        "rayleigh": terms.has_rayleigh and any(item.name in system.rayleigh for item in plan.items),
        "geometric": bool(plan.geometric or plan.velocity),
    }
    return tuple(part for part, is_there in there.items() if is_there)


def constant_parts(constant: BlockAssembly, terms: Terms, system: System, state: State) -> Parts | None:
    """The blocks of contributions that no motion changes, evaluated once. None of a scene that has none, or whose forces
    are of other laws, not constant there."""
    items = constant.plan.items
    forces, masses = ([item.name for item in items if item.is_mass is mass] for mass in (False, True))
    if not items or contributions(with_only(system, forces=forces, masses=masses), terms) != items:
        return None
    values = evaluate(system, state, constant.wanted(system))
    dtype = jnp.result_type(*(values.x[s] for s in system.main_states))
    return Parts.of(lambda factors: constant(values, terms, factors, {}), present(constant.plan, terms, system), dtype)
