"""A replica of a topic, while one thing happens to it, at one effect after the other."""

from __future__ import annotations

import pytest

from tidefill.kafka.upstream import LATEST
from tidefill.testing.simulation.script import Act, Script, Setup
from tidefill.testing.simulation.topics.topics import OfTopic

SETUP = Setup(walk=(1, 2), rows=24, rows_seed=4, chunk_rows=2, parallelism=2, topic="compact")
EFFECTS = 120
WRITES = tuple(Act(at, "write", 13 * at) for at in range(5, EFFECTS, 9))


def play(*acts: Act, setup: Setup = SETUP) -> OfTopic:
    """A short history with these acts, to its right end."""
    history = OfTopic(Script(1, setup, tuple(sorted((*WRITES, *acts), key=lambda act: act.at)), quiet=True))
    history.end_writers()
    history.run()
    return history


@pytest.mark.parametrize("kind", ["die", "outage", "zombie"])
def test_a_runner_is_disturbed_at_effects_all_over_the_fill(kind: str) -> None:
    # R11, R12, R26
    for at in range(1, EFFECTS, 3):
        assert play(Act(at, kind, 3 * at)).world.seen[kind] == 1


@pytest.mark.parametrize("kind", ["expire", "lead", "grow", "compact"])
def test_what_nobody_stops_for_whenever_it_happens(kind: str) -> None:
    # R26
    for at in range(1, EFFECTS, 4):
        assert play(Act(at, kind, at)).world.seen["stopped"] == 0


@pytest.mark.parametrize("kind", ["cut", "expire past", "unreadable", "recreate upstream"])
def test_what_a_job_stops_for_whenever_it_happens(kind: str) -> None:
    # R13, R26
    stopped = [play(Act(at, kind, 7 * at)).world.seen["stopped"] for at in range(1, EFFECTS, 5)]
    assert max(stopped) == 1, "once is enough; and now and then nothing that was taken in is lost"


def test_from_the_end_on() -> None:
    # R26
    setup = Setup(walk=(1, 2), rows=24, rows_seed=4, chunk_rows=2, topic="delete", begin=LATEST)
    for at in range(1, EFFECTS, 4):
        play(Act(at, "die", 0), Act(at + 3, "grow", 3), setup=setup)
