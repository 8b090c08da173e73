"""Curved, thin-walled and joined beams: closed forms, and the published frames, springs and arches.

S. P. Timoshenko and J. M. Gere, *Theory of Elastic Stability*, 2nd ed., 1961 (strips); S. P. Timoshenko and J. N. Goodier,
*Theory of Elasticity*, 3rd ed., 1970 (torsion); J. C. Simo and L. Vu-Quoc, Comput. Methods Appl. Mech. Eng. 58 (1986) 79,
doi:10.1016/0045-7825(86)90079-4 (right-angle frame, deep arch); D. A. DaDeppo and R. Schmidt, J. Appl. Mech. 42
(1975) 893 (deep arch); S.-L. Lee, F. S. Manuel and E. C. Rossow, J. Eng. Mech. Div. ASCE 94 (1968) 521 (frame).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmech as jm

jax.config.update("jax_enable_x64", True)

IN_PLANE = (False, False, True, True, True, False)  # held so that a frame stays in the plane of x and y
UPRIGHT = [0.0, 0.0, 1.0]


def chain(first, last):
    return np.stack([np.arange(first, last), np.arange(first + 1, last + 1)], 1)


def frames(parts, section, constraints, **forces):
    """Beams along frames of several lines, each with its own nodes."""
    ends = np.cumsum([0, *(len(rest) for rest in parts)])
    pairs = np.concatenate([chain(a, b - 1) for a, b in zip(ends, ends[1:], strict=False)])
    rest = np.concatenate([np.asarray(part) for part in parts])
    beam = jm.force.Beam(("f", pairs), rest, section)
    system = jm.System({"f": jm.Rigid3()}, forces={"beam": beam, **forces}, constraints=constraints)
    return system, rest


def pushed(parts, section, constraints, node, way):
    """`scene(mu)` under a force of `mu` at a node, and its rest."""

    def scene(mu):
        return frames(parts, section, constraints, load=jm.force.ConstantForce(("f", [node]), mu * jnp.asarray(way)))[0]

    system, rest = frames(parts, section, constraints)
    return scene, system.at_rest({"f": rest} | {name: np.zeros((1, 6)) for name in system.multiplier_constraints})


def legs(points, elements, section, held, node, way):
    """`scene(mu)` of straight members welded where they meet, in the plane, pushed at a node; and its rest."""
    x = np.pad(np.asarray(points, float), ((0, 0), (0, 1)))
    pieces = [np.linspace(a, b, n + 1)[1:] for a, b, n in zip(x, x[1:], elements, strict=False)]
    mesh = jm.mesh.Mesh(np.concatenate([x[:1], *pieces]), chain(0, sum(elements)), "edge")
    beam = jm.force.Beam.from_mesh("f", mesh, section, normal=UPRIGHT)

    def scene(mu):
        push = jm.force.ConstantForce(("f", [node]), mu * jnp.asarray(way))
        return jm.System({"f": jm.Rigid3()}, forces={"beam": beam, "push": push}, constraints=held)

    return scene, scene(0.0).at_rest({"f": beam.rest})


def test_sections_have_the_numbers_of_handbooks():
    """Torsion of rectangles from Timoshenko's table; a thin tube; a profile put together of rectangles."""
    for ratio, k in ((1.0, 0.1406), (2.0, 0.229), (10.0, 0.312)):
        for width, height in ((ratio, 1.0), (1.0, ratio)):
            section = jm.force.Section.rectangle(width, height, young=2.6, poisson=0.3)
            np.testing.assert_allclose(section.torsion, k * ratio, rtol=2e-3)
    np.testing.assert_allclose(jm.force.Section.rectangle(1.0, 1.0, 2.6, 0.3).torsion, 0.140577014955, rtol=1e-9)
    tube = jm.force.Section.tube(1.005, 0.995, young=2.6, poisson=0.3)
    area = 2 * np.pi * 0.01
    np.testing.assert_allclose(tube.axial, 2.6 * area, rtol=1e-12)
    np.testing.assert_allclose([tube.torsion, *tube.bending], [area, 1.3 * area, 1.3 * area], rtol=1e-4)
    np.testing.assert_allclose(tube.shear, 2 * 1.3 / (4 + 3 * 0.3) * area, rtol=1e-4)  # Cowper's, of a thin wall
    full, nearly = jm.force.Section.circle(1.0, 2.6, 0.3), jm.force.Section.tube(1.0, 1e-6, 2.6, 0.3)
    for a, b in zip(jax.tree.leaves(full), jax.tree.leaves(nearly), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    b, h, f, w = 0.15, 0.3, 0.0107, 0.0071
    ipe = jm.force.Section.i_beam(b, h, flange=f, web=w, young=2.6, poisson=0.3)
    strong = 2 * (b * f**3 / 12 + b * f * ((h - f) / 2) ** 2) + w * (h - 2 * f) ** 3 / 12
    np.testing.assert_allclose(ipe.bending, 2.6 * np.array([strong, (2 * f * b**3 + (h - 2 * f) * w**3) / 12]), rtol=1e-12)
    np.testing.assert_allclose(ipe.axial, 2.6 * (2 * b * f + (h - 2 * f) * w), rtol=1e-12)
    np.testing.assert_allclose(ipe.shear, [2 * b * f * 13 / 15.3, w * (h - f)], rtol=0.06)  # the web takes what is along it
    no_flanges = jm.force.Section.i_beam(w, h, flange=1e-9, web=w, young=2.6, poisson=0.3)
    np.testing.assert_allclose(no_flanges.shear[1], jm.force.Section.rectangle(w, h, 2.6, 0.3).shear[1], rtol=1e-6)
    for build, words in (
        (lambda: jm.force.Section.tube(1.0, 1.0, 1.0, 0.3), "inner must be less than outer"),
        (
            lambda: jm.force.Section.i_beam(b, h, flange=0.15, web=w, young=1.0, poisson=0.3),
            "flange must be less than half the height",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            build()


@pytest.mark.slow
def test_a_portal_frame_sways():
    """Clamped, of one element a member: `P h^3 / (12 EI) (2 + 3k) / (1 + 6k)`, `k = h / L`; the same turned in space."""
    h, span, push = 3.0, 4.0, 1.0
    section = jm.force.Section(axial=1e12, shear=[1e12, 1e12], torsion=1e6, bending=[3e6, 1e6])
    turn = Rotation.from_rotvec([0.4, -0.7, 1.1]).as_matrix()
    points = np.array([[0.0, 0.0, 0.0], [0.0, h, 0.0], [span, h, 0.0], [span, 0.0, 0.0]])
    for R in (np.eye(3), turn):
        mesh = jm.mesh.Mesh(points @ R.T, [[0, 1], [1, 2], [3, 2]], "edge")
        beam = jm.force.Beam.from_mesh("f", mesh, section, normal=R[:, 2])
        load = jm.force.ConstantForce(("f", [1]), push * R[:, 0])
        clamps = {"clamps": jm.constraint.Fixed(("f", [0, 3]))}
        system = jm.System({"f": jm.Rigid3()}, forces={"beam": beam, "load": load}, constraints=clamps)
        end = jm.static_solve(system, system.at_rest({"f": beam.rest}))
        sway = (np.asarray(end.position["f"])[1, :3] - mesh.points[1]) @ R[:, 0]
        k = h / span
        np.testing.assert_allclose(sway, push * h**3 / (12 * 3e6) * (2 + 3 * k) / (1 + 6 * k), rtol=1e-5)
        torque = jm.output.reaction_resultants(system, end.state, {"foot": [0]})["foot"].moment @ R[:, 2]
        np.testing.assert_allclose(abs(torque), push * h / 2 * (1 + 3 * k) / (1 + 6 * k), rtol=1e-4)
    sheet, pair = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0)), ("f", [[0, 1]])
    cases = (
        ("axes has shape", lambda: jm.force.Beam(pair, beam.rest, section, [0.0, 0.0, 1.0])),
        ("axes must be quaternions of unit", lambda: jm.force.Beam(pair, beam.rest, section, [0.0, 0.0, 2.0, 0.0])),
        ("normal .* is along element 1", lambda: jm.force.Beam.from_mesh("f", mesh, section, normal=R[:, 0])),
        ("must have edges in space", lambda: jm.force.Beam.from_mesh("f", sheet, section)),
    )
    for words, build in cases:
        with pytest.raises(ValueError, match=words):
            build()


@pytest.mark.slow
def test_a_quarter_of_a_circle_bends_and_twists():
    """Along its end `k F R^3 / EI`, across `F R^3 (pi/4 / EI + k / GJ)`, `k = 3 pi/4 - 2` (Castigliano); 8 elements."""
    n, radius, force = 8, 2.0, 1e-5
    angle = np.linspace(0, np.pi / 2, n + 1)
    points = radius * np.stack([np.sin(angle), 1 - np.cos(angle), 0 * angle], 1)
    line = jm.mesh.frames_along(points, normal=UPRIGHT)  # y of the section upright
    section = jm.force.Section(axial=1e7, shear=[1e7, 1e7], torsion=3.0, bending=[5.0, 7.0])
    clamp = {"clamp": jm.constraint.Fixed(("f", [0]))}
    load = jm.force.ConstantForce(("f", [n]), force * np.array([0.0, 1.0, 1.0]))
    system, rest = frames([line], section, clamp, load=load)
    moved = np.asarray(jm.static_solve(system, system.at_rest({"f": rest})).position["f"])[n, :3] - points[n]
    unit, k = force * radius**3, 0.75 * np.pi - 2
    np.testing.assert_allclose(moved[1], unit * k / 5.0, rtol=5e-3)  # about y of the section
    np.testing.assert_allclose(moved[2], unit * (np.pi / 4 / 7.0 + k / 3.0), rtol=5e-3)


@pytest.mark.slow
def test_a_coil_is_the_spring_of_handbooks():
    """`8 F D^3 n / (G d^4)`: torsion of the wire, of a pitch so small that little else counts."""
    per_turn, turns, radius, wire = 20, 2, 1.0, 0.02
    angle = np.linspace(0, 2 * np.pi * turns, per_turn * turns + 1)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), 0.1 * angle / (2 * np.pi)], 1)
    section = jm.force.Section.circle(wire, 2e11, 0.3)
    last = len(points) - 1
    guide = jm.constraint.FixedComponents(("f", [last]), (True, True, False, True, True, True))
    held = {"clamp": jm.constraint.Fixed(("f", [0])), "guide": guide}
    load = jm.force.ConstantForce(("f", [last]), [0.0, 0.0, 0.1])
    system, rest = frames([jm.mesh.frames_along(points)], section, held, load=load)
    longer = jm.static_solve(system, system.at_rest({"f": rest})).position["f"][last, 2] - rest[last, 2]
    np.testing.assert_allclose(longer, 8 * 0.1 * (2 * radius) ** 3 * turns / (2e11 / 2.6 * (2 * wire) ** 4), rtol=0.01)


