"""A job as a person sees it: worked out from its row in the store alone, so that looking never starts Spark.

What the row cannot tell is None, never a guess. The one estimate is how far a split has come, and it says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from math import floor
from typing import Any, assert_never

from tidefill.core.confirm import Anchor, anchor_from_text
from tidefill.core.keys import EPOCH, TOP, Key, Timestamp, Value, key_from_json
from tidefill.core.progress import UNFINISHED_MAX, Progress
from tidefill.core.state import Occurrence
from tidefill.core.step import StepKind
from tidefill.core.version import Point
from tidefill.core.walk import Coverage, Done, NotStarted, Position, Range, Split, Upto
from tidefill.errors import StateUnreadable, StoreUnreadable
from tidefill.jobs.condition import Condition, condition_from_text
from tidefill.jobs.definitions import UnreadableDefinition, job_from_text
from tidefill.jobs.graph import is_index
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import ends
from tidefill.jobs.plain_json import plain
from tidefill.jobs.row import Doing, Failure, Job, PartReport, Pause, Settings, settings_error

NOT_STARTED, DONE = "not started", "done"
UNKNOWN = "unknown"  # the kind of a job whose definition cannot be read


@dataclass(frozen=True, slots=True)
class SplitStatus:
    """A range of the walk and how far it is filled: `not started`, `up to KEY` or `done`. `share`: how much of it that
    is, if keys were spread evenly; None where keys have no distance or the range has no beginning."""

    range: str
    reached: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class DoingStatus:
    """A step that is under way: what it does, for how long already, and which ranges of the walk it fills. `longer`:
    for longer than the step before it took, so that a rate of before says nothing."""

    kind: str
    for_s: float
    chunks: int = 0
    rows: int = 0
    ranges: tuple[str, ...] = ()
    longer: bool = False

    def __str__(self) -> str:
        filling = "filling" + (f" {self.chunks} chunk{'s' * (self.chunks != 1)}" if self.chunks else "")
        known = {
            StepKind.FILL.value: filling,
            StepKind.FORWARD.value: "taking in changes",
            StepKind.BOTH.value: f"taking in changes and {filling}",
            StepKind.FULL.value: "computing all rows",
            StepKind.VERIFY.value: "comparing with a recompute",
        }
        return known.get(self.kind, self.kind)


@dataclass(frozen=True, slots=True)
class Status:
    """A job as a person sees it. `version`: of its input, that the target stands for. `runs`: whether some process
    runs it now. `published`: whether a generation of it can be read. `wishes`: what was asked for and not done yet.
    `seen_s`: how old the figures are. `log_bytes`: how much of its log a server keeps for it. `doing`: the step that
    is under way; then `lag_s` counts on, and is the least that it can be. `waits_for`: the code of what it waits for,
    which programs compare; `waiting` is for a person. `phase`: of an index, the state that its server shows. `parts`:
    of a job that makes several things, how each stands. `condition`: what is wrong with what it has made although it is
    well, such as `VIOLATED (3 keys)`; `violated`: the number of those keys, None if nobody counts them."""

    name: str
    kind: str
    state: str
    share: float
    rows: int
    rows_per_s: float
    eta_s: float | None
    version: int | None
    waiting: str
    runs: bool
    failure: Failure | None
    splits: tuple[SplitStatus, ...] = ()
    generation: int = 1
    published: bool = False
    settings: Settings = field(default_factory=Settings)
    pause: str = Pause.NOTHING.value
    wishes: tuple[str, ...] = ()
    lag_versions: int | None = None
    lag_s: float | None = None
    seen_s: float | None = None
    log_bytes: int | None = None
    doing: DoingStatus | None = None
    waits_for: str = ""
    phase: str = ""
    parts: tuple[PartReport, ...] = ()
    condition: str = ""
    violated: int | None = None

    @property
    def percent(self) -> int:
        """Whole percents, rounded down: 100 means that nothing is left to fill."""
        return percent(self.share)

    def __str__(self) -> str:
        parts = [f"{self.name}: {self.state}", *filter(None, (self.condition,)), f"{self.percent}%"]
        if self.state == Life.BACKFILLING.value and self.rows_per_s:
            parts.append(f"{self.rows_per_s:,.0f} rows/s")
        if self.version is not None:
            parts.append(f"at version {self.version}")
        if self.doing is not None:
            parts.append(f"{self.doing} for {self.doing.for_s:.0f} s")
        if self.waiting:
            parts.append(f"waiting: {self.waiting}")
        if self.failure is not None:
            parts.append(f"{self.failure.fact} [{self.failure.code}]")
        return ", ".join(parts)


def percent(share: float) -> int:
    """The share in whole percents, rounded down, from 0 to 100."""
    if share >= 1.0:
        return 100
    return min(floor(share * 100 + 1e-9), 99) if share > 0.0 else 0


def status_json(status: Status) -> dict[str, Any]:
    """The status as JSON data, with the percents that a person sees."""
    data = plain(status)
    assert isinstance(data, dict)
    return {**data, "percent": status.percent}


def status_of(row: Job, now_s: float, is_gone: Callable[[str], bool] = lambda _: False) -> Status:
    """How the job stands. A state that cannot be read is shown as none: the runner stops at it and says why. A job of
    which this release cannot read the definition or the settings is shown as failed: none of its runners goes on.
    `is_gone`: whether the owner of a lease is known to be no more."""
    progress = row.progress if row.progress is not None and row.progress.generation == row.generation else None
    anchor, (kind, unreadable) = readable_anchor(row), _kind(row)
    runs = bool(row.lease.owner) and row.lease.until_s > now_s and not is_gone(row.lease.owner)
    doing = _doing(row.doing, now_s) if runs and row.doing is not None else None
    paced = progress if doing is None or not doing.longer else None
    lag_versions, lag_s = _lag(progress, doing, now_s)
    condition = condition_from_text(row.condition)
    return Status(
        name=row.name,
        kind=kind,
        state=Life.FAILED.value if unreadable is not None and not ends(row) else row.life.value,
        share=progress.share if progress else 0.0,
        rows=progress.rows if progress else 0,
        rows_per_s=paced.rows_per_s if paced else 0.0,
        eta_s=paced.eta_s if paced else None,
        version=version_of(anchor),
        waiting=row.waiting,
        waits_for=row.waits_for,
        runs=runs,
        failure=row.failure or unreadable,
        splits=() if anchor is None else tuple(_splits(anchor.state.coverage)),
        generation=row.generation,
        published=row.published is not None,
        settings=row.settings,
        pause=row.pause.value,
        wishes=tuple(_wishes(row)),
        lag_versions=lag_versions,
        lag_s=lag_s,
        seen_s=_age_s(progress, now_s),
        log_bytes=progress.log_bytes if progress else None,
        doing=doing,
        phase=_phase(row) if is_index(row) else "",
        parts=row.parts if row.part_names else (),
        condition=str(condition or ""),
        violated=condition.violated if isinstance(condition, Condition) else None,
    )


def _phase(row: Job) -> str:
    """Where an index is by its last report; empty before the first."""
    try:
        data = json.loads(row.anchor) if row.anchor else {}
    except ValueError:
        return ""
    return str(data.get("state") or "") if isinstance(data, dict) else ""


def _kind(row: Job) -> tuple[str, Failure | None]:
    """What the job makes, and why this release cannot run it, if it cannot."""
    match job_from_text(row.definition):
        case UnreadableDefinition(fact, detail, hint):
            return UNKNOWN, Failure(StoreUnreadable.code, fact, detail, hint)
        case definition:
            error = settings_error(row)
            if error is None:
                return definition.kind.value, None
            return UNKNOWN, Failure(error.code, error.fact, error.detail, error.hint)


def _doing(doing: Doing, now_s: float) -> DoingStatus:
    for_s = max(now_s - doing.began_s, 0.0)
    ranges = tuple(ranges_of(doing.ranges))
    return DoingStatus(doing.kind, for_s, doing.chunks, doing.rows, ranges, for_s > doing.usual_s)


def ranges_of(text: str) -> Iterator[str]:
    """The chunks of a step, as far as they can be read."""
    with suppress(StateUnreadable, TypeError, ValueError):
        for after, upto in json.loads(text or "[]"):
            yield range_text(Range(key_from_json(after), key_from_json(upto)))


def _lag(progress: Progress | None, doing: DoingStatus | None, now_s: float) -> tuple[int | None, float | None]:
    """Versions and seconds, as they were seen. During a step seconds count on, and what was none may be some by now: in
    a long step nobody knows."""
    if progress is None:
        return None, None
    if doing is None:
        return progress.lag_versions, progress.lag_s
    if not (progress.lag_versions or progress.lag_s):
        return (None, None) if doing.longer else (progress.lag_versions, progress.lag_s)
    lag_s = None if progress.lag_s is None else progress.lag_s + (_age_s(progress, now_s) or 0.0)
    return progress.lag_versions, lag_s


def version_of(anchor: Anchor | None) -> int | None:
    """The version of its input that the target stands for, if it is one with a number."""
    point = point_of(anchor)
    return None if point is None else point.ordinal


def point_of(anchor: Anchor | None) -> Point | None:
    """The point of its input's history that the target stands for."""
    return None if anchor is None else next((version.point for version in anchor.state.versions.values()), None)


