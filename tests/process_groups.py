"""Which tests run in one process, after one another: those that share what they make once; and which groups come first."""

import collections
import re
from collections.abc import Iterable
from typing import NamedTuple

# Of these files the tests of a scene belong together, across files: all need its matrices.
OF_SCENES = ("test_invariants.py", "test_solvers_on_scenes.py")
ON_ITS_MATRIX = ("", "few-float64")  # other solvers share programs with their like, which take longer than a matrix
BY_THEMSELVES = ("test_notebooks.py", "test_examples.py", "test_docs.py")  # share nothing, and take long
# What a test of these takes, in tests of the others: roughly, so that no process is left alone with them in the end.
WEIGHTS = {
    "test_notebooks.py": 30,
    "test_examples.py": 6,
    "test_docs.py": 6,
    "test_sofa_scenes.py": 6,
    "test_accelerators.py": 4,
    "test_benchmark_cases.py": 5,
    "test_arcanefem_scenes.py": 5,
    "test_contact_steps.py": 4,
    "test_contact_scenes.py": 4,
    "test_contact_failures.py": 6,
    "test_contact_derivatives.py": 8,
    "test_sofa_contact.py": 4,
    "test_shell_cases.py": 5,
    "test_quad_shell_cases.py": 5,
    "test_devices.py": 20,
    "test_processes.py": 20,
    "test_typing.py": 10,
    "test_random_elements.py": 12,
    "test_gradients.py": 7,
    "test_safety.py": 4,
    "test_startup.py": 4,
}


def group_of(nodeid: str) -> str:
    """The group of a test: its scene, where it has one, or its file, or itself."""
    path, _, name = nodeid.partition("::")
    if path.endswith(BY_THEMSELVES):
        return nodeid
    if not path.endswith(OF_SCENES) or "[" not in name:
        return path
    scene, _, rest = name[name.index("[") + 1 : name.rindex("]")].partition("-")
    return scene if rest in ON_ITS_MATRIX else rest


def weight_of(nodeid: str) -> int:
    """How long a test takes, roughly, in tests of most files."""
    return WEIGHTS.get(nodeid.partition("::")[0].rpartition("/")[2], 1)


def longest_first(nodeids: Iterable[str], skipped: Iterable[str] = ()) -> list[str]:
    """Whole groups after one another, those that take longest first; what is skipped takes nothing."""
    groups, taken, skipped = collections.defaultdict(list), collections.Counter(), set(skipped)
    for nodeid in nodeids:
        group = group_of(nodeid)
        groups[group].append(nodeid)
        taken[group] += 0 if nodeid in skipped else weight_of(nodeid)
    return [nodeid for group in sorted(groups, key=lambda g: -taken[g]) for nodeid in groups[group]]


class Part(NamedTuple):
    """One of several parts of some tests, of whole groups, which take about as long as one another."""

    number: int  # from 1
    parts: int

    @classmethod
    def of(cls, text: str) -> "Part":
        """That which is written `1/2`. Raises `ValueError` for another text."""
        numbers = re.fullmatch(r"(\d+)/(\d+)", text)
        part = cls(*map(int, numbers.groups())) if numbers else cls(0, 0)
        if not 1 <= part.number <= part.parts:
            raise ValueError(f"a part is written as 1/2 or 2/2, got {text!r}")
        return part

    def __str__(self) -> str:
        return f"{self.number}/{self.parts}"

    def of_all(self, nodeids: Iterable[str]) -> set[str]:
        """Those of it: each group goes to the part that has least so far, the longest first."""
        parts, loads, where = [set() for _ in range(self.parts)], [0] * self.parts, {}
        for nodeid in longest_first(sorted(nodeids)):
            part = where.setdefault(group_of(nodeid), loads.index(min(loads)))
            parts[part].add(nodeid)
            loads[part] += weight_of(nodeid)
        return parts[self.number - 1]
