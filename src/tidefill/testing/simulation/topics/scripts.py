"""The script of a history of a topic."""

from __future__ import annotations

import random
from dataclasses import replace

from tidefill.kafka.upstream import EARLIEST, LATEST
from tidefill.testing.simulation.script import EFFECTS, FAULTS, Act, Fault, Script, Setup, acts_of

WRITE_EVERY = 12
LATER_MS = 20
LATER = f"1970-01-01 00:00:00.{LATER_MS:03}"

# What cannot happen to a topic, or says nothing of one.
_LEFT_OUT = ("duplicate",)
TOPIC_FAULTS: tuple[Fault, ...] = (
    ("expire", 75, 8),
    ("expire past", 6, 1),
    ("lead", 60, 5),
    ("cut", 10, 1),
    ("grow", 30, 2),
    ("compact", 40, 4),
    ("unreadable", 6, 1),
    ("recreate upstream", 10, 1),
)


# What happens only where the newest message of a key counts. A clock that jumps while a step is carried out by more
# than half of the time for which a tombstone stays is not what a job can notice.
_UPSERT_LEFT_OUT = (*_LEFT_OUT, "clock")
UPSERT_FAULTS: tuple[Fault, ...] = (
    *(fault for fault in TOPIC_FAULTS if fault[0] not in ("grow", "compact", "expire", "expire past")),
    ("grow", 6, 1),
    ("stray", 20, 2),
    ("without key", 5, 1),
    ("away", 40, 3),
)
EXPIRING: tuple[Fault, ...] = (("expire", 75, 8), ("expire past", 6, 1))
COMPACTING: tuple[Fault, ...] = (("compact", 90, 25),)


def script_of_topic(seed: int) -> Script:
    """The script of a seed: in two of five histories the newest message of a key counts."""
    return script_of_upsert(seed) if seed % 5 in (1, 3) else script_of_messages(seed)


def script_of_upsert(seed: int) -> Script:
    """The script of a seed where the newest message of a key counts."""
    dice = random.Random(f"upsert {seed}")
    setup = Setup(
        walk=(1, 2),
        rows=dice.choice((0, 4, 30, 60, 90)),
        rows_seed=dice.randrange(1 << 30),
        parallelism=dice.choice((1, 2, 3, 4)),
        chunk_rows=dice.choice((None, 1, 2, 3, 6)),
        rate_limit=dice.choice((None, None, None, 20)),
        stale=dice.randrange(3) == 0,
        bounds="hashes",
        skew_s=dice.choice((0.0, 0.0, 3.0, -20.0)),
        topic=dice.choice(("compact", "compact", "compact", "delete", "compact,delete")),
        upsert=True,
        lag_s=dice.choice((0.0, 0.0, 60.0)),
    )
    kept = [fault for fault in FAULTS if fault[0] not in _UPSERT_LEFT_OUT]
    of_policy = [*(COMPACTING if "compact" in setup.topic else ()), *(EXPIRING if "delete" in setup.topic else ())]
    faults = [*kept, *UPSERT_FAULTS, *of_policy]
    writes = range(0, EFFECTS, WRITE_EVERY)
    return Script(seed, setup, acts_of(dice, writes, faults, lambda kind: dice.randrange(EFFECTS)))


def script_of_stray(seed: int) -> Script:
    """A script in which nothing happens but that a producer chooses another partition for a key, once, at the end."""
    found = script_of_upsert(seed)
    writes = tuple(act for act in found.acts if act.kind == "write")
    setup = replace(found.setup, topic="compact", rate_limit=None)
    return Script(seed, setup, (*writes, Act(EFFECTS - 1, "stray", 8 * seed)))


def script_of_messages(seed: int) -> Script:
    """The script of a seed where each message counts."""
    dice = random.Random(seed)
    setup = Setup(
        walk=(1, 2),
        rows=dice.choice((0, 4, 30, 60, 90)),
        rows_seed=dice.randrange(1 << 30),
        parallelism=dice.choice((1, 2, 3, 4)),
        chunk_rows=dice.choice((None, 1, 2, 3, 6)),
        rate_limit=dice.choice((None, None, None, 20)),
        stale=dice.randrange(2) == 0,
        skew_s=dice.choice((0.0, 0.0, 3.0, -20.0, 90.0)),
        topic=dice.choice(("delete", "delete", "compact")),
        begin=dice.choice((EARLIEST, EARLIEST, EARLIEST, LATEST, LATER)),
    )
    kept = [fault for fault in FAULTS if fault[0] not in _LEFT_OUT]
    faults = [*kept, *(fault for fault in TOPIC_FAULTS if fault[0] != "compact" or setup.topic == "compact")]
    writes = range(0, EFFECTS, WRITE_EVERY)
    return Script(seed, setup, acts_of(dice, writes, faults, lambda kind: dice.randrange(EFFECTS)))
