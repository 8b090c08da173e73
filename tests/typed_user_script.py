"""What a user writes, for a type checker: `tests/test_typing.py` checks all of it, and runs `main`."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmech as jm


class HardeningSprings(jm.force.AbstractEnergyForceField):
    """`E = k/4 (l - L0)^4` [J]."""

    on: jm.Stencils = jm.stencils()
    stiffness: jm.Parameter = jm.parameter()
    rest_length: jm.Parameter = jm.parameter(default=1.0)

    def element_energy(self, a: jax.Array, b: jax.Array) -> jax.Array:
        return 0.25 * self.stiffness * (jnp.linalg.norm(b - a) - self.rest_length) ** 4


class Squares(jm.mapping.AbstractMapping):
    """`p = w x^2`, declared with the types that the fields hold: so they are given."""

    parents: tuple[jm.Stencil, ...] = jm.stencils()
    child: str = eqx.field(static=True)
    weight: jax.Array = jm.parameter()
    is_linear = False

    def element_apply(self, x: jax.Array) -> jax.Array:
        return self.weight * x**2


def beam() -> tuple[jm.System, jm.State, np.ndarray]:
    mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0))
    root = mesh.nodes_where(lambda x: x[:, 0] == 0.0)
    tip = mesh.nodes_where(lambda x: x[:, 0] == 2.0)
    rubber = jm.material.NeoHookean(young=1e3, poisson=0.3)
    system = jm.System(
        dofs={"beam": jm.Vec3()},
        forces={
            "elastic": jm.force.TetrahedronFEM.from_mesh("beam", mesh, rubber),
            "load": jm.force.ConstantForce(on=("beam", tip), force=[0.0, 0.0, -0.5]),
        },
        masses={"mass": jm.mass.ConsistentMass.from_mesh("beam", mesh, density=1.0)},
        constraints={"clamp": jm.constraint.Fixed(("beam", root))},
        gravity=[0.0, 0.0, -9.81],
    )
    return system, system.at_rest({"beam": mesh.points}), tip


def rope() -> tuple[jm.System, jm.State]:
    frame = [[3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]
    system = jm.System(
        {"rope": jm.Vec3(), "tension": jm.Vec1(), "squares": jm.Vec3(), "hook": jm.Vec3(), "body": jm.Rigid3()},
        forces={
            "springs": HardeningSprings(on=(("rope", [0, 1]), ("rope", [1, 2])), stiffness=[100.0, 200.0]),
            "pull": jm.force.ConstantForce(("rope", [2]), np.array([10.0, 0.0, 0.0])),
            "tied": jm.force.Springs((jm.Stencil("rope", [2]), ("hook", [0])), 10.0, 0.0, damping=0.1, elongation_only=True),
            "anchor": jm.force.AnchoredFrames(("body", 0 * np.arange(1)), 10.0, 1.0, frame),
            "floor": jm.force.PenaltyPlane(("rope", range(3)), point=(0.0, 0.0, -1.0), normal=(0, 0, 1), stiffness=1),
            "drag": jm.force.VelocityDamping(("rope", jnp.arange(3)), 0.1),
        },
        masses={
            "mass": jm.mass.UniformMass(("rope", [0, 1, 2]), mass=1),
            "body": jm.mass.RigidMass(("body", [0]), mass=2.0, inertia=np.eye(3)),
        },
        mappings={
            "squares": Squares(
                (jm.Stencil("rope", jnp.array([0])),), "squares", jnp.asarray(2.0), geometric_stiffness="exact"
            ),
            "hook": jm.mapping.RigidMapping(parents=("body", [0]), child="hook", local=[[0.1, 0.0, 0.0]]),
        },
        constraints={
            "end": jm.constraint.Fixed(on=("rope", [0])),
            "rail": jm.constraint.FixedLine(on=("rope", [1, 2]), direction=[1.0, 0.0, 0.0]),
            "plane": jm.constraint.FixedComponents(("rope", [1]), (False, False, True)),
            "rod": jm.constraint.Distance(
                (("rope", [2]), ("hook", [0])), ("tension", range(1)), length=3, compliance=[1e-3]
            ),
        },
        rayleigh={"springs": 0.01},
    )
    return system, system.at_rest(
        {"rope": [[0.0, 0.0, 0.0], [1.5, 0.0, 0.0], [3.0, 0.0, 0.0]], "body": frame, "tension": [[0.0]]}
    )


def gradient() -> float:
    """Checked, not run."""
    system, rest, tip = beam()
    linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))

    def sag(young: jax.Array) -> jax.Array:
        trial = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, young)
        bent = jm.static_solve(trial, rest, linear_system, solver=jm.solver.SparseDirect("superlu"))
        return jnp.mean(bent.position["beam"][tip, 2])

    value, slope = jax.value_and_grad(sag)(jnp.asarray(1e3))
    return float(value) + float(slope)


def others() -> np.ndarray:
    """Checked, not run."""
    system, rest, _ = beam()
    lowest: jm.solver.Modes = jm.modes(system, rest, count=2)
    saved: jm.mesh.Mesh = jm.mesh.read_mesh("beam.vtk")
    jm.viz.spy(jm.MatrixLinearSystem.build(system, rest).assemble(system, rest))
    free = jm.solver.MatrixFreeSystem(jm.Terms(mass=False))
    solution: jm.solver.StaticSolution = jm.static_solve(system, rest, free, solver=jm.solver.PCG(rtol=1e-8))
    return np.asarray(lowest.frequencies) + np.asarray(saved.points).sum() + np.asarray(solution.info.residual)


def trajectory() -> jax.Array:
    """Checked, not run."""
    system, state = rope()
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), solver=jm.solver.Dense(), rtol=1e-6)
    path: jm.integrator.Trajectory = jm.simulate(system, state, integrator, 0.01, 2)
    info: jm.integrator.StepInfo = path.info
    return path.position["rope"][:, 0] * (info.result == jm.RESULTS.successful)


def constructors(system: jm.System, state: jm.State, A: jm.matrix.BlockMatrix) -> int:
    """Checked, not run."""
    s = jm.solver
    preconditioners = [
        s.StaleFactor(A, s.Dense()),
        s.StaleFactor(),
        s.WarpedFactor(s.Dense()),
        s.WarpedFactor(solver=s.Dense()),
        s.SSOR(omega=1.0),
        s.SSOR(),
        s.IncompleteFactor(drop_tolerance=1e-3, fill=20.0),
        s.Jacobi(),
        s.BlockJacobi(absolute=True),
        s.NoPreconditioner(),
    ]
    solvers = [
        s.PCG(1e-8),
        s.PCG(rtol=1e-8, max_steps=10, preconditioner=s.Jacobi(), give_up=True),
        s.GMRES(restart=10),
        s.MINRES(rtol=1e-8),
        s.BiCGStab(),
        s.SVD(),
        s.Cholesky(),
        s.BlockTridiagonal(),
        s.SparseDirect("superlu"),
        s.AutoLinearSolver(),
        s.Fallback(s.PCG(), s.Dense()),
        s.SmoothedAggregation.from_matrix(A, state.position),
    ]
    s.MatrixFreeSystem()
    s.PrecomputedMatrixSystem.build(system, state)
    s.CompositeLinearSystem.build(system, state, {"A": jm.Terms()})
    s.PreconditionedMatrixFreeSystem.build(system, state, every=3)
    jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), s.PCG(), newton=True, rayleigh_mass=0.1)
    m = jm.mapping
    m.DistanceMapping((("a", [0]), ("a", [1])), "g", 1.0)
    m.DistanceMapping((("a", [0]), ("a", [1])), "g")
    m.SumMapping(("a", [[0, 1]]), "g", [[1.0, 2.0]])
    m.SubsetMapping(("a", [0]), "g")
    m.IdentityMapping(("a", [0]), "g", geometric_stiffness="none")
    m.FunctionMapping(("a", [0]), "g", lambda x: x)
    m.BeamMapping((("a", [0]), ("a", [1])), "g", [0.5], [[1.0, 0, 0]], [[1.0, 0, 0]])
    m.ArticulatedMapping.tree("angle", "bodies", [-1, 0], [[0.0, 0, 0], [0, 0, 0]], [0.0, 0.0, 1.0])
    jm.force.TriangleFEM(
        ("a", [[0, 1, 2]]), [[0.0, 0.0]], jm.material.LinearElastic(1.0, 0.3), thickness=2.0, plane="stress"
    )
    jm.force.Pressure(("a", [[0, 1, 2]]), 1.0)
    jm.force.AnchoredSprings(("a", [0]), 1.0, [[0, 0, 0]])
    jm.force.AnchoredSprings((("a", [0]), ("b", [1])), 1.0)
    jm.mass.DiagonalMass(("a", [0]), [1.0])
    jm.mass.PlanarRigidMass(("a", [0]), 1.0, 1.0)
    jm.constraint.PrescribedMotion(("a", [0]), [[0.0, 0, 0]], [[0.0, 0, 1]])
    jm.constraint.FixedPlane(("a", [0]), (0, 0, 1))
    jm.material.Ogden(mu=[1.0, 2.0], alpha=[1.0, 2.0], bulk=3.0)
    jm.material.MooneyRivlin(1.0, 2.0, bulk=1.0)
    jm.material.NeoHookean.from_lame(1.0, 2.0)
    jm.mesh.Mesh([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0, 1, 2]], "triangle")
    jm.matrix.assemble([[0, 1]], lambda x: x, [[0.0, 1.0]])
    jm.matrix.StateLayout((("a", 2, 3),))
    jm.Factors(mass=1.0)
    jm.Factors.only("mass")
    jm.matrix.compliance_matrix(A, [0, 3])
    jm.mesh.TopologicalMapping.identity(jm.mesh.box_mesh(cells=(1, 1), size=(1, 1)))
    jm.buckling(lambda f: system, state, jm.MatrixLinearSystem.build(system, state))
    jm.simulate(system, state, jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state)), dt=0.1, steps=2)
    return len(preconditioners) + len(solvers)


def main() -> float:
    system, state = rope()
    linear_system = jm.MatrixLinearSystem.build(system, state)
    A = linear_system.assemble(system, state)
    assert isinstance(A, jm.matrix.BlockMatrix)
    block: jm.matrix.BlockSparse = A["rope", "rope"]
    assert block.to_scipy().shape == (9, 9)
    moving = dataclasses.replace(state, velocity={s: v + 2.0 for s, v in state.velocity.items()})
    energy = jm.energy(system, moving) + jm.mass.kinetic_energy(system, moving)
    force, everywhere = jm.total_force(system, moving), jm.kinematics(system, moving)
    blocks = jm.mapping.jacobian(system, moving, "hook")["body"]
    own = jm.matrix.component_matrix(system, moving, "springs", "stiffness", projected=True)
    return float(energy + force["rope"].sum() + everywhere["hook"].sum() + blocks.blocks.sum()) + len(own)


if __name__ == "__main__":
    print(main())
