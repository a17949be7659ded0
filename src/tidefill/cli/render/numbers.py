"""Numbers as people read them: counts, ages and lags."""

from __future__ import annotations

import math

from tidefill.jobs.amounts import duration_text


def count(value: float) -> str:
    """`950`, `12.3k`, `1.2M`: three figures at most, never rounded up."""
    if not math.isfinite(value):
        return "?"
    units = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
    unit, size = next((found for found in units if value >= found[1]), units[-1])
    scaled = value / size
    return (str(math.floor(scaled)) if scaled >= 100 else f"{math.floor(scaled * 10) / 10:g}") + unit


def age(seconds: float) -> str:
    """`3 min`: the greatest unit of the duration."""
    return " ".join(duration_text(seconds).split()[:2])


def lag(versions: int | None, seconds: float | None, *, at_least: bool = False) -> str:
    """`lag 2 versions, 4 s`, as far as it is known; empty if it is not. `at_least`: it may have grown since."""
    if versions == 0:
        return "" if at_least else "no lag"
    parts = [] if versions is None else [f"{versions} version{'s' * (versions != 1)}"]
    if seconds is not None:
        parts.append(duration_text(seconds))
    return f"lag {'at least ' * at_least}{', '.join(parts)}" if parts else ""
