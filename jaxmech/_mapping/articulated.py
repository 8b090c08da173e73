"""Rigid bodies joined by hinges and sliders, described by the coordinates of their joints."""

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._math.rotation import are_of_unit_length, have_unit_quaternions
from .._runtime.argument_checks import check_choice, numeric_array, real_array, whole_numbers
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.dof import Rigid3, Vec1
from .._scene.parameter import check_parameters, check_range, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .frame import carried_frame

_JOINTS = ("hinge", "slider")


class ArticulatedMapping(AbstractMapping):
    """`p = X_1 T_1(q_1) X_2 T_2(q_2) ...`: the frames (`Rigid3`) of bodies in a tree of joints (`Vec1`).

    Joint `j` stands at `placement[j]` `(7,)`, a frame in the axes of the body before it (for the first: of the world, or
    of the base), and turns by `q` [rad] about `axis[j]` (a hinge) or moves by `q` [m] along it (a slider); then comes body
    `j`. `parents=(joints, path (bodies, k))`: the joints from the root to each body, the last one repeated up to `k`;
    `length` `(bodies,)` says how many count. A second parent `(frames, frame of each body (bodies,))` is a moving base.
    `ArticulatedMapping.tree` makes all of it from a list of parents. Raises `ValueError` for other shapes or states, for
    axes that are not of unit length, and for joints of another kind.
    Source: R. Featherstone, *Rigid Body Dynamics Algorithms*, 2008, doi:10.1007/978-1-4899-7560-7, chapter 4.

    Example:

        joints = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
        legs = jm.mapping.ArticulatedMapping.tree("q", "bodies", [-1, 0], joints, [0.0, 0.0, 1.0])
        scene = jm.System({"q": jm.Vec1(), "bodies": jm.Rigid3()}, mappings={"legs": legs})
        moved = scene.at_rest({"q": jnp.array([[np.pi / 2], [0.0]])})
        bodies = jm.kinematics(scene, moved)["bodies"]  # the first hinge by 90 degrees
        assert jnp.allclose(bodies[1, :3], jnp.array([0.0, 1.0, 0.0]), atol=1e-6)  # [m]
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    length: Parameter = parameter()
    placement: Parameter = nodal_parameter(ndim=1)
    axis: Parameter = nodal_parameter(ndim=1)
    slides: Parameter = nodal_parameter()  # 1 for a slider, 0 for a hinge
    is_linear: ClassVar[bool] = False

    def __check_init__(self):
        check_parameters(self, self.parents)
        path, *base = self.parents
        if path.nodes.ndim != 2 or len(base) > 1 or any(s.nodes.ndim != 1 for s in base):
            raise ValueError(
                "ArticulatedMapping: parents must be (joints, path (bodies, k)), or that and (frames, (bodies,))."
            )
        if self.placement.shape[-1:] != (7,) or self.axis.shape[-1:] != (3,):
            raise ValueError(
                "ArticulatedMapping: placement must be (joints, 7) and axis (joints, 3), got "
                f"{self.placement.shape} and {self.axis.shape}."
            )
        check_range(
            self,
            axis=(self.axis, are_of_unit_length, "of unit length"),
            placement=(self.placement, have_unit_quaternions, "frames with unit quaternions"),
            length=(self.length, lambda n: (n >= 1) & (n <= path.nodes.shape[1]) & (n == np.floor(n)), "1 to k joints"),
            slides=(self.slides, lambda s: (s == 0) | (s == 1), "0 (hinge) or 1 (slider)"),
        )

    @classmethod
    def tree(
        cls,
        joints: str,
        child: str,
        before: Sequence[int],
        placement: Any,
        axis: Any,
        *,
        kinds: Sequence[str] | str = "hinge",
        base: tuple[str, int] | None = None,
    ) -> "ArticulatedMapping":
        """The tree in which body `j` hangs on body `before[j]`, smaller than `j`, or on nothing (-1).

        `placement` `(joints, 7)`, or `(joints, 3)` for joints that are not turned against the body before; `axis`
        `(joints, 3)` or `(3,)`; `kinds`: "hinge" or "slider"; `base=(state, frame)`: the `Rigid3` frame that roots stand on.
        """
        owner = "ArticulatedMapping.tree"
        numbers = whole_numbers(owner, "before + 1", np.asarray(numeric_array(owner, "before", before)) + 1, (None,))
        before = [int(b) - 1 for b in numbers]
        if not before or any(b >= j for j, b in enumerate(before)):
            raise ValueError(f"{owner}: before[j] must be a body before j, or -1, got {before}.")
        kinds = [kinds] * len(before) if isinstance(kinds, str) else kinds
        if not isinstance(kinds, list | tuple) or len(kinds) != len(before):
            raise ValueError(
                f"{owner}: kinds must be one of {_JOINTS}, or a list of {len(before)} of them, got {kinds!r:.80}."
            )
        for kind in kinds:
            check_choice(owner, "kinds", kind, _JOINTS)
        paths: list[list[int]] = []
        for j, b in enumerate(before):
            paths.append([*(paths[b] if b >= 0 else []), j])
        depth = max(len(p) for p in paths)
        nodes = np.array([p + p[-1:] * (depth - len(p)) for p in paths])
        place = np.asarray(real_array(owner, "placement", placement), float)
        if place.shape[-1:] == (3,):
            place = np.concatenate([place, np.broadcast_to([0.0, 0.0, 0.0, 1.0], (*place.shape[:-1], 4))], axis=-1)
        if place.ndim not in (1, 2) or place.shape[-1] != 7 or place.shape[:-1] not in ((), (len(before),)):
            raise ValueError(f"{owner}: placement has shape {np.shape(placement)}, expected ({len(before)}, 7 or 3).")
        axis = np.asarray(real_array(owner, "axis", axis), float)
        if axis.shape not in ((3,), (len(before), 3)):
            raise ValueError(f"{owner}: axis has shape {axis.shape}, expected (3,) or ({len(before)}, 3).")
        parents: list[Any] = [(joints, nodes)]
        if base is not None:
            if not (isinstance(base, tuple) and len(base) == 2 and isinstance(base[0], str)):
                raise TypeError(f"{owner}: base must be (state, frame), got {base!r:.80}.")
            frame = whole_numbers(owner, "the frame of base", base[1], ())
            parents.append((base[0], np.full(len(before), int(frame))))
        return cls(
            tuple(parents),
            child,
            [len(p) for p in paths],
            np.broadcast_to(place, (len(before), 7)),
            np.broadcast_to(axis, (len(before), 3)),
            [float(kind == "slider") for kind in kinds],
        )

    def check_dofs(self, parents: Any, child: Any) -> None:
        kinds = [type(dof) for dof in (*parents, child)]
        if kinds not in ([Vec1, Rigid3], [Vec1, Rigid3, Rigid3]):
            names = [k.__name__ for k in kinds]
            raise ValueError(f"ArticulatedMapping maps Vec1 (and a Rigid3 base) to Rigid3, not {names[:-1]} to {names[-1]}.")

    def element_apply(self, q: Array, base: Array | None = None) -> Array:
        start = jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], q.dtype) if base is None else base

        def joint(frame: Array, at: Any) -> tuple[Array, None]:
            number, angle, placement, axis, slides = at
            half = 0.5 * (1 - slides) * angle  # the turn about an axis of unit length needs no exponential
            motion = jnp.concatenate([slides * angle * axis, jnp.sin(half) * axis, jnp.cos(half)[None]])
            moved = carried_frame(carried_frame(frame, placement), motion)
            return jnp.where(number < self.length, moved, frame), None

        along = (jnp.arange(q.shape[0]), q[:, 0], self.placement, self.axis, self.slides)
        if q.shape[0] == 1:  # the derivatives of a loop take ten times as long to trace as those of its body
            return joint(start, jax.tree.map(lambda a: a[0], along))[0]
        return jax.lax.scan(joint, start, along)[0]
