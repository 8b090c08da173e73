"""The numbers that a scheme has, and of what range they must be."""

from typing import Any

from ..._runtime.argument_checks import check_real
from ..._scene.parameter import as_array, is_concrete


def coefficient(value: Any) -> Any:
    """An array; a plain zero stays one, so that compiled programs know that there is nothing to compute."""
    return 0.0 if type(value) in (int, float) and value == 0 else as_array(value)


def check_number(who: str, name: str, value: Any, *, at_least: float, at_most: float = float("inf")) -> None:
    """Raise `ValueError` unless an option is one number of this range."""
    value = as_array(value)
    check_real(who, name, value)
    if value.ndim != 0 or (is_concrete(value) and not at_least <= float(value) <= at_most):
        span = f"of at least {at_least:g}" if at_most == float("inf") else f"from {at_least:g} to {at_most:g}"
        raise ValueError(f"{who}: {name} must be a number {span}, got {value}.")
