"""Queries over one table that give one row for each row, or none: replicas, projections, filters.

Such a query is linear: the outputs of new chunks are appended, and a change of a row is a change of its output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from tidefill.core.state import Occurrence, Table
from tidefill.core.step import Shape
from tidefill.jobs.definitions import INPUT
from tidefill.ports.frames import Changes, Judged, Merge, Put
from tidefill.spark.judge import by_text
from tidefill.spark.names import HIDDEN, MARK, WEIGHT, quoted
from tidefill.spark.weights import came, weighted, went

SIDE = "__tf_side"


class RowWise:
    """`columns`: the output's columns, each an expression over the input, which they may call `alias`; None: those that
    the input has, whatever they are then. `where`: which rows it takes. `key` names the output columns that identify a
    row. `text`: the query as the user wrote it, over `table`; empty for a copy. `order`: of an index, the output
    columns that are its own key."""

    def __init__(
        self,
        empty: DataFrame,
        columns: Mapping[str, str] | None,
        key: Sequence[str],
        *,
        where: str = "",
        alias: str = "",
        text: str = "",
        table: Table = "",
        order: Sequence[str] = (),
    ) -> None:
        self._empty = empty
        self._columns = None if columns is None else dict(columns)
        self._key = tuple(key)
        self._where = where
        self._alias = alias
        self._text = text
        self._table = table
        self._order = tuple(order)
        self.shape = Shape(tables={INPUT: INPUT}, walked=(INPUT,))

    def derive(self, rows: DataFrame) -> DataFrame:
        """The query."""
        named = rows.alias(self._alias) if self._alias else rows
        taken = named.where(f.expr(self._where)) if self._where else named
        if self._columns is None:
            return taken
        return taken.select(*(f.expr(expression).alias(name) for name, expression in self._columns.items()))

    def append(self, rows: Mapping[Occurrence, DataFrame], whole: Mapping[Occurrence, DataFrame]) -> DataFrame:
        """The outputs of the chunk."""
        return self.derive(rows[INPUT])

    def whole(self, rows: Mapping[Occurrence, DataFrame]) -> DataFrame:
        """The outputs of everything."""
        return self.derive(rows[INPUT])

    @contextmanager
    def judged(self, rows: Mapping[Occurrence, DataFrame]) -> Iterator[Judged[DataFrame]]:
        """By the user's text; a copy is judged by its input."""
        if not self._text or self._columns is None:
            yield Judged(self.whole(rows))
            return
        unseen = [name for name in self._columns if name.startswith(HIDDEN)]
        hidden = self.whole(rows).select(*map(quoted, dict.fromkeys((*self._key, *unseen)))) if unseen else None
        with by_text(rows[INPUT].sparkSession, self._text, {self._table: rows[INPUT]}) as found:
            yield Judged(found, hidden)

    def with_chunk(self, changes: Changes[DataFrame] | None, chunk: DataFrame) -> Changes[DataFrame]:
        """The chunk's rows among those that came."""
        new = weighted(chunk, 1)
        if changes is None:
            return Changes(new, images=True, is_chunk=True, removes=False)
        rows = changes.rows.unionByName(new, allowMissingColumns=True)
        return Changes(rows, changes.images, removes=changes.removes, fresh=changes.fresh, net=changes.net)

    def nothing(self) -> DataFrame:
        """Outputs without rows."""
        return self.derive(self._empty)

    def changes(
        self, changes: Mapping[Occurrence, Changes[DataFrame]], new: Mapping[Occurrence, DataFrame]
    ) -> Merge[DataFrame] | Put[DataFrame]:
        """Old and new outputs side by side; what is equal on both sides is no change."""
        change = changes[INPUT]
        if not change.images:
            return self._by_key(change)
        added = self.derive(came(change.rows))
        if not change.removes:
            touched = self._touched(added)
            marked = added.withColumn(MARK, f.lit("I"))
            return Merge(marked, exact=True, few=change.few, touched=touched, fresh=change.fresh)
        columns, removed = added.columns, self.derive(went(change.rows))
        joined = self._side_by_side(removed, added).where(~same((SIDE, *columns)))
        was, is_now = _of("o", SIDE).isNotNull(), _of("n", SIDE).isNotNull()
        mark = f.when(was & is_now, "U").when(is_now, "I").otherwise("D")
        now = [f.when(is_now, _of("n", name)).otherwise(_of("o", name)).alias(name) for name in columns]
        touched = self._touched(removed, added)
        return Merge(joined.select(*now, mark.alias(MARK)), exact=True, few=change.few, touched=touched)

    def _touched(self, *outputs: DataFrame) -> DataFrame | None:
        """The index keys of these outputs; None if it is no index."""
        if not self._order:
            return None
        return reduce(lambda one, other: one.union(other), (rows.select(*map(quoted, self._order)) for rows in outputs))

    def _by_key(self, change: Changes[DataFrame]) -> Merge[DataFrame] | Put[DataFrame]:
        """Where only the keys of changed rows are known, which is enough for a copy: whatever has such a key goes, or
        becomes the row that has it now."""
        assert self._columns is None, "only a copy can be kept by keys alone"
        assert not self._where, "only a copy can be kept by keys alone"
        if change.net:
            marked = change.rows.withColumn(MARK, f.when(f.col(WEIGHT) > 0, "U").otherwise("D")).drop(WEIGHT)
            return Merge(marked, exact=False, few=change.few)
        added = came(change.rows)
        if change.keys is not None:
            return Put(change.keys, added)
        keys = went(change.rows).select(*map(quoted, self._key))
        joined = self._side_by_side(keys, added)
        values = [
            f.coalesce(_of("n", name), _of("o", name)).alias(name) if name in self._key else _of("n", name)
            for name in added.columns
        ]
        mark = f.when(_of("n", SIDE).isNull(), "D").when(_of("o", SIDE).isNull(), "I").otherwise("U")
        return Merge(joined.select(*values, mark.alias(MARK)), exact=False, lead=change.lead, few=change.few)

    def _side_by_side(self, old: DataFrame, new: DataFrame) -> DataFrame:
        """By key, `o` and `n`; SIDE is NULL where there is no row."""
        sides = old.withColumn(SIDE, f.lit(True)).alias("o"), new.withColumn(SIDE, f.lit(True)).alias("n")
        return sides[0].join(sides[1], same(self._key), "full_outer")


def same(columns: Sequence[str]) -> Column:
    """Equal on both sides of a join, `o` and `n`, NULL to NULL. With SIDE among them, a row that stands on one side
    only is no equal."""
    return reduce(Column.__and__, (_of("o", name).eqNullSafe(_of("n", name)) for name in columns))


def _of(side: str, name: str) -> Column:
    return f.col(f"{side}.{quoted(name)}")
