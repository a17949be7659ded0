"""History meets stream: the scenarios R1 to R10 and their like, on the production runner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.stage import Stage, row, rows
from tidefill.core.walk import Done, NotStarted, Upto, covers
from tidefill.jobs import row as jobs
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Pause
from tidefill.testing.memory.derivations import QUERIES
from tidefill.testing.memory.tables import GROUP, ID
from tidefill.testing.simulation.script import Act, Setup

SMALL = Setup(rows=0, chunk_rows=2)
ALL_SETUPS = [
    pytest.param(Setup(postgres=postgres, query=number, walk=walk, rows=40, chunk_rows=3), id=f"{query.name}-{walk}")
    for number, query in enumerate(QUERIES)
    for walk in query.walks
    for postgres in ((False, True) if query.keys_only else (False,))
]


@pytest.mark.parametrize("setup", ALL_SETUPS)
def test_writers_in_every_region(setup: Setup) -> None:
    # R1, R28
    stage = Stage(setup, [Act(at, "write", 31 * at) for at in range(3, 400, 4)])
    stage.play_out()
    assert stage.world.seen["moves"] > 0
    assert stage.steps > 10


@pytest.mark.parametrize("postgres", [False, True])
def test_two_writes_to_one_key_between_two_steps(postgres: bool) -> None:
    # R2
    stage = Stage(replace(SMALL, postgres=postgres), rows=rows(6))
    stage.go_live()
    old, new, newest = row(10, 1, 10, 1), row(10, 1, 10, 7), row(10, 1, 10, 8)
    updated_twice = [(-1, old), (1, new), (-1, new), (1, newest)]
    come_and_gone, gone_and_back = [(1, row(15)), (-1, row(15))], [(-1, rows(6)[3]), (1, row(30, 4))]
    _write(stage, [*updated_twice, *come_and_gone, *gone_and_back])
    stage.rest()
    assert newest in stage.rows_of_target()
    assert row(30, 4) in stage.rows_of_target()
    assert not any(found[ID] == 15 for found in stage.rows_of_target())


def _write(stage: Stage, changes: list[tuple[int, tuple[object, ...]]]) -> None:
    if not stage.setup.postgres:
        stage.commit_upstream(changes)
        return
    last = {found[ID]: (found if weight > 0 else None) for weight, found in changes}
    xid = stage.server.begin(last)  # type: ignore[arg-type]
    stage.server.log_commit(xid)
    stage.server.show(xid)


@pytest.mark.parametrize("postgres", [False, True])
@pytest.mark.parametrize(("source", "goal"), [(0, 4), (4, 0)], ids=["forward", "back"])
def test_a_row_moves_across_the_position(postgres: bool, source: int, goal: int) -> None:
    # R3
    table = [row(number, number // 4, number, number) for number in range(20)]
    stage = Stage(Setup(postgres=postgres, walk=(GROUP, ID), rows=0, chunk_rows=4), rows=table)
    stage.go(lambda: stage.steps > 0 and _covers_half(stage))
    moving = next(found for found in table if found[GROUP] == source)
    moved = (moving[ID], goal, *moving[2:])
    was, is_now = (covers(stage.state.coverage["t"], stage.walk_of(image)) for image in (moving, moved))
    assert was != is_now, "the update crosses the position"
    _write(stage, [(-1, moving), (1, moved)])
    stage.go_live()
    stage.rest()
    assert [found for found in stage.rows_of_target() if found[ID] == moving[ID]] == [moved]


def _covers_half(stage: Stage) -> bool:
    position = stage.state.coverage["t"][0].position
    return isinstance(position, Upto) and position.key.values[0] in (1, 2)


@pytest.mark.parametrize("postgres", [False, True])
def test_rows_arrive_behind_the_end_in_the_last_step(postgres: bool) -> None:
    # R4
    stage = Stage(replace(SMALL, postgres=postgres), rows=rows(4))
    late = [row(1000 + number, 3, 0, number) for number in range(5)]
    stage.go_steps(2)
    _write(stage, [(1, found) for found in late[:2]])
    stage.go_steps(1)
    _write(stage, [(1, found) for found in late[2:]])
    stage.go_live()
    stage.rest()
    assert set(late) <= set(stage.rows_of_target())


@pytest.mark.parametrize("postgres", [False, True])
def test_an_upstream_that_is_always_faster(postgres: bool) -> None:
    # R5
    acts = [Act(at, "write", 17 * at) for at in range(1, 3000)]
    stage = Stage(Setup(postgres=postgres, rows=60, chunk_rows=2), acts)
    stage.go_live()
    stage.acts.clear()
    stage.rest()


def test_a_huge_deleted_region() -> None:
    # R6
    table = [row(0), *(row(key, 0, 0, key) for key in range(1, 3000)), row(5000)]
    stage = Stage(Setup(rows=0, chunk_rows=50), rows=table)
    stage.commit_upstream([(-1, found) for found in table[1:-1]])
    stage.go_live()
    stage.rest()
    assert stage.rows_of_target() == [row(0), row(5000)]
    assert stage.steps < 6


@pytest.mark.parametrize("count", [0, 1, 3, 4, 8])
@pytest.mark.parametrize("postgres", [False, True])
def test_small_tables(count: int, postgres: bool) -> None:
    # R7
    stage = Stage(Setup(postgres=postgres, rows=0, chunk_rows=4), rows=rows(count))
    stage.go_live()
    stage.rest()
    assert len(stage.rows_of_target()) == count
    assert stage.steps <= 1 + (count + 3) // 4


def test_rescale_and_restart_keep_every_position() -> None:
    # R8
    stage = Stage(Setup(rows=0, chunk_rows=2, parallelism=3), rows=rows(120))
    stage.world.seen["rescale"] = 1
    stage.go_steps(9)
    stage.wish(jobs.wish_settings(replace(stage.job.settings, parallelism=6)))
    stage.go_steps(2)
    scaled_out = stage.state.coverage["t"]
    kinds = {type(split.position) for split in scaled_out}
    assert kinds == {Done, Upto}
    assert len(scaled_out) > 4
    stage.runners.clear()
    stage.wish(jobs.wish_settings(replace(stage.job.settings, parallelism=1)))
    stage.go_steps(3)
    stage.wish(jobs.wish_pause(Pause.FILL))
    stage.go(lambda: stage.job.waiting == "fill paused")
    fresh = row(1990, 1, 1, 77)
    stage.commit_upstream([(-1, rows(120)[0]), (1, row(0, 0, 0, 99)), (1, fresh)])
    stage.go_steps(1)
    assert not stage.state.finished()
    assert {row(0, 0, 0, 99), fresh} <= set(stage.rows_of_target())
    stage.wish(jobs.wish_resume)
    stage.go_live()
    stage.rest()


def test_a_split_is_not_started_until_it_is_its_turn() -> None:
    # R8
    stage = Stage(Setup(rows=0, chunk_rows=1, parallelism=4), rows=rows(40))
    stage.go_steps(2)
    stage.wish(jobs.wish_settings(replace(stage.job.settings, parallelism=1)))
    before = stage.state.coverage["t"]
    stage.go_steps(1)
    after = stage.state.coverage["t"]
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1
    assert not any(isinstance(split.position, NotStarted) for split in after[1:-1])


def test_rate_limit_zero_then_more_and_pauses() -> None:
    # R9
    stage = Stage(Setup(rows=0, chunk_rows=2, rate_limit=0), rows=rows(20))
    stage.go(lambda: stage.job.waiting == "rate limit")
    steps = stage.steps
    for number in range(20):
        stage.play(number)
    assert stage.steps == steps, "nothing is filled at rate 0"
    stage.wish(jobs.wish_settings(replace(stage.job.settings, rate_limit=5)))
    stage.go_steps(2)
    stage.wish(jobs.wish_pause(Pause.ALL))
    stage.go(lambda: stage.job.life is Life.PAUSED)
    steps = stage.steps
    stage.commit_upstream([(-1, rows(20)[0]), (1, row(0, 0, 0, 50))])
    for number in range(20):
        stage.play(number)
    assert stage.steps == steps, "nothing moves while all is paused"
    stage.wish(jobs.wish_resume)
    stage.go_steps(1)
    stage.wish(jobs.wish_pause(Pause.FILL))
    stage.go(lambda: stage.job.waiting == "fill paused")
    assert row(0, 0, 0, 50) in stage.rows_of_target(), "what is covered stays fresh"
    stage.wish(jobs.wish_resume)
    stage.go_live()
    stage.rest()


def test_the_rate_limit_is_kept_and_used() -> None:
    # R10
    rate, chunk = 2, 4
    stage = Stage(Setup(rows=0, chunk_rows=chunk, rate_limit=rate), rows=rows(200))
    stage.go_steps(1)
    began_s, began_rows = stage.world.now, 0
    stage.go(lambda: len(stage.rows_of_target()) >= 160, turns_max=5000)
    took_s = stage.world.now - began_s
    filled = len(stage.rows_of_target()) - began_rows
    assert filled <= rate * took_s + chunk
    assert filled >= 0.6 * rate * took_s


def test_a_table_twice_in_one_query() -> None:
    # R18
    stage = Stage(Setup(query=4, rows=50, chunk_rows=3, rows_seed=5), [Act(at, "write", at) for at in range(9, 500, 7)])
    shares: list[float] = []

    def note(simulation: object, entry: object) -> None:
        if stage.job.progress is not None:
            shares.append(stage.job.progress.share)

    stage.on_step = note
    stage.play_out()
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert {tuple(sorted(state)) for state in [stage.state.coverage]} == {("a", "b")}
    assert set(stage.state.versions) == {"t"}


def test_the_newest_state_of_a_row_wins_over_an_old_read() -> None:
    # R27
    stage = Stage(Setup(rows=0, chunk_rows=1), rows=[row(1, 0, 0, 1), row(2, 0, 0, 4), row(3, 0, 0, 3)])
    stage.go_steps(2)
    stage.commit_upstream([(-1, row(1, 0, 0, 1)), (1, row(1, 0, 0, 9)), (-1, row(2, 0, 0, 4)), (1, row(2, 0, 0, 5))])
    stage.go_live()
    stage.rest()
    assert row(2, 0, 0, 5) in stage.rows_of_target()
    assert row(2, 0, 0, 4) not in stage.rows_of_target()
