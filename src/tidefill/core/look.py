"""What the planner is told of the world: a cheap look first, then as much more as the planner asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tidefill.core.budget import Kept
from tidefill.core.costs import FEW_ROWS, Sample
from tidefill.core.keys import Key
from tidefill.core.reasons import Reason
from tidefill.core.state import Occurrence, Table
from tidefill.core.version import Version
from tidefill.core.walk import Range, Split

PARALLELISM_MAX = 256


class Phase(Enum):
    """Which part of its life the job is in."""

    FILLING = "filling"
    VERIFYING = "verifying"
    LIVE = "live"


class Changed(Enum):
    """What became of covered rows between two versions. ALL: a TRUNCATE or a like event, read the covered part anew."""

    NOTHING = "nothing"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class TableSeen:
    """One look at a table: its head, whether the state's version can still be read, whether history runs short, for how
    long there have been changes that were not taken in, and how much of a log is kept for the job. `held`: why the head
    is not the newest there is, if somebody holds it back, and `withheld`: by how much, as versions are counted."""

    head: Version
    readable: bool
    history_runs_short: bool = False
    lag_s: float = 0.0
    kept: Kept | None = None
    held: Reason | None = None
    withheld: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """The time spent on steps with and without chunks, the last step's kind, and what the rate limit allows now.
    `whole_rows`: how many rows may be taken in at once, by the query over all of them. `samples`: what earlier steps
    took. `few_rows`: as of `core.costs`."""

    forward_s: float = 0.0
    fill_s: float = 0.0
    last_forward_s: float = 0.0
    forwarded_last: bool = False
    since_commit_s: float = 0.0
    chunk_rows: int = 1
    whole_rows: int = 0
    chunks_allowed: int = PARALLELISM_MAX
    tokens_in_s: float | None = 0.0
    samples: tuple[Sample, ...] = ()
    few_rows: int = FEW_ROWS


@dataclass(frozen=True, slots=True)
class CheapLook:
    """The cheap part of a look: `plan_look` says from it what else to look at. `in_step`: other jobs go to the same
    versions, so the target commits at each of them. `held`: why versions newer than these heads have to wait. `read`:
    other jobs read the target's changes."""

    phase: Phase
    tables: Mapping[Table, TableSeen]
    pace: Pace = field(default_factory=Pace)
    rewrite_state: bool = False
    in_step: bool = False
    held: Reason | None = None
    read: bool = False


@dataclass(frozen=True, slots=True)
class LookRequest:
    """What else the planner needs to know. `whole_rows`: if the tables have no more rows than that, the first step
    takes in all of them, and where the tables end need not be known."""

    ends: bool = False
    whole_rows: int = 0
    changed: bool = False
    sizes: bool = False
    splits: Mapping[Occurrence, tuple[Split, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the world. `beyond`: the ranges of walked tables that have no row. `at_once`: there are so few rows
    that the first step takes in all of them. `written`: the rows written since the last step, 0 if that is not known.
    `rows`: how many there are, if it was asked."""

    glimpse: CheapLook
    changed: Changed = Changed.NOTHING
    beyond: Mapping[Occurrence, tuple[Range, ...]] = field(default_factory=dict)
    at_once: bool = False
    bounds: Mapping[Occurrence, Mapping[Split, tuple[Key, ...]]] = field(default_factory=dict)
    written: int = 0
    rows: int = 0
