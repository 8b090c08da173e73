"""Points that stay on a plane."""

from typing import Any

from .._math.rotation import are_of_unit_length
from .._runtime.array_types import Array
from .._runtime.field_types import OptionalParameter, Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import OptionalStencils, Stencils, optional_stencils, stencils
from .multiplier import AbstractMultiplierConstraint
from .points import check_points, check_single_nodes


class OnPlane(AbstractMultiplierConstraint):
    """`n . (x - o) = C lambda`: a point `x` stays on the plane through `o` with normal `n`; in two dimensions, on a line.

    `on=(state, nodes x (e,))`, mapped or not, and `origin` `(c,)` or `(e, c)` [m]; or `on=((state, nodes o), (state, nodes
    x))`, where `origin` is added to the moving point `o`, nil unless given. `normal` `(c,)` or `(e, c)`, of unit length.
    `lambda` [N]: the force against the normal. `compliance` [m/N], `relaxation` [s] and `multiplier`: see
    `AbstractMultiplierConstraint`. Raises `ValueError` for other shapes, other states than points, and normals of another
    length.
    Source: C. Lanczos, *The Variational Principles of Mechanics*, 4th ed., 1970, ISBN 978-0-486-65067-8, chapter 2.12.

    Example:

        table = jm.constraint.OnPlane(("p", [0]), normal=[0.0, 0.0, 1.0], origin=[0.0, 0.0, 2.0])
        forces = {"load": jm.force.ConstantForce(("p", [0]), [0.0, 0.0, -10.0])}
        forces["spring"] = jm.force.AnchoredSprings(("p", [0]), 5.0, [[1.0, 1.0, 2.0]])
        scene = jm.System({"p": jm.Vec3()}, forces=forces, constraints={"table": table})
        found = jm.static_solve(scene, scene.at_rest({"p": [[0.0, 0.0, 0.0]]}))
        assert jnp.allclose(found.position["p"], jnp.array([[1.0, 1.0, 2.0]]))
        assert jnp.allclose(found.position["table"], -10.0)  # the table pushes along the normal [N]
    """

    on: Stencils = stencils()
    normal: Parameter = parameter(ndim=1)
    origin: OptionalParameter = parameter(ndim=1, default=None)
    compliance: Parameter = parameter(default=0.0)
    relaxation: OptionalParameter = parameter(default=None)
    multiplier: OptionalStencils = optional_stencils(kw_only=True)

    def __check_init__(self):
        check_single_nodes(self, 1, 2)
        if not getattr(self.normal, "ndim", 1):
            raise ValueError("OnPlane: normal must be a vector (c,), or one per element (e, c), got one number.")
        check_range(self, normal=(self.normal, are_of_unit_length, "of unit length"))

    def check_dofs(self, dofs: Any) -> None:
        check_points(self, dofs)
        size = dofs[0].coord_size
        for name in ("normal", "origin"):
            value = getattr(self, name)
            if value is not None and value.shape[-1] != size:
                raise ValueError(f"OnPlane: {name} has shape {value.shape}, but the points have {size} components.")

    def element_constraint(self, *x: Array) -> Array:
        apart = x[-1] if len(x) == 1 else x[1] - x[0]
        return (self.normal @ (apart if self.origin is None else apart - self.origin))[None]
