"""Rows of one key that are not the same row: where a key has a home, such as a partition of a topic, and its rows come
from two homes, nobody can tell which of them is newer."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidefill.delta.changed_keys import KEYS_NAMED_MAX, ChangedKeys
from tidefill.errors import KeyNotUnique
from tidefill.spark.derive_rows import same
from tidefill.spark.names import quoted


class OtherRows:
    """Of the table at a path. `fixed`: the columns that tell the home of a key."""

    def __init__(self, session: SparkSession, path: str, key: Sequence[str], fixed: Sequence[str]) -> None:
        self._spark = session
        self._path = path
        self._key = tuple(key)
        self._fixed = tuple(fixed)

    def refuse(self, changes: DataFrame, keys: ChangedKeys | None) -> None:
        """KeyNotUnique if a change has the key of a row with another home. `keys`: of the changes, if they are few."""
        there, predicate = self._rows(changes.sparkSession), None if keys is None else keys.predicate()
        if keys is not None and not keys.keys:
            return
        near = there if predicate is None else there.where(predicate)
        moved = near.alias("o").join(changes.alias("n"), same(self._key)).where(~same(self._fixed))
        self._raise(moved.select(*(f.col(f"n.{quoted(name)}") for name in self._key)))

    def check(self) -> None:
        """KeyNotUnique if a key has two rows."""
        counted = self._rows(self._spark).groupBy(*map(quoted, self._key)).agg(f.count(f.lit(1)).alias("n"))
        self._raise(counted.where("n > 1").select(*map(quoted, self._key)))

    def _rows(self, session: SparkSession) -> DataFrame:
        rows = session.read.format("delta").load(self._path)
        return rows.select(*map(quoted, dict.fromkeys((*self._key, *self._fixed))))

    def _raise(self, found: DataFrame) -> None:
        named = [str(tuple(row)) for row in found.limit(KEYS_NAMED_MAX).collect()]
        if named:
            raise KeyNotUnique(
                f"a key comes from two places, which differ in {', '.join(self._fixed)}",
                detail=f"e.g. {', '.join(named)}",
                hint="Mend that in the input and RESYNC the job.",
            )
