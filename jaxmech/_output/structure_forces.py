"""Forces in beams and stresses in shells."""

from typing import Any

import equinox as eqx

from .._forcefield.beam import Beam
from .._forcefield.quad_shell import QuadShell
from .._forcefield.shell import Shell
from .._model.dynamics import kinematics
from .._model.internal import with_internal
from .._model.system import State, System, check_inputs
from .._runtime.array_types import Array, Float
from .._runtime.precision import compiled
from .._scene.parameter import over_elements
from .._scene.stencil import at_nodes


def beam_forces(system: System, state: State, name: str) -> Float[Array, "e 6"]:
    """`N, V_y, V_z` [N] and `T, M_y, M_z` [N m] of the elements of the `Beam` `name`, in the axes of their sections.

    Of the middle of each element, where they are most accurate: a bending moment that varies along a beam is linear between
    them. `N` is positive in tension; forces and moments are those that the section feels from the part beyond it, along x.
    Raises `ValueError` for a name that is not that of a beam.
    Source: V. Sonneville, A. Cardona, O. Bruels, Comput. Methods Appl. Mech. Eng. 268 (2014) 451,
    doi:10.1016/j.cma.2013.10.008.

    Example:

        line = jm.mesh.frames_along([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
        wire = jm.force.Section.circle(0.01, young=1e9, poisson=0.3)
        scene = jm.System(
            {"f": jm.Rigid3()},
            forces={
                "beam": jm.force.Beam(("f", [[0, 1], [1, 2]]), line, wire),
                "load": jm.force.ConstantForce(("f", [2]), [0.0, 0.0, -1e-3]),
            },
            constraints={"clamp": jm.constraint.Fixed(("f", [0]))},
        )
        bent = jm.static_solve(scene, scene.at_rest({"f": line})).state
        moments = jm.output.beam_forces(scene, bent, "beam")[:, 4]  # about y of the section
        assert jnp.allclose(moments, 1e-3 * jnp.array([1.5, 0.5]), rtol=1e-3)  # [N m]
    """
    return _of_elements("beam_forces", system, state, name, Beam)


class ShellStresses(eqx.Module):
    """Stresses of shell elements `(e, 3, 3)` [Pa], in axes of the world; made by `shell_stresses`.

    `middle`: in the middle surface; `bending`: what is added on the upper side, towards `normal` `(e, 3)`, and taken away on
    the lower one. Raises nothing.
    Source: S. P. Timoshenko, S. Woinowsky-Krieger, *Theory of Plates and Shells*, 2nd ed., 1959, chapter 4.

    Example:

        found = jm.output.ShellStresses(jnp.eye(3)[None], 2 * jnp.eye(3)[None], jnp.array([[0.0, 0.0, 1.0]]))
        assert float(found.upper[0, 0, 0]) == 3.0 and float(found.lower[0, 0, 0]) == -1.0
    """

    middle: Float[Array, "e 3 3"]
    bending: Float[Array, "e 3 3"]
    normal: Float[Array, "e 3"]

    @property
    def upper(self) -> Float[Array, "e 3 3"]:
        """On the side towards the normal."""
        return self.middle + self.bending

    @property
    def lower(self) -> Float[Array, "e 3 3"]:
        """On the other side."""
        return self.middle - self.bending


def shell_stresses(system: System, state: State, name: str) -> ShellStresses:
    """The mean stresses [Pa] of the elements of the `Shell` or `QuadShell` `name`, in axes of the world: in the middle
    surface, and of bending.

    Normals follow the right hand, as the nodes of an element are listed. Times the thickness, the middle stress is the
    membrane force [N/m]; times `t^2/6`, that of bending is the moment [N m/m]. Raises `ValueError` for a name that is not
    that of a shell.
    Source: S. P. Timoshenko, S. Woinowsky-Krieger, *Theory of Plates and Shells*, 2nd ed., 1959, chapter 4.

    Example:

        square = jm.mesh.Mesh([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]], "triangle")
        plate = jm.force.Shell.from_mesh("f", square, young=1e6, poisson=0.0, thickness=0.1)
        scene = jm.System({"f": jm.Rigid3()}, forces={"plate": plate})
        longer = scene.at_rest({"f": plate.rest * jnp.array([1.001, 1, 1, 1, 1, 1, 1])})
        found = jm.output.shell_stresses(scene, longer, "plate")
        assert jnp.allclose(found.upper[:, 0, 0], 1e3) and jnp.allclose(found.normal[:, 2], 1.0)  # [Pa]
    """
    return ShellStresses(*_of_elements("shell_stresses", system, state, name, Shell, QuadShell))


def _of_elements(who: str, system: System, state: State, name: Any, *kinds: type) -> Any:
    check_inputs(who, system, state)
    known = [n for n, field in system.forces.items() if isinstance(field, kinds)]
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"{who}: name {name!r:.80} is not that of a {kinds[0].__name__}, expected one of {known}.")
    return _evaluated(system, state, name)


@compiled
def _evaluated(system: System, state: State, name: str) -> Any:
    field: Any = with_internal(system, state).forces[name]
    function = (lambda one, x: one.section_forces(x)) if isinstance(field, Beam) else (lambda one, x: one.mean_stresses(x))
    return over_elements(field, field.on, function, *at_nodes(field.on, kinematics(system, state.position)))
