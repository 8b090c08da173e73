"""A time integrator of one's own: Newmark's average acceleration, on a top that swings on a spring.

`x1 = x0 (+) (h v0 + h^2/4 (a0 + a1))`, `v1 = v0 + h/2 (a0 + a1)`: second order, and a linear system keeps its energy. The
acceleration is the carry, so that no step solves with the mass matrix. N. M. Newmark, J. Eng. Mech. Div. 85 (1959) 67.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

import jaxmech as jm

jax.config.update("jax_enable_x64", True)


class Balance(jm.solver.AbstractEquilibrium):
    """`R(a1) = f(x1, v1) - M(x1) a1`, gyroscopic forces in `f`; the unknowns are the accelerations at the end."""

    system: jm.System
    linear_system: jm.solver.AbstractLinearSystem
    start: jm.State
    before: dict[str, jax.Array]  # the acceleration a0
    h: jax.Array

    @property
    def factors(self):
        return jm.Factors(mass=1.0, damping=self.h / 2, stiffness=self.h**2 / 4, rayleigh=0.0)

    def state(self, u):
        gain = {s: self.h / 2 * (self.before[s] + u[s]) for s in u}
        v = jm.integrator.project(self.system, self.start.velocity)
        x = jm.integrator.retract(self.system, self.start.position, {s: self.h * (v[s] + gain[s] / 2) for s in u})
        v = {s: v[s] + gain[s] for s in u}
        return dataclasses.replace(self.start, position=x, velocity=v, time=self.start.time + self.h)

    def residual(self, u):
        end = self.state(u)
        Ma = jm.mass.momentum(self.system, dataclasses.replace(end, velocity=u))
        f, inertial = jm.total_force(self.system, end), jm.mass.inertial_force(self.system, end)
        return {s: f[s] + inertial[s] - Ma[s] for s in u}


class Newmark(jm.integrator.AbstractIntegrator):
    """Of scenes without Rayleigh damping and prescribed motions."""

    linear_system: jm.solver.AbstractLinearSystem

    def init(self, system, state):
        if system.rayleigh:
            raise ValueError("Newmark: Rayleigh damping is not in its balance.")
        f, inertial = jm.total_force(system, state), jm.mass.inertial_force(system, state)
        M = self.linear_system.assemble(system, state, jm.Factors.only("mass"))
        return lx.linear_solve(
            M, jm.integrator.project(system, {s: f[s] + inertial[s] for s in f}), jm.solver.default_solver(M)
        ).value

    def step(self, system, state, carry, dt, *, throw=True):
        scene, h = jm.integrator.in_step(system, dt), jnp.asarray(dt, state.time.dtype)
        balance = Balance(scene, self.linear_system, state, carry, h)
        a, info = jm.solver.solve_equilibrium(balance, carry, throw=throw)
        return jm.integrator.accepted(system, state, balance.state(a), h), a, info


def top():
    """A disc of 10 cm that spins at 40 rad/s, on a spring of 8 cm at its edge."""
    system = jm.System(
        {"top": jm.Rigid3(), "eye": jm.Vec3()},
        forces={"spring": jm.force.AnchoredSprings(("eye", [0]), 150.0, [[0.0, 0.0, 0.08]])},
        masses={"disc": jm.mass.RigidMass(("top", [0]), 0.5, np.diag([1.3e-3, 1.3e-3, 2.5e-3]))},
        mappings={"edge": jm.mapping.RigidMapping(("top", [0]), "eye", [[0.1, 0.0, 0.0]])},
        gravity=[0.0, 0.0, -9.81],
    )
    state = system.at_rest({"top": [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]})
    return system, eqx.tree_at(lambda s: s.velocity["top"], state, jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 40.0]]))


@eqx.filter_jit
def energy(system, state):
    return jm.energy(system, state) + jm.mass.kinetic_energy(system, state)


def main(steps=400, dt=1e-3):
    """Return by what share the energy of the top changed, with Newmark's method and with implicit Euler."""
    system, state = top()
    linear_system = jm.MatrixLinearSystem.build(system, state)
    before, change = energy(system, state), []
    for integrator in (Newmark(linear_system), jm.ImplicitEuler(linear_system, newton=True)):
        end = jm.simulate(system, state, integrator, dt, steps, save_every=steps).last
        change.append(float(energy(system, end) / before - 1))
        print(f"{type(integrator).__name__}: energy {change[-1]:+.2e} after {steps} steps")
    return tuple(change)


if __name__ == "__main__":
    main()
