"""Properties of the planner under an upstream that does its worst."""

import itertools

from hypothesis import given

from tests.core.step.adversary import LAST, SEEDS, covered, history, steps, within
from tidefill.core import walk
from tidefill.core.keys import TOP
from tidefill.core.look import Changed
from tidefill.core.reasons import Reason
from tidefill.core.step import FORWARD_SHARE, Finish, Step, Wait, Write
from tidefill.core.walk import Upto


@given(SEEDS)
def test_versions_never_go_back_and_a_stale_head_is_never_taken(seed: int) -> None:
    for turn, step in steps(history(seed)):
        for table, old in turn.before.versions.items():
            head = turn.seen.glimpse.tables[table].head
            assert step.versions[table].point.includes(old.point)
            assert step.versions[table] in (old, head)


@given(SEEDS)
def test_coverage_only_grows_and_by_exactly_the_chunks(seed: int) -> None:
    for turn, step in steps(history(seed)):
        assert turn.after.step == turn.before.step + 1
        for name, coverage in turn.before.coverage.items():
            old, new = covered(coverage, turn.places), covered(turn.after.coverage[name], turn.places)
            chunks = step.chunks.get(name, ())
            taken = [place for chunk in chunks for place in turn.places if within(chunk, place)]
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
