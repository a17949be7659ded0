"""Which jobs read which, and the script of a history of several jobs."""

from __future__ import annotations

import random
from collections.abc import Mapping

from tidefill.testing.simulation.script import REPLACING, Script, Setup, acts_of

Graph = Mapping[str, tuple[str, ...]]

# What each job reads: jobs before it, or the tables t and u, which others write; `again` is another name of t.
GRAPHS: dict[str, Graph] = {
    "diamond": {"v1": ("t",), "v2": ("t",), "v3": ("v1", "v2")},
    "table and view": {"v1": ("t",), "v3": ("t", "v1"), "v4": ("v1", "t")},
    "long arm": {"v1": ("t",), "w1": ("v1",), "v2": ("t",), "v3": ("w1", "v2")},
    "tower": {"v1": ("t",), "v2": ("t",), "v3": ("v1", "v2"), "v4": ("v3", "v2"), "v5": ("v4", "t")},
    "two tables": {"v1": ("t", "u"), "v2": ("u",), "v3": ("v1", "v2"), "v4": ("t", "v3"), "w": ("u",)},
    "two names": {"v1": ("t", "again"), "v2": ("again",), "v3": ("v1", "v2")},
    "far apart": {"v1": ("t",), "v2": ("u",), "v3": ("v1", "v2"), "w": ("v3",)},
}
NAMES = {"again": "t"}
FAULTS = (
    ("die", 45, 4),
    ("outage", 35, 3),
    ("zombie", 30, 3),
    ("pause", 40, 3),
    ("touch", 20, 2),
    ("resync", 25, 2),
    ("drop", 30, 2),
    ("optimize", 30, 4),
    ("clock", 10, 2),
    ("vacuum", 20, 2),
)
EFFECTS = 600
WRITE_EVERY = 14


def script_of_several(seed: int) -> Script:
    """The script of a seed."""
    dice = random.Random(seed)
    setup = Setup(
        graph=dice.choice(tuple(GRAPHS)),
        rows=dice.choice((0, 1, 6, 20, 30)),
        rows_seed=dice.randrange(1 << 30),
        chunk_rows=dice.choice((1, 3, 8, 30)),
        stale=dice.randrange(4) == 0,
    )
    acts = acts_of(dice, range(0, EFFECTS, WRITE_EVERY), FAULTS, lambda kind: dice.randrange(EFFECTS))
    replacing = random.Random(f"replace {seed}")
    more = acts_of(replacing, range(0), REPLACING, lambda kind: replacing.randrange(EFFECTS))
    return Script(seed, setup, tuple(sorted((*acts, *more), key=lambda act: act.at)))
