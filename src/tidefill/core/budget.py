"""The log that a server keeps for a job until the job has taken it in: how much of it is too much, and what is done
about it.

Above half of the budget changes go before chunks. Above the budget no chunk is filled: the time is for changes, and
whoever else keeps the log from being let go is waited for. Above the limit, which somebody has to ask for, a job that
does not move gives the log up: then nothing but a new generation helps it.
"""

from __future__ import annotations

from dataclasses import dataclass

BUDGET = 4 << 30  # 4 GB: a server keeps 1 GB anyway unless it is told otherwise
ATTEMPTS_MAX = 5  # to go on, that failed one after the other: with the pauses between them about half a minute


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes of an upstream's log. `total`: kept for the job; `ours`: of these, what it lets go when it takes in all
    that there is (the rest is kept for transactions that are still open). `left`: how many more are kept before the
    upstream throws them away; None if it never does."""

    total: int = 0
    ours: int = 0
    left: int | None = None


def presses(kept: Kept, budget: int | None) -> bool:
    """Whether changes go first: half of what may be kept is, and to take them in lets go of it."""
    runs_short = kept.left is not None and kept.total > kept.left
    return runs_short or (budget is not None and 2 * kept.ours > budget)


def holds_back(kept: Kept, budget: int | None) -> bool:
    """Whether no chunk is filled."""
    return budget is not None and kept.total > budget


def gives_up(kept: Kept, limit: int | None, *, stands: bool, failed: int) -> bool:
    """Whether the log is given up: the limit was asked for, it is the job that keeps more than that, and it does not
    move. `stands`: it is paused or has failed; `failed`: how often in a row an attempt to go on has. A job that can go
    on never gives up, however much is kept: its next step lets it go. What others keep is no reason either."""
    return limit is not None and kept.ours > limit and (stands or failed >= ATTEMPTS_MAX)
