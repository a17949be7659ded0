"""How many rows a chunk has: as many as keep a fill near its target time.

Start small and double while a fill is quick, or while doubling costs little (then the fixed cost of a commit dominates
and small chunks would never end). Halve on trouble. The size lives in the runner's memory: it is a matter of speed
only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

TARGET_S = 20.0
LIMITED_S = 5.0
CHEAP_GROWTH = 1.5
START_ROWS = 10_000
CEILING_ROWS = 10_000_000
FIRST_ROWS = 5_000_000  # where nothing is known of their size: to double from fewer would cost a commit each time
FIRST_BYTES = 512 << 20  # of files, which two cores read and write within TARGET_S
FIRST_ROWS_MAX = 50_000_000


@dataclass(frozen=True, slots=True)
class Sizing:
    """The rows of the next chunk, and what the last smaller chunk cost. While that is unknown a larger one is tried:
    the first fill may be slow for its fixed cost alone. `whole_rows`: how many may be taken in at once, by the query
    over all of them, if that is not as many as in a chunk."""

    rows: int = START_ROWS
    ceiling_rows: int = CEILING_ROWS
    fixed: bool = False
    smaller_s: float | None = None
    whole_rows: int | None = None


def first_rows(rows: int, size_bytes: int) -> int:
    """How many rows may be taken in at first of a table that has so many, in files of that size: by an append, or by a
    query over all of them, neither of which holds them in memory."""
    if not rows or not size_bytes:
        return FIRST_ROWS
    return min(max(FIRST_BYTES * rows // size_bytes, START_ROWS), FIRST_ROWS_MAX)


def after_fill(sizing: Sizing, took_s: float) -> Sizing:
    """The size after a fill of full chunks that took so long."""
    if sizing.fixed:
        return sizing
    quick = took_s < TARGET_S
    cheap = sizing.smaller_s is None or took_s < CHEAP_GROWTH * sizing.smaller_s
    if (quick or cheap) and sizing.rows < sizing.ceiling_rows:
        return replace(sizing, rows=min(sizing.rows * 2, sizing.ceiling_rows), smaller_s=took_s)
    return sizing


def after_trouble(sizing: Sizing) -> Sizing:
    """The size after a fill that failed for want of memory or time."""
    smaller = replace(sizing, whole_rows=0)
    return smaller if sizing.fixed else replace(smaller, rows=max(1, sizing.rows // 2), smaller_s=None)


def whole_rows(sizing: Sizing, rate_limit: int | None) -> int:
    """How many rows may be taken in at once; none under a rate limit, which counts the rows of chunks."""
    if rate_limit is not None:
        return 0
    return sizing.rows if sizing.whole_rows is None else sizing.whole_rows


def chunk_rows(sizing: Sizing, rate_limit: int | None) -> int:
    """The rows of one chunk; under a rate limit no more than that allows in a few seconds, for which it waits."""
    if not rate_limit:
        return sizing.rows
    return max(1, min(sizing.rows, int(rate_limit * LIMITED_S)))
