"""The sparsity pattern of a matrix, state by state."""

from typing import Any

import numpy as np

from .._runtime.argument_checks import check_instance
from .._sparse.block_matrix import BlockMatrix
from .._sparse.block_sparse import BlockSparse

_SAME = ("#2a6fb0", "#d9772b", "#3b9560", "#8e5aa8", "#b8473d", "#5c7f8a", "#a68a2d")  # a state with itself
_OTHER = "#4d5561"  # a state with another
_SMALLEST = 0.07  # the part of the picture that the smallest state gets
_PIXELS = 500  # of the whole picture: patterns larger than that are shown by their density
_MOST_NODES = 40  # of a state whose node blocks are told apart by lines
_LONGEST = 5.0  # the ratio of the sides of the picture of one block matrix that is not square


def spy(matrix: BlockMatrix | BlockSparse, *, axes: Any = None) -> Any:
    """Draw which entries a matrix stores, with the states on the axes, and return the matplotlib axes.

    The pairs of states that are coupled are tinted: each state with itself in a colour of its own, with others in grey.
    Non-zeros are dark, zeros that are stored pale; many entries in one pixel are shown by their density. States of few
    nodes show the blocks of their nodes. Small states are drawn larger than their share, so that they can be seen.
    `axes`: where to draw, a new figure unless given. Raises `ImportError` without matplotlib, `TypeError` for another
    matrix.
    No units. Source: the `spy` of MATLAB and matplotlib.

    Example:

        axes = jm.viz.spy(A)
        assert [label.get_text() for label in axes.get_xticklabels()] == ["cube"]
        axes.figure.clear()
    """
    try:
        import matplotlib.pyplot as plt
        from matplotlib.axes import Axes
    except ImportError as error:
        raise ImportError('spy draws with matplotlib: pip install "jaxmech[viz]".') from error
    if not isinstance(matrix, BlockMatrix | BlockSparse):
        raise TypeError(f"spy: matrix must be a BlockMatrix or a BlockSparse, got {type(matrix).__name__}.")
    if axes is not None:
        check_instance("spy", "axes", axes, Axes)
    if axes is None:
        axes = plt.figure(figsize=(6.4, 6.4), layout="constrained").add_subplot()
    entries, *sides = _parts(matrix)
    for (row, column), entry in entries.items():
        _draw(axes, entry, sides[0][2][row : row + 2], sides[1][2][column : column + 2], row if row == column else None)
    _frame(axes, *sides)
    axes.set_xlabel(_caption(matrix, entries.values()), color="#4d5561", fontsize=9, labelpad=8)
    return axes


def _parts(matrix: BlockMatrix | BlockSparse) -> tuple[dict[tuple[int, int], BlockSparse], Any, Any]:
    """The entries by number of states; of the rows and of the columns the names, the sizes and the ends of the states."""
    if isinstance(matrix, BlockMatrix):
        names, sizes = [s for s, _, _ in matrix.sizes], [(n, d) for _, n, d in matrix.sizes]
        side = (names, sizes, _ends([n * d for n, d in sizes]))
        number = {s: i for i, s in enumerate(names)}
        return {(number[r], number[c]): entry for (r, c), entry in matrix.entries.items()}, side, side
    longest = max(matrix.shape)
    rows, columns = (
        ([""], [(n, d)], np.array([0.0, max(n * d / longest, 1 / _LONGEST)]))
        for n, d in zip(matrix.pattern.shape, matrix.values.shape[1:], strict=True)
    )
    return {(0, 0): matrix}, rows, columns


def _ends(counts: list[int]) -> np.ndarray:
    """Where each state begins and ends in a picture of side 1."""
    share = np.asarray(counts) / sum(counts)
    share = np.maximum(share, min(_SMALLEST, 0.7 / len(counts)))
    return np.concatenate([[0.0], np.cumsum(share / share.sum())])


