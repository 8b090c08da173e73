"""One pattern for several linear systems, so that their matrices add up block by block."""

from collections.abc import Mapping, Sequence

import equinox as eqx
import numpy as np

from .._model.constraint_projection import ConstrainedNodes, touched_blocks
from .._runtime.argument_checks import check_instance
from .._sparse.block_accumulation import PairSums
from .._sparse.block_matrix import Pair
from .._sparse.pattern import BlockPattern, unique_pairs
from .matrix import MatrixLinearSystem


def share_pattern(linear_systems: Sequence[MatrixLinearSystem]) -> tuple[MatrixLinearSystem, ...]:
    """The same linear systems, all with the union of their patterns.

    Their matrices are then equal but for the values: `A = m M + b B + k K` is a sum of arrays
    (`M.scaled(m).plus(K.scaled(k))`), and one analysis serves every factorisation. They may be of different `Terms`, or of
    different scenes whose main states are of the same sizes (with a contact spring and without). Host work, outside `jit`.
    Raises `ValueError` where the main states differ.
    No units: values are not touched.

    Example:

        K = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))
        first, second = jm.solver.share_pattern([linear_system, K])
        pair = ("cube", "cube")
        assert first.patterns[pair].same_as(second.patterns[pair])
    """
    if not isinstance(linear_systems, list | tuple):
        raise TypeError(f"share_pattern: linear_systems must be a list or a tuple, got {linear_systems!r:.80}.")
    for given in linear_systems:
        check_instance("share_pattern", "each of linear_systems", given, MatrixLinearSystem)
    if not linear_systems:
        return ()
    sizes = linear_systems[0].sizes
    for other in linear_systems[1:]:
        if other.sizes != sizes:
            raise ValueError(f"share_pattern: main states (name, nodes, size) differ: {sizes} and {other.sizes}.")
    union = _union([s.patterns for s in linear_systems])
    return tuple(_within(s, union) for s in linear_systems)


def _union(all_patterns: list[dict[Pair, BlockPattern]]) -> dict[Pair, BlockPattern]:
    union = {}
    for pair in sorted({pair for patterns in all_patterns for pair in patterns}):
        found = [patterns[pair] for patterns in all_patterns if pair in patterns]
        shape, places = found[0].shape, [_places(pattern) for pattern in found]
        if pair[0] == pair[1]:
            places += [(columns, rows) for rows, columns in places]  # the sums of an upper triangle need every mirror image
        rows, columns = (np.concatenate(each) for each in zip(*places, strict=True))
        union[pair] = BlockPattern.build(*unique_pairs(rows, columns, shape)[:2], shape)
    return union


def _within(given: MatrixLinearSystem, union: Mapping[Pair, BlockPattern]) -> MatrixLinearSystem:
    sums = {}
    for pair, pattern in union.items():
        if pair in given.patterns:
            sums[pair] = given.varying.pair_sums[pair].within(_positions(given.patterns[pair], pattern), *_places(pattern))
        else:
            sums[pair] = PairSums((), (), None)
    touched = touched_blocks(_constrained(given), {pair: _places(p) for pair, p in union.items()})
    return eqx.tree_at(lambda m: (m.varying.pair_sums, m.patterns, m.touched), given, (sums, dict(union), touched))


def _places(pattern: BlockPattern) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(pattern.rows), np.asarray(pattern.columns)


def _positions(part: BlockPattern, whole: BlockPattern) -> np.ndarray:
    """Where the blocks of a pattern stand in one that has them all."""
    keys = [rows.astype(np.int64) * whole.shape[1] + columns for rows, columns in (_places(part), _places(whole))]
    return np.searchsorted(keys[1], keys[0]).astype(np.int32)


def _constrained(given: MatrixLinearSystem) -> ConstrainedNodes:
    """Where the constraints of a linear system act, read off the diagonal blocks, which are all there."""
    constrained = {}
    for t in given.touched:
        if t.pair[0] == t.pair[1] and t.side == "row":
            rows, local = np.asarray(given.patterns[t.pair].rows)[np.asarray(t.blocks)], np.asarray(t.local)
            nodes = np.zeros(local.max(initial=-1) + 1, rows.dtype)
            nodes[local] = rows
            constrained[t.constraint] = (t.pair[0], nodes)
    return constrained
