"""How long the parts of a step took, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias

from tidefill.ports.clock import Clock

LOOK, TIDY, CHANGES, COMMIT, CONFIRM = "look", "tidy", "changes", "commit", "confirm"
"""The phases of a backfill's step. LOOK: find out what is new, and plan. TIDY: put small files together. CHANGES: read
what changed, and say what is to be written. COMMIT: compute it and write it, which Spark does as one. CONFIRM: read the
target's log."""

Timed: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""What is done inside of it counts for the phase of that name."""


def untimed(name: str) -> AbstractContextManager[None]:
    """Counts nothing."""
    return nullcontext()


class Phases:
    """A stopwatch with names. A clock that jumps back counts nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """What is done inside counts for the phase of that name."""
        began_s = self._clock.now_s()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + max(0.0, self._clock.now_s() - began_s)
