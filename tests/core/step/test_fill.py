"""A fill: which chunks a step takes, one split or several at a time."""

from dataclasses import replace

import pytest

from tests.core.step.examples import (
    BEGUN,
    GROUPED,
    HALFWAY,
    HAS_ITS_SHARE,
    MERGED,
    OFFER,
    ONE,
    REPLICA,
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
from tidefill.core.keys import TOP, Key
from tidefill.core.look import Changed, CheapLook, Look, Phase, TableSeen
from tidefill.core.state import JobState
from tidefill.core.step import Knobs, Step, Write, apply, plan_look, plan_step
from tidefill.core.walk import DONE, Range, Split, Upto


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
    look = CheapLook(Phase.FILLING, both, HAS_ITS_SHARE)
    split = Split(None, key(9))
    for name, other in (("a", walk.start(walk.above(key(9)))), ("b", walk.whole())):
        before = JobState(1, 3, versions, {"a": other, "b": walk.start(walk.above(key(9)))})
        assert plan_look(before, look, ONE, UNION).splits == {name: (split,)}
        step = plan_step(before, Look(look, bounds={name: {split: ()}}), ONE, UNION)
        assert isinstance(step, Step)
        assert list(step.chunks) == [name]
        assert walk.finished(apply(before, step).coverage[name])


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
