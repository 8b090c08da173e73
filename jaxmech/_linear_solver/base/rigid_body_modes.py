"""The motions that strain nothing."""

import numpy as np


def rigid_body_modes(positions: np.ndarray, deriv_size: int) -> np.ndarray:
    """The motions that strain nothing, `(n, deriv_size, m)`: translations and infinitesimal rotations about the centre.

    `positions` `(n, c)`: points of a line, a plane or of space [m], `deriv_size` as many; or frames of space, whose first
    three coordinates are a point, with `deriv_size` 6. `ValueError` for anything else.
    """
    x = np.asarray(positions, dtype=np.float64)
    n = x.shape[0]
    dim = 3 if deriv_size == 6 else deriv_size
    if x.ndim != 2 or dim not in (1, 2, 3) or (x.shape[1] < 3 if deriv_size == 6 else x.shape[1] != dim):
        raise ValueError(
            f"rigid-body modes: positions of shape {x.shape} do not fit {deriv_size} unknowns per node; give the modes "
            "(nodes, unknowns per node, number of modes) themselves."
        )
    x = x[:, :dim] - x[:, :dim].mean(axis=0)
    translations = np.broadcast_to(np.eye(dim), (n, dim, dim))
    if dim == 1:
        return translations.copy()
    if dim == 2:
        turn = np.stack([-x[:, 1], x[:, 0]], axis=1)[:, :, None]
        return np.concatenate([translations, turn], axis=2)
    turns = np.stack([np.cross(axis, x) for axis in np.eye(3)], axis=2)
    modes = np.concatenate([translations, turns], axis=2)
    if deriv_size == 3:
        return modes
    spins = np.concatenate([np.zeros((n, 3, 3)), np.broadcast_to(np.eye(3), (n, 3, 3))], axis=2)
    return np.concatenate([modes, spins], axis=1)
