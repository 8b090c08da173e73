"""What materials cost: assembly of tetrahedra beside the neo-Hookean solid, and derivatives by the weights of a network.

    python -m benchmarks.materials [--cells 12] [--solve 5] [--materials neo-Hookean Gent ...]

CPU seconds (the shortest of several runs) of one assembly of `6 cells^3` tetrahedra, and their ratio; then, of the network
of `examples/neural_rubber.py` in a block of `6 solve^3` of them, those of a static solve, and what the derivative of its
outcome by all weights takes besides. One JSON line each.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.clock import forget, report

RUNS = 9
ENOUGH = 10.0  # [s]


def cpu_seconds(function: Any) -> float:
    """Of the shortest run, after a first one; of fewer runs where they take long."""
    import jax

    jax.block_until_ready(function())
    found = []
    for _ in range(RUNS):
        forget()
        start = time.process_time()
        jax.block_until_ready(function())
        found.append(time.process_time() - start)
        if sum(found) > ENOUGH:
            break
    return min(found)


def laws() -> dict[str, Any]:
    """By name, in the parameters of one rubber more or less."""
    import jaxmech as jm

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
    from neural_rubber import rubber  # pyright: ignore[reportMissingImports]

    m, bulk, fibres = jm.material, 2e3, [[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]]
    return {
        "neo-Hookean": m.NeoHookean(1e3, 0.3),
        "Mooney-Rivlin": m.MooneyRivlin(150.0, 50.0, bulk),
        "Arruda-Boyce": m.ArrudaBoyce(400.0, bulk),
        "Gent": m.Gent(400.0, bulk, 30.0),
        "Yeoh": m.Yeoh([200.0, -5.0, 0.2], bulk),
        "Veronda-Westmann": m.VerondaWestmann(400.0, 1.0, bulk),
        "Costa": m.Costa(100.0, bulk, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0),
        "Holzapfel-Gasser-Ogden": m.HolzapfelGasserOgden(400.0, 50.0, 0.5, bulk, fibres),
        "active": m.ActiveStress(m.NeoHookean(1e3, 0.3), 50.0, fibres[0]),
        "damage": m.Damage(m.NeoHookean(1e3, 0.3), 1.0, 50.0),
        "Ogden": m.Ogden((300.0, -20.0), (1.8, -2.5), bulk),
        "viscous": m.Viscoelastic(m.NeoHookean(1e3, 0.3), [500.0], [0.1]),
        "J2": m.J2Plasticity(1e3, 0.3, 10.0, 50.0, 20.0),
        "network": rubber(scale=400.0, bulk=bulk),
    }


def assembly(law: Any, cells: int) -> float:
    """CPU seconds of one assembly."""
    import equinox as eqx

    import jaxmech as jm

    mesh = jm.mesh.box_mesh(cells=(cells,) * 3, size=(1.0, 1.0, 1.0))
    system = jm.System({"body": jm.Vec3()}, forces={"solid": jm.force.TetrahedronFEM.from_mesh("body", mesh, law)})
    state = system.at_rest({"body": mesh.points * 1.01})
    linear_system = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))

    @eqx.filter_jit
    def assemble(linear_system: jm.MatrixLinearSystem, system: jm.System, state: jm.State) -> Any:
        return linear_system.unconstrained(system, state)["body", "body"].values

    return cpu_seconds(lambda: assemble(linear_system, system, state))


def main() -> None:
    """All of it."""
    import jax

    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=12)
    parser.add_argument("--solve", type=int, default=5)
    parser.add_argument("--materials", nargs="*")
    arguments = parser.parse_args()
    found, known = {}, laws()
    for name in arguments.materials or known:
        found[name] = assembly(known[name], arguments.cells)
        reference = found.setdefault("neo-Hookean", assembly(known["neo-Hookean"], arguments.cells))
        report(material=name, tetrahedra=6 * arguments.cells**3, cpu=found[name], ratio=found[name] / reference)
    from neural_rubber import block, rubber  # pyright: ignore[reportMissingImports]

    shear = jax.hessian(rubber().energy_density)(jax.numpy.eye(3))[0, 1, 0, 1]  # [MPa], of weights that are not learnt
    law = rubber(scale=10.0 / float(shear), bulk=200.0)
    slide = block(law, arguments.solve)
    solve, both = jax.jit(slide), jax.jit(jax.value_and_grad(slide))
    seconds = cpu_seconds(lambda: solve(law.weights)), cpu_seconds(lambda: both(law.weights))
    weights = sum(leaf.size for leaf in jax.tree.leaves(law.weights))
    report(weights=weights, tetrahedra=6 * arguments.solve**3, solve=seconds[0], gradient=seconds[1] - seconds[0])


if __name__ == "__main__":
    main()
