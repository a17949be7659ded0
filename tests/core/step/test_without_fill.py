"""Nothing to fill, or nothing may be filled: a paused job, a covered one, a live one; and what each looks at."""

from dataclasses import replace

import pytest

from tests.core.step.examples import (
    ANEW,
    COVERED,
    FILLED_LONG,
    HALFWAY,
    ONE,
    REPLICA,
    at,
    glimpse,
    how,
    key,
    seen,
    state,
    version,
)
from tidefill.core.costs import Sample, Way
from tidefill.core.look import Changed, LookRequest, Pace, Phase
from tidefill.core.reasons import Reason
from tidefill.core.state import initial
from tidefill.core.step import Finish, Knobs, Step, Verify, Wait, Write, apply, plan_look, plan_step
from tidefill.core.walk import Split, Upto


def test_a_paused_job_does_nothing_but_keep_its_state() -> None:
    paused = Knobs(paused=True)
    look = glimpse(9, readable=False, history_runs_short=True)
    assert plan_look(state(HALFWAY), look, paused, REPLICA) == LookRequest()
    assert plan_step(state(HALFWAY), seen(look), paused, REPLICA) == Wait(Reason.PAUSED)
    overlaid = replace(look, rewrite_state=True)
    assert plan_step(state(HALFWAY), seen(overlaid), paused, REPLICA) == Step({"t": version(5)}, {"t": HALFWAY})


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
    assert plan_look(state(HALFWAY), look, knobs, REPLICA) == LookRequest(changed=True)
    assert plan_step(state(HALFWAY), seen(look, Changed.SOME), knobs, REPLICA) == Step(
        {"t": version(9)}, {"t": HALFWAY}, write=Write.MERGE
    )
    assert plan_step(state(HALFWAY), seen(look), knobs, REPLICA) == waits
    assert plan_look(state(HALFWAY), glimpse(5, pace=pace), knobs, REPLICA) == LookRequest()


@pytest.mark.parametrize("phase", [Phase.LIVE, Phase.VERIFYING])
def test_what_is_computed_anew_begins_with_all_of_it_and_is_never_merged(phase: Phase) -> None:
    first = plan_step(initial(1), seen(glimpse()), ONE, ANEW)
    assert isinstance(first, Step)
    assert (first.write, first.chunks) == (Write.REPLACE, {})
    assert apply(initial(1), first).finished()
    later = plan_step(state(COVERED), seen(glimpse(head=7, phase=phase, readable=False), Changed.SOME), ONE, ANEW)
    assert (how(later), at(later)) == (Write.REPLACE, version(7))


@pytest.mark.parametrize(
    ("written", "phase", "read", "write"),
    [
        (100_000, Phase.LIVE, False, Write.REPLACE),
        (99_999, Phase.LIVE, False, Write.MERGE),
        (0, Phase.LIVE, False, Write.MERGE),
        (1_000_000, Phase.LIVE, True, Write.MERGE),
        (1_000_000, Phase.VERIFYING, False, Write.MERGE),
    ],
)
def test_what_was_mostly_written_is_computed_anew_unless_somebody_reads_it(
    written: int, phase: Phase, read: bool, write: Write
) -> None:
    look = replace(glimpse(head=7, phase=phase, readable=False), read=read)
    assert plan_look(state(COVERED), look, ONE, REPLICA).sizes == (phase is Phase.LIVE and not read)
    assert not plan_look(state(COVERED), look, Knobs(target_lag_s=30.0), REPLICA).sizes, "not before it is due"
    assert not plan_look(state(COVERED), look, ONE, ANEW).sizes, "it is anew in any case"
    wrote = replace(seen(look, Changed.SOME), written=written, rows=1_000_000)
    assert how(plan_step(state(COVERED), wrote, ONE, REPLICA)) is write
    assert how(plan_step(state(COVERED), wrote, replace(ONE, steps_only=True), REPLICA)) is Write.MERGE
    assert not plan_look(state(COVERED), look, replace(ONE, steps_only=True), REPLICA).sizes


