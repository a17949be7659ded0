"""The states of a job, in one table. What a job waits for stands beside the state, not in it."""

from __future__ import annotations

from enum import Enum

from tidefill.errors import WrongState


class Life(Enum):
    """Where a job is in its life."""

    CREATED = "created"
    BACKFILLING = "backfilling"
    VERIFYING = "verifying"
    LIVE = "live"
    PAUSED = "paused"
    FAILED = "failed"
    CANCELLING = "cancelling"
    DROPPED = "dropped"


class Event(Enum):
    """What moves a job from state to state."""

    START = "start"
    FILLED = "filled"
    VERIFIED = "verified"
    PAUSE = "pause"
    RESUME_FILLING = "resume filling"
    RESUME_LIVE = "resume live"
    FAIL = "fail"
    RESYNC = "resync"
    END = "end"
    ENDED = "ended"


_RUNNING = (Life.CREATED, Life.BACKFILLING, Life.VERIFYING, Life.LIVE)
_STANDING = (*_RUNNING, Life.PAUSED, Life.FAILED)

TRANSITIONS: dict[tuple[Life, Event], Life] = {
    (Life.CREATED, Event.START): Life.BACKFILLING,
    (Life.BACKFILLING, Event.FILLED): Life.VERIFYING,
    (Life.VERIFYING, Event.VERIFIED): Life.LIVE,
    **{(life, Event.PAUSE): Life.PAUSED for life in _RUNNING},
    **{(life, Event.RESUME_FILLING): Life.BACKFILLING for life in (Life.PAUSED, Life.FAILED)},
    **{(life, Event.RESUME_LIVE): Life.LIVE for life in (Life.PAUSED, Life.FAILED)},
    **{(life, Event.FAIL): Life.FAILED for life in (*_RUNNING, Life.PAUSED)},
    **{(life, Event.RESYNC): Life.BACKFILLING for life in _STANDING},
    **{(life, Event.END): Life.CANCELLING for life in _STANDING},
    (Life.CANCELLING, Event.ENDED): Life.DROPPED,
}


def after(life: Life, event: Event) -> Life:
    """The state after the event; WrongState where the table has none."""
    following = TRANSITIONS.get((life, event))
    if following is None:
        raise WrongState(f"a job that is {life.value} cannot {event.value}")
    return following
