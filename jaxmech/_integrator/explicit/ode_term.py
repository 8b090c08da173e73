"""A scene as an ordinary differential equation, for the solvers of diffrax."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from ..._model.arguments import checked
from ..._model.constraint_projection import has_prescribed_motion, project
from ..._model.dynamics import Fields, retract
from ..._model.system import State, System
from ..._runtime.argument_checks import check_instance
from ..mass_inverse import acceleration, kept_inverse
from ..scene_support import check_takes

Motion = tuple[Fields, Fields]


@checked
def ode_term(system: System, state: State, *, solver: lx.AbstractLinearSolver | None = None) -> Any:
    """`diffrax.ODETerm` of `(x, v)' = (rate of x at v, M^-1 P (f + inertial - C v))`; needs the extra `jaxmech[ode]`.

    What is integrated is the pytree `(state.position, state.velocity)`, `({state: (nodes, coord_size)}, {state: (nodes,
    deriv_size)})`: start `diffrax.diffeqsolve` from that, and make a `State` of what it returns. Coordinates of frames go
    along as numbers, the length of their quaternions to the tolerance. Velocities that constraints on nodes hold move
    nothing, and go along as they were given. Time [s]; `args`: another `System` of the same kind,
    where derivatives by its parameters are asked for; None: this one. For scenes without stiff parts: explicit methods with
    adaptive steps are what diffrax does well; its implicit ones see no sparsity.
    `solver`: of masses that are not lumped. Raises `ImportError` that names the extra, and `ValueError` for scenes with
    prescribed motions.
    Source: P. Kidger, *On Neural Differential Equations*, 2021, arXiv:2202.02435, chapter 5 (diffrax).

    Example:

        import diffrax

        spring = jm.force.AnchoredSprings(("p", [0]), 4.0, [[0.0]])  # [N/m]
        scene = jm.System({"p": jm.Vec1()}, forces={"k": spring}, masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)})
        start = scene.at_rest({"p": [[1.0]]})
        term, y0 = jm.integrator.ode_term(scene, start), (start.position, start.velocity)
        x, v = diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 1.0, 0.01, y0).ys
        assert jnp.allclose(x["p"], np.cos(2.0), atol=1e-5)  # [m]
    """
    try:
        import diffrax
    except ImportError as error:
        raise ImportError('ode_term needs diffrax: pip install "jaxmech[ode]"') from error
    if has_prescribed_motion(system):
        raise ValueError("ode_term takes no scene with prescribed motions: use an integrator of jaxmech.")
    check_takes("ode_term", system, memory=False, rates=False)
    if solver is not None:
        check_instance("ode_term", "solver", solver, lx.AbstractLinearSolver)

    def rate(t: Any, y: Motion, args: Any) -> Motion:
        scene = system if args is None else args
        check_instance("ode_term", "args", scene, System)
        moving = (dict(y[0]), project(scene, y[1]), jnp.asarray(t, state.time.dtype))
        at = eqx.tree_at(lambda s: (s.position, s.velocity, s.time), state, moving)
        a = acceleration(scene, at, kept_inverse(scene, at), solver)
        return coordinate_rates(scene, at), a

    return diffrax.ODETerm(rate)


def coordinate_rates(system: System, state: State) -> Fields:
    """How fast coordinates change at the velocities of `state`."""

    def moved(t: Any) -> Fields:
        return retract(system.dofs, state.position, {s: t * v for s, v in state.velocity.items()})

    zero = jnp.zeros((), state.time.dtype)
    return jax.jvp(moved, (zero,), (jnp.ones_like(zero),))[1]
