"""What is wrong with the numbers of a scene itself: its Rayleigh damping, its gravity."""

from typing import Any

from .._runtime.argument_checks import check_real
from .._scene.parameter import is_concrete


def check_numbers(system: Any) -> None:
    """Raise where a Rayleigh coefficient is of nothing, or no number, or where nothing can feel gravity."""
    for name, coefficient in system.rayleigh.items():
        if (name in system.forces) == (name in system.masses):
            raise ValueError(f"rayleigh['{name}'] must name one force field or mass, of {[*system.forces, *system.masses]}.")
        check_real("System", f"rayleigh['{name}']", coefficient)
        if coefficient.ndim != 0:
            raise ValueError(f"rayleigh['{name}'] must be one number, got {coefficient!r}.")
        if is_concrete(coefficient) and not float(coefficient) >= 0:
            raise ValueError(f"rayleigh['{name}'] must not be negative, got {float(coefficient)}.")
    if system.gravity is not None:
        check_real("System", "gravity", system.gravity)
        check_gravity(system)


def check_no_lists(system: Any) -> None:
    """Raise a `TypeError` naming a number of the scene that was filled, past its constructor, with a list."""
    numbers = {"gravity": system.gravity} | {f"rayleigh['{name}']": c for name, c in system.rayleigh.items()}
    for name, number in numbers.items():
        if isinstance(number, list | tuple):
            raise TypeError(
                f"System: {name} must be an array, got {number!r:.80}; the constructor makes arrays of lists, `eqx.tree_at` "
                "does not."
            )


def check_gravity(system: Any) -> None:
    """Raise where gravity is no vector, or there are masses and none of them feels it, which is of another dimension."""
    gravity = system.gravity
    if gravity.ndim != 1 or gravity.shape[0] not in (1, 2, 3):
        raise ValueError(f"System: gravity must be a vector of 1, 2 or 3 components, got shape {gravity.shape}.")
    if not feels_gravity(system):
        kinds = {name: {s: type(dof).__name__ for s, dof in dofs.items()} for name, dofs in _acting(system).items()}
        raise ValueError(
            f"System: gravity has {gravity.shape[0]} components, which no mass feels: they act on {kinds}. Give gravity as "
            "many components as their points have."
        )


def feels_gravity(system: Any) -> bool:
    """Whether gravity is of the dimension of any mass; true of a scene without masses. Static."""
    acting, size = _acting(system), system.gravity.shape[-1:]
    return not acting or any((dof.space_size,) == size for dofs in acting.values() for dof in dofs.values())


def _acting(system: Any) -> dict[str, dict[str, Any]]:
    """The degrees of freedom that each mass acts on."""
    return {name: {s.state: system.dofs[s.state] for s in mass.on} for name, mass in system.masses.items()}
