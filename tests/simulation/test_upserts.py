"""A replica of the newest message of each key, while one thing happens to its topic, at one effect after the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidefill.testing.simulation.script import Act, Script, Setup
from tidefill.testing.simulation.topics.upserts import OfUpsert

SETUP = Setup(walk=(1, 2), rows=24, rows_seed=4, chunk_rows=2, parallelism=2, topic="compact", upsert=True)
EFFECTS = 120
WRITES = tuple(Act(at, "write", 13 * at) for at in range(5, EFFECTS, 9))


def play(*acts: Act, setup: Setup = SETUP) -> OfUpsert:
    """A short history with these acts, to its right end."""
    history = OfUpsert(Script(1, setup, tuple(sorted((*WRITES, *acts), key=lambda act: act.at)), quiet=True))
    history.end_writers()
    history.run()
    return history


@pytest.mark.parametrize("kind", ["die", "outage", "zombie"])
def test_a_runner_is_disturbed_at_effects_all_over_the_fill(kind: str) -> None:
    # R11, R12, R26
    for at in range(1, EFFECTS, 13):
        assert play(Act(at, kind, 3 * at)).world.seen[kind] == 1


@pytest.mark.parametrize("kind", ["lead", "compact"])
def test_what_nobody_stops_for_whenever_it_happens(kind: str) -> None:
    # R26
    for at in range(1, EFFECTS, 13):
        assert play(Act(at, kind, at)).world.seen["stopped"] == 0


def test_rows_that_expire_stay_and_are_not_missed() -> None:
    # R26
    for at in range(1, EFFECTS, 13):
        assert play(Act(at, "expire", at), setup=replace(SETUP, topic="delete")).world.seen["stopped"] == 0


def test_deletes_that_are_gone_when_somebody_comes_back() -> None:
    """Away for longer than tombstones stay."""
    for at in range(40, EFFECTS, 5):
        assert play(Act(at, "away", 599)).world.seen["stopped"] == 0


@pytest.mark.parametrize("kind", ["cut", "stray", "without key", "recreate upstream"])
def test_what_a_job_stops_for_whenever_it_happens(kind: str) -> None:
    # R13, R26
    stopped = [play(Act(at, kind, 7 * at)).world.seen["stopped"] for at in range(1, EFFECTS, 9)]
    assert max(stopped) == 1