@pytest.mark.slow
def test_a_strip_tips_over_under_its_tip_load():
    """Prandtl's and Michell's: `4.013 sqrt(EI GJ) / L^2`, of a cantilever so high that it does not bend before."""
    n, length = 12, 10.0
    line = jm.mesh.frames_along(np.linspace([0.0, 0.0, 0.0], [length, 0.0, 0.0], n + 1), normal=[0.0, 1.0, 0.0])
    section = jm.force.Section(axial=1e7, shear=[1e7, 1e7], torsion=3.0, bending=[1e5, 2.0])
    scene, rest = pushed([line], section, {"clamp": jm.constraint.Fixed(("f", [0]))}, n, [0.0, 0.0, -1.0])
    factor = jm.buckling(scene, rest).factors[0]
    np.testing.assert_allclose(factor, 4.0126 * np.sqrt(3.0 * 2.0) / length**2, rtol=0.01)


@pytest.mark.slow
def test_a_right_angle_frame_tips_over():
    """Argyris's: two legs of 240, 30 by 0.6, E 71,240, nu 0.31, pushed at its end in its plane: 1.088."""
    n, section = 8, jm.force.Section.rectangle(0.6, 30.0, 71240.0, 0.31)
    held = {"clamp": jm.constraint.Fixed(("f", [0]))}
    points = [[0.0, 0.0], [240.0, 0.0], [240.0, -240.0]]
    scene, rest = legs(points, (n, n), section, held, 2 * n, [1.0, 0.0, 0.0])
    np.testing.assert_allclose(jm.buckling(scene, rest).factors[0], 1.088, rtol=0.01)