def readable_anchor(row: Job) -> Anchor | None:
    """The confirmed copy that the row keeps; None if there is none, or none that this release can read."""
    try:
        return anchor_from_text(row.anchor)
    except StateUnreadable:
        return None


def _age_s(progress: Progress | None, now_s: float) -> float | None:
    at_s = progress.at_s if progress else None
    return None if at_s is None else max(now_s - at_s, 0.0)


def _wishes(row: Job) -> Iterator[str]:
    """What a runner would do first comes first. A job that has failed stands still: to pause it is nothing to do."""
    if row.life in (Life.CANCELLING, Life.DROPPED):
        return
    if row.wants_end:
        yield "drop"
    if row.wanted_definition:
        yield "replace"
    if row.wants_resync:
        yield "resync"
    if row.wants_resume or (row.life is Life.PAUSED and row.pause is not Pause.ALL):
        yield "resume"
    if row.pause is Pause.ALL and row.life not in (Life.PAUSED, Life.FAILED):
        yield "pause"


def _splits(coverages: Mapping[Occurrence, Coverage]) -> Iterator[SplitStatus]:
    """The splits in walk order; with several occurrences, each says whose it is."""
    for occurrence, coverage in coverages.items():
        whose = f"{occurrence}: " if len(coverages) > 1 else ""
        for split in coverage:
            yield SplitStatus(whose + range_text(split), reached_text(split.position), share_of(split))


