"""How a test fills a table and commits to it, and how it reads the log.

`core.confirm` reads the log here, as it does in production."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal

from tidefill.core.confirm import NO_TABLE, Anchor, Counts, Effect, Entry, Payload, Truth, confirm
from tidefill.core.keys import TOP, Key, Timestamp
from tidefill.core.state import JobState
from tidefill.core.version import Number, Snapshot, Version
from tidefill.core.walk import DONE, Split, Upto, above, start
from tidefill.errors import CommitConflict
from tidefill.ports.frames import Append, Merge, Put, Replace, TargetWrite
from tidefill.ports.target import Target
from tidefill.testing.conformance.target.harness import F, Row, TargetHarness

OURS, THEIRS = "the generation", "another generation"


def row(id_: int, value: int | None = 0) -> Row:
    """A row of the table."""
    return (id_, id_ % 3, None, value)


WAYS = ("append", "exact_merge", "merge", "put", "replace")


def written_by(harness: TargetHarness[F], way: str, new: Row, act: Callable[[], None] | None = None) -> TargetWrite[F]:
    """A write of that row, in one of the ways, during which something may happen."""
    marked = way in ("merge", "exact_merge")
    frame = harness.marked([("I", new[0], new)]) if marked else harness.frame([new])
    rows = frame if act is None else harness.meanwhile(frame, act)
    match way:
        case "append":
            return Append(rows)
        case "put":
            return Put((Key((new[0],)),), rows)
        case "replace":
            return Replace(rows)
        case _:
            return Merge(rows, exact=way == "exact_merge")


def assert_did(harness: TargetHarness[F], counts: Counts) -> None:
    """The newest commit says that it did this. One that replaced rows counts an update as a row that went and a row
    that came."""
    entry = last_entry(harness)
    assert entry.counts == (counts.replaced if entry.replaces else counts)


def prepared(harness: TargetHarness[F]) -> Target[F]:
    target = harness.target()
    target.prepare()
    return target


def filled(harness: TargetHarness[F], rows: Sequence[Row]) -> Target[F]:
    """The table after step 1, which appended these rows."""
    target = prepared(harness)
    target.commit(Append(harness.frame(rows)), payload_for(harness, 1))
    return target


def state_at(step: int) -> JobState:
    """A state with something of everything in it."""
    snapshot = Version("server 7", Snapshot(100, 110 + step, frozenset({103, 104})), '{"safe": "0/16B3\'", "end": 7}')
    mixed = Key(("o'brien \\ \" 🌊\n", None, Timestamp(-1), b"\x00\xff", True, TOP))
    coverage = {
        "a": (Split(None, Key((9, TOP)), Upto(Key((step,)))), Split(Key((9, TOP)), None, DONE)),
        "b": start(above(mixed)),
        "c": start(above(Key((Decimal("-1.10"),)))),
    }
    return JobState(1, step, {"t": Version("id", Number(step)), "p": snapshot}, coverage, step * 10)


def payload_for(harness: TargetHarness[F], step: int, commit_uuid: str = "") -> Payload:
    """What a runner plans that looks at the log now."""
    log = harness.target().log()
    return Payload(state_at(step), OURS, commit_uuid or f"commit {step}", log[-1].version if log else NO_TABLE)


def commit(harness: TargetHarness[F], write: TargetWrite[F], step: int) -> Payload:
    payload = payload_for(harness, step)
    harness.target().commit(write, payload)
    return payload


def commit_or_conflict(target: Target[F], write: TargetWrite[F], payload: Payload) -> None:
    with suppress(CommitConflict):
        target.commit(write, payload)


def fails(target: Target[F], write: TargetWrite[F], payload: Payload) -> bool:
    try:
        target.commit(write, payload)
    except Exception:
        return True
    return False


def confirmed(harness: TargetHarness[F], anchor: Anchor | None = None) -> Truth:
    return confirm(harness.target().log(None if anchor is None else anchor.checked), 1, OURS, anchor)


def last_entry(harness: TargetHarness[F]) -> Entry:
    return harness.target().log()[-1]


def last_payload(harness: TargetHarness[F]) -> Payload:
    payload = last_entry(harness).payload
    assert payload is not None
    return payload


def steps_of(harness: TargetHarness[F]) -> list[int]:
    """The steps of ours that the log tells, in its order."""
    return [entry.payload.state.step for entry in harness.target().log() if entry.payload is not None]


def assert_log(harness: TargetHarness[F], *effects: Effect) -> None:
    log = harness.target().log()
    assert tuple(entry.effect for entry in log) == effects
    assert [entry.version for entry in log] == [log[0].version + number for number in range(len(log))], "without a gap"
    assert all((entry.payload is not None) is (entry.effect is Effect.WRITE) for entry in log)


def assert_same(found: Iterable[Row], expected: Iterable[Row]) -> None:
    """The same rows, as often, in any order."""
    there, wanted = Counter(found), Counter(expected)
    assert there == wanted, f"missing {list((wanted - there).elements())}, too much {list((there - wanted).elements())}"
