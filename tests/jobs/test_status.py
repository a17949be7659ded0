"""What a job's row tells a person: how far, how old, what was asked for, and nothing that it does not know."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.confirm import Anchor, anchor_to_json
from tidefill.core.keys import TOP, Key, Timestamp, Value
from tidefill.core.progress import Progress
from tidefill.core.state import JobState
from tidefill.core.version import Number, Snapshot, Version
from tidefill.core.walk import DONE, NOT_STARTED, Coverage, Position, Split, Upto
from tidefill.jobs import row as jobs
from tidefill.jobs.definitions import RowViewDefinition, job_to_text
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Failure, Job, Lease, Pause, Settings
from tidefill.jobs.status import SplitStatus, percent, status_of, version_of

NOW_S = 1000.0
SEVEN = Number(7)
DEFINITION = job_to_text(RowViewDefinition("orders", "SELECT 1", ("id",), ("id",), ("id",), "the key"))
ROW = Job("1", "revenue", DEFINITION)


def key(*values: Value) -> Key:
    return Key(values)


def anchor_of(*coverages: Coverage, point: Number | Snapshot = SEVEN) -> Anchor:
    named = {f"t{number}": coverage for number, coverage in enumerate(coverages)}
    return Anchor(JobState(1, 1, {"t0": Version("id", point)}, named), "uuid", 3)


def splits_of(*coverages: Coverage) -> tuple[SplitStatus, ...]:
    text = json.dumps(anchor_to_json(anchor_of(*coverages)))
    return status_of(replace(ROW, anchor=text), NOW_S).splits


def test_a_new_job_tells_nothing_that_it_does_not_know() -> None:
    status = status_of(ROW, NOW_S)
    assert (status.name, status.kind, status.state, status.generation) == ("revenue", "view", "created", 1)
    assert (status.share, status.rows, status.rows_per_s, status.eta_s) == (0.0, 0, 0.0, None)
    assert (status.version, status.splits, status.lag_versions, status.lag_s, status.seen_s) == (
        None,
        (),
        None,
        None,
        None,
    )
    assert (status.runs, status.published, status.failure, status.wishes) == (False, False, None, ())


def test_the_figures_are_those_of_the_generation() -> None:
    progress = Progress(1, 0.25, 250, 50.0, 15.0)
    row = replace(ROW, progress=progress, published=1, settings=Settings(parallelism=4, rate_limit=9), pause=Pause.FILL)
    status = status_of(row, NOW_S)
    assert (status.share, status.rows, status.rows_per_s, status.eta_s) == (0.25, 250, 50.0, 15.0)
    assert (status.published, status.settings.parallelism, status.settings.rate_limit, status.pause) == (
        True,
        4,
        9,
        "fill",
    )
    assert status_of(replace(row, generation=2), NOW_S).share == 0.0


@pytest.mark.parametrize(
    ("lease", "runs"), [(Lease("a", 1, 1001.0), True), (Lease("a", 1, 1000.0), False), (Lease(), False)]
)
def test_it_runs_while_its_lease_lasts(lease: Lease, runs: bool) -> None:
    assert status_of(replace(ROW, lease=lease), NOW_S).runs is runs
    assert not status_of(replace(ROW, lease=lease), NOW_S, is_gone=lambda owner: owner == "a").runs


@dataclass(frozen=True, slots=True)
class Dated(Progress):
    """Progress that tells the lag, and when it was seen."""

    lag_versions: int | None = None
    lag_s: float | None = None
    at_s: float | None = None


def test_lag_and_age_are_told_if_the_row_has_them() -> None:
    def told(progress: Progress) -> tuple[int | None, float | None, float | None]:
        status = status_of(replace(ROW, progress=progress), NOW_S)
        return status.lag_versions, status.lag_s, status.seen_s

    assert told(Dated(1, 0.5, 1, 1.0, 1.0, lag_versions=2, lag_s=4.0, at_s=NOW_S - 180)) == (2, 4.0, 180.0)
    assert told(Dated(1, 0.5, 1, 1.0, 1.0, at_s=NOW_S + 5)) == (None, None, 0.0), "a clock that is ahead"


def test_splits_tell_their_range_and_how_far_they_are() -> None:
    coverage = (
        Split(None, key(100), Upto(key(50))),
        Split(key(100), key(200), Upto(key(140))),
        Split(key(200), key(300)),
        Split(key(300), None, DONE),
    )
    assert splits_of(coverage) == (
        SplitStatus(".. 100", "up to 50", None),
        SplitStatus("100 .. 200", "up to 140", 0.4),
        SplitStatus("200 .. 300", "not started", 0.0),
        SplitStatus("300 ..", "done", 1.0),
    )
    assert splits_of((Split(None, None, DONE),)) == (SplitStatus("everything", "done", 1.0),)


def test_with_several_occurrences_a_split_says_whose_it_is() -> None:
    walked, whole = (Split(None, key(9)), Split(key(9), None, DONE)), (Split(None, None, DONE),)
    assert [split.range for split in splits_of(walked, whole)] == ["t0: .. 9", "t0: 9 ..", "t1: everything"]


@pytest.mark.parametrize(
    ("after", "at", "upto", "told"),
    [
        (key("a"), key("it's"), key("z"), ("'a' .. 'z'", "up to \"it's\"", None)),
        (key(date(2024, 1, 1), 5), key(date(2024, 1, 3), TOP), key(date(2024, 1, 5), 2),
         ("(2024-01-01, 5) .. (2024-01-05, 2)", "up to 2024-01-03", 0.5)),
        (key(Timestamp(0)), key(Timestamp(3_600_000_000)), key(Timestamp(86_400_000_000)),
         ("1970-01-01 .. 1970-01-02", "up to 1970-01-01 01:00:00", 1 / 24)),
        (key(1, 10), key(1, 15), key(1, 20), ("(1, 10) .. (1, 20)", "up to (1, 15)", 0.5)),
        (key(None), key(5), key(10), ("NULL .. 10", "up to 5", None)),
        (key(b"\x00"), key(b"\x01"), key(b"\xff"), ("0x00 .. 0xff", "up to 0x01", None)),
        (key(Decimal("0.5")), key(Decimal("1.0")), key(Decimal("2.5")), ("0.5 .. 2.5", "up to 1.0", 0.25)),
        (key(0), key(10**30 - 1), key(10**30), (f"0 .. {10**30}", f"up to {10**30 - 1}", 0.99)),
        (key(Timestamp(0)), key(Timestamp(10**18)), key(Timestamp(2 * 10**18)),
         (f"1970-01-01 .. {2 * 10**18} us", f"up to {10**18} us", 0.5)),
    ],
)  # fmt: skip
def test_keys_in_words(after: Key, at: Key, upto: Key, told: tuple[str, str, float | None]) -> None:
    middle = splits_of((Split(None, after, DONE), Split(after, upto, Upto(at)), Split(upto, None, DONE)))[1]
    assert (middle.range, middle.reached, middle.share) == told


def test_the_version_is_that_of_the_input() -> None:
    whole = (Split(None, None, DONE),)
    assert version_of(anchor_of(whole)) == 7
    assert version_of(anchor_of(whole, point=Snapshot(1, 2))) is None
    assert version_of(None) is None


def test_a_state_that_cannot_be_read_is_shown_as_none() -> None:
    status = status_of(
        replace(ROW, anchor="{", life=Life.FAILED, failure=Failure("STATE_UNREADABLE", "damaged")), NOW_S
    )
    assert (status.version, status.splits, status.state) == (None, (), "failed")


FAILED, PAUSED, LIVE = (replace(ROW, life=life) for life in (Life.FAILED, Life.PAUSED, Life.LIVE))


@pytest.mark.parametrize(
    ("row", "wish", "wishes"),
    [
        (LIVE, jobs.wish_pause(Pause.ALL), ("pause",)),
        (LIVE, jobs.wish_pause(Pause.FILL), ()),
        (LIVE, jobs.wish_resync, ("resync",)),
        (LIVE, jobs.wish_drop, ("drop",)),
        (LIVE, jobs.wish_resume, ()),
        (FAILED, jobs.wish_resume, ("resume",)),
        (FAILED, jobs.wish_pause(Pause.ALL), ()),
        (PAUSED, jobs.wish_resume, ("resume",)),
        (PAUSED, jobs.wish_pause(Pause.ALL), ()),
        (replace(PAUSED, pause=Pause.ALL), jobs.wish_drop, ("drop",)),
        (replace(LIVE, life=Life.CANCELLING, wants_end=True, wants_resync=True), jobs.wish_drop, ()),
    ],
)  # fmt: skip
def test_wishes_are_told_until_somebody_acts_on_them(
    row: Job, wish: Callable[[Job], Job], wishes: tuple[str, ...]
) -> None:
    assert status_of(wish(row), NOW_S).wishes == wishes


def test_a_percent_is_rounded_down() -> None:
    assert [percent(share) for share in (-1.0, 0.0, 0.009, 0.29, 0.999999, 1.0, 7.0)] == [0, 0, 0, 29, 99, 100, 100]
    assert percent(float("nan")) == 0


@given(st.floats())
def test_only_all_is_a_hundred_percent(share: float) -> None:
    assert 0 <= percent(share) <= 100
    assert (percent(share) == 100) == (share >= 1.0)


POSITIONS: st.SearchStrategy[Callable[[int, int], Position]] = st.sampled_from(
    [lambda low, high: NOT_STARTED, lambda low, high: Upto(key((low + high) // 2)), lambda low, high: DONE]
)


@given(st.lists(st.tuples(st.integers(1, 10**20), POSITIONS), min_size=1, max_size=6))
def test_every_split_is_told_and_only_done_is_all(parts: list[tuple[int, Callable[[int, int], Position]]]) -> None:
    low, coverage = 0, [Split(None, key(0), DONE)]
    for size, position in parts:
        high = low + size + 1
        coverage.append(Split(key(low), key(high), position(low, high)))
        low = high
    told = splits_of((*coverage, Split(key(low), None, DONE)))
    assert len(told) == len(coverage) + 1
    for split in told:
        assert split.share is not None
        assert 0.0 <= split.share <= 1.0
        assert (split.share == 1.0) == (split.reached == "done")
