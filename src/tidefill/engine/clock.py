"""The clock of an engine."""

from __future__ import annotations

import time


class SystemClock:
    """The machine's time."""

    def now_s(self) -> float:
        """Now."""
        return time.time()
