"""One commit of a Delta log, and what its operation says: what it did to the rows, and how many it wrote.

This is the one place that knows Delta's operations by name. One that is not listed here may have done anything.

| operation | rows that it says it wrote, to a reader | effect on a target of ours |
|---|---|---|
| MERGE | inserted, updated, deleted | WRITE with a payload, else FOREIGN |
| WRITE Append | put out | the same |
| WRITE Overwrite with a predicate (replaceWhere) | deleted, and put out but not copied | the same |
| WRITE Overwrite | unknown: it does not say what it removed | the same |
| DELETE | deleted | the same |
| UPDATE | updated | FOREIGN |
| OPTIMIZE, VACUUM, CLUSTER BY | none: rows stay what they are | NONE |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tidefill.core.confirm import Counts, Effect, Entry, payload_from_text
from tidefill.core.version import bases_of_all

QUIET = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "CLUSTER BY"})
PLAIN = frozenset({"MERGE", "UPDATE", "DELETE", "OPTIMIZE", "STREAMING UPDATE", "WRITE Append"})
MERGED_ROWS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
ROWS_WRITTEN = (
    MERGED_ROWS,
    ("numUpdatedRows",),
    ("numDeletedRows",),
    ("numOutputRows",),
)
HARMLESS = frozenset(
    {"OPTIMIZE", "VACUUM START", "VACUUM END", "ADD COLUMNS", "CHANGE COLUMN", "CHANGE COLUMNS", "UPGRADE PROTOCOL",
     "CLUSTER BY"}
)  # fmt: skip
CARRIES_STATE = frozenset({"WRITE", "MERGE", "DELETE"})


@dataclass(frozen=True, slots=True)
class Logged:
    """A commit as the log has it: its version, when it was made (in milliseconds), its operation with parameters and
    metrics, and the text that its writer gave it. What the log does not say is empty."""

    version: int
    at_ms: int
    operation: str
    parameters: Mapping[str, str]
    metrics: Mapping[str, str]
    user_metadata: str | None

    @property
    def name(self) -> str:
        """The operation with its mode, such as `WRITE Append`."""
        return " ".join(word for word in (self.operation, self.parameters.get("mode", "")) if word)

    @property
    def replaces_where(self) -> bool:
        """Whether it replaced the rows that a predicate names, and no others."""
        return self.name == "WRITE Overwrite" and bool(self.parameters.get("predicate"))

    def metric(self, name: str) -> int:
        """The metric; 0 if the commit does not say."""
        return int(self.metrics.get(name, 0))


@dataclass(frozen=True, slots=True)
class Commit:
    """What a reader of the table needs to know of a commit. `plain`: it is a write that leaves the table what it is.
    `quiet`: it leaves the rows what they are. `adds`: it only added rows. `bases`: the base versions it was computed
    from, if a job of ours made it. `rows`: how many rows it wrote, as far as it says."""

    at_s: float
    plain: bool
    quiet: bool = False
    adds: bool = False
    bases: Mapping[str, int] | None = None
    rows: int = 0


def commit_of(logged: Logged) -> Commit:
    """The commit as a reader of the table sees it."""
    payload = payload_from_text(logged.user_metadata)
    return Commit(
        logged.at_ms / 1e3,
        plain=logged.name in PLAIN or logged.replaces_where,
        quiet=logged.name in QUIET,
        adds=_only_adds(logged),
        bases=None if payload is None else bases_of_all(payload.state.versions.values()),
        rows=_rows_written(logged),
    )


def _only_adds(logged: Logged) -> bool:
    """A MERGE that met no row, and a replaceWhere that removed none, are appends too."""
    if logged.replaces_where:
        return logged.metrics.get("numDeletedRows") == "0" and logged.metric("numCopiedRows") == 0
    met = [logged.metrics.get(name) for name in MERGED_ROWS[1:]]
    return logged.name == "WRITE Append" or (logged.operation == "MERGE" and met == ["0", "0"])


def _rows_written(logged: Logged) -> int:
    """Of a MERGE, an UPDATE, a DELETE or a plain write: the first metrics of the list that the commit has. (The output
    of a MERGE has rows in it that it only copied.)"""
    if logged.replaces_where:
        counts = _replaced(logged)
        return counts.inserted + counts.deleted
    for names in ROWS_WRITTEN:
        if any(name in logged.metrics for name in names):
            return sum(map(logged.metric, names))
    return 0


def _replaced(logged: Logged) -> Counts:
    """The rows that a replaceWhere put in, and the rows that it removed. Rows of a file that it had to write again are
    neither."""
    inserted = logged.metric("numOutputRows") - logged.metric("numCopiedRows")
    return Counts(inserted=inserted, deleted=logged.metric("numDeletedRows"))


def entry_of(logged: Logged) -> Entry:
    """The commit as `confirm` judges a target's log."""
    version, payload = logged.version, payload_from_text(logged.user_metadata)
    if logged.operation == "CREATE TABLE" and version == 0:
        return Entry(version, Effect.CREATED)
    if logged.operation in HARMLESS or _keeps_the_feed(logged):
        return Entry(version, Effect.NONE, payload)
    if logged.operation in CARRIES_STATE and payload is not None:
        return Entry(version, Effect.WRITE, payload, _counts(logged), logged.replaces_where)
    return Entry(version, Effect.FOREIGN, payload)


def _keeps_the_feed(logged: Logged) -> bool:
    if logged.operation != "SET TBLPROPERTIES":
        return False
    properties = json.loads(logged.parameters.get("properties", "{}"))
    return str(properties.get("delta.enableChangeDataFeed", "true")).lower() == "true"


def _counts(logged: Logged) -> Counts:
    if logged.operation == "MERGE":
        return Counts(*map(logged.metric, MERGED_ROWS))
    if logged.operation == "DELETE":
        return Counts(deleted=logged.metric("numDeletedRows"))
    return _replaced(logged) if logged.replaces_where else Counts(inserted=logged.metric("numOutputRows"))
