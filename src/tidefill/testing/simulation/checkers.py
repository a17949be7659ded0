"""One checker for each invariant, called after every commit of a target. They share nothing with the planner: what is
covered is worked out here again, from the recorded positions, in another way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidefill.core.confirm import Effect, Entry
from tidefill.core.keys import TOP
from tidefill.core.state import JobState
from tidefill.core.version import Number, Offsets, Snapshot, Version
from tidefill.core.walk import Coverage, Done, Upto
from tidefill.testing.memory.derivations import SimDerivation
from tidefill.testing.memory.tables import Bag, Row, Table
from tidefill.testing.memory.world import Violation

Rank = tuple[tuple[int, Any], ...]
LOWEST: Rank = ()
HIGHEST: Rank = ((3, 0),)


def rank(values: tuple[Any, ...]) -> Rank:
    """NULL, then values, then +inf."""
    return tuple([(0, 0) if v is None else (2, 0) if v is TOP else (1, v) for v in values])


def intervals(coverage: Coverage) -> list[tuple[Rank, Rank]]:
    """The covered stretches (after, upto]."""
    found: list[tuple[Rank, Rank]] = []
    for split in coverage:
        low = LOWEST if split.after is None else rank(split.after.values)
        if isinstance(split.position, Done):
            high = HIGHEST if split.upto is None else rank(split.upto.values)
        elif isinstance(split.position, Upto):
            high = rank(split.position.key.values)
        else:
            continue
        if found and found[-1][1] == low:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return found


def inside(stretches: list[tuple[Rank, Rank]], place: Rank) -> bool:
    """Whether the place lies in one of them."""
    return any(low < place <= high for low, high in stretches)


@dataclass(slots=True)
class Seen:
    """What a target looked like after its last commit of ours."""

    table: Table
    generation_uuid: str
    state: JobState
    stretches: dict[str, list[tuple[Rank, Rank]]]


@dataclass(slots=True)
class Checkers:
    """`rows_at` gives an upstream's rows at a recorded version, or None if there never was such a version."""

    derivation: SimDerivation
    walk: tuple[int, ...]
    rows_at: Callable[[Version], list[Row] | None]
    seen: dict[str, Seen] = field(default_factory=dict)
    ranks: dict[Row, Rank] = field(default_factory=dict)
    forwards: int = 0
    fills: int = 0
    excused: bool = False

    def place(self, row: Row) -> Rank:
        """Where the row is in the walk."""
        found = self.ranks.get(row)
        if found is None:
            found = self.ranks[row] = rank(tuple(row[column] for column in self.walk))
        return found

    def before(self, path: str, table: Table) -> Seen | None:
        """What this very table was like. One that was removed with its job may be made once more by a runner that
        sleeps, which then removes it."""
        found = self.seen.get(path)
        return found if found is not None and found.table is table else None

    def committed(self, path: str, table: Table, entry: Entry) -> None:
        """Every invariant that a commit can break."""
        payload = entry.payload
        assert payload is not None, "our commits carry a payload"
        before, state = self.before(path, table), payload.state
        if path in self.seen and self.seen[path].generation_uuid != payload.generation_uuid:
            raise Violation("I2 monotone", f"{path} was the place of another generation")
        stretches = {name: intervals(coverage) for name, coverage in state.coverage.items()}
        after = Seen(table, payload.generation_uuid, state, stretches)
        self._once(table, payload.generation_uuid, state)
        self._loud(table, payload.planned_on)
        if before is not None:
            self._monotone(before, after)
        elif state.step != 1:
            raise Violation("I2 monotone", f"the first commit has step {state.step}")
        if not table.touched and not self.excused:
            self.covered(table, after)
        self._progress(before, after)
        self.seen[path] = after

    def _once(self, table: Table, generation_uuid: str, state: JobState) -> None:
        for other in reversed(table.entries[:-1]):
            if other.payload is not None and other.effect is Effect.WRITE:
                same_generation = other.payload.generation_uuid == generation_uuid
                if same_generation and other.payload.state.step >= state.step:
                    raise Violation("I3 once", f"step {state.step} was committed twice")
                return

    def _loud(self, table: Table, planned_on: int) -> None:
        known = [other for other in table.entries[: planned_on + 1] if other.effect is Effect.FOREIGN]
        if known:
            raise Violation("I7 loud", f"planned on version {planned_on}, though {known[-1].version} is a stranger's")

    def _monotone(self, before: Seen, after: Seen) -> None:
        if after.state.step != before.state.step + 1:
            raise Violation("I2 monotone", f"step {after.state.step} follows {before.state.step}")
        for table, version in before.state.versions.items():
            if not _holds(after.state.versions[table], version):
                raise Violation("I2 monotone", f"{table} went back to {after.state.versions[table]} from {version}")
        for name, stretches in before.stretches.items():
            for low, high in stretches:
                if not any(new_low <= low and high <= new_high for new_low, new_high in after.stretches[name]):
                    raise Violation("I2 monotone", f"the coverage of {name} shrank")

    def covered(self, table: Table, after: Seen) -> None:
        """I1."""
        shape = self.derivation.shape
        inputs: dict[str, list[Row]] = {}
        for name, upstream in shape.tables.items():
            rows = self.rows_at(after.state.versions[upstream])
            if rows is None:
                raise Violation("I7 loud", f"recorded a version that never was: {after.state.versions[upstream]}")
            stretches = after.stretches[name]
            if stretches == [(LOWEST, HIGHEST)]:
                inputs[name] = rows
            else:
                inputs[name] = [row for row in rows if inside(stretches, self.place(row))]
        self.equal(self.derivation.derive(inputs), table.snapshots[-1])

    def equal(self, expected: list[Row], bag: Bag) -> None:
        """I1: the target holds the query's outputs, each once."""
        wanted = {row[0]: (row,) for row in expected}
        if wanted == bag:
            return
        missing = [row for row in expected if row not in bag.get(row[0], ())]
        extra = Counter(row for rows in bag.values() for row in rows) - Counter(expected)
        raise Violation("I1 covered", f"missing {missing[:3]}, extra {list(extra)[:3]}")

    def _progress(self, before: Seen | None, after: Seen) -> None:
        if before is None:
            self.start_is_fixed(after)
            self.fills = self.forwards = 0
        elif after.stretches != before.stretches:
            self.fills, self.forwards = self.fills + 1, 0
        else:
            self.forwards += 1

    def start_is_fixed(self, after: Seen) -> None:
        """What lies behind the last row of the first version is covered at once."""
        for name in self.derivation.shape.walked:
            rows = self.rows_at(after.state.versions[self.derivation.shape.tables[name]])
            last = max((self.place(row) for row in rows or ()), default=LOWEST)
            stretches = after.stretches[name]
            columns = self.derivation.shape.group_columns
            behind = (*last[:columns], (2, 0)) if columns and last else last
            if not stretches or stretches[-1][0] > behind or stretches[-1][1] != HIGHEST:
                raise Violation("I5 progress", f"{name} may chase its tail: covered {stretches}, last row {last}")


def _holds(bigger: Version, smaller: Version) -> bool:
    if bigger.identity != smaller.identity:
        return False
    match bigger.point, smaller.point:
        case Number(new), Number(old):
            return new >= old
        case Snapshot() as new, Snapshot() as old:
            return all(new.sees(xid) or not old.sees(xid) for xid in range(old.xmin, old.xmax)) and (
                new.xmin >= old.xmin
            )
        case Offsets(new_ends), Offsets(old_ends):
            return all(any(new[0] == partition and new[1] >= end for new in new_ends) for partition, end in old_ends)
    return False


def moved_across(stretches: Mapping[str, list[tuple[Rank, Rank]]], old: Rank, new: Rank) -> bool:
    """Whether a row that changed its place went into or out of what is covered."""
    return any(inside(found, old) != inside(found, new) for found in stretches.values())
