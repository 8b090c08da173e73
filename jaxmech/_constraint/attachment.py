"""Two points that are one."""

from typing import Any

from .._runtime.array_types import Array
from .._runtime.field_types import OptionalParameter, Parameter
from .._scene.parameter import parameter
from .._scene.stencil import OptionalStencils, Stencils, optional_stencils, stencils
from .multiplier import AbstractMultiplierConstraint
from .points import check_points, check_single_nodes


class Attachment(AbstractMultiplierConstraint):
    """`b - a - offset = C lambda` of a point `a` and a point `b`: a ball joint, glue.

    `on=((state, nodes a (e,)), (state, nodes b (e,)))`, of the same state or of different ones, mapped or not: points of
    `RigidMapping` make a ball joint between bodies. With one stencil, `on=(state, nodes b (e,))`, `a` is the origin, and
    `offset` the place where `b` is held. `lambda` [N] is the force with which `b` pulls at `a`; `multiplier`: a state of
    as many components for it, `Vec3` for points of space, a state of the constraint's name unless given. `offset` `(c,)`
    or `(e, c)` [m], 0 unless given. `compliance` `C` [m/N], `relaxation` [s]: see `AbstractMultiplierConstraint`. Raises
    `ValueError` for other shapes, other states than points, and negative compliances.
    Source: C. Lanczos, *The Variational Principles of Mechanics*, 4th ed., 1970, ISBN 978-0-486-65067-8, chapter 2.12.

    Example:

        here = jm.constraint.Attachment(("p", [0]), offset=[1.0, 2.0])
        load = jm.force.ConstantForce(("p", [0]), [0.0, -10.0])
        scene = jm.System({"p": jm.Vec2()}, forces={"load": load}, constraints={"here": here})
        held = jm.static_solve(scene, scene.at_rest({"p": [[0.0, 0.0]]}))
        assert jnp.allclose(held.position["p"], jnp.array([[1.0, 2.0]]))
        assert jnp.allclose(held.position["here"], jnp.array([[0.0, -10.0]]))  # [N]
    """

    on: Stencils = stencils()
    multiplier: OptionalStencils = optional_stencils()
    offset: OptionalParameter = parameter(ndim=1, default=None)
    compliance: Parameter = parameter(default=0.0)
    relaxation: OptionalParameter = parameter(default=None)

    def __check_init__(self):
        check_single_nodes(self, 1, 2)
        if self.multiplier is not None and self.multiplier[0].state in [s.state for s in self.on]:
            raise ValueError(
                f"Attachment: multiplier is a node of '{self.multiplier[0].state}', a state of the points. Two points are "
                "on=((state, nodes a), (state, nodes b)), in parentheses of their own."
            )

    def check_dofs(self, dofs: Any) -> None:
        check_points(self, dofs)
        size = dofs[0].coord_size
        if self.offset is not None and self.offset.shape[-1] != size:
            raise ValueError(f"Attachment: offset has shape {self.offset.shape}, but the points have {size} components.")

    def element_constraint(self, *x: Array) -> Array:
        apart = x[-1] if len(x) == 1 else x[1] - x[0]
        return apart if self.offset is None else apart - self.offset
