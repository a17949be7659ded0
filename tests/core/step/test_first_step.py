"""The first step fixes the work, and takes in what fits at once."""

from dataclasses import replace

import pytest

from tests.core.step.examples import (
    COVERED,
    GROUPED,
    HALFWAY,
    MERGED,
    ONE,
    REPLICA,
    SELF_JOIN,
    SMALL,
    UNION,
    chunks,
    glimpse,
    key,
    keys,
    seen,
    state,
    version,
)
from tidefill.core import walk
from tidefill.core.budget import Kept
from tidefill.core.keys import TOP, Key
from tidefill.core.look import Look, LookRequest, Pace, Phase
from tidefill.core.reasons import Reason
from tidefill.core.state import JobState, initial
from tidefill.core.step import (
    Finish,
    Knobs,
    Shape,
    Step,
    Wait,
    Write,
    apply,
    plan_at_once,
    plan_first_look,
    plan_look,
    plan_step,
)
from tidefill.core.walk import Range, Upto


def test_the_first_step_fixes_the_work() -> None:
    look = glimpse(head=7)
    assert plan_look(initial(1), look, ONE, REPLICA) == LookRequest(ends=True)
    step = plan_step(initial(1), Look(look, beyond={"t": walk.above(key(20))}), ONE, REPLICA)
    assert step == Step({"t": version(7)}, {"t": walk.start(walk.above(key(20)))})
    assert isinstance(step, Step)
    assert apply(initial(1), step) == JobState(1, 1, {"t": version(7)}, {"t": walk.start(walk.above(key(20)))})


def test_the_first_step_takes_in_the_first_chunks_where_they_can_be_appended() -> None:
    ends = Look(glimpse(head=7), beyond={"t": walk.above(key(20))})
    below, above = walk.start(walk.above(key(20)))
    assert plan_first_look(initial(1), ends, ONE, REPLICA) == LookRequest(splits={"t": (below,)})
    step = plan_step(initial(1), replace(ends, bounds={"t": {below: keys(5, 9)}}), ONE, REPLICA)
    assert isinstance(step, Step)
    assert step.write is Write.APPEND
    assert chunks(step) == (Range(None, key(5)),)
    assert apply(initial(1), step).coverage["t"] == (replace(below, position=Upto(key(5))), above)
    for_none = [
        (ends, Knobs(fill_paused=True), REPLICA),
        (replace(ends, beyond={"t": walk.above(None)}), ONE, REPLICA),
        (Look(glimpse(pace=Pace(chunks_allowed=0)), beyond={"t": walk.above(key(20))}), ONE, REPLICA),
        (ends, ONE, MERGED),
    ]
    for seen_ends, knobs, shape in for_none:
        assert plan_first_look(initial(1), seen_ends, knobs, shape) == LookRequest()


# R7: a table smaller than a chunk
@pytest.mark.parametrize("shape", [REPLICA, MERGED, UNION, GROUPED, SELF_JOIN])
def test_what_is_taken_in_at_once_is_done_by_the_first_step(shape: Shape) -> None:
    look = glimpse(head=7, pace=Pace(chunk_rows=2, whole_rows=9))
    assert plan_look(initial(1), look, ONE, shape) == LookRequest(ends=True, whole_rows=9)
    ends = Look(look, at_once=True)
    assert plan_first_look(initial(1), ends, ONE, shape) == LookRequest(), "it is not cut"
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
        assert plan_look(initial(1), look, knobs, REPLICA) == LookRequest(ends=True)


# R7: an empty table
def test_an_empty_table_is_done_at_once() -> None:
    step = plan_step(initial(1), Look(glimpse(), beyond={"t": walk.above(None)}), ONE, REPLICA)
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
    step = plan_step(initial(1), Look(glimpse(), beyond={"a": walk.above(key(9))}), ONE, SELF_JOIN)
    assert isinstance(step, Step)
    assert step.coverage == {"a": walk.start(walk.above(key(9))), "b": walk.whole()}
    assert list(step.versions) == ["t"], "both at one version"


def test_the_end_of_the_work_is_the_end_of_a_group() -> None:
    step = plan_step(initial(1), Look(glimpse(), beyond={"t": walk.above(Key((3, 7)))}), ONE, GROUPED)
    assert isinstance(step, Step)
    assert step.coverage["t"] == walk.start(walk.above(Key((3, TOP))))
