"""Pictures are drawn, and show what they say."""

import jax.numpy as jnp
import numpy as np
import pytest

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
