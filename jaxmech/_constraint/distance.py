"""Two points that keep their distance."""

from typing import Any

from .._math.safe_norm import safe_length
from .._runtime.array_types import Array
from .._runtime.field_types import OptionalParameter, Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import OptionalStencils, Stencils, optional_stencils, stencils
from .multiplier import AT_LEAST_NIL, AbstractMultiplierConstraint
from .points import check_points, check_single_nodes


class Distance(AbstractMultiplierConstraint):
    """`|b - a| - L = C lambda` of a point `a` and a point `b`: a rod without mass, that does not stretch or hardly.

    `on=((state, nodes a (e,)), (state, nodes b (e,)))`, of the same state or of different ones, mapped or not; `length`
    `L` [m]; `lambda` [N] is the tension of the rod, negative if it is pushed; `multiplier`: a `Vec1` state for it, a state
    of the constraint's name unless given. `compliance` `C` [m/N], `relaxation` [s]: see `AbstractMultiplierConstraint`.
    Points that coincide have no direction: the matrix is then singular. Raises `ValueError` for other shapes, other states
    than points, and negative lengths or compliances.
    Source: C. Lanczos, *The Variational Principles of Mechanics*, 4th ed., 1970, ISBN 978-0-486-65067-8, chapter 2.12.

    Example:

        rod = jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0)
        scene = jm.System(
            {"p": jm.Vec3()},
            forces={"load": jm.force.ConstantForce(("p", [1]), [3.0, 0.0, -4.0])},
            constraints={"rod": rod, "hinge": jm.constraint.Fixed(("p", [0]))},
        )
        start = {"p": jnp.array([[0.0, 0.0, 0.0], [0.8, 0.0, -0.6]]), "rod": jnp.array([[1.0]])}
        pulled = jm.static_solve(scene, scene.at_rest(start))
        assert jnp.allclose(pulled.position["p"][1], jnp.array([0.6, 0.0, -0.8]))
        assert jnp.allclose(pulled.position["rod"], 5.0)  # [N]
    """

    on: Stencils = stencils()
    multiplier: OptionalStencils = optional_stencils()
    length: OptionalParameter = parameter(default=None)
    compliance: Parameter = parameter(default=0.0)
    relaxation: OptionalParameter = parameter(default=None)

    sides = ("too long", "too short")

    def __check_init__(self):
        check_single_nodes(self, 2)
        if self.length is None:
            raise TypeError("Distance: length must be given, a number or one per element.")
        check_range(self, length=(self.length, *AT_LEAST_NIL))

    def check_dofs(self, dofs: Any) -> None:
        check_points(self, dofs)

    def element_constraint(self, a: Array, b: Array) -> Array:
        assert self.length is not None
        return (safe_length(b - a) - self.length)[None]
