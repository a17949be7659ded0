"""A forward: when changes are taken in, and which heads are taken."""

from dataclasses import replace

import pytest

from tests.core.step.examples import (
    COVERED,
    FILLED_LONG,
    HALFWAY,
    HAS_ITS_SHARE,
    MERGED,
    OFFER,
    ONE,
    REPLICA,
    SMALL,
    UNION,
    at,
    chunks,
    glimpse,
    how,
    key,
    keys,
    seen,
    state,
    version,
)
from tidefill.core import walk
from tidefill.core.budget import Kept
from tidefill.core.look import Changed, CheapLook, Look, Pace, Phase, TableSeen
from tidefill.core.reasons import Reason
from tidefill.core.state import JobState
from tidefill.core.step import (
    LOOK_EVERY_S,
    RELEASE_EVERY_S,
    Finish,
    Knobs,
    Plan,
    Step,
    Wait,
    Write,
    apply,
    plan_look,
    plan_step,
)
from tidefill.core.version import Snapshot, Version
from tidefill.core.walk import Coverage
from tidefill.errors import UpstreamReplaced


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
    now, pace, kinds = state(walk.start(walk.above(key(3))), at=1), Pace(), ""
    for turn in range(2, 20):
        look = glimpse(turn, readable=False, history_runs_short=True, pace=pace)
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
    look = glimpse(9, history_runs_short=True)
    assert chunks(plan_step(state(HALFWAY), seen(look, Changed.SOME, OFFER), ONE, REPLICA)) == ()
    again = glimpse(9, history_runs_short=True, pace=Pace(forwarded_last=True))
    assert at(plan_step(state(HALFWAY), seen(again, Changed.SOME, OFFER), ONE, REPLICA)) == version(5)


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
        look = glimpse(head, history_runs_short=True)
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
        look = CheapLook(Phase.FILLING, {"t": table}, FILLED_LONG)
        assert at(plan_step(before, seen(look, offered=OFFER), ONE, REPLICA)).point == wanted


def test_one_table_may_move_while_the_other_stands() -> None:
    versions = {"t": version(5), "u": version(8)}
    before = JobState(1, 3, versions, {"a": HALFWAY, "b": walk.start(walk.above(key(9)))})
    tables = {"t": TableSeen(version(6), readable=False), "u": TableSeen(version(7), readable=True)}
    look = CheapLook(Phase.FILLING, tables, HAS_ITS_SHARE)
    step = plan_step(before, Look(look, bounds={"a": OFFER}), ONE, UNION)
    assert isinstance(step, Step)
    assert step.versions == {"t": version(6), "u": version(8)}
    lost = {**tables, "u": TableSeen(version(8), readable=False)}
    waits = plan_step(before, Look(replace(look, tables=lost), bounds={"a": OFFER}), ONE, UNION)
    assert waits == Wait(Reason.NEWER_VERSION)


@pytest.mark.parametrize("knobs", [ONE, Knobs(paused=True), Knobs(fill_paused=True)])
@pytest.mark.parametrize("coverage", [HALFWAY, COVERED])
def test_another_upstream_is_refused(knobs: Knobs, coverage: Coverage) -> None:
    look = CheapLook(Phase.FILLING, {"t": TableSeen(version(9, "another"), readable=True)})
    with pytest.raises(UpstreamReplaced, match="t is another table") as caught:
        plan_step(state(coverage), seen(look, offered=OFFER), knobs, REPLICA)
    assert "another" in caught.value.detail
    assert "RESYNC" in caught.value.hint
