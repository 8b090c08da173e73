"""Fill-reducing orders of unknowns, computed on the graph of nodes rather than of scalars. NumPy and SciPy only."""

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse.csgraph import connected_components, dijkstra, reverse_cuthill_mckee

ORDERINGS = ("auto", "natural", "minimum_degree", "colamd", "nested_dissection", "rcm")


def node_graph(indptr: np.ndarray, indices: np.ndarray) -> tuple[sp.csr_array, np.ndarray]:
    """The graph between groups of consecutive rows of equal pattern, and where each group begins (and the last ends)."""
    size = indptr.size - 1
    counts = np.diff(indptr)
    first = np.ones(size, bool)
    for i in np.flatnonzero(counts[1:] == counts[:-1]) + 1:
        first[i] = not np.array_equal(indices[indptr[i - 1] : indptr[i]], indices[indptr[i] : indptr[i + 1]])
    starts = np.append(np.flatnonzero(first), size)
    group = np.cumsum(first) - 1
    rows = np.repeat(np.arange(starts.size - 1), counts[first])
    kept = np.repeat(first, counts)
    n = starts.size - 1
    pairs = sp.coo_array((np.ones(rows.size), (rows, group[indices[kept]])), shape=(n, n)).tocsr()
    pairs = (pairs + pairs.T).tocsr()
    return pairs, starts


def order(indptr: np.ndarray, indices: np.ndarray, name: str) -> np.ndarray:
    """A permutation of the scalar rows: place `i` of the factor takes row `order[i]`; groups stay together.

    `"narrow"`, of the least bandwidth of those that are known here, is not one of `ORDERINGS`.
    """
    graph, starts = node_graph(indptr, indices)
    n = starts.size - 1
    if name == "rcm":
        nodes = _cuthill_mckee(graph)
    elif name == "narrow":
        nodes = _narrow(graph)
    else:
        assert name == "minimum_degree"
        # SuperLU's multiple minimum degree, of a matrix with this graph that factors without exchanges.
        weights = sp.csc_array((np.full(graph.nnz, -1.0), graph.indices, graph.indptr), shape=(n, n))
        dominant = sp.csc_matrix(weights + sp.diags_array(np.diff(graph.indptr) + 2.0))
        factor = spla.splu(dominant, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        nodes = np.argsort(factor.perm_c)
    sizes = np.diff(starts)[nodes]
    ends = np.cumsum(sizes)
    return np.arange(ends[-1]) + np.repeat(starts[nodes] - (ends - sizes), sizes)


def _cuthill_mckee(graph: sp.csr_array) -> np.ndarray:
    return np.asarray(reverse_cuthill_mckee(sp.csr_matrix(graph), symmetric_mode=True))


def _narrow(graph: sp.csr_array) -> np.ndarray:
    """Nodes as they stand, by Cuthill and McKee, or layer by layer, within a layer in either of these orders."""
    layers = _layers(graph)
    as_they_stand, slanted = np.arange(layers.shape[1]), _cuthill_mckee(graph)
    orders = [as_they_stand, slanted, *(o[np.lexsort(layers[:, o])] for o in (as_they_stand, slanted))]
    pairs = graph.tocoo()

    def width(order: np.ndarray) -> int:
        place = np.empty_like(order)
        place[order] = as_they_stand
        return np.abs(place[pairs.row] - place[pairs.col]).max(initial=0)

    return min(orders, key=width)


def _layers(graph: sp.csr_array) -> np.ndarray:
    """How far each node is from the last layer around a node at an end, and of which part of the graph it is: `(2, n)`.

    Cuthill and McKee begin at one node: of a bar at a corner, from where layers are slanted at first, and of twice as many
    nodes. The last of them is all of the far end, and layers from there are its sections.
    """
    count, part = connected_components(graph, directed=False)

    def far_from(nodes: np.ndarray) -> np.ndarray:
        return dijkstra(graph, directed=False, unweighted=True, indices=nodes, min_only=True)

    def last(far: np.ndarray) -> np.ndarray:
        furthest = np.zeros(count)
        np.maximum.at(furthest, part, far)
        return np.flatnonzero(far == furthest[part])

    def one_each(nodes: np.ndarray) -> np.ndarray:
        return nodes[np.unique(part[nodes], return_index=True)[1]]

    end = one_each(last(far_from(one_each(np.arange(part.size)))))
    return np.stack([far_from(last(far_from(end))), part])
