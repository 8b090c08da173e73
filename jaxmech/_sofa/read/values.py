"""Data of components from text: numbers, lists, flags. What is no number, or not finite, is an error that says so."""

import re
from typing import Any

import numpy as np

from .graph import SceneNode, SceneObject
from .scene_error import shown

MOST_NUMBERS = 4_000_000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
_FLAGS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}

Owner = SceneObject | SceneNode


def reals(owner: Owner, name: str, text: str, width: int = 1, count: int | None = None) -> np.ndarray:
    """The numbers of a list, `(n,)` or `(n, width)`; `count`: how many rows there must be."""
    words = text.replace(",", " ").split()
    if len(words) > MOST_NUMBERS:
        raise owner.error(f"{name} lists {len(words)} numbers, {MOST_NUMBERS} at most are read")
    for word in words if len(words) <= 64 else ():
        _check(owner, name, word)
    try:
        numbers = np.array(words, dtype=np.float64) if words else np.zeros(0)
    except ValueError:
        numbers = np.full(1, np.nan)
    if not np.isfinite(numbers).all() or "_" in text:
        for word in words:
            _check(owner, name, word)
    if width > 1:
        if numbers.size % width:
            raise owner.error(f"{name} lists {numbers.size} numbers, expected a multiple of {width}")
        numbers = numbers.reshape(-1, width)
    if count is not None and len(numbers) != count:
        raise owner.error(f"{name} has {len(numbers)} entries, expected {count}: {shown(text)}")
    return numbers


def _check(owner: Owner, name: str, word: str) -> None:
    if not _NUMBER.match(word) or not np.isfinite(float(word)):
        raise owner.error(f"{name} is {shown(word)}, expected a finite number")


def real(owner: Owner, name: str, text: str) -> float:
    """One number."""
    return float(reals(owner, name, text, count=1)[0])


def wholes(owner: Owner, name: str, text: str, width: int = 1) -> np.ndarray:
    """Whole numbers, `(n,)` or `(n, width)`; "2-5" stands for 2 3 4 5."""
    words: list[str] = []
    for word in text.replace(",", " ").split():
        ends = re.fullmatch(r"(\d{1,9})-(\d{1,9})", word)
        if ends:
            low, high = int(ends[1]), int(ends[2])
            if not 0 <= high - low < MOST_NUMBERS:
                raise owner.error(f"{name}: {shown(word)} is no range of numbers")
            words += map(str, range(low, high + 1))
        else:
            words.append(word)
    numbers = reals(owner, name, " ".join(words), width)
    if numbers.size and not ((numbers == np.round(numbers)) & (np.abs(numbers) < 2**31)).all():
        raise owner.error(f"{name} is {shown(text)}, expected whole numbers")
    return numbers.astype(np.int64)


def whole(owner: Owner, name: str, text: str) -> int:
    """One whole number."""
    numbers = wholes(owner, name, text)
    if len(numbers) != 1:
        raise owner.error(f"{name} is {shown(text)}, expected one whole number")
    return int(numbers[0])


def flag(owner: Owner, name: str, text: str) -> bool:
    """0 or 1, true or false."""
    word = text.strip().lower()
    if word not in _FLAGS:
        raise owner.error(f"{name} is {shown(text)}, expected true or false")
    return _FLAGS[word]


def written(value: Any) -> str:
    """A number or an array as it is written into a scene: every digit that counts, no more."""
    return " ".join(repr(float(number)) for number in np.ravel(np.asarray(value)))
