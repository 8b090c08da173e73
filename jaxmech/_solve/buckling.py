"""Linear buckling: the factors of a load at which a stable state would lose its stiffness."""

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp

from .._linear_solver.base.vectors import scattered
from .._linear_solver.eigen.eigenpairs import Eigenpairs, eigenpairs
from .._linear_system.compatibility import check_topology
from .._linear_system.matrix import MatrixLinearSystem
from .._model.dynamics import Fields, zero_forces
from .._model.failure_report import raise_failure
from .._model.system import State, System, check_inputs
from .._model.terms import Terms
from .._runtime.argument_checks import check_flags, check_instance
from .._runtime.array_types import Array, Float
from .._runtime.results import RESULTS
from .modes import STIFFNESS, ModesInfo, check_pencil, info_of
from .static import static_solve


class Buckling(eqx.Module):
    """Load factors `mu` and shapes `phi` of `(K + mu K_sigma) phi = 0`, and `info` on how they were found.

    Differentiable as `Modes` are: `dmu = -phi^T (dK + mu dK_sigma) phi / phi^T K_sigma phi`.
    Factors `(count,)` are multiples of the load [-]. Raises nothing; `info.result` says how it ended.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, section 6.8.2.

    Example:

        found = jm.buckling(column, column(0.0).at_rest({"p": [[0.0, 0.0], [0.0, 1.0]]}))
        assert found.shapes["p"].shape == (1, 2, 2) and jnp.allclose(found.shapes["p"][0, :, 1], 0.0, atol=1e-4)  # sideways
    """

    pairs: Eigenpairs
    info: ModesInfo

    @property
    def factors(self) -> Float[Array, " count"]:
        """The positive load factors `mu`, ascending; the first is the critical one."""
        return self.pairs.values

    @property
    def shapes(self) -> Fields:
        """`phi`, `{state: (count, nodes, deriv_size)}` of the main states, `phi^T K phi = 1` [J^-1/2], the largest component
        positive.
        """
        return self.pairs.vectors


def buckling(
    scene: Callable[[Array], System],
    state: State,
    linear_system: MatrixLinearSystem | None = None,
    *,
    count: int = 1,
    throw: bool = True,
) -> Buckling:
    """The lowest positive load factors at which a scene buckles, linearised: `(K + mu K_sigma) phi = 0`.

    `scene(mu)` is the scene under `mu` times the load, whatever the load is: forces, gravity, a pressure, a motion of
    supports. `K` is the tangent at the equilibrium near `state` under `scene(0)`, which must be stable, and
    `K_sigma = dK/dmu` its derivative along the path of equilibria: the stress stiffness of what the load does to first
    order, that of mappings included, and the stiffness of loads that follow. It does not depend on how large the reference
    load is. True where displacements before buckling are small; otherwise a first estimate, to repeat from a loaded state.
    With multipliers `K` is `(K, J^T; J, -C)`: `K_sigma` has the stiffness of their forces, and how the load turns `J`.

    `linear_system`: made with `MatrixLinearSystem.build`; built here if none is given (not under `jit`). Factors
    `(count,)`, shapes `(count, n, d)` of every state. Differentiable by everything that `scene` depends on. Raises
    `ValueError` and `TypeError` for wrong arguments, `FailedComputation` (under `jit`, JAX's run-time error) with the
    reason (`unstable_state`, `too_few_modes` where the load does not take stiffness away, and those of `modes` and
    `static_solve`) unless `throw=False`, which leaves it in `info.result`.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2014, section 6.8.2.
    Load factors are pure numbers [-], multiples of the load.

    Example:

        found = jm.buckling(column, column(0.0).at_rest({"p": [[0.0, 0.0], [0.0, 1.0]]}))
        assert jnp.allclose(found.factors, 1.0, rtol=1e-3)  # k L [N]
    """
    if not callable(scene):
        raise TypeError(f"buckling: scene must be a function of the load factor that gives a System, got {scene!r:.80}.")
    check_flags("buckling", throw=throw)
    check_instance("buckling", "state", state, State)
    check_instance("buckling", "position of the state", state.position, dict)
    # What is no array is left to `check_inputs`, which needs the scene.
    arrays = [x for x in state.position.values() if hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)]
    dtype = jnp.result_type(*arrays) if arrays else jnp.result_type(float)
    unloaded = scene(jnp.zeros((), dtype))
    check_instance("buckling", "what scene returns", unloaded, System)
    check_inputs("buckling", unloaded, state)
    if linear_system is None:
        linear_system = MatrixLinearSystem.build(unloaded, state, Terms(mass=False, damping=False))
    check_pencil("buckling", unloaded, linear_system, count, mass=False)
    check_topology("the linear system given to buckling", linear_system.built_for, unloaded)

    zero, one = jnp.zeros((), dtype), jnp.ones((), dtype)

    still = replace(state, velocity=zero_forces(unloaded, state.position))

    def equilibrium(mu):
        solution = static_solve(scene(mu), state, linear_system, throw=False)
        return solution.position, solution.info.result

    def tangent(mu, position):
        K = linear_system.assemble(scene(mu), replace(still, position=position), STIFFNESS)
        return [e.values for e in K.entries.values()], K

    position, motion, result = jax.jvp(equilibrium, (zero,), (one,), has_aux=True)
    _, rates, K = jax.jvp(tangent, (zero, position), (one, motion), has_aux=True)
    # As large a motion without pattern, of whose many parts none cancel: that far up the numbers were rounded.
    anyhow = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a)) * b, motion, scattered(motion, 0))
    _, rough, _ = jax.jvp(tangent, (zero, position), (zero, anyhow), has_aux=True)
    size = jnp.max(jnp.stack([jnp.max(jnp.abs(r), initial=0) for r in rough]))
    # K phi = mu (-K_sigma) phi; what constraints hold is constant in K, so nil in its derivative.
    softening = eqx.tree_at(lambda A: [e.values for e in A.entries.values()], K, [-rate for rate in rates])
    pairs = eigenpairs(K, softening, count, shifted=False, norm="stiffness", size=size, held=unloaded.multiplier_states)
    info = info_of(pairs)
    info = eqx.tree_at(lambda i: i.result, info, RESULTS.where(result == RESULTS.successful, info.result, result))
    found = Buckling(pairs, info)
    return raise_failure(found, info, unloaded, "buckling") if throw else found
