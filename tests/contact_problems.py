"""Contact problems `(W, q, mu)` of rigid bodies, badly conditioned and without full rank, and a natural map of their own."""

import numpy as np

G_H = 0.0981  # what gravity adds to a velocity in a hundredth of a second [m/s]
UP = np.array([0.0, 0.0, 1.0])


def frame(normal, turn=0.0):
    """A normal and two tangents, rows."""
    n = normal / np.linalg.norm(normal)
    t = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    t = t / np.linalg.norm(t)
    t = np.cos(turn) * t + np.sin(turn) * np.cross(n, t)
    return np.stack([n, t, np.cross(n, t)])


def assembled(contacts, mass, inertia, velocity, mu):
    """Of contacts `(body, arm, other, arm, frame)`; -1 is the ground, the normal points to the first."""
    H = np.zeros((len(contacts), 3, len(mass), 6))
    for k, (a, at, b, there, F) in enumerate(contacts):
        H[k, :, a] = np.concatenate([F, np.cross(at, F)], axis=1)
        if b >= 0:
            H[k, :, b] -= np.concatenate([F, np.cross(there, F)], axis=1)
    H = H.reshape(3 * len(contacts), -1)
    W = H / np.concatenate([np.stack([mass] * 3, axis=1), inertia], axis=1).ravel() @ H.T
    return (W + W.T) / 2, (H @ velocity.ravel()).reshape(-1, 3), mu


def friction(rng, mu, n):
    return rng.choice([0.0, 0.1, 0.3, 0.7, 1.5], n) if mu == "mixed" else np.full(n, float(mu))


def chain(n, mu, ratio, seed):
    """Balls on each other, every other one `ratio` times as heavy."""
    rng = np.random.default_rng(seed)
    frames = [frame(np.array([0.3 * np.sin(i), 0.2 * np.cos(2 * i), 1.0])) for i in range(n)]
    contacts = [(i, -0.5 * F[0], i - 1, 0.5 * F[0], F) for i, F in enumerate(frames)]
    mass = np.where(np.arange(n) % 2 == 1, ratio, 1.0)
    v = 0.05 * rng.normal(size=(n, 6))
    v[:, 2] -= G_H
    return assembled(contacts, mass, np.stack([0.1 * mass] * 3, axis=1), v, friction(rng, mu, n))


def table(n, mu, ratio, seed):
    """Plates one on the other, 24 contacts between two: far more than it takes to hold them."""
    rng = np.random.default_rng(seed)
    bodies = max(1, n // 24)
    contacts = []
    for k in range(n):
        x, y = rng.uniform(-0.5, 0.5, 2)
        body = k * bodies // n
        contacts.append((body, np.array([x, y, -0.25]), body - 1, np.array([x, y, 0.25]), frame(UP)))
    mass = ratio ** rng.uniform(-0.5, 0.5, bodies)
    v = np.zeros((bodies, 6))
    v[:, 2], v[:, 0], v[:, 5] = -G_H, 0.05 * rng.normal(size=bodies), 0.05 * rng.normal(size=bodies)
    return assembled(contacts, mass, np.stack([0.1 * mass] * 3, axis=1), v, friction(rng, mu, n))


def capsules(n, mu, ratio, seed):
    """Rods in rows, each in the grooves between those below: they turn about their axes twenty times as easily."""
    rng = np.random.default_rng(seed)
    bodies = max(2, n // 4)
    per = max(2, int(np.sqrt(bodies)))
    contacts = []
    for k in range(n):
        i = k % bodies
        below = [j for j in (i - per, i - per + 1) if j >= 0] if i >= per else [-1]
        F = frame(np.array([0.5 * rng.choice([-1, 1]) if i >= per else 0.05 * rng.normal(), 0.0, 1.0]))
        along = np.array([0.0, rng.choice([-0.4, 0.4]), 0.0])
        contacts.append((i, along - 0.1 * F[0], below[k // bodies % len(below)], along + 0.1 * F[0], F))
    mass = ratio ** rng.uniform(-0.5, 0.5, bodies)
    v = 0.1 * rng.normal(size=(bodies, 6))
    v[:, 2] -= 0.2
    return assembled(contacts, mass, mass[:, None] * np.array([0.1, 0.005, 0.1]), v, friction(rng, mu, n))


def arch(n, mu, ratio, seed):
    """Stones of an arch between two grounds, four contacts between two: jammed, more the larger friction is."""
    rng = np.random.default_rng(seed)
    bodies = n // 4 - 1
    joints = np.linspace(0.0, np.pi, bodies + 1)
    middles = 0.5 * (joints[1:] + joints[:-1])
    centres = np.stack([np.cos(middles), 0 * middles, np.sin(middles)], axis=1)
    contacts = []
    for j, angle in enumerate(joints):
        along = np.array([-np.sin(angle), 0.0, np.cos(angle)])
        a, b, F = (j, j - 1, frame(along)) if j < bodies else (j - 1, -1, frame(-along))
        for r in (0.9, 1.1):
            for y in (-0.2, 0.2):
                at = np.array([r * np.cos(angle), y, r * np.sin(angle)])
                contacts.append((a, at - centres[a], b, at - centres[b] if b >= 0 else np.zeros(3), F))
    mass = ratio ** rng.uniform(-0.5, 0.5, bodies)
    v = np.zeros((bodies, 6))
    v[:, 2] = -G_H
    v[bodies // 2, 0] = 0.05
    return assembled(contacts, mass, np.stack([0.02 * mass] * 3, axis=1), v, friction(rng, mu, n))


def natural(W, q, mu, r):
    """`|r - P(r - (u + mu |u_T| n))| / |q|`."""
    u = (W @ r.ravel()).reshape(-1, 3) + q
    w = r - u
    w[:, 0] -= mu * np.linalg.norm(u[:, 1:], axis=1)
    length = np.linalg.norm(w[:, 1:], axis=1)
    edge = np.maximum(w[:, 0] + mu * length, 0.0) / (1 + mu**2)
    nearest = np.concatenate([edge[:, None], (mu * edge / np.where(length > 0, length, 1.0))[:, None] * w[:, 1:]], axis=1)
    within = (length <= mu * w[:, 0]) & (w[:, 0] >= 0)
    return np.linalg.norm(r - np.where(within[:, None], w, nearest)) / np.linalg.norm(q)
