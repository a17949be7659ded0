"""Many histories: run seeds, stop at the first violation, and tell its story as short as it can be told."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from tidefill.testing.memory.world import Violation
from tidefill.testing.simulation.plants.plant import Plant, planted
from tidefill.testing.simulation.script import Script, script
from tidefill.testing.simulation.several.several import Several
from tidefill.testing.simulation.simulation import Simulation
from tidefill.testing.simulation.topics.topics import OfTopic
from tidefill.testing.simulation.topics.upserts import OfUpsert

SHORTEN_RUNS_MAX = 150
OBJECTS_BETWEEN_COLLECTIONS = 50_000


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation: which invariant, what was seen, under which seed, and the story up to it."""

    invariant: str
    what: str
    seed: int
    story: tuple[str, ...]


@dataclass(slots=True)
class Tally:
    """What happened in a number of histories."""

    histories: int = 0
    steps: int = 0
    busy_steps: int = 0
    with_kind: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    steps_min: int = 1 << 30

    def add(self, simulation: Simulation | Several) -> None:
        """Count one history."""
        self.histories += 1
        self.steps += simulation.steps
        self.steps_min = min(self.steps_min, simulation.steps)
        self.busy_steps += simulation.busy_steps
        self.seen.update(simulation.world.seen)
        self.with_kind.update(kind for kind, times in simulation.world.seen.items() if times)
        self.with_kind["unreadable"] += simulation.setup.postgres or simulation.world.seen["vacuum"] > 0

    def share(self, kind: str) -> int:
        """In how many of a hundred histories it happened."""
        return round(100 * self.with_kind[kind] / max(self.histories, 1))


def run_history(chosen: Script) -> tuple[Simulation | Several, Violation | None]:
    """One history, and what it violates."""
    simulation = _simulation(chosen)
    try:
        simulation.run()
    except Violation as violation:
        return simulation, violation
    return simulation, None


def _simulation(chosen: Script) -> Simulation | Several:
    if chosen.setup.graph:
        return Several(chosen)
    if chosen.setup.upsert:
        return OfUpsert(chosen)
    return OfTopic(chosen) if chosen.setup.topic else Simulation(chosen)


def search(
    seeds: Iterable[int],
    tally: Tally,
    plant: Plant | None = None,
    go_on: Callable[[], bool] = lambda: True,
    script_of: Callable[[int], Script] = script,
) -> Finding | None:
    """The first violation in these seeds, its story shortened; None if there is none."""
    with ExitStack() as stack:
        stack.enter_context(_rarely_collected())
        if plant is not None:
            stack.enter_context(planted(plant))
        for seed in seeds:
            if not go_on():
                return None
            simulation, violation = run_history(script_of(seed))
            tally.add(simulation)
            if violation is not None:
                return _shortest(script_of(seed), simulation, violation)
    return None


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """A history leaves few cycles behind: looking for them as often as Python does is a tenth of its time."""
    usual = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _shortest(failing: Script, simulation: Simulation | Several, violation: Violation) -> Finding:
    """Leave out whatever the violation does not need: first all that came after it and all writing in between, then
    half of the acts, a quarter, and so on down to single ones. A script whose story is longer does not count."""
    best = _Failing(failing, simulation, violation)
    acts = failing.acts
    happened = tuple(act for act in acts if act.at <= simulation.world.effects)
    best = best.or_shorter(replace(failing, acts=happened, quiet=True))
    runs, size = 0, max(len(best.script.acts) // 2, 1)
    while size and runs < SHORTEN_RUNS_MAX:
        first = 0
        while first < len(best.script.acts) and runs < SHORTEN_RUNS_MAX:
            runs += 1
            shorter = best.or_shorter(best.script.without(first, first + size))
            first += size if shorter is best else 0
            best = shorter
        size //= 2
    story = tuple(best.simulation.world.lines())
    return Finding(best.violation.invariant, best.violation.what, failing.seed, story)


@dataclass(frozen=True, slots=True)
class _Failing:
    script: Script
    simulation: Simulation | Several
    violation: Violation

    def or_shorter(self, script: Script) -> _Failing:
        """What this script gives, if it violates the same and its story is no longer."""
        simulation, violation = run_history(script)
        same = violation is not None and violation.invariant == self.violation.invariant
        if violation is None or not same or len(simulation.world.story) > len(self.simulation.world.story):
            return self
        return _Failing(script, simulation, violation)
