"""Fields without an energy: a flux and a source of one's own, on the cells of a mesh."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._mesh.mesh import Mesh
from .._runtime.argument_checks import check_callable, plain
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import named_parameters, nodal_parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractForceField, Arrays
from .field_points import AbstractFieldTerm, at_points, check_cells, check_fields, nodal, nodal_matrix, stencils_of

Function = Callable[..., Any] | None


class WeakForm(AbstractFieldTerm, AbstractForceField):
    """`f_a = sum_q w_q (q . dN_a/dX + s N_a)`: the weak form of `-div q + s`, for what has no energy.

    `flux` `q(u, du/dX, X, parameters)` is what flows along `+X`, `(d,)` or `(c, d)` [W/m^2]; of momentum, minus the first
    Piola stress [Pa]. `source` `s(...)` is what is supplied, a number or `(c,)` [W/m^3, N/m^3]. Either may be None; of
    several states both return tuples, with None for nothing. Transport with a velocity `w` is `q = w u` (or
    `s = -w . grad u`), conduction `q = -k grad u`: where cells are long compared with `k / |w|`, add diffusion along `w`.
    Values, gradients, `parameters` and `degree` as in `FieldEnergy`. Its tangent is not symmetric, and nothing claims that
    it is. Raises `ValueError` or `TypeError` for cells that do not fit, and where there is neither flux nor source.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 2.

    Example:

        def transport(c, slope, X, p):  # [mol/(m^2 s)]
            return jnp.array([p["speed"], 0.0]) * c - p["diffusivity"] * slope

        strip = jm.mesh.box_mesh(cells=(2, 1), size=(2.0, 1.0), kind="quad")
        carried = jm.force.WeakForm.from_mesh("c", strip, transport, parameters={"speed": 2.0, "diffusivity": 0.1})
        scene = jm.System({"c": jm.Vec1()}, forces={"carried": carried})
        rate = jm.total_force(scene, scene.at_rest({"c": jnp.full((6, 1), 3.0)}))["c"][:, 0]
        assert jnp.allclose(rate[strip.nodes_where(lambda x: x[:, 0] == 0.0)].sum(), -6.0)  # 2 m/s of 3 mol/m^3 leave
    """

    tangent_is_exact = True

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    flux: Function = eqx.field(static=True, default=None)
    source: Function = eqx.field(static=True, default=None)
    parameters: Any = named_parameters(default_factory=dict)
    kind: str = eqx.field(static=True, default="triangle")
    degree: int | str = eqx.field(static=True, converter=plain, default="mass", kw_only=True)

    def __check_init__(self):
        for name in ("flux", "source"):
            if getattr(self, name) is not None:
                check_callable("WeakForm", name, getattr(self, name))
        if self.flux is None and self.source is None:
            raise ValueError("WeakForm: flux and source are both None; give one of them.")
        if not isinstance(self.parameters, dict | eqx.Module):
            raise TypeError(f"WeakForm: parameters must be numbers by name, got {self.parameters!r:.80}.")
        check_cells(self)

    @classmethod
    def from_mesh(
        cls,
        state: str | tuple[str, ...],
        mesh: Mesh,
        flux: Function = None,
        source: Function = None,
        parameters: Any = None,
        *,
        degree: int | str = "mass",
    ) -> "WeakForm":
        """On the cells of `mesh`, whose points are where the nodes of `state`, or of several, are."""
        on = stencils_of("WeakForm", state, mesh)
        return cls(on, mesh.points, flux, source, {} if parameters is None else parameters, mesh.kind, degree=degree)

    def check_dofs(self, dofs: Any) -> None:
        check_fields(self, dofs)

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        del v
        duals, b = at_points(self, x, _dual)
        return tuple(nodal(dual, b) for dual in duals)

    def element_stiffness(self, x: Arrays, v: Arrays) -> tuple[Arrays, ...]:
        del v
        tangents, b = at_points(self, x, _tangent)
        return tuple(tuple(-nodal_matrix(tangent, b) for tangent in row) for row in tangents)


def _dual(term: WeakForm, w: Array, X: Array, *z: Array) -> Arrays:
    """`w (s, q)` of one point, for each field."""
    parts = []
    for name, columns in (("source", slice(0, 1)), ("flux", slice(1, None))):
        function = getattr(term, name)
        values = [None] * len(z) if function is None else term.asked(function, X, *z)
        if function is not None and values is None:
            raise TypeError(f"{name} returns None, expected numbers (of several states a tuple, with None for nothing)")
        values = [values] if function is not None and len(z) == 1 else values
        parts.append([_shaped(value, a[:, columns]) for value, a in zip(values, z, strict=True)])
    return tuple(w * jnp.concatenate(pair, axis=1) for pair in zip(*parts, strict=True))


def _shaped(value: Any, like: Array) -> Array:
    if value is None:
        return jnp.zeros_like(like)
    return jnp.reshape(jnp.asarray(value, like.dtype), like.shape)


def _tangent(term: WeakForm, w: Array, X: Array, *z: Array) -> tuple[Arrays, ...]:
    return jax.jacfwd(lambda z: _dual(term, w, X, *z))(z)
