"""A history as data: how the world is set up, and what happens at which effect. A seed gives a script."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from tidefill.core.keys import Key
from tidefill.core.walk import Split, rest
from tidefill.kafka.upstream import EARLIEST
from tidefill.testing.memory.delta import Bend, honest
from tidefill.testing.memory.derivations import QUERIES

EFFECTS = 560
EARLY = 25
WRITE_EVERY = 15


@dataclass(frozen=True, slots=True)
class Setup:
    """The world at the start. `wal_budget`, `wal_limit`: in commits that a server keeps for the job. `graph`: of a
    history with several jobs, what they read. `topic`: of a history of a topic, what the topic is set to keep, and
    `begin`: from where on it is read. `upsert`: the newest message of a key is its row; `lag_s`: for how long a message
    replaces no other."""

    postgres: bool = False
    query: int = 0
    walk: tuple[int, ...] = (0,)
    rows: int = 30
    rows_seed: int = 1
    parallelism: int = 1
    chunk_rows: int | None = 4
    rate_limit: int | None = None
    stale: bool = False
    bounds: str = "honest"
    estimate_times: float = 1.0
    skew_s: float = 0.0
    wal_budget: int | None = None
    wal_limit: int | None = None
    graph: str = ""
    topic: str = ""
    begin: str = EARLIEST
    upsert: bool = False
    lag_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Act:
    """At effect number `at`, `kind` happens; `number` says which of its forms."""

    at: int
    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class Script:
    """Setup and acts, in the order of effects. `quiet`: nobody writes but in acts."""

    seed: int
    setup: Setup
    acts: tuple[Act, ...]
    quiet: bool = False

    def without(self, first: int, last: int) -> Script:
        """The same, but without the acts numbered first to last - 1."""
        return replace(self, acts=self.acts[:first] + self.acts[last:])


# What may go wrong in a history, in how many of a hundred histories it does, and how often at the most.
Fault: TypeAlias = tuple[str, int, int]
FAULTS: tuple[Fault, ...] = (
    ("die", 45, 4),
    ("outage", 35, 3),
    ("rescale", 35, 3),
    ("zombie", 25, 2),
    ("pause", 15, 2),
    ("pause fill", 15, 2),
    ("rate", 15, 2),
    ("optimize", 20, 3),
    ("clean log", 12, 2),
    ("touch", 6, 1),
    ("clock", 10, 2),
    ("restore store", 6, 1),
    ("resync", 50, 3),
    ("drop", 8, 1),
    ("cancel at once", 5, 1),
    ("sleeping maker", 8, 1),
    ("duplicate", 3, 1),
)
DELTA_FAULTS: tuple[Fault, ...] = (
    ("vacuum", 15, 2),
    ("vacuum changes", 6, 1),
    ("recreate upstream", 6, 1),
)
REPLACING: tuple[Fault, ...] = (("replace", 35, 3),)
"""Drawn by dice of their own, so that a seed keeps its other faults."""

POSTGRES_FAULTS: tuple[Fault, ...] = (
    ("drop head", 40, 4),
    ("rewrite", 25, 2),
    ("truncate", 15, 1),
    ("server crash", 15, 2),
    ("advance slot", 8, 2),
    ("recreate upstream", 4, 1),
)
BOUNDS = ("honest", "honest", "honest", "none", "repeated", "outside", "invented")


def script(seed: int) -> Script:
    """The script of a seed."""
    dice = random.Random(seed)
    setup = _setup(dice)
    faults = FAULTS + (POSTGRES_FAULTS if setup.postgres else DELTA_FAULTS)
    acts = acts_of(dice, range(0, EFFECTS, WRITE_EVERY), faults, lambda kind: _moment(dice, kind))
    replacing = random.Random(f"replace {seed}")
    more = acts_of(replacing, range(0), REPLACING, lambda kind: _moment(replacing, kind))
    return Script(seed, setup, tuple(sorted((*acts, *more), key=lambda act: act.at)))


def acts_of(
    dice: random.Random, writes: range, faults: Iterable[Fault], moment: Callable[[str], int]
) -> tuple[Act, ...]:
    """A write in every step of the range, and so many of these faults, each at a `moment` of its kind."""
    acts = [Act(at + dice.randrange(writes.step), "write", dice.randrange(1 << 30)) for at in writes]
    for kind, share, times_max in faults:
        if dice.randrange(100) < share:
            times = 1 + dice.randrange(times_max)
            acts += [Act(moment(kind), kind, dice.randrange(1 << 30)) for _ in range(times)]
    return tuple(sorted(acts, key=lambda act: act.at))


def _moment(dice: random.Random, kind: str) -> int:
    """Any time; now and then right at the start, when things are made."""
    early = kind in ("cancel at once", "sleeping maker") or dice.randrange(10) == 0
    return dice.randrange(EARLY if early else EFFECTS)


def _setup(dice: random.Random) -> Setup:
    postgres = dice.randrange(100) < 35
    queries = [number for number, query in enumerate(QUERIES) if query.keys_only or not postgres]
    query = dice.choice(queries)
    setup = Setup(
        postgres=postgres,
        query=query,
        walk=dice.choice(QUERIES[query].walks),
        rows=dice.choice((0, 1, 4, 12, 30, 50, 60, 60)),
        rows_seed=dice.randrange(1 << 30),
        parallelism=dice.choice((1, 1, 2, 3, 4)),
        chunk_rows=dice.choice((None, 1, 1, 2, 3, 6)),
        rate_limit=dice.choice((None, None, None, None, 2, 20)),
        stale=dice.randrange(3) == 0,
        bounds=dice.choice(BOUNDS),
        estimate_times=dice.choice((0.0, 0.1, 1.0, 1.0, 10.0)),
        skew_s=dice.choice((0.0, 0.0, 3.0, -20.0, 90.0)),
        wal_budget=4,
    )
    return replace(setup, wal_limit=8 if setup.rows_seed % 2 else None)


def _repeated(bounds: list[Key], split: Split) -> list[Key]:
    left = rest(split)
    here = [left.after] if left is not None and left.after is not None else []
    return [*here, *bounds, *bounds]


def _outside(bounds: list[Key], split: Split) -> list[Key]:
    ends = [end for end in (split.after, split.upto) if end is not None]
    return [*ends, Key((-5,)), *bounds, Key((9999,))]


def _invented(bounds: list[Key], split: Split) -> list[Key]:
    """Keys that no row has; with text or NULL in them they could not even be compared, so only numbers are moved."""
    return [Key((*bound.values[:-1], bound.values[-1] + 3)) for bound in bounds if isinstance(bound.values[-1], int)]


def bend(setup: Setup) -> Bend:
    """How the upstream offers bounds."""
    moods: dict[str, Bend] = {
        "honest": honest,
        "none": lambda bounds, split: [],
        "repeated": _repeated,
        "outside": _outside,
        "invented": _invented,
    }
    return moods[setup.bounds]
