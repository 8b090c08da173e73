"""Shapes that push back what has crossed them."""

import numpy as np

from .._forcefield.base import AbstractForceField
from .numerics.penalties import SofaCone, SofaEllipsoid, SofaPlane, SofaSphere
from .part_builder import PartBuilder, named
from .read.component import Component

_REMARK = "its damping grows with the depth, and is in no matrix"


def _rates(build: PartBuilder, part: Component) -> tuple[float, float]:
    """Stiffness and damping."""
    stiffness, damping = part.real("stiffness", 500.0), part.real("damping", 5.0)
    _rayleigh(build, part)
    part.neutral(localRange="-1 -1")
    part.ignored("contacts")
    build.explicit_damping |= bool(damping)
    return stiffness, damping


def _rayleigh(build: PartBuilder, part: Component) -> None:
    factor = part.real("rayleighStiffness", 0.0)
    if factor:
        build.rayleigh[named(part.object)] = factor
        build.parameter(part, "rayleighStiffness", "rayleigh")


def _added(build: PartBuilder, part: Component, field: AbstractForceField, *leaves: str) -> str:
    build.forces[named(part.object)] = field
    for data in ("stiffness", "damping", *leaves):
        build.parameter(part, data, "forces", data)
    return _REMARK if np.any(getattr(field, "damping", 0)) else ""


def _nodes(build: PartBuilder, part: Component) -> tuple[tuple[str, np.ndarray], int]:
    state = build.state_of(part)
    if not build.dofs[state].is_vector_space:
        raise part.error("acts on points")
    return (state, np.arange(len(build.position[state]))), build.dofs[state].coord_size


def plane(build: PartBuilder, part: Component) -> str:
    """PlaneForceField: a penalty on one side of a plane."""
    on, width = _nodes(build, part)
    normal = part.reals("normal", np.eye(width)[min(1, width - 1)], count=width)
    if not np.any(normal):
        raise part.error("has no normal")
    offset, largest, bilateral = part.real("d", 0.0), part.real("maxForce", 0.0), part.flag("bilateral", False)
    stiffness, damping = _rates(build, part)
    part.ignored("planeColor")
    field = SofaPlane(on, normal, offset, stiffness, damping, largest, bilateral=bilateral, frozen=build.sofa)
    return _added(build, part, field)


def sphere(build: PartBuilder, part: Component) -> str:
    """SphereForceField: a ball that nothing enters; `bilateral`: nothing leaves it either."""
    on, width = _nodes(build, part)
    center, radius = part.reals("center", np.zeros(width), count=width), part.real("radius", 1.0)
    bilateral = part.flag("bilateral", False)
    stiffness, damping = _rates(build, part)
    field = SofaSphere(on, center, radius, stiffness, damping, bilateral=bilateral, frozen=build.sofa)
    return _added(build, part, field, "radius")


def ellipsoid(build: PartBuilder, part: Component) -> str:
    """EllipsoidForceField. SOFA's stiffness of it is not symmetric: only the exact one is translated."""
    if build.sofa:
        raise part.error("has a stiffness in SOFA that is not symmetric, nor its derivative: only solver='exact' has it")
    on, width = _nodes(build, part)
    center, radii = part.reals("center", np.zeros(width), count=width), part.reals("vradius", None, count=width)
    if radii is None:
        raise part.error("has no vradius")
    stiffness, damping = _rates(build, part)
    return _added(build, part, SofaEllipsoid(on, center, radii, stiffness, damping))


def cone(build: PartBuilder, part: Component) -> str:
    """ConicalForceField: a cone that nothing leaves, closed by a ball about its top."""
    on, width = _nodes(build, part)
    if width != 3:
        raise part.error("acts on points of space (Vec3)")
    top, height = part.reals("coneCenter", np.zeros(3), count=3), part.reals("coneHeight", None, count=3)
    angle = part.real("coneAngle", 10.0)
    if height is None or not np.any(height) or not 0 < angle < 90:
        raise part.error(f"needs coneHeight, the axis, and coneAngle between 0 and 90 degrees, got {angle}")
    stiffness, damping = _rates(build, part)
    field = SofaCone(on, top, height, np.deg2rad(angle), stiffness, damping, frozen=build.sofa)
    return _added(build, part, field)


FIELDS = {
    "PlaneForceField": plane,
    "SphereForceField": sphere,
    "EllipsoidForceField": ellipsoid,
    "ConicalForceField": cone,
}
