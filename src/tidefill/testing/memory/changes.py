"""What changes mean for a target that covers only a part of its upstream.

A change is a row with a weight: -1 for an image that goes, +1 for an image that comes. Adding up the weights of equal
rows gives the net effect of any number of writes in any order, so it does not matter in which order a feed tells them.
An update whose walk value changes is two halves, judged one by one: the row may leave the covered part, enter it, or
pass from one covered place to another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from tidefill.core.keys import Key
from tidefill.core.walk import Coverage, covers
from tidefill.errors import KeyNotUnique

R = TypeVar("R", bound=Hashable)
K = TypeVar("K", bound=Hashable)


def net(changes: Iterable[tuple[int, R]], key_of: Callable[[R], K]) -> dict[K, tuple[R | None, R | None]]:
    """Per key the image before and the image after all of the changes; keys that end as they began are left out."""
    weights: dict[R, int] = {}
    for weight, row in changes:
        weights[row] = weights.get(row, 0) + weight
    images: dict[K, tuple[R | None, R | None]] = {}
    for row, weight in weights.items():
        if weight == 0:
            continue
        key = key_of(row)
        old, new = images.get(key, (None, None))
        taken = old if weight < 0 else new
        if taken is not None or abs(weight) > 1:
            raise KeyNotUnique(f"several rows have the key {key!r}", hint="Declare a key that is unique, then RESYNC.")
        images[key] = (row, new) if weight < 0 else (old, row)
    return images


def judge(old: Key | None, new: Key | None, coverage: Coverage) -> tuple[bool, bool]:
    """Whether the old image is to be removed and whether the new one is to be added, each by its own place."""
    return old is not None and covers(coverage, old), new is not None and covers(coverage, new)


def judge_by_key(new: Key | None, coverage: Coverage) -> tuple[bool, bool]:
    """The same where only the keys of changed rows are known: remove by key wherever the row was, add what is
    covered."""
    return True, new is not None and covers(coverage, new)
