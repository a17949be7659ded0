"""The planner: an example for each of its rules, and properties under an upstream that does its worst."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.core import walk
from tidefill.core.budget import Kept
from tidefill.core.keys import END, TOP, Key
from tidefill.core.reasons import Reason
from tidefill.core.state import JobState, initial
from tidefill.core.step import (
    ANEW_SHARE,
    FORWARD_SHARE,
    LOOK_EVERY_S,
    PARALLELISM_MAX,
    RELEASE_EVERY_S,
    Changed,
    Finish,
    Glimpse,
    Knobs,
    Look,
    Pace,
    Phase,
    Plan,
    Seen,
    Shape,
    Step,
    TableSeen,
    Verify,
    Wait,
    Write,
    apply,
    plan_at_once,
    plan_first_look,
    plan_look,
    plan_step,
)
from tidefill.core.version import Number, Snapshot, Version, includes
from tidefill.core.walk import DONE, Coverage, Done, NotStarted, Range, Split, Upto
from tidefill.errors import InvalidSetting, UpstreamReplaced

REPLICA = Shape(tables={"t": "t"}, walked=("t",))
MERGED = Shape(tables={"t": "t"}, walked=("t",), appends=False)
GROUPED = Shape(tables={"t": "t"}, walked=("t",), group_columns=1)
SELF_JOIN = Shape(tables={"a": "t", "b": "t"}, walked=("a",))
UNION = Shape(tables={"a": "t", "b": "u"}, walked=("a", "b"))
ANEW = Shape(tables={"t": "t"}, walked=(), starts_empty=False, anew=True)
SHAPES = (REPLICA, MERGED, GROUPED, SELF_JOIN, UNION)

ONE = Knobs()
FILLED_LONG = Pace(fill_s=90.0, forward_s=10.0, last_forward_s=1.0)
HAS_ITS_SHARE = Pace(fill_s=30.0, forward_s=10.0, last_forward_s=1.0)


def key(number: int) -> Key:
    return Key((number,))


def keys(*numbers: int) -> tuple[Key, ...]:
    return tuple(map(key, numbers))


def version(number: int, identity: str = "id") -> Version:
    return Version(identity, Number(number))


def state(coverage: Coverage, at: int = 5) -> JobState:
    return JobState(1, 3, {"t": version(at)}, {"t": coverage}, rows_filled=100)


def glimpse(
    head: int = 5,
    *,
    readable: bool = True,
    pressing: bool = False,
    pace: Pace = HAS_ITS_SHARE,
    phase: Phase = Phase.FILLING,
    renew: bool = False,
    kept: Kept | None = None,
) -> Glimpse:
    return Glimpse(phase, {"t": TableSeen(version(head), readable, pressing, kept=kept)}, pace, renew)


def seen(look: Glimpse, changed: Changed = Changed.NOTHING, offered: Mapping[Split, tuple[Key, ...]] = {}) -> Seen:
    return Seen(look, changed, bounds={"t": offered})


def chunks(plan: Plan) -> tuple[Range, ...]:
    assert isinstance(plan, Step)
    return plan.chunks.get("t", ())


def at(plan: Plan) -> Version:
    assert isinstance(plan, Step)
    return plan.versions["t"]


def how(plan: Plan) -> Write:
    assert isinstance(plan, Step)
    return plan.write


BEGUN = Split(None, key(20), Upto(key(10)))
HALFWAY: Coverage = (BEGUN, Split(key(20), None, DONE))
OFFER = {BEGUN: keys(14, 18)}
COVERED = walk.whole()


# The first step


def test_the_first_step_fixes_the_work() -> None:
    look = glimpse(head=7)
    assert plan_look(initial(1), look, ONE, REPLICA) == Look(greatest=True)
    step = plan_step(initial(1), Seen(look, greatest={"t": key(20)}), ONE, REPLICA)
    assert step == Step({"t": version(7)}, {"t": walk.start(key(20))})
    assert isinstance(step, Step)
    assert apply(initial(1), step) == JobState(1, 1, {"t": version(7)}, {"t": walk.start(key(20))})


def test_the_first_step_takes_in_the_first_chunks_where_they_can_be_appended() -> None:
    ends = Seen(glimpse(head=7), greatest={"t": key(20)})
    below, above = walk.start(key(20))
    assert plan_first_look(initial(1), ends, ONE, REPLICA) == Look(splits={"t": (below,)})
    step = plan_step(initial(1), replace(ends, bounds={"t": {below: keys(5, 9)}}), ONE, REPLICA)
    assert isinstance(step, Step)
    assert step.write is Write.APPEND
    assert chunks(step) == (Range(None, key(5)),)
    assert apply(initial(1), step).coverage["t"] == (replace(below, position=Upto(key(5))), above)
    for_none = [
        (ends, Knobs(fill_paused=True), REPLICA),
        (replace(ends, greatest={"t": None}), ONE, REPLICA),
        (Seen(glimpse(pace=Pace(chunks_allowed=0)), greatest={"t": key(20)}), ONE, REPLICA),
        (ends, ONE, MERGED),
    ]
    for seen_ends, knobs, shape in for_none:
        assert plan_first_look(initial(1), seen_ends, knobs, shape) == Look()


# R7: a table smaller than a chunk
@pytest.mark.parametrize("shape", [REPLICA, MERGED, UNION, GROUPED, SELF_JOIN])
def test_what_is_taken_in_at_once_is_done_by_the_first_step(shape: Shape) -> None:
    look = glimpse(head=7, pace=Pace(chunk_rows=2, whole_rows=9))
    assert plan_look(initial(1), look, ONE, shape) == Look(greatest=True, whole_rows=9)
    ends = Seen(look, greatest=dict.fromkeys(shape.walked, END))
    assert plan_first_look(initial(1), ends, ONE, shape) == Look(), "it is not cut"
    step = plan_step(initial(1), ends, ONE, shape)
    assert step == Step({"t": version(7)}, dict.fromkeys(shape.tables, walk.whole()), write=Write.REPLACE)
    assert isinstance(step, Step)
    assert apply(initial(1), step).finished()


def test_what_may_not_be_filled_is_not_taken_in_at_once() -> None:
    pace = Pace(chunk_rows=2, whole_rows=9)
    for look, knobs in [
        (glimpse(pace=pace), Knobs(fill_paused=True)),
        (glimpse(pace=replace(pace, chunks_allowed=0)), ONE),
        (glimpse(pace=pace, kept=Kept(11, 11)), SMALL),
    ]:
        assert plan_look(initial(1), look, knobs, REPLICA) == Look(greatest=True)


# R7: an empty table
def test_an_empty_table_is_done_at_once() -> None:
    step = plan_step(initial(1), Seen(glimpse(), greatest={"t": None}), ONE, REPLICA)
    assert isinstance(step, Step)
    after = apply(initial(1), step)
    assert after.finished()
    assert plan_step(after, seen(glimpse()), ONE, REPLICA) == Finish()


def test_that_it_is_filled_follows_from_the_state_alone() -> None:
    full = state(COVERED)
    assert plan_at_once(full, Phase.FILLING, ONE) == Finish()
    assert plan_at_once(full, Phase.FILLING, Knobs(paused=True)) is None
    assert plan_at_once(full, Phase.LIVE, ONE) is None
    assert plan_at_once(full, Phase.VERIFYING, ONE) is None
    assert plan_at_once(state(HALFWAY), Phase.FILLING, ONE) is None
    assert plan_at_once(initial(1), Phase.FILLING, ONE) is None


def test_a_paused_job_does_not_begin() -> None:
    assert plan_step(initial(1), seen(glimpse()), Knobs(paused=True), REPLICA) == Wait(Reason.PAUSED)


def test_what_is_not_walked_is_taken_whole() -> None:
    step = plan_step(initial(1), Seen(glimpse(), greatest={"a": key(9)}), ONE, SELF_JOIN)
    assert isinstance(step, Step)
    assert step.coverage == {"a": walk.start(key(9)), "b": walk.whole()}
    assert list(step.versions) == ["t"], "both at one version"


def test_the_end_of_the_work_is_the_end_of_a_group() -> None:
    step = plan_step(initial(1), Seen(glimpse(), greatest={"t": Key((3, 7))}), ONE, GROUPED)
    assert isinstance(step, Step)
    assert step.coverage["t"] == walk.start(Key((3, TOP)))


# A fill


def test_at_a_readable_version_the_fill_goes_on() -> None:
    """Though the head is newer and covered rows changed: changes wait until they are due."""
    plan = plan_step(state(HALFWAY), seen(glimpse(head=9), Changed.SOME, OFFER), ONE, REPLICA)
    assert plan == Step({"t": version(5)}, {"t": HALFWAY}, {"t": (Range(key(10), key(14)),)}, Write.APPEND, rows=1)


def test_a_fill_tells_about_how_many_rows_it_takes() -> None:
    look = glimpse(pace=replace(HAS_ITS_SHARE, chunk_rows=500))
    step = plan_step(state(HALFWAY), seen(look, offered=OFFER), ONE, REPLICA)
    assert isinstance(step, Step)
    assert step.rows == 500
    assert apply(state(HALFWAY), step).rows_filled == 600
    last = plan_step(state(HALFWAY), seen(look, offered={BEGUN: ()}), ONE, REPLICA)
    assert isinstance(last, Step)
    assert last.rows == 0, "of a chunk that ends its split nothing is known"


# R6: a million keys were deleted between 10 and the last row
def test_without_bounds_the_chunk_ends_the_split() -> None:
    split = Split(None, key(10**6), Upto(key(10)))
    before = state((split, Split(key(10**6), None, DONE)))
    step = plan_step(before, seen(glimpse(), offered={split: ()}), ONE, REPLICA)
    assert isinstance(step, Step)
    assert chunks(step) == (Range(key(10), key(10**6)),)
    assert apply(before, step).finished()


# R7: one row; the last chunk exactly full
def test_no_chunk_is_left_behind_the_last_row() -> None:
    for last, offered in ((1, keys(1)), (20, keys(20))):
        split = Split(None, key(last))
        before = state((split, Split(key(last), None, DONE)))
        step = plan_step(before, seen(glimpse(), offered={split: offered}), ONE, REPLICA)
        assert isinstance(step, Step)
        assert chunks(step) == (Range(None, key(last)),)
        assert apply(before, step).finished()


@pytest.mark.parametrize(
    ("offered", "end"),
    [
        (keys(), 20),
        (keys(14, 14, 14), 14),
        (keys(10, 14), 14),
        (keys(10), 20),
        (keys(20, 25, -3, 10, 5), 20),
        (keys(18, 16, 12), 12),
    ],
    ids=["none", "repeated", "at the position", "only the position", "outside", "reversed"],
)
def test_bounds_may_be_junk(offered: tuple[Key, ...], end: int) -> None:
    plan = plan_step(state(HALFWAY), seen(glimpse(), offered={BEGUN: offered}), ONE, REPLICA)
    assert chunks(plan) == (Range(key(10), key(end)),)


def test_a_bound_in_the_middle_of_a_group_ends_it() -> None:
    split = Split(None, Key((9, TOP)), Upto(Key((1, TOP))))
    before = state((split, Split(Key((9, TOP)), None, DONE)))
    offered = (Key((1, 5)), Key((2, 7)), Key((2, 9)), Key((9, 3)))
    plan = plan_step(before, seen(glimpse(), offered={split: offered}), ONE, GROUPED)
    assert chunks(plan) == (Range(Key((1, TOP)), Key((2, TOP))),)
    assert isinstance(plan, Step)
    assert plan.rows == 2, "it is as large as two chunks would be that need not end there"
    only_this_group = plan_step(before, seen(glimpse(), offered={split: offered[:1]}), ONE, GROUPED)
    assert chunks(only_this_group) == (Range(Key((1, TOP)), Key((9, TOP))),)


def test_a_fill_that_is_no_append_is_a_merge() -> None:
    plan = plan_step(state(HALFWAY), seen(glimpse(), offered=OFFER), ONE, MERGED)
    assert (how(plan), at(plan), chunks(plan)) == (Write.MERGE, version(5), (Range(key(10), key(14)),))


def test_occurrences_are_walked_one_after_the_other() -> None:
    versions = {"t": version(5), "u": version(8)}
    both = {name: TableSeen(versions[name], readable=True) for name in versions}
    look = Glimpse(Phase.FILLING, both, HAS_ITS_SHARE)
    split = Split(None, key(9))
    for name, other in (("a", walk.start(key(9))), ("b", walk.whole())):
        before = JobState(1, 3, versions, {"a": other, "b": walk.start(key(9))})
        assert plan_look(before, look, ONE, UNION).splits == {name: (split,)}
        step = plan_step(before, Seen(look, bounds={name: {split: ()}}), ONE, UNION)
        assert isinstance(step, Step)
        assert list(step.chunks) == [name]
        assert walk.finished(apply(before, step).coverage[name])


# Parallelism


def test_fewer_splits_than_wanted_are_cut_at_offered_bounds() -> None:
    plan = plan_step(
        state(HALFWAY), seen(glimpse(), offered={BEGUN: keys(12, 14, 16, 18)}), Knobs(parallelism=2), REPLICA
    )
    assert isinstance(plan, Step)
    lower, upper = Split(None, key(16), Upto(key(10))), Split(key(16), key(20))
    assert plan.coverage["t"] == (lower, upper, Split(key(20), None, DONE))
    assert chunks(plan) == (Range(key(10), key(12)), Range(key(16), key(18)))


def test_the_split_with_most_to_offer_is_cut() -> None:
    small, large = Split(None, key(4)), Split(key(4), key(20))
    before = state((small, large, Split(key(20), None, DONE)))
    offered = {small: keys(2), large: keys(8, 12, 16)}
    plan = plan_step(before, seen(glimpse(), offered=offered), Knobs(parallelism=3), REPLICA)
    assert chunks(plan) == (Range(None, key(2)), Range(key(4), key(8)), Range(key(12), key(16)))


def test_nothing_is_cut_at_an_invented_bound() -> None:
    plan = plan_step(state(HALFWAY), seen(glimpse(), offered={BEGUN: ()}), Knobs(parallelism=8), REPLICA)
    assert chunks(plan) == (Range(key(10), key(20)),)


# R8
def test_scaling_out_and_in_keeps_every_position() -> None:
    begun, fresh = Split(None, key(20), Upto(key(10))), Split(key(20), key(40))
    done = Split(key(40), None, DONE)
    now = state((begun, fresh, done))
    offered = {begun: keys(12, 14, 16), fresh: keys(25, 30, 35)}
    out = plan_step(now, seen(glimpse(), offered=offered), Knobs(parallelism=4), REPLICA)
    assert isinstance(out, Step)
    assert len(chunks(out)) == 4
    wide = apply(now, out)
    assert wide.coverage["t"] == (
        Split(None, key(14), Upto(key(12))),
        Split(key(14), key(20), Upto(key(16))),
        Split(key(20), key(30), Upto(key(25))),
        Split(key(30), key(40), Upto(key(35))),
        done,
    )
    asked = plan_look(wide, glimpse(), ONE, REPLICA).splits["t"]
    assert asked == wide.coverage["t"][:1], "one at a time again"
    narrow = plan_step(wide, seen(glimpse(), offered={asked[0]: ()}), ONE, REPLICA)
    assert isinstance(narrow, Step)
    assert chunks(narrow) == (Range(key(12), key(14)),)
    assert apply(wide, narrow).coverage["t"] == (Split(None, key(14), DONE), *wide.coverage["t"][1:])


def test_the_rate_limit_pays_for_so_many_chunks() -> None:
    look = glimpse(pace=replace(HAS_ITS_SHARE, chunks_allowed=1))
    plan = plan_step(state(HALFWAY), seen(look, offered=OFFER), Knobs(parallelism=3), REPLICA)
    assert len(chunks(plan)) == 1


# Forward and fill


@pytest.mark.parametrize(
    ("readable", "pace"), [(False, HAS_ITS_SHARE), (True, FILLED_LONG)], ids=["unreadable", "forward due"]
)
def test_nothing_changed_so_the_fill_moves_to_the_head(readable: bool, pace: Pace) -> None:
    plan = plan_step(state(HALFWAY), seen(glimpse(9, readable=readable, pace=pace), offered=OFFER), ONE, REPLICA)
    assert (at(plan), how(plan), len(chunks(plan))) == (version(9), Write.APPEND, 1)


@pytest.mark.parametrize(
    ("readable", "pace"), [(False, HAS_ITS_SHARE), (True, FILLED_LONG)], ids=["unreadable", "forward due"]
)
def test_changes_go_first_where_the_fill_is_an_append(readable: bool, pace: Pace) -> None:
    look = glimpse(9, readable=readable, pace=pace)
    plan = plan_step(state(HALFWAY), seen(look, Changed.SOME, OFFER), ONE, REPLICA)
    assert (at(plan), how(plan), chunks(plan)) == (version(9), Write.MERGE, ())


def test_changes_and_chunks_go_together_where_it_is_a_merge_anyway() -> None:
    plan = plan_step(state(HALFWAY), seen(glimpse(9, readable=False), Changed.SOME, OFFER), ONE, MERGED)
    assert (at(plan), how(plan), len(chunks(plan))) == (version(9), Write.MERGE, 1)


def test_a_truncate_reads_the_covered_part_anew() -> None:
    look = glimpse(9, readable=False)
    for shape in (REPLICA, MERGED):
        plan = plan_step(state(HALFWAY), seen(look, Changed.ALL, OFFER), ONE, shape)
        assert (at(plan), how(plan), chunks(plan)) == (version(9), Write.REPLACE, ())


@pytest.mark.parametrize(("changed", "write"), [(Changed.SOME, Write.MERGE), (Changed.ALL, Write.REPLACE)])
def test_after_a_step_without_a_chunk_comes_one_with(changed: Changed, write: Write) -> None:
    look = glimpse(9, readable=False, pace=Pace(forwarded_last=True))
    plan = plan_step(state(HALFWAY), seen(look, changed, OFFER), ONE, REPLICA)
    assert (at(plan), how(plan), len(chunks(plan))) == (version(9), write, 1)


# R5: whatever was read is unreadable and changed again by the time of the next step
def test_a_busy_upstream_cannot_starve_the_fill() -> None:
    now, pace, kinds = state(walk.start(key(3)), at=1), Pace(), ""
    for turn in range(2, 20):
        look = glimpse(turn, readable=False, pressing=True, pace=pace)
        offered = {split: keys(1, 2) for split in walk.unfinished(now.coverage["t"])}
        plan = plan_step(now, seen(look, Changed.SOME, offered), ONE, REPLICA)
        if isinstance(plan, Finish):
            break
        assert isinstance(plan, Step)
        now, pace = apply(now, plan), replace(pace, forwarded_last=not plan.chunks)
        kinds += "+" if plan.chunks else "-"
    assert now.finished()
    assert kinds == "-+-+-+"


def test_a_forward_is_due_by_its_share_of_the_time() -> None:
    def plan(pace: Pace) -> Plan:
        return plan_step(state(HALFWAY), seen(glimpse(9, pace=pace), Changed.SOME, OFFER), ONE, REPLICA)

    assert chunks(plan(Pace(fill_s=40.0, forward_s=9.0, last_forward_s=1.0))), "with the next one it would be a fifth"
    assert not chunks(plan(Pace(fill_s=41.0, forward_s=9.0, last_forward_s=1.0)))
    assert chunks(plan(Pace(fill_s=41.0, forward_s=9.0, last_forward_s=1.0, forwarded_last=True)))
    assert chunks(plan(Pace())), "first the fill"


def test_history_that_runs_short_makes_a_forward_due() -> None:
    look = glimpse(9, pressing=True)
    assert chunks(plan_step(state(HALFWAY), seen(look, Changed.SOME, OFFER), ONE, REPLICA)) == ()
    again = glimpse(9, pressing=True, pace=Pace(forwarded_last=True))
    assert at(plan_step(state(HALFWAY), seen(again, Changed.SOME, OFFER), ONE, REPLICA)) == version(5)


SMALL = Knobs(wal_budget=10)


def test_a_log_above_half_of_the_budget_makes_a_forward_due() -> None:
    for kept, forward in ((Kept(5, 5), False), (Kept(6, 6), True), (Kept(6, 5), False)):
        plan = plan_step(state(HALFWAY), seen(glimpse(9, kept=kept), Changed.SOME, OFFER), SMALL, REPLICA)
        assert (chunks(plan) == ()) is forward
    assert plan_look(state(HALFWAY), glimpse(9, kept=Kept(6, 6)), SMALL, REPLICA).changed


def test_a_log_above_the_budget_holds_the_fill_back() -> None:
    """Changes are taken in, again and again if need be; without any it is waited for whoever keeps the log."""
    much = glimpse(9, kept=Kept(11, 11), pace=Pace(forwarded_last=True))
    plan = plan_step(state(HALFWAY), seen(much, Changed.SOME), SMALL, REPLICA)
    assert (at(plan), how(plan), chunks(plan)) == (version(9), Write.MERGE, ())
    unchanged = plan_step(state(HALFWAY), seen(much), SMALL, REPLICA)
    assert unchanged == Step({"t": version(9)}, {"t": HALFWAY}), "a commit without rows lets go of it too"
    for head in (5, 9):
        others = glimpse(head, kept=Kept(11, 1))
        assert plan_look(state(HALFWAY), others, SMALL, REPLICA).splits == {}
        assert plan_step(state(HALFWAY), seen(others), SMALL, REPLICA) == Wait(Reason.LOG_BUDGET, LOOK_EVERY_S)
    late = glimpse(9, kept=Kept(11, 1), pace=Pace(since_commit_s=RELEASE_EVERY_S))
    assert plan_step(state(HALFWAY), seen(late), SMALL, REPLICA) == Step({"t": version(9)}, {"t": HALFWAY})
    assert plan_step(state(COVERED), seen(late), SMALL, REPLICA) == Finish(), "nothing is held back"
    for knobs in (Knobs(wal_budget=11), Knobs(wal_budget=None)):
        assert chunks(plan_step(state(HALFWAY), seen(others, offered=OFFER), knobs, REPLICA))


def test_a_job_that_has_filled_everything_is_not_held_back() -> None:
    much = Kept(11, 1)
    assert plan_step(state(COVERED), seen(glimpse(kept=much)), SMALL, REPLICA) == Finish()
    live = glimpse(phase=Phase.LIVE, kept=much)
    assert plan_step(state(COVERED), seen(live), SMALL, REPLICA) == Wait(Reason.IDLE)


def test_a_stale_head_is_never_taken() -> None:
    for head in (4, 5):
        look = glimpse(head, pressing=True)
        assert at(plan_step(state(HALFWAY), seen(look, offered=OFFER), ONE, REPLICA)) == version(5)


def test_an_unreadable_version_waits_for_a_newer_head() -> None:
    for head in (4, 5):
        look = glimpse(head, readable=False)
        assert plan_step(state(HALFWAY), seen(look, offered=OFFER), ONE, REPLICA) == Wait(Reason.NEWER_VERSION)


def test_of_two_snapshots_that_do_not_include_each_other_none_is_newer() -> None:
    ours, other = Snapshot(10, 12, frozenset({10})), Snapshot(10, 12, frozenset({11}))
    later = Snapshot(12, 12)
    before = replace(state(HALFWAY), versions={"t": Version("id", ours)})
    for point, wanted in ((other, ours), (later, later)):
        table = TableSeen(Version("id", point), readable=True)
        look = Glimpse(Phase.FILLING, {"t": table}, FILLED_LONG)
        assert at(plan_step(before, seen(look, offered=OFFER), ONE, REPLICA)).point == wanted


def test_one_table_may_move_while_the_other_stands() -> None:
    versions = {"t": version(5), "u": version(8)}
    before = JobState(1, 3, versions, {"a": HALFWAY, "b": walk.start(key(9))})
    tables = {"t": TableSeen(version(6), readable=False), "u": TableSeen(version(7), readable=True)}
    look = Glimpse(Phase.FILLING, tables, HAS_ITS_SHARE)
    step = plan_step(before, Seen(look, bounds={"a": OFFER}), ONE, UNION)
    assert isinstance(step, Step)
    assert step.versions == {"t": version(6), "u": version(8)}
    lost = {**tables, "u": TableSeen(version(8), readable=False)}
    waits = plan_step(before, Seen(replace(look, tables=lost), bounds={"a": OFFER}), ONE, UNION)
    assert waits == Wait(Reason.NEWER_VERSION)


@pytest.mark.parametrize("knobs", [ONE, Knobs(paused=True), Knobs(fill_paused=True)])
@pytest.mark.parametrize("coverage", [HALFWAY, COVERED])
def test_another_upstream_is_refused(knobs: Knobs, coverage: Coverage) -> None:
    look = Glimpse(Phase.FILLING, {"t": TableSeen(version(9, "another"), readable=True)})
    with pytest.raises(UpstreamReplaced, match="t is another table") as caught:
        plan_step(state(coverage), seen(look, offered=OFFER), knobs, REPLICA)
    assert "another" in caught.value.detail
    assert "RESYNC" in caught.value.hint


# Nothing to fill, or nothing may be filled


def test_a_paused_job_does_nothing_but_keep_its_state() -> None:
    paused = Knobs(paused=True)
    look = glimpse(9, readable=False, pressing=True)
    assert plan_look(state(HALFWAY), look, paused, REPLICA) == Look()
    assert plan_step(state(HALFWAY), seen(look), paused, REPLICA) == Wait(Reason.PAUSED)
    buried = replace(look, renew=True)
    assert plan_step(state(HALFWAY), seen(buried), paused, REPLICA) == Step({"t": version(5)}, {"t": HALFWAY})


@pytest.mark.parametrize(
    ("knobs", "pace", "waits"),
    [
        (Knobs(fill_paused=True), Pace(), Wait(Reason.FILL_PAUSED)),
        (ONE, Pace(chunks_allowed=0, tokens_in_s=2.5), Wait(Reason.RATE_LIMIT, 2.5)),
        (ONE, Pace(chunks_allowed=0, tokens_in_s=None), Wait(Reason.RATE_LIMIT, None)),
    ],
)
def test_what_is_covered_stays_fresh_while_nothing_may_be_filled(knobs: Knobs, pace: Pace, waits: Wait) -> None:
    look = glimpse(9, readable=False, pace=pace)
    assert plan_look(state(HALFWAY), look, knobs, REPLICA) == Look(changed=True)
    assert plan_step(state(HALFWAY), seen(look, Changed.SOME), knobs, REPLICA) == Step(
        {"t": version(9)}, {"t": HALFWAY}, write=Write.MERGE
    )
    assert plan_step(state(HALFWAY), seen(look), knobs, REPLICA) == waits
    assert plan_look(state(HALFWAY), glimpse(5, pace=pace), knobs, REPLICA) == Look()


@pytest.mark.parametrize("phase", [Phase.LIVE, Phase.VERIFYING])
def test_what_is_computed_anew_begins_with_all_of_it_and_is_never_merged(phase: Phase) -> None:
    first = plan_step(initial(1), seen(glimpse()), ONE, ANEW)
    assert isinstance(first, Step)
    assert (first.write, first.chunks) == (Write.REPLACE, {})
    assert apply(initial(1), first).finished()
    later = plan_step(state(COVERED), seen(glimpse(head=7, phase=phase, readable=False), Changed.SOME), ONE, ANEW)
    assert (how(later), at(later)) == (Write.REPLACE, version(7))


@pytest.mark.parametrize(
    ("share", "phase", "read", "write"),
    [
        (ANEW_SHARE, Phase.LIVE, False, Write.REPLACE),
        (ANEW_SHARE - 0.01, Phase.LIVE, False, Write.MERGE),
        (1.0, Phase.LIVE, True, Write.MERGE),
        (1.0, Phase.VERIFYING, False, Write.MERGE),
    ],
)
def test_what_was_mostly_written_is_computed_anew_unless_somebody_reads_it(
    share: float, phase: Phase, read: bool, write: Write
) -> None:
    look = replace(glimpse(head=7, phase=phase, readable=False), read=read)
    assert plan_look(state(COVERED), look, ONE, REPLICA).share == (phase is Phase.LIVE and not read)
    assert not plan_look(state(COVERED), look, Knobs(target_lag_s=30.0), REPLICA).share, "not before it is due"
    assert not plan_look(state(COVERED), look, ONE, ANEW).share, "it is anew in any case"
    assert how(plan_step(state(COVERED), replace(seen(look, Changed.SOME), share=share), ONE, REPLICA)) is write


def test_what_is_still_filled_is_never_computed_anew() -> None:
    look = glimpse(head=7, phase=Phase.LIVE)
    paused = replace(ONE, fill_paused=True)
    plan = plan_step(state(HALFWAY), replace(seen(look, Changed.SOME), share=1.0), paused, REPLICA)
    assert how(plan) is Write.MERGE


def test_everything_covered_is_verified_next() -> None:
    assert plan_step(state(COVERED), seen(glimpse(9), Changed.SOME), ONE, REPLICA) == Finish()


def test_verified_is_what_can_be_read() -> None:
    verifying = glimpse(9, phase=Phase.VERIFYING)
    assert plan_step(state(COVERED), seen(verifying, Changed.SOME), ONE, REPLICA) == Verify({"t": version(5)})
    lost = glimpse(9, phase=Phase.VERIFYING, readable=False)
    assert plan_step(state(COVERED), seen(lost), ONE, REPLICA) == Verify({"t": version(9)}), "no covered row differs"
    slow = Knobs(target_lag_s=1000.0)
    moves = plan_step(state(COVERED), seen(lost, Changed.SOME), slow, REPLICA)
    assert (at(moves), how(moves)) == (version(9), Write.MERGE), "a lag that was asked for does not delay it"


def test_a_live_job_keeps_its_target_fresh() -> None:
    live = glimpse(9, phase=Phase.LIVE)
    assert plan_look(state(COVERED), live, ONE, REPLICA) == Look(changed=True, share=True)
    for changed, write in ((Changed.SOME, Write.MERGE), (Changed.ALL, Write.REPLACE)):
        plan = plan_step(state(COVERED), seen(live, changed), ONE, REPLICA)
        assert plan == Step({"t": version(9)}, {"t": COVERED}, write=write)


def test_a_live_job_is_idle_when_nothing_of_its_own_changed() -> None:
    for head in (4, 5, 9):
        live = glimpse(head, phase=Phase.LIVE, readable=False)
        assert plan_step(state(COVERED), seen(live), ONE, REPLICA) == Wait(Reason.IDLE)


def test_a_lag_that_was_asked_for_is_used() -> None:
    slow = Knobs(target_lag_s=30.0)
    early = glimpse(9, phase=Phase.LIVE, pace=Pace(since_commit_s=12.0))
    assert plan_step(state(COVERED), seen(early, Changed.SOME), slow, REPLICA) == Wait(Reason.TARGET_LAG, 18.0)
    late = glimpse(9, phase=Phase.LIVE, pace=Pace(since_commit_s=30.0))
    assert at(plan_step(state(COVERED), seen(late, Changed.SOME), slow, REPLICA)) == version(9)
    pressing = glimpse(9, phase=Phase.LIVE, pressing=True, pace=Pace(since_commit_s=12.0))
    assert at(plan_step(state(COVERED), seen(pressing, Changed.SOME), slow, REPLICA)) == version(9)


def test_history_that_runs_short_is_let_go() -> None:
    """Nothing of ours changed, but the old version will soon be one whose changes are gone."""
    live = glimpse(9, phase=Phase.LIVE, pressing=True)
    assert plan_step(state(COVERED), seen(live), ONE, REPLICA) == Step({"t": version(9)}, {"t": COVERED})
    same = glimpse(5, phase=Phase.LIVE, pressing=True)
    assert plan_step(state(COVERED), seen(same), ONE, REPLICA) == Wait(Reason.IDLE)


def test_a_state_that_is_being_buried_is_renewed() -> None:
    renewal = Step({"t": version(5)}, {"t": COVERED})
    buried = glimpse(9, phase=Phase.LIVE, renew=True)
    assert plan_step(state(COVERED), seen(buried), ONE, REPLICA) == renewal
    moved = plan_step(state(COVERED), seen(buried, Changed.SOME), ONE, REPLICA)
    assert at(moved) == version(9), "any commit renews it"


# What is looked at


def test_looking_costs_so_no_more_than_needed() -> None:
    two = state((Split(None, key(5)), Split(key(5), key(9), Upto(key(6))), Split(key(9), None)))
    assert plan_look(two, glimpse(9), Knobs(parallelism=2), REPLICA) == Look(splits={"t": two.coverage["t"][:2]})
    due = plan_look(two, glimpse(9, pace=FILLED_LONG), ONE, REPLICA)
    assert due == Look(changed=True, splits={"t": two.coverage["t"][:1]})
    assert plan_look(two, glimpse(9, readable=False), ONE, REPLICA).changed
    assert not plan_look(two, glimpse(5, pace=FILLED_LONG), ONE, REPLICA).changed, "the head is the state's version"
    assert plan_look(state(COVERED), glimpse(9, phase=Phase.LIVE), ONE, REPLICA) == Look(changed=True, share=True)
    assert plan_look(state(COVERED), glimpse(9), ONE, REPLICA) == Look(), "it is over, whatever changed"
    assert plan_look(state(COVERED), glimpse(9, phase=Phase.VERIFYING), ONE, REPLICA) == Look()
    unreadable = glimpse(9, phase=Phase.VERIFYING, readable=False)
    assert plan_look(state(COVERED), unreadable, ONE, REPLICA) == Look(changed=True)


# Settings


@pytest.mark.parametrize("parallelism", [0, -1, PARALLELISM_MAX + 1])
def test_parallelism_has_its_limits(parallelism: int) -> None:
    with pytest.raises(InvalidSetting, match="parallelism") as caught:
        Knobs(parallelism=parallelism)
    assert str(PARALLELISM_MAX) in caught.value.hint


@pytest.mark.parametrize("lag_s", [-0.001, -math.inf, math.nan])
def test_a_lag_is_not_negative(lag_s: float) -> None:
    with pytest.raises(InvalidSetting, match="target_lag"):
        Knobs(target_lag_s=lag_s)


def test_the_limits_themselves_are_allowed() -> None:
    assert Knobs(parallelism=1, target_lag_s=0.0) == Knobs()
    assert Knobs(parallelism=PARALLELISM_MAX).parallelism == PARALLELISM_MAX


# Properties: the planner, turn by turn, under an upstream that does its worst

LAST = 40
TURNS_MAX = 400


@dataclass(frozen=True)
class Turn:
    """One turn of the loop: the state before, what was seen, what was planned, and the state after. `places`: keys
    before, between, on and behind all bounds."""

    before: JobState
    seen: Seen
    knobs: Knobs
    plan: Plan
    after: JobState
    places: tuple[Key, ...]

    def may_fill(self) -> bool:
        wishes = self.knobs.paused or self.knobs.fill_paused or self.seen.glimpse.pace.chunks_allowed == 0
        kept = [look.kept for look in self.seen.glimpse.tables.values()]
        wishes = wishes or any(log is not None and log.total > 10 for log in kept)
        return self.before.step > 0 and not self.before.finished() and not wishes


@dataclass
class Adversary:
    """Whatever an upstream may do: heads of any age, versions that are lost, changes at any time, offers of any kind.
    `calm`: it never loses a version, history never runs short, and nobody pauses anything."""

    chance: Random
    shape: Shape
    calm: bool
    newest: int = 100
    pace: Pace = field(default_factory=Pace)

    def knobs(self) -> Knobs:
        paused = not self.calm and self.chance.random() < 0.1
        fill_paused = not self.calm and self.chance.random() < 0.1
        parallelism = self.chance.choice((1, 1, 2, 3, 5))
        return Knobs(parallelism, fill_paused=fill_paused, paused=paused, wal_budget=10)

    def point(self, number: int) -> Number | Snapshot:
        """For one of the shapes a snapshot, which now and then does not see a transaction that an older one sees."""
        if self.shape is not MERGED:
            return Number(number)
        oldest = number - number % 3
        return Snapshot(oldest, number + 1, frozenset({oldest} if number % 2 else ()))

    def place(self, number: int) -> Key:
        return Key((number // 3, number)) if self.shape.group_columns else key(number)

    def glimpse(self, before: JobState) -> Glimpse:
        self.newest += self.chance.choice((0, 1, 1, 2))
        tables = {name: self._table(before.versions.get(name)) for name in set(self.shape.tables.values())}
        allowed = self.chance.choice((1, 2, 9) if self.calm else (0, 1, 2, 9, 9))
        return Glimpse(Phase.FILLING, tables, replace(self.pace, chunks_allowed=allowed, chunk_rows=2))

    def _table(self, known: Version | None) -> TableSeen:
        head = Version("id", self.point(self.newest - self.chance.choice((0, 0, 0, 1, 3))))
        readable = known is None or self.calm or self.chance.random() < 0.5
        kept = None if self.calm else Kept(self.chance.choice((0, 9, 12)), self.chance.choice((0, 9)))
        return TableSeen(head, readable, pressing=not self.calm and self.chance.random() < 0.3, kept=kept)

    def look(self, before: JobState, glimpse: Glimpse, knobs: Knobs) -> Seen:
        """Answers what was asked, and nothing else."""
        asked = plan_look(before, glimpse, knobs, self.shape)
        if asked.greatest:
            return Seen(glimpse, greatest={name: self.chance.choice(self._greatest()) for name in self.shape.walked})
        changed = self.chance.choice((Changed.NOTHING, Changed.SOME, Changed.SOME, Changed.ALL))
        bounds = {name: {split: self._offer(split) for split in splits} for name, splits in asked.splits.items()}
        return Seen(glimpse, changed if asked.changed else Changed.NOTHING, bounds=bounds)

    def _greatest(self) -> tuple[Key | None, ...]:
        return (None, self.place(0), self.place(LAST), self.place(LAST), self.place(LAST))

    def _offer(self, split: Split) -> tuple[Key, ...]:
        ends = [end for end in (split.after, split.upto) if end is not None]
        here = [split.position.key] if isinstance(split.position, Upto) else []
        numbers = [self.chance.randint(-3, LAST + 3) for _ in range(self.chance.choice((1, 12, 60, 60)))]
        offered = [*map(self.place, numbers), *ends, *here]
        self.chance.shuffle(offered)
        return tuple(offered if self.chance.random() < 0.95 else ())

    def account(self, step: Step) -> None:
        """As the runner does it."""
        if step.chunks:
            took_s = self.chance.uniform(0.1, 3.0)
            self.pace = replace(self.pace, fill_s=self.pace.fill_s + took_s, forwarded_last=False)
        else:
            spent_s = self.pace.forward_s + 1.0
            self.pace = replace(self.pace, forward_s=spent_s, last_forward_s=1.0, forwarded_last=True)


@lru_cache(maxsize=512)
def history(seed: int, *, calm: bool = False) -> tuple[Turn, ...]:
    """The turns from the first step until everything is covered."""
    return tuple(_turns(seed, calm))


def _turns(seed: int, calm: bool) -> Iterator[Turn]:
    chance = Random(seed)
    shape = chance.choice(SHAPES)
    adversary = Adversary(chance, shape, calm)
    places = tuple(map(adversary.place, range(-1, LAST + 3)))
    now = initial(1)
    for _ in range(TURNS_MAX):
        knobs, look = adversary.knobs(), adversary.glimpse(now)
        seen = adversary.look(now, look, knobs)
        plan = plan_step(now, seen, knobs, shape)
        after = apply(now, plan) if isinstance(plan, Step) else now
        yield Turn(now, seen, knobs, plan, after, places)
        if isinstance(plan, Step):
            adversary.account(plan)
        if isinstance(plan, Finish):
            return
        now = after


SEEDS = st.integers(0, 10**6)


def covered(coverage: Coverage, places: tuple[Key, ...]) -> set[Key]:
    """The naive model: the set of what is covered, by the definition of splits and positions alone."""
    return {place for place in places for split in coverage if _holds(split, place)}


def _holds(split: Split, place: Key) -> bool:
    inside = _within(Range(split.after, split.upto), place)
    match split.position:
        case NotStarted():
            return False
        case Upto(last):
            return inside and place <= last
        case Done():
            return inside


def _within(chunk: Range, place: Key) -> bool:
    return (chunk.after is None or chunk.after < place) and (chunk.upto is None or place <= chunk.upto)


def steps(turns: tuple[Turn, ...]) -> Iterator[tuple[Turn, Step]]:
    return ((turn, turn.plan) for turn in turns if isinstance(turn.plan, Step))


@given(SEEDS)
def test_versions_never_go_back_and_a_stale_head_is_never_taken(seed: int) -> None:
    for turn, step in steps(history(seed)):
        for table, old in turn.before.versions.items():
            head = turn.seen.glimpse.tables[table].head
            assert includes(step.versions[table].point, old.point)
            assert step.versions[table] in (old, head)


@given(SEEDS)
def test_coverage_only_grows_and_by_exactly_the_chunks(seed: int) -> None:
    for turn, step in steps(history(seed)):
        assert turn.after.step == turn.before.step + 1
        for name, coverage in turn.before.coverage.items():
            old, new = covered(coverage, turn.places), covered(turn.after.coverage[name], turn.places)
            chunks = step.chunks.get(name, ())
            taken = [place for chunk in chunks for place in turn.places if _within(chunk, place)]
            assert walk.flaw(turn.after.coverage[name]) is None
            assert covered(step.coverage[name], turn.places) == old, "a cut covers nothing"
            assert new == old | set(taken)
            assert len(new) == len(old) + len(taken), "no row is read twice"


@given(SEEDS)
def test_no_more_chunks_than_wished_and_paid_for(seed: int) -> None:
    for turn, step in steps(history(seed)):
        count = sum(len(named) for named in step.chunks.values())
        assert count <= min(turn.knobs.parallelism, turn.seen.glimpse.pace.chunks_allowed)
        assert bool(count) == bool(step.chunks)
        assert not count or turn.may_fill()
        along_groups = len(turn.places[0].values) > 1
        assert step.rows <= count * 2 or along_groups, "only a whole group makes a chunk larger than was paid for"


@given(SEEDS)
def test_nothing_is_filled_at_a_version_that_cannot_be_read(seed: int) -> None:
    for turn, step in steps(history(seed)):
        for table, old in turn.before.versions.items():
            if step.chunks and step.versions[table] == old:
                look = turn.seen.glimpse.tables[table]
                assert look.readable or look.head == old


@given(SEEDS)
def test_while_filling_is_allowed_no_two_steps_in_a_row_go_without_a_chunk(seed: int) -> None:
    taken = list(steps(history(seed)))
    for (_, step), (turn, following) in itertools.pairwise(taken):
        assert step.chunks or following.chunks or not turn.may_fill()


@given(SEEDS)
def test_what_may_be_filled_is_filled_or_waits_for_a_readable_version(seed: int) -> None:
    for turn in history(seed):
        if turn.may_fill():
            assert isinstance(turn.plan, Step) or turn.plan == Wait(Reason.NEWER_VERSION)
        if turn.plan == Wait(Reason.NEWER_VERSION):
            assert not all(look.readable for look in turn.seen.glimpse.tables.values())


@given(SEEDS)
def test_the_loop_ends(seed: int) -> None:
    turns = history(seed)
    assert turns[-1].plan == Finish()
    assert turns[-1].after.finished()
    walked = len(turns[-1].after.coverage)
    assert sum(turn.may_fill() for turn, _ in steps(turns)) <= 2 * walked * (LAST + 1)


@given(SEEDS)
def test_changes_are_merged_or_replaced_and_an_append_has_none(seed: int) -> None:
    for turn, step in steps(history(seed)):
        moved = turn.before.step > 0 and step.versions != turn.before.versions
        if moved and turn.seen.changed is Changed.ALL:
            assert step.write is Write.REPLACE
        elif moved and turn.seen.changed is Changed.SOME:
            assert step.write is Write.MERGE
        else:
            assert step.write is not Write.REPLACE


@given(SEEDS)
def test_bounds_end_whole_groups(seed: int) -> None:
    for turn, _ in steps(history(seed)):
        for coverage in turn.after.coverage.values():
            ends = [split.upto for split in coverage if split.upto is not None]
            ends += [split.position.key for split in coverage if isinstance(split.position, Upto)]
            assert all(end.values[-1] is TOP for end in ends if len(end.values) > 1)


@given(SEEDS)
def test_forwards_take_at_most_a_fifth_of_the_time(seed: int) -> None:
    """While filling at readable versions, if one forward takes as long as the next."""
    for turn in history(seed, calm=True):
        if turn.before.step > 1:
            pace = turn.seen.glimpse.pace
            before_s = 1.0  # the first step, which has no chunk to take
            assert (pace.forward_s - before_s) * FORWARD_SHARE <= pace.forward_s - before_s + pace.fill_s
