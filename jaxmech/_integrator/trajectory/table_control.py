"""Numbers of a scene that tables give in time."""

from typing import Any

from ..._runtime.argument_checks import real_array
from ..._runtime.array_types import Array
from .table import Table


def table_control(time: Any, state: Any = None, parameters: Any = None) -> dict[str, dict[str, Array]]:
    """A control for `simulate`: the values at `time` [s] of tables `{component: {field: Table}}`, its `parameters`.

    Loads, pressures, ambient temperatures, moduli, whatever a component declares, by the names of the scene; a component of
    several kinds of cells is called "pull.triangle" and so on. Differentiable by the values of the tables. Raises
    `TypeError` for parameters that are not of this form, `ValueError` or `TypeError` for a time that is no number.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, section 9.2 (loads in time).

    Example:

        pull = jm.integrator.Table([0.0, 1.0], [[0.0, 0.0], [4.0, 0.0]])  # [Pa]
        given = jm.integrator.table_control(0.5, None, {"pull": {"traction": pull}})
        assert jnp.allclose(given["pull"]["traction"], jnp.array([2.0, 0.0]))
    """
    del state
    real_array("table_control", "time", time, ())
    if not isinstance(parameters, dict) or not all(isinstance(fields, dict) for fields in parameters.values()):
        raise TypeError(f"table_control: parameters must be {{component: {{field: Table}}}}, got {parameters!r:.80}.")
    for component, fields in parameters.items():
        for field, table in fields.items():
            if not isinstance(table, Table):
                raise TypeError(
                    f"table_control: parameters of '{component}' '{field}' must be a Table, got {type(table).__name__}."
                )
    return {name: {field: table(time) for field, table in fields.items()} for name, fields in parameters.items()}
