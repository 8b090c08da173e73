"""Scenes of many components: what is asked of each once is not asked again of others of the same shape."""

import jax
import pytest

import jaxmech as jm


def chain(ends):
    forces = {f"s{i}": jm.force.Springs((("p", [i]), ("p", [e])), 10.0, 1.0) for i, e in enumerate(ends)}
    return jm.System({"p": jm.Vec3()}, forces=forces, masses={"m": jm.mass.UniformMass(("p", range(4)), 1.0)})


def test_components_that_differ_in_numbers_are_traced_once(monkeypatch):
    traced = []
    shape = jax.eval_shape
    monkeypatch.setattr(jax, "eval_shape", lambda f, *args: traced.append(f) or shape(f, *args))
    points = [[float(i), 0.0, 0.0] for i in range(4)]
    chain([1, 2, 3]).at_rest({"p": points})
    many = len(traced)
    traced.clear()
    chain([1]).at_rest({"p": points})
    assert many == len(traced) > 0


class Odd(jm.force.AbstractForceField):
    """A force of the wrong shape."""

    on: tuple = jm.stencils()
    k: jax.Array = jm.parameter()

    def element_force(self, x, v):
        return (self.k * x[0][:2],)


def test_a_wrong_one_among_many_is_named():
    forces = {"a": jm.force.ConstantForce(("p", [0]), [1.0, 0, 0]), "odd": Odd(("p", [0]), 1.0), "z": Odd(("p", [1]), 1.0)}
    scene = jm.System({"p": jm.Vec3()}, forces=forces)
    with pytest.raises(ValueError, match="'odd': Odd returns shapes"):
        scene.at_rest({"p": [[0.0, 0, 0], [1.0, 0, 0]]})
