"""How far nodes have turned since rest, of the elements around them: SOFA's RotationFinder."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._model.system import State, System
from ..._runtime.array_types import Array
from .corotational_cells import CorotationalCells
from .frames import element_rotation, orthogonal_factor


class NodeTurns(eqx.Module):
    """The rotations `{state: (n, 3, 3)}` of the nodes of one force field: the orthogonal factor of the mean over the
    elements at a node, or the rotation of the `last` one, as SOFA takes it where its topology has no such elements."""

    force: str = eqx.field(static=True)
    around: Array  # (n, m) elements at each node
    weights: Array  # (n, m)

    @classmethod
    def of(cls, force: str, cells: np.ndarray, count: int, *, last: bool) -> "NodeTurns":
        """Of cells `(e, k)` and as many nodes as their state has. A node at no cell does not turn."""
        lists: list[list[int]] = [[] for _ in range(count)]
        for number, cell in enumerate(cells.tolist()):
            for node in cell:
                lists[node].append(number)
        lists = [around[-1:] for around in lists] if last else lists
        width = max(1, *(len(around) for around in lists))
        numbers, weights = np.zeros((count, width), np.int64), np.zeros((count, width))
        for node, around in enumerate(lists):
            numbers[node, : len(around)], weights[node, : len(around)] = around, 1 / max(len(around), 1)
        return cls(force, jnp.asarray(numbers), jnp.asarray(weights))

    def __call__(self, system: System, state: State) -> dict[str, Array]:
        field = system.force_fields[self.force]
        assert isinstance(field, CorotationalCells)
        name, nodes = field.on[0].state, field.on[0].nodes
        x, rest = state.position[name][nodes], field.rest[nodes] if field.rest.ndim == 2 else field.rest
        R = jax.vmap(lambda x, X: element_rotation(field.kind, field.rotation, x, X))(x, rest)
        nobody = 1 - jnp.sum(self.weights, axis=1)
        mean = jnp.einsum("nm,nmij->nij", self.weights, R[self.around]) + nobody[:, None, None] * jnp.eye(3)
        if self.around.shape[1] > 1:
            mean = jax.vmap(orthogonal_factor)(mean)
        return {name: jax.lax.stop_gradient(mean)}
