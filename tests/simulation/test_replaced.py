"""A view that gets another query, on the production runner: whatever happens, readers see all of one query's rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.stage import Stage, rows
from tidefill.jobs import row as jobs
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Pause
from tidefill.testing.memory.tables import Row
from tidefill.testing.simulation.script import Act, Setup
from tidefill.testing.simulation.simulation import NAME, QUERY_OF

SETUP = Setup(rows=0, chunk_rows=2)
ROWS = rows(12)
OTHERS = ("filter", "self join", "branches")
EFFECTS = 40


def wish(stage: Stage, query: str) -> None:
    """CREATE OR REPLACE."""
    stage.wanted = query
    stage.wish(jobs.wish_replace(query, lambda settings: settings))


def seen(stage: Stage) -> list[Row]:
    """What readers see under the name."""
    return sorted(stage.catalog.tables[stage.catalog.published[NAME]].rows(), key=repr)


def wanted(query: str) -> list[Row]:
    derivation = QUERY_OF[query].make()
    return sorted(derivation.derive(dict.fromkeys(derivation.shape.tables, ROWS)), key=repr)


@pytest.mark.parametrize("query", OTHERS)
def test_readers_see_the_old_rows_until_the_new_ones_are_there(query: str) -> None:
    # R43
    stage = Stage(SETUP, rows=ROWS)
    stage.go_live()
    stage.rest()
    wish(stage, query)
    looks = 0
    while stage.job.published == 1:
        stage.play(1)
        assert seen(stage) in (wanted("replica"), wanted(query))
        looks += seen(stage) == wanted("replica")
    stage.rest()
    assert looks > 3, "it took several turns"
    assert seen(stage) == wanted(query)
    assert len(stage.catalog.tables) == 1, "the old generation is gone"
    events = [text for _, text in stage.store.events(stage.job_id)]
    assert "replaced: generation 2 begins with another query; readers see generation 1 until it is live" in events
    assert events[-1] == "live"
    assert {step.generation for step in stage.store.steps(stage.job_id)} == {1, 2}


@pytest.mark.parametrize("kind", ["die", "outage", "zombie"])
@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_trouble_at_every_effect_of_a_replacement(kind: str, again: bool) -> None:
    # R43
    for offset in range(1, EFFECTS):
        stage = Stage(SETUP, rows=ROWS)
        stage.go_live()
        wish(stage, "filter")
        if again:
            stage.go_steps(1)
            wish(stage, "self join")
        stage.acts = [Act(stage.world.effects + offset, kind, 1)]
        stage.world.next_due = stage.acts[0].at
        stage.play_out()  # checks, among others, what readers see after each turn, and at last that nothing is left


@pytest.mark.parametrize("number", [26, 39, 143], ids=["it", "with more chunks", "and the first dies"])
def test_a_runner_of_the_earlier_query_that_wakes_up_commits_nothing_into_the_next(number: int) -> None:
    """It sleeps anywhere in its turns, while another takes over, and in its stead the view is replaced."""
    # R43
    for offset in range(1, EFFECTS):
        stage = Stage(SETUP, rows=ROWS)
        stage.go_steps(2)
        stage.acts = [Act(stage.world.effects + offset, "zombie", number)]
        stage.world.next_due = stage.acts[0].at
        stage.play_out()


@pytest.mark.parametrize("life", [Life.BACKFILLING, Life.VERIFYING, Life.LIVE, Life.PAUSED, Life.FAILED])
def test_it_is_replaced_whatever_its_state(life: Life) -> None:
    # R43
    stage = Stage(SETUP, rows=ROWS)
    if life is Life.FAILED:
        stage.go_live()
        stage.rest()
        stage.store.rows[stage.job_id] = replace(stage.job, life=life)
    elif life is Life.PAUSED:
        stage.go_steps(2)
        stage.wish(jobs.wish_pause(Pause.ALL))
    stage.go(lambda: stage.job.life is life)
    wish(stage, "filter")
    if life is Life.PAUSED:
        for number in range(20):
            stage.play(number)
        assert (stage.job.life, stage.job.definition) == (Life.PAUSED, "filter"), "it begins when it is resumed"
        stage.wish(jobs.wish_resume)
    stage.go(lambda: stage.job.definition == "filter" and stage.job.life is Life.LIVE)
    stage.rest()
    assert seen(stage) == wanted("filter")
    assert len(stage.catalog.tables) == 1


def test_the_last_of_several_wishes_wins_and_nothing_is_left_of_the_others() -> None:
    # R43
    stage = Stage(SETUP, rows=ROWS)
    stage.go_live()
    stage.rest()
    for query in ("filter", "branches", "self join"):
        wish(stage, query)
        stage.go_steps(2)
        assert seen(stage) == wanted("replica")
    wish(stage, "branches")
    wish(stage, "filter")
    stage.go_live()
    stage.go(lambda: stage.job.life is Life.LIVE and stage.job.definition == "filter")
    stage.rest()
    assert seen(stage) == wanted("filter")
    assert (len(stage.catalog.tables), len(stage.job.resources)) == (1, 1)
    assert stage.job.generation == 5, "the two wishes between two turns begin one generation"


def test_back_to_the_earlier_query() -> None:
    # R43
    stage = Stage(SETUP, rows=ROWS)
    stage.go_live()
    stage.rest()
    wish(stage, "filter")
    stage.go_steps(2)
    wish(stage, "replica")
    stage.go(lambda: stage.job.generation == 3 and stage.job.life is Life.LIVE)
    stage.rest()
    assert seen(stage) == wanted("replica")
    assert len(stage.catalog.tables) == 1


def test_a_wish_that_is_taken_back_before_anybody_acts_begins_nothing() -> None:
    # R43
    stage = Stage(SETUP, rows=ROWS)
    stage.go_live()
    wish(stage, "filter")
    wish(stage, "replica")
    stage.rest()
    assert (stage.job.generation, seen(stage)) == (1, wanted("replica"))


def test_a_drop_in_the_middle_leaves_nothing() -> None:
    # R43
    for offset in range(1, EFFECTS, 3):
        stage = Stage(SETUP, rows=ROWS)
        stage.go_live()
        wish(stage, "filter")
        stage.acts = [Act(stage.world.effects + offset, "drop", 1)]
        stage.world.next_due = stage.acts[0].at
        stage.play_out()
