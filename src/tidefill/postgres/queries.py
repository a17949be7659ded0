"""The SQL that reads rows, keys and samples of a table. Nothing here asks a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidefill.core import ranges_sql as conditions
from tidefill.core.keys import TOP, Key
from tidefill.core.ranges_sql import Conditions
from tidefill.core.sample import SAMPLE_KEYS
from tidefill.core.version import Snapshot
from tidefill.core.walk import Range
from tidefill.jobs.sql_names import identifier
from tidefill.postgres.backlog import KeyTexts
from tidefill.postgres.log import snapshot_text
from tidefill.postgres.reader import SNAPSHOT_GONE
from tidefill.postgres.survey import PARTITIONED, Leaf, PgTable, Survey
from tidefill.postgres.types import PgColumn, is_text, key_type, mapped, quoted_text

SAMPLE_SPREAD = 10  # times as many blocks as the rows of a sample would fill
POSTGRES = Conditions(equals="=")


@dataclass(frozen=True, slots=True)
class Queries:
    """Reads a table as it was surveyed. `walk`: the columns by which it is walked."""

    table: PgTable
    survey: Survey
    walk: tuple[str, ...]

    @property
    def key_columns(self) -> list[PgColumn]:
        return [self.survey.column(name) for name in self.survey.key]

    def keys(self, keys: Sequence[KeyTexts]) -> str:
        """The keys as a table, whose columns have the names and the types of the key's."""
        arrays = [
            f"{_array([key[place] for key in keys])}::{column.declared}[]"
            for place, column in enumerate(self.key_columns)
        ]
        names = ", ".join(identifier(name) for name in self.survey.key)
        return f"(SELECT * FROM unnest({', '.join(arrays)}) AS u({names}))"

    def rows_of(self, keys: str) -> str:
        """The rows `t` that have the keys of a table that `keys` made."""
        names = [identifier(name) for name in self.survey.key]
        same = " AND ".join(f"t.{name} = k.{name}" for name in names)
        return f"{keys} k JOIN {self.table.sql} t ON {same}"

    def within(self, ranges: Sequence[Range], alias: str) -> str:
        """The condition that a row of `alias` lies in one of the ranges of the walk."""
        walk = [self._column(name, alias) for name in self.walk]
        simple = [self._simple(part, walk) for part in ranges]
        if simple and all(simple):
            return f"({' OR '.join(simple)})"
        found = POSTGRES.within(ranges, walk)
        return str(found).lower() if isinstance(found, bool) else found

    def _simple(self, part: Range, walk: Sequence[conditions.Column]) -> str:
        """As a comparison of rows, which an index serves; empty if NULLs or open ends are in the way."""
        bounds = [bound for bound in (part.after, part.upto) if bound is not None]
        whole = all(
            len(bound.values) == len(walk) and None not in bound.values and TOP not in bound.values for bound in bounds
        )
        if not whole or not all(self.survey.column(name).not_null for name in self.walk):
            return ""
        row = f"({', '.join(column.name for column in walk)})"

        def constants(bound: Key) -> str:
            return ", ".join(column.literal(value) for column, value in zip(walk, bound.values, strict=True))

        tests = [
            f"{row} {operator} ({constants(bound)})"
            for operator, bound in ((">", part.after), ("<=", part.upto))
            if bound is not None
        ]
        return f"({' AND '.join(tests)})" if tests else "true"

    def _column(self, name: str, alias: str) -> conditions.Column:
        column = self.survey.column(name)
        collated = '::text COLLATE "C"' if is_text(column) else ""
        return conditions.Column(f"{alias}.{identifier(name)}{collated}", key_type(column).literal)

    @property
    def is_ordered(self) -> bool:
        """Whether an index of the server orders the walk as we do."""
        return all(self.survey.column(name).bytewise for name in self.walk if is_text(self.survey.column(name)))

    @property
    def from_the_greatest(self) -> str:
        """The order that puts the greatest of the walk first."""
        return ", ".join(f"{self._column(name, 't').name} DESC NULLS LAST" for name in self.walk)


def known_parts(survey: Survey) -> str:
    """Of a partitioned table only the partitions that it had in the snapshot: one that is attached later can be read in
    an old snapshot too."""
    if survey.kind != PARTITIONED:
        return "true"
    return "t.tableoid = ANY ('{" + ",".join(str(leaf.oid) for leaf in survey.leaves) + "}'::oid[])"


def selected(snapshot: Snapshot, columns: Sequence[PgColumn], source: str, alias: str, where: str) -> str:
    """Rows of the source, as Spark's types. It fails where the snapshot was not taken over."""
    cells = [f"{sent(column, alias)} AS c{column.number}" for column in columns]
    guard = (
        f"(SELECT CASE pg_current_snapshot()::text WHEN '{snapshot_text(snapshot)}' THEN true "
        f"ELSE ('{SNAPSHOT_GONE} ' || pg_current_snapshot()::text)::boolean END)"
    )
    return f"SELECT {', '.join(cells)} FROM {source} WHERE {where} AND {guard}"


def keys_of_leaf(table: PgTable, key: Sequence[str], leaf: Leaf, constraint: str, most: int) -> str:
    """Through the table: that is what we may read. The partition's constraint lets the server leave out others."""
    texts = ", ".join(f"format('%s', {identifier(name)})" for name in key)  # as the log writes them
    return f"SELECT {texts} FROM {table.sql} WHERE tableoid = {leaf.oid} AND ({constraint}) LIMIT {most}"


def sampling(rows: int) -> str:
    """Few rows of many blocks: the server reads whole blocks, and neighbours tell little of the rest. (All rows of few
    blocks left the four readers of a million rows with 21 to 31 % of them each, few rows of many with 24 to 27 %.)"""
    share = SAMPLE_KEYS / max(rows, 1)
    if share >= 1:
        return ""
    blocks = min(1.0, share * SAMPLE_SPREAD)
    return f"TABLESAMPLE SYSTEM ({100 * blocks:.6f}) REPEATABLE (1) WHERE random() < {share / blocks:.6f}"


def sent(column: PgColumn, alias: str) -> str:
    """The column in the form in which it is sent to Spark."""
    return mapped(column).sent.format(f"{alias}.{identifier(column.name)}")


def _array(texts: Sequence[str]) -> str:
    """An array of these values as a constant."""
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return quoted_text("{" + ",".join(f'"{text}"' for text in escaped) + "}")
