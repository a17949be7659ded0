"""What a person is told: share done, rate, time left. Never over 100 %, never back within a generation.

The row estimate comes from statistics and may be far off, so 100 % is kept for "every position is Done" and an
unfinished job shows at most 99 %.
"""

from __future__ import annotations

from dataclasses import dataclass

UNFINISHED_MAX = 0.99


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a target is behind its upstream: commits that it does not have, where they are numbered, for how long it
    has lacked the first of them, and how many bytes of log the upstream keeps for it."""

    versions: int | None = None
    s: float | None = None
    log_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Of one generation, as it was at `at_s`."""

    generation: int
    share: float
    rows: int
    rows_per_s: float
    eta_s: float | None
    lag_versions: int | None = None
    lag_s: float | None = None
    at_s: float | None = None
    log_bytes: int | None = None


def advance(
    before: Progress | None,
    generation: int,
    rows: int,
    estimate: int,
    *,
    finished: bool,
    rows_per_s: float,
    lag: Lag | None = None,
    at_s: float | None = None,
) -> Progress:
    """The progress after `before`, which it never falls behind while the generation is the same."""
    floor = before if before is not None and before.generation == generation else None
    rows_shown = max(rows, floor.rows if floor else 0, estimate if finished else 0)
    known = rows_shown / max(estimate, rows_shown, 1) if estimate > 0 else 0.0  # without an estimate nothing is known
    share = 1.0 if finished else min(known, UNFINISHED_MAX)
    share = max(share, floor.share if floor else 0.0)
    left = 0 if finished else max(estimate - rows_shown, 0)
    eta_s = left / rows_per_s if rows_per_s > 0 else (0.0 if finished else None)
    behind = lag or Lag()
    return Progress(generation, share, rows_shown, rows_per_s, eta_s, behind.versions, behind.s, at_s, behind.log_bytes)
