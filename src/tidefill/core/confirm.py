"""What is true about a target: decided here and nowhere else, after every commit and at every recovery.

A commit of ours carries a payload: the new state, who wrote it, and on which version of the target it was planned. True
is the payload with the greatest step of this generation, provided that every other commit since it was planned left the
data alone. The lease says nothing about this: a runner that lost its lease may still commit, a replayed step is skipped
in silence, and a stranger may write between plan and commit. So the log is read back each time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tidefill.core.state import JobState, initial, state_from_json, state_to_json
from tidefill.errors import Bug, KeyNotUnique, StateLost, StateUnreadable, TargetTouched

NO_TABLE = -1  # the version that a step is planned on that makes the table


class Effect(Enum):
    """What a commit did to the data of the target, by its operation. CREATED is the creation of an empty table; mostly
    the first WRITE makes it."""

    CREATED = "birth"
    WRITE = "write"
    NONE = "none"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows inserted, updated and deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def replaced(self) -> Counts:
        """What these changes are to a commit that replaces rows: an update is a row that goes and a row that comes."""
        return Counts(inserted=self.inserted + self.updated, deleted=self.updated + self.deleted)


@dataclass(frozen=True, slots=True)
class Payload:
    """What a commit carries. `expected`: the counts that the change set was found to have before it was written."""

    state: JobState
    generation_uuid: str
    commit_uuid: str
    planned_on: int
    expected: Counts | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A commit in the target's log. `replaces`: it removed the rows of some keys and put others there, so that it
    counts no updates."""

    version: int
    effect: Effect
    payload: Payload | None = None
    counts: Counts = Counts()
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Anchor:
    """The store's confirmed copy of the state, and the target's version up to which the log was checked for it."""

    state: JobState
    generation_uuid: str
    checked: int


@dataclass(frozen=True, slots=True)
class Truth:
    """The state, the target's version up to which the log was checked, the commit that brought the state, whether
    commits of others have begun to bury it, and how many rows it inserted."""

    state: JobState
    checked: int
    commit_uuid: str
    state_is_not_last_commit: bool
    inserted: int = 0

    def anchor(self, generation_uuid: str) -> Anchor:
        """The copy that the store keeps."""
        return Anchor(self.state, generation_uuid, self.checked)


def confirm(log: Sequence[Entry], generation: int, generation_uuid: str, anchor: Anchor | None) -> Truth:
    """The truth that the log (what is left of it, ascending) and the store's copy tell; an error if they tell none."""
    known = anchor if anchor is not None and anchor.generation_uuid == generation_uuid else None
    newest = _newest(log, generation_uuid)
    if newest is None:
        return _without_payload(log, generation, known)
    entry, payload = newest
    if known is not None and known.state.step > payload.state.step:
        raise _touched("its newest state is older than the one that was confirmed")
    already_checked = known is not None and known.state.step == payload.state.step
    since = known.checked if known is not None and already_checked else payload.planned_on
    _refuse_foreign(log, since, generation_uuid)
    if not already_checked:
        _refuse_wrong_counts(entry, payload)
    state_is_not_last_commit = log[-1].version > entry.version
    return Truth(payload.state, log[-1].version, payload.commit_uuid, state_is_not_last_commit, entry.counts.inserted)


def _newest(log: Sequence[Entry], generation_uuid: str) -> tuple[Entry, Payload] | None:
    ours = [
        (entry, entry.payload)
        for entry in log
        if entry.payload is not None
        and entry.effect is Effect.WRITE
        and entry.payload.generation_uuid == generation_uuid
    ]
    return max(ours, key=lambda found: found[1].state.step, default=None)


def _without_payload(log: Sequence[Entry], generation: int, known: Anchor | None) -> Truth:
    started = known is not None and known.state.step > 0
    if not log:
        if started:
            raise _touched("it is gone")
        return Truth(initial(generation), NO_TABLE, "", state_is_not_last_commit=False)
    if known is not None:
        if started and log[0].version == 0:
            raise _touched("it was made anew: its log begins, without a commit of this job")
        _refuse_foreign(log, known.checked, known.generation_uuid)
        return Truth(known.state, log[-1].version, "", state_is_not_last_commit=started)
    if log[0].effect is Effect.CREATED:
        _refuse_foreign(log, log[0].version, "")
        return Truth(initial(generation), log[-1].version, "", state_is_not_last_commit=False)
    raise StateLost(
        "nothing tells where the job is",
        detail="The target's log was cleaned past the last state, and the store has no copy of it.",
        hint="RESYNC the job to build it anew.",
    )


