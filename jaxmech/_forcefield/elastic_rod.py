"""Discrete elastic rods: a line of points, and an angle of the material about each of its edges."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._math.safe_norm import safe_length
from .._runtime.argument_checks import check_instance, check_on_host, real_array
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._runtime.precision import in_one_program
from .._scene.dof import Vec1, Vec3
from .._scene.internal import internal
from .._scene.parameter import check_parameters, check_range, each_element, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField, Arrays
from .section import Section


class ElasticRod(AbstractEnergyForceField):
    """A discrete elastic rod [J]: stretch `EA/2 sum L e^2`, and at every inner point, of `l` its share of the length,
    `(EI_z (k_z - k0_z)^2 + EI_y (k_y - k0_y)^2 + GJ (m - m0)^2) / (2 l)`.

    `k` is the curvature binormal `2 e0 x e1 / (|e0||e1| + e0 . e1)` in the material axes of either edge (the mean of both
    energies is taken), `m` the twist from one edge to the next: the difference of the angles, and the turn of a frame
    carried along without twist. An element is an inner point: `on=((points, (e, 3)), (angles, (e, 2)))`, of `Vec3` and, one
    for each edge, of `Vec1` [rad].
    The material turns by the angle from reference axes, which are remembered, and carried along without twist whenever a
    step is accepted; within a step no edge may turn round. Forces are those of displacements that turn no edge about
    itself, where they act (`element_at`), so that forces and moments of a rod balance; minus the gradient of the energy
    where the step began only if no edge has moved since, or no moment about one is unbalanced. Edges go the shortest way
    through a step: time steps are of second order at most. `chain` makes the elements of a line of points. `length` `(2,)`
    [m], `curvature` `(2,)` and `natural_twist` [rad]: the natural shape. Shear stiffness does not count.
    Raises `ValueError` for stencils that do not fit and lengths that are not positive.
    Source: M. Bergou, M. Wardetzky, S. Robinson, B. Audoly, E. Grinspun, ACM Trans. Graph. 27 (2008) 63,
    doi:10.1145/1360612.1360662; M. Bergou et al., ACM Trans. Graph. 29 (2010) 116 (frames carried in time).

    Example:

        points = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
        rod = jm.force.ElasticRod.chain("x", "angle", points, jm.force.Section.circle(0.01, 1e9, 0.3))
        scene = jm.System({"x": jm.Vec3(), "angle": jm.Vec1()}, forces={"rod": rod})
        twisted = scene.at_rest({"x": points, "angle": [[0.0], [0.5]]})
        by_hand = 0.5 * rod.section.torsion * 0.5**2 / 1.0  # GJ/2 m^2 / l [J]
        assert jnp.allclose(jm.energy(scene, twisted), by_hand, rtol=1e-4)
    """

    on: Stencils = stencils()
    section: Section
    length: Parameter = parameter(ndim=1)
    curvature: Parameter = parameter(ndim=1, default=(0.0, 0.0))
    natural_twist: Parameter = parameter(default=0.0)
    share: tuple[Array, ...] = each_element(default=())  # of each of its two edges, where another element has the rest
    tangents: Parameter = internal(np.zeros((2, 3)))
    directors: Parameter = internal(np.zeros((2, 3)))
    carried_twist: Parameter = internal(0.0)

    def __check_init__(self):
        if [s.nodes.shape[1:] for s in self.on] != [(3,), (2,)]:
            raise ValueError(
                "ElasticRod: on must be ((points, (e, 3)), (angles, (e, 2))), got nodes of shapes "
                f"{[s.nodes.shape for s in self.on]}."
            )
        check_instance("ElasticRod", "section", self.section, Section)
        check_parameters(self, self.on)
        for name in ("length", "curvature"):
            if getattr(self, name).shape[-1:] != (2,):
                raise ValueError(f"ElasticRod: {name} has shape {getattr(self, name).shape}, expected 2 numbers.")
        if len(self.share) > 1 or any(getattr(a, "shape", ())[1:] != (2,) for a in self.share):
            raise ValueError(f"ElasticRod: share must be one array of shape (e, 2), got {self.share!r:.80}.")
        check_range(self, length=(self.length, lambda x: x > 0, "positive"))

    @classmethod
    def chain(cls, points: str, angles: str, rest: Any, section: Section, *, normal: Any = None) -> "ElasticRod":
        """The rod whose natural shape is the line of `rest` `(n, 3)` [m], not twisted; `normal` `(3,)`: where y of the
        section is on the first edge, less its part along it (the coordinate axis furthest from it unless given)."""
        check_instance("ElasticRod.chain", "points", points, str)
        check_instance("ElasticRod.chain", "angles", angles, str)
        real_array("ElasticRod.chain", "rest", rest)
        check_on_host("ElasticRod.chain", "the directors of edges", rest, normal)
        x = np.asarray(rest, float)
        if x.ndim != 2 or x.shape[1] != 3 or len(x) < 3:
            raise ValueError(f"ElasticRod.chain: rest has shape {x.shape}, expected (points, 3), three points at least.")
        chords = np.diff(x, axis=0)
        lengths = np.linalg.norm(chords, axis=1)
        if not lengths.min() > 0:
            raise ValueError(f"ElasticRod.chain: rest[{int(np.argmin(lengths))}] and the next coincide.")
        tangents = chords / lengths[:, None]
        first = np.eye(3)[int(np.argmin(np.abs(tangents[0])))]
        if normal is not None:
            first = np.asarray(real_array("ElasticRod.chain", "normal", normal, (3,)), float)
        second = first - (first @ tangents[0]) * tangents[0]
        if not np.linalg.norm(second) > 1e-9 * np.linalg.norm(first):
            raise ValueError(f"ElasticRod.chain: normal {first} is along the first edge.")
        directors = [second / np.linalg.norm(second)]
        for a, b in zip(tangents, tangents[1:], strict=False):
            directors.append(np.asarray(carried(directors[-1], a, b)))
        inner = np.arange(len(x) - 2)
        edges = np.stack([inner, inner + 1], 1)
        share = np.where((edges > 0) & (edges < len(chords) - 1), 0.5, 1.0)
        on = ((points, np.stack([inner, inner + 1, inner + 2], 1)), (angles, edges))
        of = {"tangents": tangents[edges], "directors": np.stack(directors)[edges]}
        natural = _curvatures(chords[edges], of["directors"])[:, 0]
        return cls(on, section, lengths[edges], natural, 0.0, (share,), **of)

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Vec3) or not isinstance(dofs[1], Vec1):
            raise ValueError("ElasticRod acts on points (Vec3) and angles (Vec1).")

    def element_energy(self, x: Float[Array, "3 3"], angle: Float[Array, "2 1"]) -> Scalar:
        edges = x[1:] - x[:-1]
        tangents, directors, twist = self._carried(edges)
        axes = jnp.cos(angle) * directors + jnp.sin(angle) * jnp.cross(tangents, directors)
        bend = _curvature(edges, axes) - self.curvature
        turn = angle[1, 0] - angle[0, 0] + twist - self.natural_twist
        section, l = self.section, 0.5 * jnp.sum(self.length)
        stretch = jax.vmap(safe_length)(edges) / self.length - 1
        share = self.share[0] if self.share else jnp.ones(2)
        stored = 0.5 * section.axial * jnp.sum(share * self.length * stretch**2)
        bending = 0.5 * jnp.sum(section.bending * bend**2)  # the mean of two edges
        return stored + (bending + section.torsion * turn**2) / (2 * l)

    def element_at(self, *x: Array) -> "ElasticRod":
        tangents, directors, twist = self._carried(x[0][1:] - x[0][:-1])
        return eqx.tree_at(lambda r: (r.tangents, r.directors, r.carried_twist), self, (tangents, directors, twist))

    def element_update(self, x: Arrays, v: Arrays) -> dict[str, Array]:
        del v
        here = self.element_at(*x)
        return {"tangents": here.tangents, "directors": here.directors, "carried_twist": here.carried_twist}

    def _carried(self, edges: Float[Array, "2 3"]) -> tuple[Array, Array, Scalar]:
        """Tangents, reference directors, and the twist between these from one edge to the next."""
        tangents = edges / jax.vmap(safe_length)(edges)[:, None]
        directors = jax.vmap(carried)(self.directors, self.tangents, tangents)
        across = carried(directors[0], tangents[0], tangents[1])
        sine = tangents[1] @ jnp.cross(across, directors[1])
        angle = jnp.arctan2(sine, across @ directors[1]) - self.carried_twist
        turns = jax.lax.stop_gradient(jnp.round(angle / (2 * np.pi)))
        return tangents, directors, angle - 2 * np.pi * turns + self.carried_twist


@in_one_program
def carried(v: Float[Array, "3"], a: Float[Array, "3"], b: Float[Array, "3"]) -> Float[Array, "3"]:
    """`v` turned as the unit vector `a` is to get to `b` the shortest way."""
    axis = jnp.cross(a, b)
    once = jnp.cross(axis, v)
    return v + once + jnp.cross(axis, once) / (1 + a @ b)


def _curvature(edges: Float[Array, "2 3"], y: Float[Array, "2 3"]) -> Float[Array, "2 2"]:
    """The curvature binormal in the axes y and z of either edge [rad]; the same in both where nothing is twisted."""
    sizes = jax.vmap(safe_length)(edges)
    binormal = 2 * jnp.cross(edges[0], edges[1]) / (sizes[0] * sizes[1] + edges[0] @ edges[1])
    z = jnp.cross(edges / sizes[:, None], y)
    return jnp.stack([y @ binormal, z @ binormal], axis=1)


@in_one_program
def _curvatures(edges: Float[Array, "e 2 3"], y: Float[Array, "e 2 3"]) -> Float[Array, "e 2 2"]:
    return jax.vmap(_curvature)(edges, y)
