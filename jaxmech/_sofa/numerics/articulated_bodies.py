"""The bodies of SOFA's articulated systems."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._mapping.base import AbstractMapping
from ..._mapping.frame import carried, carried_frame
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.dof import Rigid3, Vec1
from ..._scene.parameter import parameter
from ..._scene.stencil import Stencils, stencils


class ArticulatedBodies(AbstractMapping):
    """`p = X T_1 T_2 ... T_n X_c`: the frame of a body behind `n` articulations, of which a centre may have several.

    `T_i` goes on by `place[i]`, turns by `turns[i] (q - zero[i])` [rad] about `axis[i]` and moves by
    `slides[i] (q - zero[i])` [m] along it, in the axes of what came before; `X_c` goes on by `last`. `X` is the frame
    `start` [m], or a node of a second parent, which moves. `parents=(joints, path (bodies, k))`, or that and
    `(frames, (bodies,))`; `count` `(bodies,)` says how many of a path there are. An `axis` is of unit length. Raises
    `ValueError` for other states.
    Source: R. Featherstone, *Rigid Body Dynamics Algorithms*, 2008, doi:10.1007/978-1-4899-7560-7, chapter 4.
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    count: Parameter = parameter()
    start: Parameter = parameter(ndim=1)
    place: Parameter = parameter(ndim=2)
    axis: Parameter = parameter(ndim=2)
    turns: Parameter = parameter(ndim=1)
    slides: Parameter = parameter(ndim=1)
    zero: Parameter = parameter(ndim=1)
    last: Parameter = parameter(ndim=1)
    is_linear: ClassVar[bool] = False

    def check_dofs(self, parents: Any, child: Any) -> None:
        if [type(dof) for dof in (*parents, child)] not in ([Vec1, Rigid3], [Vec1, Rigid3, Rigid3]):
            raise ValueError("ArticulatedBodies takes Vec1 (and a Rigid3 root) to Rigid3.")

    def element_apply(self, q: Array, base: Array | None = None) -> Array:
        def articulation(frame: Array, at: Any) -> tuple[Array, None]:
            number, value, place, axis, turns, slides = at
            half = 0.5 * turns * value
            motion = jnp.concatenate([place + slides * value * axis, jnp.sin(half) * axis, jnp.cos(half)[None]])
            return jnp.where(number < self.count, carried_frame(frame, motion), frame), None

        frame = self.start.astype(q.dtype) if base is None else base
        along = (jnp.arange(q.shape[0]), q[:, 0] - self.zero, self.place, self.axis, self.turns, self.slides)
        if q.shape[0] == 1:  # as of `ArticulatedMapping`: the derivatives of a loop take longer to trace
            frame = articulation(frame, jax.tree.map(lambda a: a[0], along))[0]
        else:
            frame = jax.lax.scan(articulation, frame, along)[0]
        return jnp.concatenate([carried(frame, self.last), frame[3:]])
