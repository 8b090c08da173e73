"""Pictures are drawn, and show what they say."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import scenes

import jaxmech as jm

matplotlib = pytest.importorskip("matplotlib", reason='pip install "jaxmech[viz]"')
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def blocks(places, shape, size, states=("a", "a")):
    """Blocks of ones at these places, the last of them stored as zeros."""
    values = np.ones((len(places), *size))
    values[-1] = 0
    rows, columns = np.array(places).T
    return jm.matrix.Triplets(states, jnp.asarray(rows), jnp.asarray(columns), jnp.asarray(values)).assemble(shape)


@pytest.fixture
def coupled():
    """A body of 9 points and one frame, coupled by its last point."""
    body = blocks([(i, j) for i in range(9) for j in range(9) if abs(i - j) < 2], (9, 9), (3, 3))
    tie = blocks([(8, 0), (0, 0)], (9, 1), (3, 6), ("body", "frame"))
    frame = blocks([(0, 0), (0, 0)], (1, 1), (6, 6))  # two blocks in one place: they add up
    pairs = {("body", "body"): body, ("body", "frame"): tie, ("frame", "body"): tie.T, ("frame", "frame"): frame}
    return jm.matrix.BlockMatrix.from_entries(pairs)


def alpha_at(axes, row, column):
    """The opacity of the picture at a place, from 0 to 1 along each axis."""
    for image in axes.images:
        left, right, bottom, top = image.get_extent()
        if left <= column < right and top <= row < bottom:
            data = np.asarray(image.get_array())
            i = int((row - top) / (bottom - top) * data.shape[0])
            return data[i, int((column - left) / (right - left) * data.shape[1]), 3]
    return None


def test_spy_shows_pattern_and_states(coupled, tmp_path):
    axes = jm.viz.spy(coupled)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["body", "frame"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["body\n9 × 3", "frame\n1 × 6"]
    assert axes.get_xlabel() == "33 × 33, 288 non-zeros (26.4 %); 45 zeros stored (pale)"
    unit = 1 / 33
    assert alpha_at(axes, 0.5 * unit, 4.5 * unit) > 0.9  # the coupling of nodes 0 and 1
    assert alpha_at(axes, 0.5 * unit, 7.5 * unit) < 0.1  # nodes 0 and 2: nothing stored
    assert 0.1 < alpha_at(axes, 26.5 * unit, 26.5 * unit) < 0.3  # stored zeros
    assert alpha_at(axes, 26.5 * unit, 29.5 * unit) > 0.9  # the frame
    axes.figure.savefig(tmp_path / "spy.png")
    assert (tmp_path / "spy.png").stat().st_size > 5_000


def test_spy_leaves_uncoupled_states_empty(coupled):
    alone = {pair: entry for pair, entry in coupled.entries.items() if pair[0] == pair[1]}
    axes = jm.viz.spy(jm.matrix.BlockMatrix.from_entries(alone))
    assert alpha_at(axes, 0.9, 0.1) is None and len(axes.images) == 2


def test_spy_of_a_large_matrix_shows_its_density():
    """Two thousand nodes on a diagonal: hundreds of unknowns in one pixel, and none of them lost."""
    n = 2000
    diagonal = jm.matrix.Triplets(("a", "a"), jnp.arange(n), jnp.arange(n), jnp.ones((n, 1, 1))).assemble((n, n))
    axes = jm.viz.spy(jm.matrix.BlockMatrix.from_entries({("body", "body"): diagonal}))
    image = np.asarray(axes.images[0].get_array())[..., 3]
    assert max(image.shape) <= 500
    assert (np.diagonal(image) > 0.5).all()
    assert (image > 0.5).sum() == len(image)
    assert axes.get_xlabel() == "2,000 × 2,000, 2,000 non-zeros (0.05 %)"


def test_spy_draws_where_it_is_told_and_one_pair_alone(coupled):
    figure, (left, right) = plt.subplots(1, 2)
    assert jm.viz.spy(coupled["body", "frame"], axes=right) is right
    assert not left.images and right.images
    assert [label.get_text() for label in right.get_yticklabels()] == ["9 × 3"]
    small = {(s, s): blocks([(0, 0)], (1, 1), (1, 1)) for s in ("a state with a name", "another of that kind", "big")}
    small["big", "big"] = blocks([(i, i) for i in range(50)], (50, 50), (3, 3))
    crowded = jm.viz.spy(jm.matrix.BlockMatrix.from_entries(small), axes=left)
    assert {label.get_rotation() for label in crowded.get_xticklabels()} == {40.0}
    # Small states keep 7 % of the picture, less what the others need.
    assert crowded.images[0].get_extent()[1] > 0.05
    plt.close(figure)


def test_spy_refuses_what_is_no_matrix(coupled):
    with pytest.raises(TypeError, match="BlockMatrix or a BlockSparse, got ndarray"):
        jm.viz.spy(np.eye(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
        with pytest.raises(ImportError, match=r"jaxmech\[viz\]"):
            jm.viz.spy(coupled)


def test_surfaces_are_lit_and_fit_the_axes():
    mesh = jm.mesh.boundary_of(jm.mesh.box_mesh(cells=(1, 1, 1), size=(2.0, 1.0, 1.0), kind="hexahedron")).mesh
    axes = jm.viz.draw_surface(mesh.points, mesh.cells, color="#ffffff", edges="black")
    colors = axes.collections[0].get_facecolor()
    assert len(colors) == 6 and len(np.unique(colors[:, 0].round(6))) > 1  # not all sides are lit alike
    assert axes.get_xlim() == pytest.approx((0, 2)) and axes.get_zlim() == pytest.approx((0, 1))
    jm.viz.draw_surface(np.asarray(mesh.points) + 3.0, mesh.cells, axes=axes)
    assert axes.get_xlim() == pytest.approx((0, 5)) and axes.get_zlim() == pytest.approx((0, 4))
    with pytest.raises(ValueError, match="draw_surface: points"):
        jm.viz.draw_surface(np.zeros((3, 2)), mesh.cells)


# --- whole scenes -----------------------------------------------------------------------


@pytest.mark.parametrize("name", scenes.names())
def test_every_scene_of_the_catalogue_is_drawn(name):
    """In its dimensions, labelled, and with every main state of points or frames within the picture."""
    scene = scenes.build(name)
    axes = jm.viz.plot(scene.system, scene.state)
    sizes = {s: dof.space_size for s, dof in scene.system.dofs.items() if s not in scene.system.multiplier_states}
    assert (axes.name == "3d") == (3 in sizes.values())
    assert axes.get_xlabel() == "x [m]" and axes.get_ylabel() == "y [m]"
    limits = np.array([axes.get_xlim(), axes.get_ylim(), *([axes.get_zlim()] if axes.name == "3d" else [])])
    for state in set(scene.system.main_states) - set(scene.system.multiplier_states):
        size = sizes[state]
        if size > 1:
            x = np.asarray(scene.state.position[state])[:, :size]
            assert (x > limits[:size, 0]).all() and (x < limits[:size, 1]).all(), state
    drawn = axes.collections + axes.lines
    assert drawn and axes.get_legend() is not None
    axes.figure.canvas.draw()


@pytest.fixture(scope="module")
def bar():
    """A bar of eight tetrahedral bricks, stretched by a tenth along x."""
    mesh = jm.mesh.box_mesh(cells=(4, 1, 1), size=(4.0, 1.0, 1.0))
    system = jm.System(
        {"bar": jm.Vec3(), "eye": jm.Vec3()},
        forces={
            "solid": jm.force.TetrahedronFEM.from_mesh("bar", mesh, jm.material.LinearElastic(1000.0, 0.0)),
            "pull": jm.force.ConstantForce(("bar", [0]), [0.0, 0.0, 3.0]),
        },
        masses={"m": jm.mass.UniformMass(("bar", range(len(mesh.points))), 1.0)},
        mappings={"eye": jm.mapping.BarycentricMapping.from_mesh("bar", "eye", mesh, [[2.0, 0.5, 0.5]])},
    )
    rest = system.at_rest({"bar": mesh.points})
    return mesh, system, rest, dataclasses.replace(rest, position={"bar": mesh.points * np.array([1.1, 1.0, 1.0])})


def mapped_colors(values, limits):
    norm = matplotlib.colors.Normalize(*limits)
    return matplotlib.colormaps["viridis"](norm(values))[:, :3]


def test_colours_are_those_of_the_field(bar):
    mesh, system, rest, longer = bar
    axes = jm.viz.plot(system, longer, color="displacement", limits=(0.0, 0.4))
    skin = axes.collections[0]
    corners = np.asarray(mesh.boundary().cells)
    assert len(skin.get_facecolor()) == len(corners)
    # Hue by the mean of the corners' displacements, 0.1 x; brightness is that of the light, the same in all channels.
    expected = mapped_colors(0.1 * np.asarray(mesh.points)[corners, 0].mean(1), (0.0, 0.4))
    hues = [np.round(c / c.sum(1, keepdims=True), 6) for c in (skin.get_facecolor()[:, :3], expected)]
    hues = [h[np.lexsort(h.T)] for h in hues]  # matplotlib sorts them by distance
    np.testing.assert_allclose(*hues, rtol=0, atol=2e-6)
    bar_axes = axes.figure.axes[1]
    assert bar_axes.get_ylabel() == "displacement [m]" and bar_axes.get_ylim() == pytest.approx((0.0, 0.4))


def test_frames_of_a_shell_do_not_hide_it():
    """A sheet, and a rigid body on the same state: the body shows its axes, the nodes of the sheet are seen as it is."""
    quad = jm.mesh.Mesh([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.5, 0.5, 1.0]], [[0, 1, 2, 3]], "quad")
    shell = jm.force.QuadShell.from_mesh("f", quad, young=1e6, poisson=0.3, thickness=0.01)
    system = jm.System({"f": jm.Rigid3()}, forces={"shell": shell})
    heights = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    axes = jm.viz.plot(system, system.at_rest({"f": shell.rest}), color={"f": heights}, label="h [m]")
    axes.figure.canvas.draw()
    sheet, *of_axes, origin = axes.collections
    assert len(sheet.get_facecolor()) == 1 and [len(c.get_segments()) for c in of_axes] == [1, 1, 1]
    assert origin.get_label() == "f"
    np.testing.assert_allclose(origin.get_facecolor()[:, :3], mapped_colors([4.0], (0.0, 4.0)), atol=1e-12)


def test_a_legend_stands_at_its_axes_among_others():
    """Axes that a user makes one by one: not in a corner of the figure, where others may be, nor on a bar of colours."""
    for name, kind in (("tetrahedra", "3d"), ("frames_in_the_plane", None)):
        scene = scenes.build(name)
        figure = plt.figure(figsize=(12.0, 4.0))
        places = []
        for column in (1, 2):
            axes = figure.add_subplot(1, 2, column, projection=kind)
            jm.viz.plot(scene.system, scene.state, axes=axes, color="velocity")
            figure.canvas.draw()
            legend, bar = axes.get_legend().get_window_extent(), figure.axes[-1].get_tightbbox()
            assert not legend.overlaps(bar), name
            places.append(legend.x0 - axes.get_window_extent().x0)
        assert places[0] == pytest.approx(places[1], abs=1.0), name  # [px]


@pytest.mark.parametrize("name", ["anchored_springs", "frames_in_the_plane"])
def test_lines_points_and_frames_have_the_colours_of_the_field(name):
    """Lines that of the mean of their ends, nodes their own: a bar of colours stands beside nothing that has none."""
    scene = scenes.build(name)
    state = dataclasses.replace(
        scene.state, position={n: x + 0.1 * jnp.arange(x.size).reshape(x.shape) for n, x in scene.state.position.items()}
    )
    axes = jm.viz.plot(scene.system, state, color="displacement", reference=scene.state, loads=False)
    limits = axes.figure.axes[1].get_ylim()
    start, end = (jm.kinematics(scene.system, s) for s in (scene.state, state))
    moved = {n: np.linalg.norm(np.asarray(end[n] - x)[:, :2], axis=1) for n, x in start.items() if x.shape[1] > 1}
    found = {c.get_label(): c for c in axes.collections}
    for state_name, lengths in moved.items():
        np.testing.assert_allclose(found[state_name].get_facecolor()[:, :3], mapped_colors(lengths, limits), atol=1e-12)
    pairs = scene.system.forces["pairs"].on
    ends = np.concatenate([moved[s.state][np.asarray(s.nodes).reshape(s.elements, -1)] for s in pairs], axis=1)
    expected = mapped_colors(0.5 * (ends[:, :-1] + ends[:, 1:]).ravel(), limits)
    np.testing.assert_allclose(found["pairs"].get_edgecolor()[:, :3], expected, atol=1e-12)
    axes.figure.canvas.draw()
    legend = axes.get_legend().get_window_extent()
    assert legend.x0 >= 0 and legend.y0 >= 0  # whole, within the picture


def test_a_legend_in_space_is_within_the_picture():
    scene = scenes.build("beams_and_rods")
    axes = jm.viz.plot(scene.system, scene.state, color={"p": np.arange(scene.state.position["p"].shape[0])}, label="[-]")
    axes.figure.canvas.draw()
    assert axes.get_legend().get_window_extent().x0 >= 0


def test_the_stress_of_a_stretched_bar_is_one_number(bar):
    _, system, _, longer = bar
    axes = jm.viz.plot(system, longer, color="von_mises")
    low, high = axes.figure.axes[1].get_ylim()
    stress = np.asarray(jm.output.gauss_fields(system, longer, "solid").von_mises)
    assert low < stress.min() and stress.max() < high  # one value has limits around it
    assert axes.figure.axes[1].get_ylabel() == "von Mises stress [Pa]"


def test_a_run_that_kept_no_states_says_so():
    system = jm.System({"p": jm.Vec1()}, masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)})
    start, scheme = system.at_rest({"p": [[0.0]]}), jm.integrator.SymplecticEuler()
    run = jm.simulate(system, start, scheme, 0.1, 2, observe=lambda system, state: state.time)
    with pytest.raises(TypeError, match="draw_energies: .* keeps no states"):
        jm.viz.draw_energies(system, run)


def test_arrays_find_their_nodes_and_cells(bar):
    mesh, system, rest, _ = bar
    for color in (np.arange(len(mesh.points)), {"bar": np.arange(len(mesh.points))}, np.arange(len(mesh.cells))):
        axes = jm.viz.plot(system, rest, color=color, label="number [-]")
        assert axes.figure.axes[1].get_ylabel() == "number [-]"
    with pytest.raises(ValueError, match=r"color has 3 numbers, expected one for each node of a state \{'bar': 20"):
        jm.viz.plot(system, rest, color=np.arange(3))
    with pytest.raises(ValueError, match="color 'stress' is neither a colour nor a field.*'von_mises'"):
        jm.viz.plot(system, rest, color="stress")
    with pytest.raises(ValueError, match="axes are rectilinear, expected projection=3d"):
        jm.viz.plot(system, rest, axes=plt.figure().add_subplot())


def test_a_temperature_is_drawn_on_its_cells_at_rest():
    mesh = jm.mesh.box_mesh(cells=(2, 1), size=(2.0, 1.0))
    heat = jm.force.FieldEnergy.from_mesh("T", mesh, lambda T, slope, X, p: 0.5 * slope @ slope)
    system = jm.System({"T": jm.Vec1()}, forces={"heat": heat})
    axes = jm.viz.plot(system, system.at_rest({"T": 300 + mesh.points[:, :1]}), color="T", label="temperature [K]")
    assert axes.get_xlim()[1] > 2.0 and axes.figure.axes[1].get_ylim() == pytest.approx((300, 302))


def test_what_is_given_twice_or_inside_is_not_drawn():
    """Two laws in the same cells, and faces between cells of two kinds, leave one skin."""
    box = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0), kind="hexahedron")
    law = jm.material.LinearElastic(1.0, 0.3)
    left, right = (jm.mesh.Mesh(box.points, box.cells[i : i + 1], "hexahedron") for i in (0, 1))
    parts = {n: jm.force.SolidFEM.from_mesh("p", m, law) for n, m in {"l": left, "r": right, "both": left}.items()}
    system = jm.System({"p": jm.Vec3()}, forces=parts)
    axes = jm.viz.plot(system, system.at_rest({"p": box.points}))
    assert len(axes.collections[0].get_facecolor()) == 10  # of twelve squares, the two between are left out


@pytest.mark.slow
def test_a_film_has_one_scale_and_one_box(bar, tmp_path):
    from PIL import Image

    _, system, rest, longer = bar
    film = jm.viz.animate(system, [rest, longer, rest], path=tmp_path / "film.gif", color="displacement", dpi=50, fps=10)
    with Image.open(tmp_path / "film.gif") as image:
        assert image.n_frames == film.frames == 3 and image.info["duration"] == 100
        frames = [np.asarray((image.seek(i), image.convert("RGB"))[1]).astype(int) for i in range(3)]
    assert np.array_equal(frames[0], frames[2]) and np.abs(frames[0] - frames[1]).max() > 50
    assert film._repr_html_().startswith("<img") and "3 frames" in repr(film)
    with pytest.raises(TypeError, match="states must be states, a trajectory or a path"):
        jm.viz.animate(system, 3.0)
    for save in (film.save, lambda path: jm.viz.animate(system, [rest], path=path)):
        with pytest.raises(ValueError, match="film.mp4' must end in .gif"):
            save(tmp_path / "film.mp4")


def test_a_scale_begins_where_the_numbers_do(bar):
    """The first frame of most films has not moved: one number, nil, around which there are no negative lengths."""
    from jaxmech.viz._frames import drawings

    _, system, rest, longer = bar
    options = {"color": "displacement", "label": None, "reference": None, "skins": None, "loads": True, "supports": True}
    _, _, (low, high), _ = drawings("test", system, [rest, longer], **options)
    assert low == 0.0 and high == pytest.approx(
        max(np.linalg.norm(longer.position[n] - x, axis=1).max() for n, x in rest.position.items())
    )
    _, _, (low, high), _ = drawings("test", system, [rest, rest], **options)
    assert low < 0.0 < high


def test_a_page_plays_by_itself(bar, tmp_path):
    pytest.importorskip("viser", reason='pip install "jaxmech[show]"')
    _, system, rest, longer = bar
    assert jm.viz.show(system, [rest, longer], color="displacement", path=tmp_path / "page.html", port=8231) is None
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.lstrip().lower().startswith("<!doctype html>") and len(text) > 100_000
    with pytest.raises(ValueError, match="sliders and response go together"):
        jm.viz.show(system, rest, sliders={"E": (1.0, 2.0)})


def test_sliders_ask_for_other_states(bar):
    viser = pytest.importorskip("viser", reason='pip install "jaxmech[show]"')
    from jaxmech.viz._show import _Stage

    _, system, rest, longer = bar
    asked = []
    options = {"color": "displacement", "label": None, "reference": rest, "skins": None, "loads": True, "supports": True}

    def response(values):
        asked.append(values)
        return [rest, longer, longer]

    stage = _Stage(viser.ViserServer(host="127.0.0.1", port=8232, verbose=False), options, None, "viridis")
    try:
        stage.put(system, [rest, longer])
        handles = stage.controls(system, {"E": (1.0, 3.0)}, response, 50)
        assert len(stage.groups) == 2
        handles["E"].value = 2.5  # as a browser does
        for callback in handles["E"]._impl.update_cb:
            callback(None)
        assert asked[-1] == {"E": 2.5} and len(stage.groups) == 3
        stage.reveal(2)
        assert [g.visible for g in stage.groups] == [False, False, True]
    finally:
        stage.server.stop()


@pytest.mark.slow  # VTK takes seconds to start
def test_pyvista_draws_what_matplotlib_does(bar):
    pytest.importorskip("pyvista", reason='pip install "jaxmech[viz3d]"')
    _, system, rest, longer = bar
    image = jm.viz.plot(system, longer, color="displacement", backend="pyvista")
    assert image.shape == (900, 1200, 3) and len(np.unique(image.reshape(-1, 3), axis=0)) > 100


@pytest.mark.slow
def test_curves_of_convergence_and_energy(bar):
    _, system, rest, longer = bar
    run = jm.simulate(system, longer, jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, rest)), 0.01, 3)
    axes = jm.viz.draw_residuals(run.info)
    assert len(axes.lines) >= 3 and axes.get_ylabel() == "residual [N]"
    axes = jm.viz.draw_energies(system, run)
    total = axes.lines[-1].get_ydata()
    expected = [float(jm.integrator.energies(system, s).total) for s in (longer, run.last)]
    np.testing.assert_allclose(total[[0, -1]], expected, rtol=1e-10)
    nowhere = dataclasses.replace(longer, position={s: a * np.nan for s, a in longer.position.items()})
    with pytest.raises(ValueError, match="draw_energies: position of .* not finite"):
        jm.viz.draw_energies(system, [rest, nowhere])
    figure = jm.viz.draw_modes(system, rest, jm.modes(system, rest, count=8), count=8, view=(10.0, -80.0))
    assert len([a for a in figure.axes if a.name == "3d"]) == 8


@pytest.mark.parametrize("size", [(0.2, 0.2, 1.0), (1.0, 0.05, 1.0), (1.0, 1.0, 1.0), (1.0, 0.2, 0.2)])
@pytest.mark.parametrize("view", [(20.0, -60.0), (-35.0, 20.0)])
def test_names_of_axes_are_on_the_picture_of_a_body_of_any_shape(size, view):
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=size)
    solid = jm.force.TetrahedronFEM.from_mesh("b", mesh, jm.material.NeoHookean(1e3, 0.3))
    system = jm.System({"b": jm.Vec3()}, forces={"solid": solid})
    axes = jm.viz.plot(system, system.at_rest({"b": mesh.points}), color="displacement", view=view)
    canvas = axes.figure.canvas
    canvas.draw()
    width, height = canvas.get_width_height()
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        label = axis.label.get_window_extent(canvas.get_renderer())
        left, low, right, high = label.extents
        assert left >= 0 and low >= 0 and right <= width and high <= height, axis.axis_name
        shown = [tick.label1 for tick in axis.get_major_ticks()]
        inside = [
            t for t, at in zip(shown, axis.get_majorticklocs(), strict=True) if np.prod(at - axis.get_view_interval()) < 0
        ]
        assert not any(label.overlaps(t.get_window_extent(canvas.get_renderer())) for t in inside), axis.axis_name