def _refuse_foreign(log: Sequence[Entry], since: int, generation_uuid: str) -> None:
    """Every commit after version `since` has to be there, and to be ours or harmless."""
    later = [entry for entry in log if entry.version > since]
    head = log[-1].version if log else -1
    if head < since:
        raise _touched("its log is shorter than it was")
    if len(later) != head - since:
        raise StateLost(
            "the target's log was cleaned before it was checked",
            detail=f"Commits between versions {since} and {head} are missing.",
            hint="RESYNC the job to build it anew.",
        )
    for entry in later:
        ours = entry.payload is not None and entry.payload.generation_uuid == generation_uuid
        written = entry.effect is Effect.WRITE and ours
        made = entry.effect is Effect.CREATED and entry.version == 0
        if not (written or made or entry.effect is Effect.NONE):
            raise _touched(f"version {entry.version} of the target is not a commit of this job")


def _touched(detail: str) -> TargetTouched:
    return TargetTouched(
        "the target was changed by somebody else",
        detail=detail,
        hint="RESYNC the job to build it anew; write to a table of your own instead of the target.",
    )


def _refuse_wrong_counts(entry: Entry, payload: Payload) -> None:
    if payload.expected is None:
        return
    expected, found = payload.expected.replaced if entry.replaces else payload.expected, entry.counts
    if expected == found:
        return
    met = found.updated + found.deleted - expected.updated - expected.deleted
    if met > 0 or (met == 0 and found.inserted < expected.inserted):
        raise KeyNotUnique(
            "a change of one row met several rows in the target, or a new row one that has its key",
            detail=f"Expected {expected}, the commit did {found}.",
            hint="The declared key is not unique. Declare one that is and create the object anew.",
        )
    raise Bug("a commit did something else than was planned", detail=f"{expected} became {found}")


def payload_to_json(payload: Payload) -> dict[str, Any]:
    """The payload as JSON data."""
    expected = payload.expected
    return {
        "state": state_to_json(payload.state),
        "generation_uuid": payload.generation_uuid,
        "commit_uuid": payload.commit_uuid,
        "planned_on": payload.planned_on,
        "expected": None if expected is None else [expected.inserted, expected.updated, expected.deleted],
    }


def payload_from_json(data: Any) -> Payload:
    """The inverse of `payload_to_json`."""
    match data:
        case {
            "state": state,
            "generation_uuid": str(generation_uuid),
            "commit_uuid": str(commit_uuid),
            "planned_on": int(planned_on),
            "expected": [int(), int(), int()] | None as expected,
        }:
            counts = None if expected is None else Counts(*expected)
            return Payload(state_from_json(state), generation_uuid, commit_uuid, planned_on, counts)
    raise StateUnreadable("the payload of a commit cannot be read", detail=repr(data)[:200])


def payload_to_text(payload: Payload) -> str:
    """The payload as the text that a commit carries."""
    return json.dumps({"tidefill": payload_to_json(payload)})


def payload_from_text(text: str | None) -> Payload | None:
    """The payload, if this is one of ours. A damaged one is an error, not a stranger."""
    try:
        data = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(data, dict) or "tidefill" not in data:
        return None
    return payload_from_json(data["tidefill"])


def anchor_from_text(text: str) -> Anchor | None:
    """The confirmed copy that a job's row keeps; None before the first."""
    return anchor_from_json(parsed(text)) if text else None


def parsed(text: str) -> dict[str, object]:
    """A JSON text of a job's row; StateUnreadable for what it cannot be."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise StateUnreadable("what the store keeps of the state is damaged", detail=str(error)) from error
    if not isinstance(data, dict):
        raise StateUnreadable("what the store keeps of the state is damaged", detail=text[:200])
    return data


def anchor_to_json(anchor: Anchor) -> dict[str, Any]:
    """The anchor as JSON data."""
    return {
        "state": state_to_json(anchor.state),
        "generation_uuid": anchor.generation_uuid,
        "checked": anchor.checked,
    }


def anchor_from_json(data: Any) -> Anchor:
    """The inverse of `anchor_to_json`."""
    match data:
        case {"state": state, "generation_uuid": str(generation_uuid), "checked": int(checked)}:
            return Anchor(state_from_json(state), generation_uuid, checked)
    raise StateUnreadable("the confirmed copy of the state cannot be read", detail=repr(data)[:200])
