"""The time."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Seconds since 1970. It may jump."""

    def now_s(self) -> float:
        """Now."""
