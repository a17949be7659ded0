"""How long the transactions of a benchmark's writers take."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Latency:
    """Of single-row transactions, in milliseconds. As a text: median, 99th percentile and the longest."""

    taken: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        if len(self.taken) < 2:
            return "none"
        ordered = sorted(self.taken)
        return f"{statistics.median(ordered):.1f} / {ordered[int(len(ordered) * 0.99)]:.1f} / {ordered[-1]:.0f}"
