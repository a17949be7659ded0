"""How long the fill of an index waits before its next chunk, from one look at what the server suffers.

Rules:
- A chunk waits if the last one had others wait for its locks, if a replica that is connected falls far behind, or if
  checkpoints were forced since the last look. The wait doubles as long as that goes on, and ends with it.
- The fill is slowed, never stopped: a replica that stands still would hold it for ever. Between two waits comes one
  chunk.
- A log of changed rows that has grown to half of its limit ends all waits: a slower fill makes it longer, and the
  build would be given up.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidefill.jobs.amounts import size_text

LOOK_S = 1.0
"""How often the server is asked at most."""

WAIT_MIN_S, WAIT_MAX_S = 1.0, 5.0
"""For a replica or for checkpoints. With chunks of 50,000 rows, a fill that always waits still does some 10,000 rows a
second."""

BLOCKED_MIN_S, BLOCKED_MAX_S = 0.1, 1.0
"""For sessions that waited for a chunk: about as long as the chunk took, so that writers find half of the time free.
(Measured once with 500,000 rows and 300 writes a second, where batches of initput often hold a writer: 29 s with these
waits, 51 s with those for a replica.)"""

LAG_BYTES = 512 << 20
"""How far a replica may be behind: some 30 chunks. A replica that keeps up is behind by far less."""

LOG_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Signals:
    """One look. `blocked`: sessions that waited for locks of the last chunks. `replica`, `lag_bytes`: the connected
    replica that is furthest behind, and how far. `forced`: checkpoints so far that were not due by time. `log_share`:
    which part of its limit the log of changed rows has."""

    blocked: int = 0
    replica: str = ""
    lag_bytes: int = 0
    forced: int = 0
    log_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Brake:
    """What follows from the last look, which was at `looked_s`: until when the fill waits, for how long in all, and why
    in words."""

    looked_s: float = float("-inf")
    until_s: float = 0.0
    wait_s: float = 0.0
    text: str = ""
    seen: Signals | None = None


def is_due(brake: Brake, now_s: float) -> bool:
    """Whether the server is asked again. A clock that went back makes it due."""
    return not 0.0 <= now_s - brake.looked_s < LOOK_S


def braked(last: Brake, seen: Signals, now_s: float) -> Brake:
    """The brake after a look."""
    text = "; ".join(_reasons(last.seen, seen))
    if not text or seen.log_share > LOG_SHARE:
        return Brake(now_s, seen=seen)
    of_blocked = text == _blocked(seen)
    least_s, most_s = (BLOCKED_MIN_S, BLOCKED_MAX_S) if of_blocked else (WAIT_MIN_S, WAIT_MAX_S)
    wait_s = min(max(2 * last.wait_s, least_s), most_s)
    return Brake(now_s, now_s + wait_s, wait_s, text, seen)


def _reasons(before: Signals | None, seen: Signals) -> list[str]:
    found = [_blocked(seen)] if seen.blocked else []
    if seen.lag_bytes > LAG_BYTES:
        found.append(f"the replica {seen.replica} is {size_text(seen.lag_bytes)} behind")
    forced = 0 if before is None else seen.forced - before.forced
    if forced > 0:
        found.append(f"{forced} {'checkpoint was' if forced == 1 else 'checkpoints were'} forced")
    return found


def _blocked(seen: Signals) -> str:
    return f"{seen.blocked} {'session' if seen.blocked == 1 else 'sessions'} waited for the last chunk"