def range_text(split: Split | Range) -> str:
    """`1 .. 1000`: the bounds; an open end has none."""
    after = "" if split.after is None else _key(split.after)
    upto = "" if split.upto is None else _key(split.upto)
    return f"{after} .. {upto}".strip() if after or upto else "everything"


def reached_text(position: Position) -> str:
    """How far a split is filled: `not started`, `up to KEY` or `done`."""
    match position:
        case NotStarted():
            return NOT_STARTED
        case Upto(key):
            return f"up to {_key(key)}"
        case Done():
            return DONE
        case never:
            assert_never(never)


def share_of(split: Split) -> float | None:
    """How much of the split is filled, if keys were spread evenly; None where nobody knows."""
    match split.position:
        case NotStarted():
            return 0.0
        case Upto(key):
            return _part(split.after, key, split.upto)
        case Done():
            return 1.0
        case never:
            assert_never(never)


def _part(after: Key | None, reached: Key, upto: Key | None) -> float | None:
    """How far `reached` lies between the two, by the first column in which they differ."""
    if after is None or upto is None:
        return None
    for low, at, high in zip(after.values, reached.values, upto.values, strict=False):
        if low != high:
            return _ratio(_place(low), _place(at), _place(high))
    return None


def _ratio(low: Decimal | None, at: Decimal | None, high: Decimal | None) -> float | None:
    if low is None or at is None or high is None or not low <= at <= high or low == high:
        return None
    return min(float((at - low) / (high - low)), UNFINISHED_MAX)


def _place(value: Value) -> Decimal | None:
    """Where the value lies on the line of numbers; None if it has no place there."""
    match value:
        case bool():
            return None
        case int() | Decimal():
            return Decimal(value)
        case Timestamp(micros):
            return Decimal(micros)
        case date():
            return Decimal(value.toordinal())
        case _:
            return None


def _key(key: Key) -> str:
    """The key's values. A TOP at the end is left out: `up to Monday` says that all of Monday is in."""
    shown = [_value(value) for value in key.values if value is not TOP]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def _value(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return repr(value)
        case bytes():
            return f"0x{value.hex()}"
        case Timestamp(micros):
            return _moment(micros)
        case _:
            return str(value)


def _moment(micros: int) -> str:
    """UTC; the time of day only if there is one. What no calendar has is shown as it is."""
    try:
        moment = EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros} us"
    return moment.replace(tzinfo=None).isoformat(" ").removesuffix(" 00:00:00")
