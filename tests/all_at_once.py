"""One test of a rule that many small things keep: pytest takes ten milliseconds for each of its tests."""

from collections.abc import Callable, Iterable
from typing import Any

Rule = Callable[[Any], None]
Test = Callable[[], None]


def for_each(things: Iterable[Any], name_of: Callable[[Any], Any] = str) -> Callable[[Rule], Test]:
    """A test of all things that names each which `rule(thing)` does not hold for, and why."""
    things = list(things)
    assert things

    def decorated(rule: Rule) -> Test:
        def test() -> None:
            broken = []
            for thing in things:
                try:
                    rule(thing)
                except AssertionError as why:
                    broken.append(f"{name_of(thing)}: {str(why).partition(chr(10))[0] or 'the rule does not hold'}")
            assert not broken, "\n".join(broken)

        test.__name__, test.__doc__, test.__module__ = rule.__name__, rule.__doc__, rule.__module__
        return test

    return decorated
