"""What is compiled by jaxmech itself, and the plain form of it, by JAX alone, that is computed wherever that fails."""

import warnings
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_told: weakref.WeakSet[Any] = weakref.WeakSet()  # of whom a bug was reported


class NotCompilable(Exception):
    """There is no such form, instruction or function here: the next form is tried. Never seen by a user."""


def first_that_works(owner: Any, *forms: Callable[[], T]) -> T:
    """What the first form gives that can be compiled. The last is the plain one: what it raises is the user's own error.

    A bug in the compiler is no reason to stop a user: it becomes one `RuntimeWarning` for each `owner`, which is whatever
    is compiled, or words for what is known by no name.
    """
    *compiled, plain = forms
    bugs: list[Exception] = []
    for form in compiled:
        try:
            found = form()
        except NotCompilable:
            continue
        except Exception as error:
            bugs.append(error)
            continue
        break
    else:
        found = plain()
    is_known = not isinstance(owner, str)
    if bugs and not (is_known and owner in _told):
        if is_known:
            _told.add(owner)
        warnings.warn(
            f"jaxmech could not compile {owner}, and takes a slower form. This is a bug of jaxmech, please report it: "
            f"{type(bugs[0]).__name__}: {bugs[0]}",
            RuntimeWarning,
            stacklevel=2,
        )
    return found
