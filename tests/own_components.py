"""Components that a user of jaxmech would write: none is in the package, all are in the catalogue."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import jaxmech as jm


class Bending(jm.force.AbstractEnergyForceField):
    """`E = k/2 (cos angle - c0)^2` of the chain a-b-c; its nodes are one stencil of three."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jnp.ndarray = jm.parameter()  # [J]
    cosine: jnp.ndarray = jm.parameter(default=-1.0)

    def element_energy(self, x):
        u, w = x[0] - x[1], x[2] - x[1]
        return 0.5 * self.stiffness * (u @ w / jnp.sqrt(u @ u * (w @ w)) - self.cosine) ** 2


class Swirl(jm.force.AbstractForceField):
    """`f = w x (x - y) - c |v| v` on a point, the opposite on another: no energy, no symmetry."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    axis: jnp.ndarray = jm.parameter(ndim=1)  # [N/m]
    drag: jnp.ndarray = jm.parameter()  # [N s^2/m^2]

    def element_force(self, x, v):
        rate = v[0] - v[1]
        force = jnp.cross(self.axis, x[0] - x[1]) - self.drag * jnp.sqrt(rate @ rate + 1e-2) * rate
        return force, -force


class Slider(jm.force.AbstractEnergyForceField):
    """A spring `k` in series with a slider that gives way at `limit`, between two points, in each of their directions."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jnp.ndarray = jm.parameter()  # [N/m]
    limit: jnp.ndarray = jm.parameter()  # [N]
    slip: jnp.ndarray = jm.component.internal((0.0, 0.0))  # [m]

    def element_energy(self, a, b):
        """The work of a step: `min over s of k/2 (d - s)^2 + limit |s - slip|`, in each direction."""
        pull = jnp.abs(self.stiffness * (b - a - self.slip))
        slipping = self.limit * (pull - 0.5 * self.limit)
        return jnp.sum(jnp.where(pull > self.limit * (1 + 1e-12), slipping, 0.5 * pull**2)) / self.stiffness

    def element_update(self, x, v):
        d = x[1] - x[0] - self.slip
        return {"slip": self.slip + jnp.sign(d) * jnp.maximum(jnp.abs(d) - self.limit / self.stiffness, 0.0)}


class Maxwell(jm.force.AbstractEnergyForceField):
    """A spring `k` in series with a dashpot `k tau`, between two points: `E = k/2 |d - flow|^2 / (1 + dt/tau)` of a step."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    stiffness: jnp.ndarray = jm.parameter()  # [N/m]
    tau: jnp.ndarray = jm.parameter()  # [s]
    flow: jnp.ndarray = jm.component.internal((0.0, 0.0))  # [m]
    dt: jnp.ndarray = jm.component.time_step()

    def element_energy(self, a, b):
        return 0.5 * self.stiffness * jnp.sum((b - a - self.flow) ** 2) / (1 + self.dt / self.tau)

    def element_update(self, x, v):
        ratio = self.dt / self.tau
        return {"flow": (self.flow + ratio * (x[1] - x[0])) / (1 + ratio)}


class Fung(jm.material.AbstractMaterial):
    """`psi = c/2 (exp(q) - 1)`, `q = b E:E` of the Green strain `E`: soft tissue that stiffens."""

    stiffness: jnp.ndarray = jm.parameter()  # [Pa]
    growth: jnp.ndarray = jm.parameter()
    needs_positive_volume = False

    def energy_density(self, F):
        strain = 0.5 * (F.T @ F - jnp.eye(3))
        return 0.5 * self.stiffness * jnp.expm1(self.growth * jnp.sum(strain**2))


class PendulumMass(jm.mass.AbstractMass):
    """Two rods by their angles `a`, `b`: `T = m l^2/2 (2 a'^2 + s^2 + 3/2 cos(b) a' s)`, `s = a' + b'`."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    mass: jnp.ndarray = jm.parameter()  # [kg]
    length: jnp.ndarray = jm.parameter()  # [m]

    def element_kinetic_energy(self, x, v):
        second = v[0][0, 0] + v[0][1, 0]
        first = v[0][0, 0]
        coupling = 1.5 * jnp.cos(x[0][1, 0]) * first * second
        return 0.5 * self.mass * self.length**2 * (2 * first**2 + second**2 + coupling)


class Distance(jm.mapping.AbstractMapping):
    """A scalar from two points of any states: `p = |b - a|`."""

    parents: tuple[jm.Stencil, ...] = jm.stencils()
    child: str = eqx.field(static=True)
    is_linear = False

    def element_apply(self, a, b):
        return jnp.sqrt(jnp.sum((b - a) ** 2))[None]


class Blend(jm.mapping.AbstractMapping):
    """A point between those of two states, by a share that bends with them; two nodes of the first."""

    parents: tuple[jm.Stencil, ...] = jm.stencils()
    child: str = eqx.field(static=True)
    share: jnp.ndarray = jm.parameter()
    is_linear = False

    def element_apply(self, a, b):
        middle = jnp.mean(a, axis=0)
        share = self.share * jnp.cos(middle[0] * b[1])
        return (1 - share) * middle + share * b


class Bracket(jm.mapping.AbstractMapping):
    """A frame bolted to a frame at an arm: `Rigid3` to `Rigid3`, and not linear in the turn."""

    parents: tuple[jm.Stencil, ...] = jm.stencils()
    child: str = eqx.field(static=True)
    arm: jnp.ndarray = jm.parameter(ndim=1)  # [m]
    is_linear = False

    def element_apply(self, q):
        twice = 2 * jnp.cross(q[3:6], self.arm)
        return jnp.concatenate([q[:3] + self.arm + q[6] * twice + jnp.cross(q[3:6], twice), q[3:]])


class Twisting(jm.material.AbstractStressLaw):
    """`P = k (F - I) + c k skew terms + relaxing part`: no energy, no symmetry, and a memory with a rate."""

    stiffness: jm.Parameter = jm.parameter()
    skew: jm.Parameter = jm.parameter()
    tau: jm.Parameter = jm.parameter()
    flow: jm.Parameter = jm.component.internal(np.zeros((3, 3)))
    needs_positive_volume = False

    def update(self, F, old, dt):
        H = F - jnp.eye(3)
        ratio = dt / self.tau
        flow = (old["flow"] + ratio * H) / (1 + ratio)
        turned = H @ jnp.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
        return self.stiffness * (H + self.skew * turned + 0.5 * (H - flow) + H @ H), {"flow": flow}
