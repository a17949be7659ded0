"""What came of the demo, read from the logs of the tables themselves: every commit of a view says which step it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidefill.cli.demo.orders import KEY
from tidefill.cli.render.tables import table
from tidefill.core.confirm import Entry
from tidefill.core.state import JobState

if TYPE_CHECKING:
    from tidefill.engine.engine import Engine
    from tidefill.run.verifying import Verified

METRICS = "operationMetrics"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job. `fills`: its commits that took in a chunk. `changes`: rows that were inserted, updated or
    deleted in it because of the writer. `versions`: how many of its input passed from its first commit to its last;
    None where versions have no numbers."""

    name: str
    rows: int
    commits: int
    fills: int
    changes: int
    versions: int | None
    live_s: float
    kills: int
    equal: bool


@dataclass(frozen=True, slots=True)
class Written:
    """What the writer did to orders."""

    version: int
    inserts: int
    updates: int
    deletes: int


def written(engine: Engine, location: str) -> Written:
    """From the table's history, without the commit that made it."""
    from tidefill.spark.names import table_at

    history = engine.spark.sql(f"DESCRIBE HISTORY {table_at(location)}").select("version", METRICS)
    commits = [row[METRICS] for row in history.collect() if row["version"] > 0]

    def total(what: str) -> int:
        return sum(int(metrics[f"numTargetRows{what}"]) for metrics in commits)

    return Written(len(commits), inserts=total("Inserted"), updates=total("Updated"), deletes=total("Deleted"))


def outcome(engine: Engine, name: str, warehouse: Path, found: Verified, live_s: float, kills: int) -> Outcome:
    """Of a job that was verified."""
    log = _log(engine, name, warehouse)
    states = [entry.payload.state for entry in log if entry.payload is not None]
    steps, fills, changes = figures_of(log)
    return Outcome(
        name=name,
        rows=found.rows,
        commits=steps,
        fills=fills,
        changes=changes,
        versions=_passed(states[0], states[-1]),
        live_s=live_s,
        kills=kills,
        equal=not found.differences,
    )


def figures_of(log: Sequence[Entry]) -> tuple[int, int, int]:
    """How many commits a log has that are steps, how many of them filled, and how many rows were changed by others. The
    first step fills if it brings rows, since nothing is covered before it."""
    steps = [(entry, entry.payload.state) for entry in log if entry.payload is not None]
    fills = [steps[0][0].counts.inserted > 0]
    fills += [before.coverage != after.coverage for (_, before), (_, after) in pairwise(steps)]
    changes = sum(_changes(entry, fill) for (entry, _), fill in zip(steps, fills, strict=True))
    return len(steps), sum(fills), changes


def last_version(engine: Engine, name: str, warehouse: Path) -> int:
    """Of what the job has made."""
    return _log(engine, name, warehouse)[-1].version


def _log(engine: Engine, name: str, warehouse: Path) -> Sequence[Entry]:
    from tidefill.delta.target import DeltaTarget

    (path,) = warehouse.glob(f"{name}-*")
    schema: Any = engine.table(name).schema
    return DeltaTarget(engine.spark, str(path), schema, [KEY], name).log()


def _changes(entry: Entry, fill: bool) -> int:
    """Of a commit that fills as well, inserted rows may be the chunk's, and are not counted."""
    counts = entry.counts
    if entry.payload is not None and entry.payload.expected is not None:
        counts = entry.payload.expected
    elif entry.replaces:
        return max(counts.deleted, 0 if fill else counts.inserted)
    return counts.updated + counts.deleted + (0 if fill else counts.inserted)


def _passed(first: JobState, last: JobState) -> int | None:
    (before,), (after,) = first.versions.values(), last.versions.values()
    return before.point.lag_to(after.point)


def outcomes_table(outcomes: Sequence[Outcome], width: int, *, ascii: bool = False) -> str:
    """A column for each job, figures to the right."""
    figures = [_figures(each) for each in outcomes]
    rooms = [max(map(len, column.values())) for column in figures]
    body = [
        [label, *(column[label].rjust(room) for column, room in zip(figures, rooms, strict=True))]
        for label in figures[0]
    ]
    return table(body[0], body[1:], width, ascii=ascii)


def _figures(of: Outcome) -> dict[str, str]:
    return {
        "": of.name,
        "rows": f"{of.rows:,}",
        "commits": f"{of.commits:,}",
        "commits that filled a chunk": f"{of.fills:,}",
        "changes followed": f"{of.changes:,}",
        "versions of its input that passed": "-" if of.versions is None else f"{of.versions:,}",
        "seconds from CREATE to live": f"{of.live_s:.0f}",
        "kills of its runner survived": f"{of.kills:,}",
        "equal to a recompute": "yes" if of.equal else "NO",
    }