def test_the_cheaper_way_is_taken_and_the_step_says_why() -> None:
    samples = (Sample(Way.RECOMPUTE, 0, 1000, 2.0), Sample(Way.CHANGES, 10, 1000, 3.0))
    look = glimpse(head=7, phase=Phase.LIVE, pace=Pace(samples=samples))
    wrote = replace(seen(look, Changed.SOME), written=10, rows=1000)
    plan = plan_step(state(COVERED), wrote, ONE, REPLICA)
    assert isinstance(plan, Step)
    assert (plan.write, plan.why) == (Write.REPLACE, "a step was expected to take 3.0 s, a recompute 2.0 s")
    quick = replace(look, pace=Pace(samples=(samples[0], replace(samples[1], seconds=1.0))))
    plan = plan_step(state(COVERED), replace(wrote, glimpse=quick), ONE, REPLICA)
    assert isinstance(plan, Step)
    assert (plan.write, plan.why) == (Write.MERGE, "")


def test_what_is_still_filled_is_never_computed_anew() -> None:
    look = glimpse(head=7, phase=Phase.LIVE)
    paused = replace(ONE, fill_paused=True)
    plan = plan_step(state(HALFWAY), replace(seen(look, Changed.SOME), written=9, rows=9), paused, REPLICA)
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
    assert plan_look(state(COVERED), live, ONE, REPLICA) == LookRequest(changed=True, sizes=True)
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
    history_runs_short = glimpse(9, phase=Phase.LIVE, history_runs_short=True, pace=Pace(since_commit_s=12.0))
    assert at(plan_step(state(COVERED), seen(history_runs_short, Changed.SOME), slow, REPLICA)) == version(9)


def test_history_that_runs_short_is_let_go() -> None:
    """Nothing of ours changed, but the old version will soon be one whose changes are gone."""
    live = glimpse(9, phase=Phase.LIVE, history_runs_short=True)
    assert plan_step(state(COVERED), seen(live), ONE, REPLICA) == Step({"t": version(9)}, {"t": COVERED})
    same = glimpse(5, phase=Phase.LIVE, history_runs_short=True)
    assert plan_step(state(COVERED), seen(same), ONE, REPLICA) == Wait(Reason.IDLE)


def test_a_state_that_is_being_buried_is_renewed() -> None:
    renewal = Step({"t": version(5)}, {"t": COVERED})
    overlaid = glimpse(9, phase=Phase.LIVE, rewrite_state=True)
    assert plan_step(state(COVERED), seen(overlaid), ONE, REPLICA) == renewal
    moved = plan_step(state(COVERED), seen(overlaid, Changed.SOME), ONE, REPLICA)
    assert at(moved) == version(9), "any commit renews it"


def test_looking_costs_so_no_more_than_needed() -> None:
    two = state((Split(None, key(5)), Split(key(5), key(9), Upto(key(6))), Split(key(9), None)))
    assert plan_look(two, glimpse(9), Knobs(parallelism=2), REPLICA) == LookRequest(splits={"t": two.coverage["t"][:2]})
    due = plan_look(two, glimpse(9, pace=FILLED_LONG), ONE, REPLICA)
    assert due == LookRequest(changed=True, splits={"t": two.coverage["t"][:1]})
    assert plan_look(two, glimpse(9, readable=False), ONE, REPLICA).changed
    assert not plan_look(two, glimpse(5, pace=FILLED_LONG), ONE, REPLICA).changed, "the head is the state's version"
    assert plan_look(state(COVERED), glimpse(9, phase=Phase.LIVE), ONE, REPLICA) == LookRequest(
        changed=True, sizes=True
    )
    assert plan_look(state(COVERED), glimpse(9), ONE, REPLICA) == LookRequest(), "it is over, whatever changed"
    assert plan_look(state(COVERED), glimpse(9, phase=Phase.VERIFYING), ONE, REPLICA) == LookRequest()
    unreadable = glimpse(9, phase=Phase.VERIFYING, readable=False)
    assert plan_look(state(COVERED), unreadable, ONE, REPLICA) == LookRequest(changed=True)
