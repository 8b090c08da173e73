"""Everything, one process per measurement, and what it says as ratios.

    python -m benchmarks [--quick] [--write] [--only WORD ...]

Assembly, products, Newton's method, steps, gradients, compilation and batches at several sizes, beside NumPy and SciPy and
those of felupe and scikit-fem that are installed. `--quick`: small sizes, a few minutes; without, some twenty. `--write`:
the tables into `benchmarks/RESULTS.md`, the cost over the size into `docs/figures/speed.svg`. `--only`: the measurements
whose name has a word. Every measurement can be run alone: its command is printed, and its module says what it does.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.tables import Row, machine, tables, write

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 900  # [s] for one process
PEERS = {"felupe": "felupe", "skfem": "skfem"}  # by the name of the module to import

LAWS = ("NeoHookean", "Corotational", "LinearElastic")

QUICK = {
    "assembly": [("assembly", ["12", "25", "--keep"])],
    "peers": [("peers", [code, "12"]) for code in PEERS],
    "newton": [("cantilever", [code, "4"]) for code in ("jaxmech", *PEERS)],
    "step": [("step", ["4"])],
    "gradient": [("gradients", ["--steps", "25", "--solvers", "PCG 1e-10"])],
    "adaptive": [("adaptive", [])],
    "compile": [("compile", ["1000"])],
    "batch": [("batch", ["--scenes", "64", "--chunks", "8"])],
}
FULL = {
    "assembly": [
        *(("assembly", ["6", "12", "25", "55", "--keep", "--material", law]) for law in LAWS[:2]),
        ("assembly", ["12", "25", "55", "--keep", "--material", "LinearElastic"]),
        *(("assembly", ["12", "25", "--keep", "--devices", "2", "--material", law]) for law in LAWS),
        ("assembly", ["12", "25", "--keep", "--dtype", "float32"]),
    ],
    "peers": [("peers", [code, "6", "12", "25"]) for code in PEERS],
    "newton": [("cantilever", [code, n]) for n in ("8", "12") for code in ("jaxmech", *PEERS)],
    "step": [("step", ["4", "8", "12", "--small"])],
    "gradient": [("gradients", ["--n", "4"])],
    "adaptive": [("adaptive", []), ("adaptive", ["--stiffness", "1e6"])],
    "compile": [("compile", []), ("compile", ["--gradient", "1000"])],
    "batch": [("batch", []), ("batch", ["--cells", "6", "2", "2", "--chunks", "4", "16"])],
}


def measured(module: str, arguments: list[str]) -> list[Row]:
    """The rows that one process prints; none where a peer is not installed, or where it took too long."""
    command = ["-m", f"benchmarks.{module}", *arguments]
    missing = [a for a in arguments if a in PEERS and importlib.util.find_spec(PEERS[a]) is None]
    if missing:
        print(f"# python {' '.join(command)}: {missing[0]} is not installed", flush=True)
        return []
    start = time.perf_counter()
    try:
        done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        print(f"# python {' '.join(command)}: more than {LIMIT} s", flush=True)
        return []
    print(f"# python {' '.join(command)}: {time.perf_counter() - start:.0f} s", flush=True)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
    rows: list[Any] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    options = dict(zip(arguments, arguments[1:], strict=False))
    extra = {name[2:]: options[name] for name in ("--material", "--dtype", "--devices") if name in options}
    return [{"command": " ".join(command), **extra, **row} for row in rows]


def main() -> int:
    """All that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    chosen = [name for name in plan if not arguments.only or any(word in name for word in arguments.only)]
    found = {name: [row for run in plan[name] for row in measured(*run)] for name in chosen}
    text = machine() + "\n\n" + tables(found)
    print(text)
    if arguments.write:
        write(text, found, ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
