"""Which parts of the matrix of a scene are wanted, and how much of each: `A = m M + b B + k K + g G + c C`."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx

from .._runtime.argument_checks import check_choice, check_flags, real_array

PARTS = ("mass", "damping", "stiffness", "rayleigh", "geometric")
_ALL = (*PARTS, "multipliers")  # the last is a part of the stiffness


@dataclass(frozen=True)
class Terms:
    """Which parts a matrix has. Static: a pattern belongs to one `Terms`.

    `mapped`: what acts on mapped states; `geometric`: the geometric stiffness of mappings, there if `stiffness` is unless
    it is given; `rayleigh`: the Rayleigh damping, there if `damping` is unless it is given; `constrained`: the projective
    constraints; `symmetric`: keep only the symmetric part of each element's matrices and leave out the derivative of
    mapped velocities with respect to positions, so that symmetric solvers may be used (damped springs in motion and
    follower pressures have unsymmetric tangents).
    No units: switches. Raises `TypeError` for what is not a boolean.

    Example:

        statics = jm.Terms(mass=False, damping=False)
        K = jm.MatrixLinearSystem.build(system, state, statics)
        assert K.terms == statics and statics.has_geometric and not statics.has_rayleigh
    """

    mass: bool = True
    damping: bool = True
    stiffness: bool = True
    mapped: bool = True
    geometric: bool | None = None
    constrained: bool = True
    symmetric: bool = False
    rayleigh: bool | None = None

    def __post_init__(self):
        optional = ("geometric", "rayleigh")
        check_flags("Terms", **{n: v for n, v in vars(self).items() if not (n in optional and v is None)})

    @property
    def has_geometric(self) -> bool:
        """Whether the geometric stiffness is there."""
        return self.mapped and (self.stiffness if self.geometric is None else self.geometric)

    @property
    def has_rayleigh(self) -> bool:
        """Whether the Rayleigh damping is there."""
        return self.damping if self.rayleigh is None else self.rayleigh


class Factors(eqx.Module):
    """The numbers `(m, b, k, c, g)` of `m M + b B + k K + g G + c C`; they may be traced.

    `rayleigh`, the factor of the Rayleigh damping, is that of damping unless it is given; `geometric` is that of
    stiffness, and so is `multipliers`, that of the part of `K` that comes from constraints with multipliers. Statics uses
    `(0, 0, 1, 0)`, a step `h` of implicit Euler `(1, h, h^2, h)`. Raises `ValueError` or `TypeError`
    for what is not a real number; arrays of them are batches, to be mapped over by `vmap`.
    Units: 1 for the mass, [s] for damping, [s^2] for stiffness in a matrix [kg]; any others that agree.

    Example:

        h = 0.01  # [s]
        step = jm.Factors(mass=1.0, damping=h, stiffness=h**2)
        assert step.of("geometric") == h**2 and step.of("rayleigh") == h
        assert jm.Factors.only("mass").has("mass") and not jm.Factors.only("mass").has("stiffness")
    """

    mass: Any = 1.0
    damping: Any = 1.0
    stiffness: Any = 1.0
    rayleigh: Any = None
    geometric: Any = None
    multipliers: Any = None

    def __check_init__(self):
        for name in _ALL:
            value = getattr(self, name)
            if value is None and name in ("rayleigh", "geometric", "multipliers"):
                continue
            real_array("Factors", name, value)

    @classmethod
    def only(cls, *parts: str) -> "Factors":
        """One for the parts that are named, of `PARTS`, and nothing for the others: `Factors.only("mass")` is `M`."""
        for part in parts:
            check_choice("Factors.only", "part", part, PARTS)
        return cls(**{part: float(part in parts) for part in PARTS})

    def of(self, part: str) -> Any:
        """The factor of one of `PARTS`, or of "multipliers"."""
        check_choice("Factors", "part", part, _ALL)
        if part == "rayleigh":
            return self.damping if self.rayleigh is None else self.rayleigh
        if part in ("geometric", "multipliers"):
            own = getattr(self, part)
            return self.stiffness if own is None else own
        return getattr(self, part)

    def has(self, part: str) -> bool:
        """Whether a part may be more than nothing: its factor is not known to be zero."""
        factor = self.of(part)
        return not (isinstance(factor, int | float) and factor == 0)
