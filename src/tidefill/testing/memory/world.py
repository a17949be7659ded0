"""The simulated world: one clock, one counter of effects, and whatever happens at an effect.

Every adapter calls `world.effect(name)` before, inside and after each thing it does. What shall happen there (a writer
commits, the process dies, a second runner takes over ...) is data: an act is due at an effect number. So the same
script always gives the same history, and a shorter script is a shorter history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

EFFECT_S = 0.02


class Died(BaseException):
    """The process is gone (kill -9). Not an Exception: nothing in production code may catch it."""


class Violation(BaseException):
    """An invariant does not hold. Not an Exception either: production code must not take it for an error of its own."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what


class World:
    """Time, effects, the story so far, and what was seen in it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.effects = 0
        self.next_due = 1 << 60
        self.on_due: Callable[[str], None] = lambda name: None
        self.story: list[tuple[str, tuple[Any, ...]]] = []
        self.seen: Counter[str] = Counter()
        self.names = 0

    def effect(self, name: str) -> None:
        """A point at which anything may happen."""
        self.effects += 1
        self.now += EFFECT_S
        if self.effects >= self.next_due:
            self.on_due(name)

    def tell(self, text: str, *values: Any) -> None:
        """Add a line to the story; formatted only when it is read."""
        self.story.append((text, values))

    def lines(self) -> list[str]:
        """The story as text."""
        return [text % values if values else text for text, values in self.story]

    def new_uuid(self) -> str:
        """A name that no other has; the same in every run of the same script."""
        self.names += 1
        return f"u{self.names}"


class WorldClock:
    """A process's own idea of the time."""

    def __init__(self, world: World, skew_s: float = 0.0) -> None:
        self._world = world
        self._skew_s = skew_s

    def now_s(self) -> float:
        """Now, as this process sees it."""
        return self._world.now + self._skew_s
