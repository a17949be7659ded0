"""`tidefill simulate`: many histories, the first violation as a story, or one history as a picture."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable, Iterable
from itertools import count

from tidefill.errors import InvalidSetting
from tidefill.testing.simulation.picture import draw
from tidefill.testing.simulation.plants.plant import Plant
from tidefill.testing.simulation.plants.plants import PLANTS
from tidefill.testing.simulation.script import Script, script
from tidefill.testing.simulation.several.graphs import script_of_several
from tidefill.testing.simulation.simulate import Finding, Tally, run_history, search
from tidefill.testing.simulation.topics.scripts import script_of_topic

HISTORIES = 1000
STORY_LINES_MAX = 60


def simulate(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.list_plants:
        for known in PLANTS:
            print(f"{known.name}  {known.breaks}")
        return 0
    plant = _plant(arguments.plant)
    if arguments.picture:
        width = shutil.get_terminal_size((80, 24)).columns
        print("\n".join(draw(arguments.seed or arguments.first, width)))
        return 0
    if arguments.seed is not None and plant is None:
        return _one(arguments.seed, _script_of(arguments, plant))
    return _many(arguments, plant)


def _plant(name: str | None) -> Plant | None:
    if name is None:
        return None
    for plant in PLANTS:
        if plant.name == name:
            return plant
    raise InvalidSetting(f"there is no plant {name!r}", hint="`tidefill simulate --list-plants` lists them.")


def _script_of(arguments: argparse.Namespace, plant: Plant | None) -> Callable[[int], Script]:
    if plant is not None:
        return plant.script_of
    if arguments.topic:
        return script_of_topic
    return script_of_several if arguments.several else script


def _one(seed: int, script_of: Callable[[int], Script]) -> int:
    simulation, violation = run_history(script_of(seed))
    for line in simulation.world.lines():
        print(line)
    if violation is None:
        print(f"seed {seed}: {simulation.steps} steps, no violation")
        return 0
    print(f"seed {seed} violates {violation}")
    return 1


def _many(arguments: argparse.Namespace, plant: Plant | None) -> int:
    seeds, go_on = _extent(arguments)
    tally, began_s = Tally(), time.monotonic()
    finding = search(seeds, tally, plant, go_on, _script_of(arguments, plant))
    if finding is not None:
        _tell(finding, plant, _kind(arguments))
        return 1
    _summary(tally, arguments.seed if arguments.seed is not None else arguments.first, time.monotonic() - began_s)
    return 0


def _extent(arguments: argparse.Namespace) -> tuple[Iterable[int], Callable[[], bool]]:
    if arguments.minutes is not None:
        end_s = time.monotonic() + 60 * arguments.minutes
        return count(arguments.first), lambda: time.monotonic() < end_s
    if arguments.seed is not None:
        return (arguments.seed,), lambda: True
    return range(arguments.first, arguments.first + (arguments.seeds or HISTORIES)), lambda: True


def _kind(arguments: argparse.Namespace) -> str:
    return " --several" if arguments.several else " --topic" if arguments.topic else ""


def _tell(finding: Finding, plant: Plant | None, kind: str) -> None:
    bug = kind + (f" --plant {plant.name}" if plant else "")
    print(f"{finding.invariant} is violated: {finding.what}")
    print(f"seed {finding.seed}; again with: tidefill simulate --seed {finding.seed}{bug}")
    print("The story, without what it does not need:")
    left_out = len(finding.story) - STORY_LINES_MAX
    if left_out > 0:
        print(f"  ... {left_out} earlier lines ...")
    for line in finding.story[-STORY_LINES_MAX:]:
        print(f"  {line}")


def _summary(tally: Tally, first: int, took_s: float) -> None:
    across = 100 * tally.seen["moves across"] / max(tally.seen["moves"], 1)
    print(f"{tally.histories} histories, no violation, {60 * tally.histories / took_s:.0f} a minute")
    print(f"  seeds {first} to {first + tally.histories - 1}")
    print(
        f"  {tally.steps / tally.histories:.0f} steps each (at least {tally.steps_min}), "
        f"{100 * tally.busy_steps / tally.steps:.0f} % of them with writes since the last"
    )
    shares = {
        "crash": "die",
        "lost answer": "outage",
        "rescale": "rescale",
        "zombie": "zombie",
        "unreadable versions": "unreadable",
        "stranger in the target": "touch",
        "named stop": "stopped",
        "drop and recreate": "dropped",
    }
    print("  histories with: " + ", ".join(f"{name} {tally.share(kind)} %" for name, kind in shares.items()))
    print(f"  rows that changed their place: {tally.seen['moves']}, {across:.0f} % of them across a position")