@pytest.mark.slow
def test_a_deep_arch_snaps():
    """215 degrees, one end clamped, the other hinged: 8.97 EI / R^2 (DaDeppo and Schmidt)."""
    n, radius = 20, 100.0
    angle = np.radians(np.linspace(-107.5, 107.5, n + 1))
    points = radius * np.stack([np.sin(angle), np.cos(angle), 0 * angle], 1)
    section = jm.force.Section(axial=1e8, shear=[1e8, 1e8], torsion=1e6, bending=[1e6, 1e6])
    held = {
        "clamp": jm.constraint.Fixed(("f", [n])),
        "hinge": jm.constraint.FixedComponents(("f", [0]), (True, True, True, True, True, False)),
        "plane": jm.constraint.FixedComponents(("f", range(1, n)), IN_PLANE),
    }
    line = jm.mesh.frames_along(points, normal=UPRIGHT)
    scene, rest = pushed([line], section, held, n // 2, [0.0, -1.0, 0.0])
    path = jm.follow_path(
        scene, rest, step=200.0, steps=50, iterations=6, displacement=("f", n // 2, 1), to=1000.0, throw=False
    )
    limit = next(c for c in path.critical if c.kind == "limit")
    np.testing.assert_allclose(limit.load, 897.0, rtol=0.01)


@pytest.mark.slow
def test_a_double_cross_vibrates_in_its_plane():
    """NAFEMS' FV2: eight arms of 5 m, pinned at their ends, welded in the middle by multipliers."""
    n, arms, side, rho = 6, 8, 0.125, 8000.0
    angles = np.arange(arms) * 2 * np.pi / arms
    ends = 5 * np.stack([np.cos(angles), np.sin(angles), 0 * angles], 1)
    parts = [np.asarray(jm.mesh.frames_along(np.linspace(0 * end, end, n + 1), normal=UPRIGHT)) for end in ends]
    count = n + 1
    held = {f"weld {k}": welded_to_first(parts, k) for k in range(1, arms)}
    held["pins"] = jm.constraint.FixedComponents(("f", [k * count + n for k in range(arms)]), (True,) * 5 + (False,))
    free = [0, *(k * count + i for k in range(arms) for i in range(1, n))]  # the other middles are welded to the first
    held["plane"] = jm.constraint.FixedComponents(("f", free), IN_PLANE)
    system, rest = frames(parts, jm.force.Section.rectangle(side, side, 200e9, 0.3), held)
    share = np.full(count, 5.0 / n)
    share[[0, -1]] /= 2
    mass = np.tile(share, arms) * rho * side**2
    masses = {"m": jm.mass.RigidMass(("f", range(len(rest))), mass, mass[:, None, None] * np.eye(3) * side**2 / 12)}
    system = jm.System(system.dofs, forces=system.forces, constraints=held, masses=masses)
    start = system.at_rest({"f": rest} | {name: np.zeros((1, 6)) for name in system.multiplier_constraints})
    found = np.asarray(jm.modes(system, start, count=16).frequencies) / (2 * np.pi)
    np.testing.assert_allclose(found, [11.336] + [17.709] * 7 + [45.345] + [57.390] * 7, rtol=0.02)


@pytest.mark.slow
def test_a_cantilever_carries_masses_beside_its_axis():
    """NAFEMS' FV4: 10 t and 1 t at the ends of arms of 2 m across the tip, which is mapped to them."""
    n, radius, rho = 16, 0.25, 8000.0
    area, inertia = np.pi * radius**2, np.pi * radius**4 / 4
    line = jm.mesh.frames_along(np.linspace([0.0, 0.0, 0.0], [10.0, 0.0, 0.0], n + 1))
    length = np.full(n + 1, 10.0 / n)
    length[[0, -1]] /= 2
    own = length[:, None, None] * rho * inertia * np.diag([2.0, 1.0, 1.0])
    section = jm.force.Section.circle(radius, 200e9, 0.3)
    system = jm.System(
        {"f": jm.Rigid3(), "ends": jm.Vec3()},
        forces={"beam": jm.force.Beam(("f", chain(0, n)), line, section)},
        mappings={"arms": jm.mapping.RigidMapping(("f", [n, n]), "ends", [[0.0, 2.0, 0.0], [0.0, -2.0, 0.0]])},
        masses={
            "own": jm.mass.RigidMass(("f", range(n + 1)), rho * area * length, own),
            "carried": jm.mass.DiagonalMass(("ends", [0, 1]), [10e3, 1e3]),
        },
        constraints={"clamp": jm.constraint.Fixed(("f", [0]))},
    )
    found = np.asarray(jm.modes(system, system.at_rest({"f": line}), count=6).frequencies) / (2 * np.pi)
    np.testing.assert_allclose(found, [1.723, 1.727, 7.413, 9.972, 18.155, 26.957], rtol=0.015)


def welded_to_first(parts, k):
    """The first frame of part `k` and that of the first part are of one body."""
    turn = (Rotation.from_quat(parts[k][0, 3:]).inv() * Rotation.from_quat(parts[0][0, 3:])).as_quat()
    ends = ("f", [0]), ("f", [k * len(parts[0])])
    return jm.constraint.FixedJoint(ends, frame_b=np.concatenate([np.zeros(3), turn]))


@pytest.mark.slow
def test_lees_frame_snaps_and_snaps_back():
    """Two legs of 120, pinned at their far ends, the load 24 from the corner: 18.55 `EI / L^2` (Lee, Manuel and Rossow).
    Then the point turns back, and the load becomes negative, to a second limit."""
    n = 2
    points, last = [[0.0, 0.0], [0.0, 120.0], [24.0, 120.0], [120.0, 120.0]], 10 * n
    held = {
        "pins": jm.constraint.FixedComponents(("f", [0, last]), (True, True, True, True, True, False)),
        "plane": jm.constraint.FixedComponents(("f", range(1, last)), IN_PLANE),
    }
    section = jm.force.Section(axial=43.2, shear=[16.6, 16.6], torsion=14.4, bending=[14.4, 14.4])  # E 7.2, A 6, I 2
    unit = 14.4 / 120.0**2  # EI / L^2
    scene, rest = legs(points, (5 * n, n, 4 * n), section, held, 6 * n, [0.0, -unit, 0.0])
    path = jm.follow_path(scene, rest, step=8.0, steps=50, displacement=("f", 6 * n, 1))
    first, second = (c.load for c in path.critical)
    np.testing.assert_allclose(first, 18.55, rtol=2e-3)
    assert -10.0 < second < -9.0 and [c.kind for c in path.critical] == ["limit", "limit"]
    assert len(path.turns) == 2
