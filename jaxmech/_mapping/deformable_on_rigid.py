"""A deformable body that is described in the axes of a rigid one."""

from typing import Any, ClassVar

import equinox as eqx

from .._runtime.array_types import Array
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .frame import carried
from .points import POINTS_ON


class DeformableOnRigidFrameMapping(AbstractMapping):
    """`p = c + R q`: points `q` that move in the axes of a frame which moves itself.

    `parents=((frames, frame of each point (n,)), (points, nodes (n,)))`: `Rigid3` and `Vec3` to `Vec3`, or `Rigid2` and
    `Vec2` to `Vec2`. Raises `ValueError` for other shapes or states.
    `c`, `q` and `p` [m].
    Source: A. A. Shabana, *Dynamics of Multibody Systems*, chapter 5 (the floating frame of reference).

    Example:

        on_body = jm.mapping.DeformableOnRigidFrameMapping((("flat", [0]), ("local", [0])), "p")
        scene = jm.System({"flat": jm.Rigid2(), "local": jm.Vec2(), "p": jm.Vec2()}, mappings={"p": on_body})
        moved = scene.at_rest({"flat": jnp.array([[5.0, 0.0, np.pi / 2]]), "local": jnp.array([[1.0, 0.0]])})
        x = jm.kinematics(scene, moved)
        assert jnp.allclose(x["p"], jnp.array([[5.0, 1.0]]))
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    is_linear: ClassVar[bool] = False

    def __check_init__(self):
        if len(self.parents) != 2 or any(s.nodes.ndim != 1 for s in self.parents):
            raise ValueError(
                "DeformableOnRigidFrameMapping: parents must be ((frames, frame numbers), (points, nodes)), each (n,)."
            )

    def check_dofs(self, parents: Any, child: Any) -> None:
        point = POINTS_ON.get(type(parents[0]))
        if point is None or type(parents[1]) is not point or type(child) is not point:
            kinds = [type(dof).__name__ for dof in (*parents, child)]
            raise ValueError(
                "DeformableOnRigidFrameMapping maps (Rigid3, Vec3) to Vec3 or (Rigid2, Vec2) to Vec2, got "
                f"{kinds[:-1]} and the child {kinds[-1]}."
            )

    def element_apply(self, frame: Array, q: Array) -> Array:
        return carried(frame, q)
