"""What a projective constraint of one's own returns, looked at where a scene is put at rest."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._scene.parameter import is_concrete, over_elements, trace_elements

_ROUNDING = 1e-4  # of P - P^T and P - P^2, in single precision too


def check_projectors(system: Any, dtype: Any) -> None:
    """Raise `ValueError` where `element_projector` or `element_target` is of another shape, or the former projects nothing.

    Those that are known to project, by their class or by their `free_components`, are not looked at.
    """
    for name, constraint in system.projections.items():
        dof = system.dofs[constraint.on[0].state]
        if constraint.always_projects or constraint.free_components(dof) is not None:
            continue
        who = f"'{name}': {{}} of {type(constraint).__name__} returns {{}}"
        _check_shapes(who, constraint, dof, dtype)
        if is_concrete(*jax.tree.leaves(constraint)):
            _check_numbers(who, constraint, dof)


def _check_shapes(who: str, constraint: Any, dof: Any, dtype: Any) -> None:
    size, moves = dof.deriv_size, not constraint.is_homogeneous

    def look(c: Any, x: Any, time: Any) -> Any:
        _check_shape(who, "element_projector", c.element_projector(dof), (size, size))
        if moves:
            _check_shape(who, "element_target", c.element_target(dof, x, time[0]), (size,))

    elements = constraint.on[0].elements
    x, time = (jax.ShapeDtypeStruct((elements, n), dtype) for n in (dof.coord_size, 1))
    jax.eval_shape(lambda x, time: trace_elements(constraint, constraint.on, look, x, time), x, time)


def _check_shape(who: str, function: str, returned: Any, shape: tuple[int, ...]) -> None:
    if not hasattr(returned, "dtype"):
        raise ValueError(f"{who.format(function, f'{returned!r:.80}')}, expected an array of shape {shape}.")
    if returned.shape != shape or jnp.iscomplexobj(returned):
        raise ValueError(f"{who.format(function, f'{returned.dtype} of shape {returned.shape}')}, expected real {shape}.")


def _check_numbers(who: str, constraint: Any, dof: Any) -> None:
    projectors = over_elements(constraint, constraint.on, lambda c, _: c.element_projector(dof), constraint.on[0].nodes)
    if not is_concrete(projectors):
        return  # under jit they are no numbers, whatever they are made of
    for node, P in zip(np.asarray(constraint.on[0].nodes), np.asarray(projectors, float), strict=True):
        if not max(np.abs(P - P.T).max(), np.abs(P - P @ P).max()) <= _ROUNDING:
            raise ValueError(
                f"{who.format('element_projector', P.tolist())} at node {node}, which is no projector (P = P^T, P = P P): "
                "divide directions by their lengths."
            )
