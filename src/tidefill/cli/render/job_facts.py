"""What there is to say about one job: how fast it is, how far behind, and what it waits for."""

from __future__ import annotations

from tidefill.cli.render.numbers import count, lag
from tidefill.core.reasons import Reason
from tidefill.jobs.amounts import duration_text, size_text
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Pause
from tidefill.jobs.status import Status


def job_facts(status: Status) -> list[str]:
    """What there is to say, most important first. A rate and a time left are told only while somebody works."""
    filling = status.state == Life.BACKFILLING.value
    working = filling and status.runs
    facts = [
        status.condition,
        _failed_parts(status),
        f"{status.doing} for {duration_text(status.doing.for_s)}" if status.doing is not None else "",
        f"{count(status.rows_per_s)} rows/s" if working and status.rows_per_s >= 0.1 else "",
        f"{count(status.rows)} rows" if status.rows > 0 and status.state != Life.LIVE.value else "",
        f"{duration_text(status.eta_s)} left" if working and status.eta_s is not None else "",
        _lag(status),
        _log(status),
        f"version {status.version}" if status.version is not None and not filling else "",
        f"generation {status.generation}" if filling and status.generation > 1 else "",
        _waiting(status),
        f"asked to {' and '.join(status.wishes)}" if status.wishes else "",
    ]
    return [fact for fact in facts if fact]


def _failed_parts(status: Status) -> str:
    """Which of the things that the job makes could not be made."""
    failed = [part.name for part in status.parts if part.failure]
    return f"failed: {', '.join(failed)}" if failed else ""


def _lag(status: Status) -> str:
    if status.waits_for == Reason.IDLE.code:
        return ""
    return lag(status.lag_versions, status.lag_s, at_least=status.doing is not None)


def _log(status: Status) -> str:
    """How much of its log a server keeps for it, once that is much."""
    kept, allowed = status.log_bytes, status.settings.wal_budget
    if not kept or (allowed is not None and 2 * kept <= allowed):
        return ""
    return f"{size_text(kept)} of log kept"


def _waiting(status: Status) -> str:
    """What it waits for. That a paused job is paused was said already."""
    if status.state == Life.PAUSED.value and status.waits_for == Reason.PAUSED.code:
        return ""
    if status.waits_for in (Reason.IDLE.code, Reason.FILL_PAUSED.code):
        return status.waiting
    if status.waiting:
        return f"waiting: {status.waiting}"
    fill_paused = status.pause == Pause.FILL.value and status.state == Life.BACKFILLING.value
    return Reason.FILL_PAUSED.value if fill_paused else ""