def _draw(axes: Any, entry: BlockSparse, rows: np.ndarray, columns: np.ndarray, state: int | None) -> None:
    """One pair of states, as an image between these ends."""
    from matplotlib.colors import to_rgb

    color = _OTHER if state is None else _SAME[state % len(_SAME)]
    stored, filled = _density(entry, *(max(1, int(_PIXELS * (e[1] - e[0]))) for e in (rows, columns)))
    image = np.empty((*stored.shape, 4))
    image[..., :3] = to_rgb(color)
    # A single entry among many must still be seen.
    image[..., 3] = np.where(filled > 0, 0.55 + 0.45 * filled, np.where(stored > 0, 0.14 + 0.08 * stored, 0.05))
    extent = (columns[0], columns[1], rows[1], rows[0])
    axes.imshow(image, extent=extent, interpolation="auto", interpolation_stage="rgba", aspect="equal")


def _density(entry: BlockSparse, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The share of each pixel's entries that are stored, and that are not zero; at most `height x width` pixels."""
    scalars: Any = entry.to_scipy("coo")
    shape = tuple(min(n, most) for n, most in zip(scalars.shape, (height, width), strict=True))
    at = [c.astype(np.int64) * p // n for c, p, n in zip(scalars.coords, shape, scalars.shape, strict=True)]
    place = at[0] * shape[1] + at[1]
    within = [np.bincount(np.arange(n) * p // n, minlength=p) for n, p in zip(scalars.shape, shape, strict=True)]
    room = within[0][:, None] * within[1]
    counts = (np.bincount(place[mask], minlength=room.size) for mask in (slice(None), scalars.data != 0))
    stored, filled = (c.reshape(shape) / room for c in counts)
    return stored, filled


def _frame(axes: Any, rows: Any, columns: Any) -> None:
    """The lines between states and between nodes, and the names."""
    for (names, sizes, ends), line, axis in ((rows, axes.axhline, axes.yaxis), (columns, axes.axvline, axes.xaxis)):
        for end in ends[1:-1]:
            line(end, color="#30363d", lw=0.9)
        for (nodes, _), start, end in zip(sizes, ends[:-1], ends[1:], strict=True):
            if nodes <= _MOST_NODES:
                for place in np.linspace(start, end, nodes + 1)[1:-1]:
                    line(place, color="white", lw=min(1.0, 12 * (end - start) / nodes))
        shapes = [f"{n:,} \N{MULTIPLICATION SIGN} {d}" for n, d in sizes]
        labels = shapes if axis is axes.xaxis and not names[0] else names
        if axis is axes.yaxis:
            labels = [f"{name}\n{shape}" if name else shape for name, shape in zip(names, shapes, strict=True)]
        axis.set_ticks(0.5 * (ends[:-1] + ends[1:]), labels)
    axes.tick_params(length=0, pad=5, labelsize=9, top=False, labeltop=True, bottom=False, labelbottom=False)
    if _crowded(axes, columns[0], columns[2]):
        for label in axes.get_xticklabels():
            label.set(rotation=40, ha="left", rotation_mode="anchor")
    axes.set(xlim=(0, columns[2][-1]), ylim=(rows[2][-1], 0))
    for spine in axes.spines.values():
        spine.set(color="#30363d", linewidth=0.9)


def _crowded(axes: Any, names: list[str], ends: np.ndarray) -> bool:
    """Whether names side by side would touch."""
    letters = axes.get_window_extent().width / axes.figure.dpi * 72 / 5.5  # that fit along the axis, at 9 points
    centres, half = 0.5 * (ends[:-1] + ends[1:]), np.array([0.5 * len(name) + 1 for name in names]) / letters
    return bool(np.any(np.diff(centres) < half[:-1] + half[1:]))


def _caption(matrix: BlockMatrix | BlockSparse, entries: Any) -> str:
    rows, columns = matrix.shape if isinstance(matrix, BlockSparse) else (matrix.out_size(), matrix.in_size())
    stored = sum(e.values.size for e in entries)
    filled = sum(int(np.count_nonzero(np.asarray(e.values))) for e in entries)
    share = 100 * filled / max(rows * columns, 1)
    text = f"{rows:,} \N{MULTIPLICATION SIGN} {columns:,}, {filled:,} non-zeros ({share:.3g} %)"
    return text if filled == stored else f"{text}; {stored - filled:,} zeros stored (pale)"
