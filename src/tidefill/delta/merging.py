"""A MERGE of many changes: what it will do, counted in one look, and its statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType

from tidefill.core.confirm import Counts
from tidefill.delta.changed_keys import KEYS_NAMED_MAX, several_changes
from tidefill.delta.comparing import FOUND, WANTED
from tidefill.errors import KeyNotUnique
from tidefill.spark.coverage import collectable, key_of, literal
from tidefill.spark.names import MARK, quoted


@dataclass(frozen=True, slots=True)
class Counted:
    """What a change set does, if it was looked at, and between which constants its keys lie in their first column, if
    that is known."""

    counts: Counts | None
    first: str = ""
    last: str = ""

    @property
    def only_inserts(self) -> bool:
        """Whether nothing is updated or deleted."""
        return self.counts is not None and not self.counts.updated and not self.counts.deleted

    @property
    def is_nothing(self) -> bool:
        """Whether it does nothing."""
        return self.counts == Counts()


def counted(changes: DataFrame, key: Sequence[str], kind: DataType | None) -> Counted:
    """What the change set is, in one look at it: how many rows it will insert, update and delete, if the marks are
    right, and constant bounds of the first key column, so that Delta reads only the files that may match. `kind`: the
    type of that column, if it has constants. KeyNotUnique if a key comes twice."""
    lead = f.col(quoted(key[0]))
    ends = [f.min(lead), f.max(lead)] if kind is not None else [f.lit(None), f.lit(None)]
    low_high = ends if kind is None else collectable(ends, [kind, kind])
    of_key = [f.count_if(f.col(MARK) == mark).alias(WANTED + mark) for mark in "IUD"]
    by_key = changes.groupBy(*map(quoted, key)).agg(*of_key, f.count(f.lit(1)).alias(FOUND))
    found = by_key.agg(
        *(f.sum(WANTED + mark) for mark in "IUD"), f.max(FOUND), f.count_if(lead.isNull()), *low_high
    ).collect()[0]
    *marked, most, nulls, low, high = found
    if most is not None and most > 1:
        raise _twice(changes, key)
    counts = Counts(*(number or 0 for number in marked))
    if kind is None or nulls or low is None:
        return Counted(counts)
    first, last = (literal(value, kind) for value in key_of((low, high), [kind, kind]).values)
    return Counted(counts, first, last)


def _twice(changes: DataFrame, key: Sequence[str]) -> KeyNotUnique:
    by_key = changes.groupBy(*map(quoted, key)).agg(f.count(f.lit(1)).alias(MARK))
    twice = by_key.where(f.col(MARK) > 1).limit(KEYS_NAMED_MAX).collect()
    return several_changes(tuple(row)[:-1] for row in twice)


def merge_sql(table: str, key: Sequence[str], columns: Sequence[str], view: str, found: Counted, *, exact: bool) -> str:
    """With the clauses that there is something to do for, and no others. Exact marks that turn out wrong show in the
    counts; of others a U may be a new row."""
    names = [quoted(name) for name in columns if name != MARK]
    on = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in key)
    lead = f"t.{quoted(key[0])}"
    bounds = f" AND {lead} >= {found.first} AND {lead} <= {found.last}" if found.first else ""
    sets = ", ".join(f"t.{name} = s.{name}" for name in names)
    values = ", ".join(f"s.{name}" for name in names)
    deletes = f"WHEN MATCHED AND s.{MARK} = 'D' THEN DELETE"
    updates = f"WHEN MATCHED THEN UPDATE SET {sets}"
    inserts = f"WHEN NOT MATCHED AND s.{MARK} <> 'D' THEN INSERT ({', '.join(names)}) VALUES ({values})"
    counts = found.counts
    clauses = [deletes] if counts is None or counts.deleted else []
    clauses += [updates] if counts is None or counts.updated or not exact else []
    clauses += [inserts] if counts is None or counts.inserted or not exact else []
    return f"MERGE INTO {table} t USING {view} s ON {on}{bounds} {' '.join(clauses)}"
