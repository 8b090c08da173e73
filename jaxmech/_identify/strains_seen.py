"""Strains of solids."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._forcefield.solid import AbstractSolid
from .._model.system import State, System
from .._output.gauss_fields import gauss_fields
from .._output.probe import Probe
from .._runtime.argument_checks import check_choice, check_instance
from .._runtime.array_types import Array, Float
from .observation import AbstractObservation

_MEASURES = ("small", "green_lagrange", "logarithmic")


class Strain(AbstractObservation):
    """Strains of a solid, `(p, 3, 3)` at the points of a `jm.output.Probe` of its mesh, or `(e, q, 3, 3)` at Gauss points.

    `field`: the name of the force field. `measure`: "small", `(F + F^T)/2 - I`; "green_lagrange", `(F^T F - I)/2`; or
    "logarithmic", `ln(F^T F)/2`. A gauge along the unit vector `n` reads `n.E.n`: `adjust` of `Measured` may take that.
    Raises `ValueError` for another measure, and, of an experiment, a field that is no solid of its scene.
    Source: G. A. Holzapfel, *Nonlinear Solid Mechanics*, 2000, ISBN 978-0-471-82319-3, chapter 2.

    Example:

        see = jm.identify.Strain("solid", measure="logarithmic")
        assert jnp.allclose(see(system, system.at_rest({"cube": mesh.points * 1.01})), jnp.log(1.01) * jnp.eye(3))
    """

    field: str = eqx.field(static=True)
    probe: Probe | None
    measure: str = eqx.field(static=True)

    def __init__(self, field: str, probe: Probe | None = None, *, measure: str = "small"):
        check_instance("Strain", "field", field, str)
        if probe is not None:
            check_instance("Strain", "probe", probe, Probe)
        check_choice("Strain", "measure", measure, _MEASURES)
        self.field, self.probe, self.measure = field, probe, measure

    def __call__(self, system: System, state: State) -> Float[Array, "... 3 3"]:
        fields = gauss_fields(system, state, self.field)
        strain = self._of(fields)
        return strain if self.probe is None else self.probe.of_points(fields, strain)

    def _of(self, fields: Any) -> Array:
        if self.measure == "small":
            F = fields.gradient
            return 0.5 * (F + jnp.swapaxes(F, -1, -2)) - jnp.eye(3, dtype=F.dtype)
        return fields.green_lagrange if self.measure == "green_lagrange" else fields.logarithmic

    def check_scene(self, system: System, state: State) -> None:
        if not isinstance(system.forces.get(self.field), AbstractSolid):
            solids = [name for name, force in system.forces.items() if isinstance(force, AbstractSolid)]
            raise ValueError(f"Strain: field names '{self.field}', expected one of the solids {solids}.")
