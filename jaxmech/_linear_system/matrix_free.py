"""The linear system that stores no matrix: products are directional derivatives of the force."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import lineax as lx

from .._assembly.structure import Plan
from .._model.arguments import checked
from .._model.constraint_projection import constrained_product
from .._model.dynamics import (
    Fields,
    applied_forces,
    force_at,
    given_forces,
    kinematics,
    local_near,
    momentum,
    retract_near,
    velocities,
    zero_forces,
)
from .._model.internal import with_internal
from .._model.mapping_jacobian import geometric_blocks, mapped_forces, mapping_jacobian
from .._model.mapping_operators import block_products
from .._model.subsystem import with_only, without_unloaded
from .._model.system import State, System
from .._model.terms import Factors, Terms
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array
from .._scene.stencil import gathered, summed
from .._sparse.indefinite import INDEFINITE_TAG, kept_tags
from .base import AbstractLinearSystem


class MatrixFreeSystem(AbstractLinearSystem):
    """The same operator as `MatrixLinearSystem`, as products only: little memory, several times slower per product.

    Raises `ValueError` for `Terms(symmetric=True)` where a component's tangent is not symmetric by itself (or drag acts
    through a turning lever): taking the symmetric part needs the matrix.
    Units: those of the factors.
    Source: C. T. Kelley, *Solving Nonlinear Equations with Newton's Method*, 2003, doi:10.1137/1.9780898718898, chapter 3.

    Example:

        products = jm.solver.MatrixFreeSystem().assemble(system, state, jm.Factors.only("stiffness"))
        assert jnp.allclose(products.mv(b)["cube"], A.mv(b)["cube"], rtol=1e-4, atol=1.0)
    """

    terms: Terms = eqx.field(static=True, default=Terms())

    def __check_init__(self):
        check_instance("MatrixFreeSystem", "terms", self.terms, Terms)

    @checked
    def assemble(self, system: System, state: State, factors: Factors = Factors()) -> lx.FunctionLinearOperator:
        return self.constrain(system, self.unconstrained(system, state, factors))

    @checked
    def unconstrained(self, system: System, state: State, factors: Factors = Factors()) -> lx.FunctionLinearOperator:
        plan, lossy = Plan.build(system, self.terms), self._lossy(system)
        if lossy:
            raise ValueError(f"MatrixFreeSystem cannot take the symmetric part of {lossy}; use MatrixLinearSystem.")
        system = with_internal(system, state)
        scene = without_unloaded(system if self.terms.mapped else _without_mapped(system))
        product = eqx.Partial(_product, scene, state, self.terms, plan, factors)
        structure = jax.eval_shape(lambda: zero_forces(system, state.position))
        tags = (lx.symmetric_tag,) if plan.symmetric else ()
        tags += (INDEFINITE_TAG,) if system.multiplier_states else ()
        return lx.FunctionLinearOperator(product, structure, tags)

    @checked
    def serves(self, system: System) -> bool:
        """Whether a scene's operator can be had without its matrix."""
        return not self._lossy(system)

    @checked
    def is_rate_of_force(self, system: System) -> bool:
        return Plan.build(system, self.terms).is_rate_of_force and self.terms.damping

    def _lossy(self, system: System) -> list[str]:
        """The components whose symmetric part is asked for and is not all of them."""
        if not self.terms.symmetric:
            return []
        turning = Plan.build(system, replace(self.terms, symmetric=False)).velocity
        return sorted({*turning, *(i.name for i in Plan.build(system, self.terms).items if not i.symmetric)})

    @checked
    def constrain(self, system: System, operator: Any) -> lx.FunctionLinearOperator:
        if not self.terms.constrained or not system.projections:
            return operator
        product = eqx.Partial(_constrained, system, operator)
        return lx.FunctionLinearOperator(product, operator.in_structure(), kept_tags(operator))

    @checked
    def is_exact(self, system: System) -> bool:
        return Plan.build(system, self.terms).exact


def _without_mapped(system: System) -> System:
    mapped = {m.child for m in system.mappings.values()}

    def direct(family: Mapping[str, Any]) -> list[str]:
        return [n for n, c in family.items() if not any(s.state in mapped for s in c.on)]

    return with_only(system, forces=direct(system.force_fields), masses=direct(system.masses))


def _constrained(system: System, operator: Any, u: Fields) -> Fields:
    return constrained_product(system, operator.mv, u)


