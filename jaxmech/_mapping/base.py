"""What a mapping is: the coordinates of one child node as a function of its parent nodes."""

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
from equinox import AbstractVar

from .._runtime.argument_checks import check_choice
from .._runtime.array_types import Array, Float
from .._scene.component import Component
from .._scene.dof import AbstractDof
from .._scene.parameter import check_parameters
from .._scene.stencil import Stencils

if TYPE_CHECKING:  # under Equinox's name, checkers take it for a field
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar

GEOMETRIC_STIFFNESS = ("symmetric", "exact", "stabilized", "none")


class AbstractMapping(Component):
    """`p = p(q)` for **one** child node: element `e` of the parents' stencils is node `e` of the child.

    The Jacobian `J = dp/dq`, its transpose, its rate and the geometric stiffness `-d2(f . p)/dq2` are derived from
    `element_apply`. `is_linear = True` declares that `J` is constant; the last two are then skipped. `is_interpolation =
    True` declares more: `p = sum_a w_a q_a`, all components alike, where `q` and `p` are vectors. Its Jacobian is one
    number for each parent node.

    `geometric_stiffness` says what of `G = -d(J^T f)/dq` enters a matrix (forces are the same with each):

    - `"symmetric"`: the Hessian of `-f . p` in the chart of the parents, symmetric;
    - `"exact"`: the derivative of `J^T f` in world axes, `f` dead; where parents or child turn (`Rigid3`) it is not
      symmetric, and symmetric solvers refuse the matrix. The two differ by a skew part, for points on a frame `[tau]x / 2`
      with `tau` the torque that the force makes on it, and agree where nothing turns;
    - `"stabilized"`: the symmetric one of every child node with its negative eigenvalues put to zero;
    - `"none"`.
    `q`: one array `(c,)` or `(k, c)` per parent; `p` `(c,)`: [m] of points, [m, rad] of frames, anything of a scalar. Raises
    `TypeError` where `element_apply` is not defined, `ValueError` for another form of geometric stiffness.
    Source: F. Faure et al., "SOFA: a multi-model framework for interactive physical simulation", 2012,
    doi:10.1007/8415_2012_125; E. Tournier, M. Nesme, B. Gilles, F. Faure, "Stable constrained dynamics", ACM Trans. Graph.
    34(4), 2015, doi:10.1145/2766969 (geometric stiffness).

    Example:

        import equinox as eqx

        class Cosine(jm.mapping.AbstractMapping):
            parents: jm.Stencils = jm.stencils()
            child: str = eqx.field(static=True)
            is_linear = False

            def element_apply(self, q):
                return jnp.cos(q)

        scene = jm.System({"q": jm.Vec1(), "p": jm.Vec1()}, mappings={"cosine": Cosine(("q", [0]), "p")})
        assert jnp.allclose(jm.kinematics(scene, scene.at_rest({"q": jnp.array([[np.pi]])}))["p"], -1.0)
    """

    parents: AbstractVar[Stencils]
    child: AbstractVar[str]
    is_linear: AbstractClassVar[bool]  # the Jacobian is constant: no geometric stiffness, no dJ/dt
    is_interpolation: ClassVar[bool] = False  # its blocks are multiples of the identity
    is_convex: ClassVar[bool] = False  # one number, of a semi-definite second derivative: the sign of `-f` is that of `G`
    geometric_stiffness: str = eqx.field(static=True, default="symmetric", kw_only=True)

    def __check_init__(self):
        check_choice(type(self).__name__, "geometric_stiffness", self.geometric_stiffness, GEOMETRIC_STIFFNESS)
        if not isinstance(self.child, str):
            raise TypeError(f"{type(self).__name__}: child must be the name of a state, got {self.child!r}.")
        check_parameters(self, self.parents)

    def check_dofs(self, parents: Sequence[AbstractDof], child: AbstractDof) -> None:
        """Raise `ValueError` where the degrees of freedom are not what the mapping is written for."""
        del parents, child

    @abc.abstractmethod
    def element_apply(self, *x: Array) -> Float[Array, " c"]:
        """The coordinate of one child node from those of its parents, one array per stencil, `(c,)` or `(k, c)`."""
