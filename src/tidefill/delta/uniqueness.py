"""How many keys of an index on a Delta table have several rows, and which."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from tidefill.delta.touched_keys import TouchedKeys
from tidefill.spark.faults import translated
from tidefill.spark.names import HIDDEN, quoted

SHOWN_MAX = 1000  # keys: more than a person mends by hand
_ROWS, _SIDE, _FIRST = f"{HIDDEN}rows", f"{HIDDEN}side", f"{HIDDEN}first"


class DeltaUniqueness:
    """Of the index at a path. `order`: the columns of its key. `touched`: the keys of the last commit, which its target
    has collected."""

    def __init__(self, session: SparkSession, path: str, order: Sequence[str], touched: TouchedKeys) -> None:
        self._session = session
        self._path = path
        self._order = tuple(order)
        self._touched = touched

    def violated(self, version: int) -> int:
        """Of all keys."""
        with translated():
            return duplicates(self._at(version), self._order).count()

    def violated_after(self, known: int, before: int, after: int) -> int:
        """By the keys that the commit touched: those that are violated now come, those that were go."""
        if self._touched.none:
            return known
        predicate = self._touched.predicate
        if predicate is None:
            return self.violated(after)
        with translated():
            sides = [
                self._at(version).where(predicate).withColumn(_SIDE, f.lit(version)) for version in (before, after)
            ]
            both = duplicates(sides[0].union(sides[1]), (_SIDE, *self._order))
            found = both.groupBy(_SIDE).count().collect()
        counted = {int(row[0]): int(row[1]) for row in found}
        return known - counted.get(before, 0) + counted.get(after, 0)

    def _at(self, version: int) -> DataFrame:
        table = self._session.read.format("delta").option("versionAsOf", version).load(self._path)
        return table.select(*map(quoted, self._order))


def duplicates(entries: DataFrame, order: Sequence[str], *more: Column) -> DataFrame:
    """The keys that several entries have, how many those are, and what `more` says of each."""
    names = [quoted(name) for name in order]
    there = reduce(Column.__and__, (f.col(name).isNotNull() for name in names))
    counted = entries.where(there).groupBy(*names).agg(f.count(f.lit(1)).alias(_ROWS), *more)
    return counted.where(f.col(_ROWS) > 1)


def violations(entries: DataFrame, order: Sequence[str], key: Sequence[str]) -> list[tuple[str, int, str]]:
    """The keys that most entries have: key, how many entries, and the least key of the base table among them."""
    least = f.min(f.struct(*map(quoted, key))).alias(_FIRST)
    with translated():
        found = duplicates(entries, order, least).orderBy(f.col(_ROWS).desc(), *map(quoted, order))
        rows = found.limit(SHOWN_MAX).collect()
    return [(_text(row[: len(order)]), row[_ROWS], _text(row[_FIRST])) for row in rows]


def _text(values: Sequence[object]) -> str:
    return f"({', '.join(map(str, values))})"
