"""Linear equations between the positions of several nodes: multi-point and periodic conditions."""

from typing import Any

from .._runtime.argument_checks import real_array, whole_numbers
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import check_parameters, check_range, parameter
from .._scene.stencil import Stencils, stencils
from .multiplier import AbstractMultiplierConstraint
from .points import check_points


class LinearRelation(AbstractMultiplierConstraint):
    """`sum_i a_i x_i - b = C lambda` of `k` nodes, in every component.

    `on=(state, nodes (e, k))`, points; `weights` `a` `(k,)` or `(e, k)`; `value` `b` `(c,)` or `(e, c)` [m]. `multiplier`: a
    state of as many components, `Vec2` in the plane; `lambda` [N] is the force that holds the equation, `-a_i lambda` on
    node `i`. `compliance` `C` [m/N]. Two nodes with weights 1 and -1 and `b = F (X_1 - X_2)` are periodic under the mean
    deformation gradient `F`; `from_pairs` makes these. Nodes of other states are mapped into one first.
    Raises `ValueError` for other shapes, other states than points, and negative compliances.
    Source: R. D. Cook, D. S. Malkus, M. E. Plesha, R. J. Witt, *Concepts and Applications of Finite Element Analysis*, 4th
    ed., 2002, ISBN 978-0-471-35605-9, section 13.1 (multi-point constraints).

    Example:

        middle = jm.constraint.LinearRelation(("p", [[0, 1, 2]]), ("force", [0]), [0.5, -1.0, 0.5], [0.0])
        load = jm.force.ConstantForce(("p", [1]), [6.0])
        held = jm.force.AnchoredSprings(("p", [0, 2]), 10.0, anchor=[[0.0], [1.0]])  # [N/m]
        dofs = {"p": jm.Vec1(), "force": jm.Vec1()}
        scene = jm.System(dofs, forces={"load": load, "held": held}, constraints={"middle": middle})
        solved = jm.static_solve(scene, scene.at_rest({"p": [[0.0], [0.0], [1.0]], "force": [[0.0]]}))
        assert jnp.allclose(solved.position["p"][:, 0], jnp.array([0.3, 0.8, 1.3]))  # each end carries 3 N
    """

    on: Stencils = stencils()
    multiplier: Stencils = stencils()
    weights: Parameter = parameter(ndim=1)
    value: Parameter = parameter(ndim=1)
    compliance: Parameter = parameter(default=0.0)

    def __check_init__(self):
        check_parameters(self, self.on)
        if len(self.on) != 1 or self.on[0].nodes.ndim != 2:
            raise ValueError("LinearRelation: on must be (state, nodes), node numbers of shape (e, k).")
        if self.weights.shape[-1:] != self.on[0].nodes.shape[1:]:
            count = self.on[0].nodes.shape[1]
            raise ValueError(f"LinearRelation: weights has shape {self.weights.shape}, but on names {count} nodes each.")
        check_range(self, compliance=(self.compliance, lambda c: c >= 0, "at least 0"))

    @classmethod
    def from_pairs(
        cls, state: str, pairs: Any, multiplier: Any, rest: Any, *, gradient: Any = None, compliance: Any = 0.0
    ) -> "LinearRelation":
        """`x_i - x_j = F (X_i - X_j)` of `pairs` `(e, 2)` of nodes at `rest` `(n, c)` [m]; `F` is `gradient`, or 1."""
        owner = "LinearRelation.from_pairs"
        rest = real_array(owner, "rest", rest, (None, None))
        pairs = whole_numbers(owner, "pairs", pairs, (None, 2))
        if pairs.size and not 0 <= pairs.min() <= pairs.max() < len(rest):
            raise ValueError(f"{owner}: pairs names nodes from {pairs.min()} to {pairs.max()}, but rest is of {len(rest)}.")
        apart = rest[pairs[:, 0]] - rest[pairs[:, 1]]
        if gradient is not None:
            apart = apart @ real_array(owner, "gradient", gradient, (rest.shape[1], rest.shape[1])).T
        return cls((state, pairs), multiplier, [1.0, -1.0], apart, compliance)

    def check_dofs(self, dofs: Any) -> None:
        check_points(self, dofs)
        size = dofs[0].coord_size
        if self.value.shape[-1] != size:
            raise ValueError(f"LinearRelation: value has shape {self.value.shape}, but the points have {size} components.")

    def element_constraint(self, x: Array) -> Array:
        return self.weights @ x - self.value
