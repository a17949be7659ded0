"""Random histories are clean, planted bugs are found, and the command line tells it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidefill.cli import main
from tidefill.testing.simulation.plants.plant import Plant, planted
from tidefill.testing.simulation.plants.plants import PLANTS
from tidefill.testing.simulation.script import script
from tidefill.testing.simulation.several.graphs import script_of_several
from tidefill.testing.simulation.simulate import Tally, run_history, search
from tidefill.testing.simulation.topics.scripts import script_of_topic

SEEDS = 250
SEEDS_OF_SEVERAL = 25
SEEDS_OF_TOPICS = 40
WINDOW = 100


def test_random_histories_violate_nothing() -> None:
    # R1, R3, R8, R9, R11, R12, R13, R20, R31, R33
    tally = Tally()
    finding = search(range(SEEDS), tally)
    assert finding is None, finding
    assert tally.steps_min >= 40
    assert tally.busy_steps > 0.5 * tally.steps
    assert tally.share("die") >= 30
    assert tally.share("rescale") >= 20
    assert tally.share("zombie") >= 10
    assert tally.share("replace") >= 20
    assert tally.share("unreadable") >= 10
    assert tally.seen["moves across"] > 0


def test_random_histories_of_several_jobs_violate_nothing() -> None:
    # R16, R42
    tally = Tally()
    finding = search(range(SEEDS_OF_SEVERAL), tally, script_of=script_of_several)
    assert finding is None, finding
    assert tally.busy_steps > 0.5 * tally.steps
    for kind in ("die", "zombie", "pause", "touch", "drop", "replace"):
        assert tally.share(kind) >= 10, kind
    assert tally.seen["cascade"] > 0


def test_random_histories_of_a_topic_violate_nothing() -> None:
    # R26
    tally = Tally()
    finding = search(range(SEEDS_OF_TOPICS), tally, script_of=script_of_topic)
    assert finding is None, finding
    assert tally.busy_steps > 0.5 * tally.steps
    for kind in ("die", "expire", "lead", "cut", "grow", "compact", "zombie"):
        assert tally.share(kind) >= 10, kind
    for kind in ("unreadable", "recreate upstream", "expire past", "stopped", "away", "stray"):
        assert tally.seen[kind] > 0, kind


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_bug_is_found_by_name(plant: Plant) -> None:
    with planted(plant):
        for seed in range(plant.seed, plant.seed + WINDOW):
            violation = run_history(plant.script_of(seed))[1]
            if violation is not None:
                assert violation.invariant in plant.tells, violation
                return
    raise AssertionError(f"{plant.name} was not found in {WINDOW} seeds from {plant.seed}")


def test_there_are_many_plants_with_names_of_their_own() -> None:
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 20


def test_a_seed_repeats_itself() -> None:
    first, second = (run_history(script(7))[0].world.lines() for _ in range(2))
    assert first == second


def test_a_violation_is_told_as_a_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--plant", "forget-finished", "--seeds", "50"]) == 1
    told = capsys.readouterr().out
    assert "I1 covered is violated" in told
    assert "again with: tidefill simulate --seed" in told
    assert "commit" in told


def test_the_story_leaves_out_what_it_does_not_need() -> None:
    plant = next(plant for plant in PLANTS if plant.name == "off-by-one")
    finding = search(range(plant.seed, plant.seed + WINDOW), Tally(), plant)
    assert finding is not None
    with planted(plant):
        whole = run_history(script(finding.seed))[0].world.lines()
    assert len(finding.story) < len(whole)


def test_clean_seeds_exit_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "3"]) == 0
    assert "3 histories, no violation" in capsys.readouterr().out
    assert main(["simulate", "--seed", "3"]) == 0
    assert main(["simulate", "--topic", "--seed", "3"]) == 0
    assert main(["simulate", "--minutes", "0.01"]) == 0


def test_list_plants(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--list-plants"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(PLANTS)
    assert all("  " in line for line in lines)


def test_picture(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--picture"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("fill" in line for line in lines)
    assert all(len(line) < 140 for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "--seeds", "0"],
        ["simulate", "--seeds", "many"],
        ["simulate", "--seed", "-1"],
        ["simulate", "--minutes", "-3"],
        ["simulate", "--plant", "no-such-bug"],
        ["nonsense"],
    ],
)
def test_wrong_usage_exits_with_two(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "tidefill.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr
    assert "Traceback" not in done.stderr