def _product(system: System, state: State, terms: Terms, plan: Plan, factors: Factors, u: Fields) -> Fields:
    """`(m M + b B + k K + g G + c C) u`."""
    total = zero = zero_forces(system, state.position)
    if terms.mass and factors.has("mass"):
        total = _add(total, factors.mass, momentum(system, state.position, u))
    if terms.damping and factors.has("damping"):
        rate = jax.jvp(lambda v: force_at(system, state, None, v), (state.velocity,), (u,))[1]
        total = _add(total, -factors.damping, rate)
    k, g = factors.stiffness if terms.stiffness else 0.0, factors.of("geometric") if terms.has_geometric else 0.0
    c = factors.of("multipliers") if terms.stiffness and system.multiplier_constraints else 0.0
    alike = factors.geometric is None and (factors.multipliers is None or not system.multiplier_constraints)
    if alike and plan.is_rate_of_force and not _is_zero(k):
        rate = jax.jvp(lambda d: force_at(system, state, d, state.velocity), (zero,), (u,))[1]
        total = _add(total, -factors.stiffness, rate)
    elif not (_is_zero(k) and _is_zero(g) and _is_zero(c)):
        total = _add(total, 1.0, _by_parts(system, state, plan, (k, g, c), u))
    if terms.has_rayleigh and factors.has("rayleigh"):
        for name, coefficient in system.rayleigh.items():
            if name in system.force_fields:
                part = stiffness_product(system, state, name, u)
            elif name in system.masses:
                part = momentum(with_only(system, masses=(name,)), state.position, u)
            else:
                continue
            total = _add(total, factors.of("rayleigh") * coefficient, part)
    return total


def _by_parts(system: System, state: State, plan: Plan, factors: tuple[Any, Any, Any], u: Fields) -> Fields:
    """`(k J^T K J + g G) u`, each part in the form that the plan names; `c` for the `k` of constraints with multipliers."""
    k, g, c = factors
    x = kinematics(system, state.position)
    v = velocities(system, x, state.velocity)
    jacobians = {name: mapping_jacobian(system, name, x) for name in system.mapping_order}
    forces = mapped_forces(system, x, v, jacobians)
    moved = velocities(system, x, u)
    total = zero_forces(system, x)
    for factor, names in ((k, system.forces), (c, system.multiplier_constraints)):
        if not _is_zero(factor):
            own = zero_forces(system, x)
            for name in names:
                own = _force_rate(system, name, own, x, v, moved)
            total = _add(total, factor, own)
    for name, form in plan.geometric:
        parents = system.mappings[name].parents
        blocks = geometric_blocks(system, name, x, forces[system.mappings[name].child], form)
        products = block_products(blocks, gathered(parents, moved))
        total = summed(total, parents, tuple(-g * p for p in products))
    if plan.velocity:
        # How the velocities of mapped states change with the positions, felt by drag.
        turned = jax.jvp(
            lambda d: velocities(system, kinematics(system, retract_near(system.dofs, state.position, d)), state.velocity),
            (zero_forces(system, state.position),),
            (u,),
        )[1]
        part = with_only(system, forces=plan.velocity)
        rate = jax.jvp(lambda v: applied_forces(part, x, None, v), (v,), (turned,))[1]
        total = _add(total, g, rate)
    return _pulled(system, state, x, total)


def stiffness_product(system: System, state: State, name: str, u: Fields) -> Fields:
    """`J^T K_i J u` of one force field."""
    x = kinematics(system, state.position)
    v = velocities(system, x, state.velocity)
    rate = _force_rate(system, name, zero_forces(system, x), x, v, velocities(system, x, u))
    return _pulled(system, state, x, rate)


def _force_rate(system: System, name: str, total: Fields, x: Fields, v: Fields, moved: Fields) -> Fields:
    """`total` with the change of one force field's forces added, for displacements of every state."""
    field, zero = system.force_fields[name], zero_forces(system, x)
    rate = jax.jvp(lambda d: given_forces(system, {name: field}, x, d, v)[name], (zero,), (moved,))[1]
    return rate.onto(total, field.on)


def _pulled(system: System, state: State, x: Fields, rate: Fields) -> Fields:
    """`-J^T rate` on the main states."""
    if system.mappings:
        main = zero_forces(system, state.position)
        transposed = jax.vjp(
            lambda d: local_near(system.dofs, x, kinematics(system, retract_near(system.dofs, state.position, d))), main
        )[1]
        rate = transposed(rate)[0]
    return {s: -rate[s] for s in state.position}


def _is_zero(factor: Any) -> bool:
    """Whether a factor is known to be zero while tracing."""
    return isinstance(factor, int | float) and factor == 0


def _add(total: Fields, factor: Any, part: Mapping[str, Array]) -> Fields:
    return {s: a + factor * part[s] for s, a in total.items()}
