"""Views on DuckDB: tables that change, of which parts are covered, and a view that is kept by the statements of its
plan. After every step the target is what the plan computes from nothing, which is what the user's own query gives."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from tidefill.core.keys import TOP, Key, end_of_group
from tidefill.views.limits import Reading
from tidefill.views.lowering import TableColumns
from tidefill.views.plan import Strategy, ViewPlan, compile_view
from tidefill.views.relations import Scan
from tidefill.views.texts import MARK
from tidefill.views.verbatim import Verbatim

Row = tuple[Any, ...]
Walks = Mapping[str, tuple[str, ...]]
NOTHING, EVERYTHING = Key(()), Key((TOP,))

TABLES = {
    "a": TableColumns("a", (("id", "int"), ("g", "int"), ("x", "decimal(10,2)"), ("s", "string")), ("id",)),
    "b": TableColumns("b", (("id", "int"), ("aid", "int"), ("y", "int"), ("s", "string"), ("f", "double")), ("id",)),
    "c": TableColumns("c", (("id1", "int"), ("id2", "string"), ("g", "int"), ("d", "timestamp")), ("id1", "id2")),
}
KEYS = 10
_LIMIT = re.compile(r'"(__tf_\d+_limits_(?:lo\d+|hi\d+|any))"')
_DUCK = {"int": "INT", "bigint": "BIGINT", "string": "VARCHAR", "double": "DOUBLE", "timestamp": "TIMESTAMPTZ"}
_SPARK = {
    "INTEGER": "int", "BIGINT": "bigint", "HUGEINT": "decimal(38,0)", "VARCHAR": "string", "DOUBLE": "double",
    "TIMESTAMP": "timestamp_ntz", "TIMESTAMP WITH TIME ZONE": "timestamp", "BOOLEAN": "boolean",
}  # fmt: skip


def find(parts: tuple[str, ...]) -> TableColumns:
    return TABLES[parts[-1].lower()]


def connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("SET TimeZone = 'UTC'")
    for table in TABLES.values():
        connection.execute(f"CREATE TABLE {table.name} ({columns_of(table)})")
    return connection


def columns_of(table: TableColumns) -> str:
    return ", ".join(f'"{name}" {_DUCK.get(kind, kind)}' for name, kind in table.columns)


def spark_type(kind: str) -> str:
    return _SPARK.get(kind, kind.lower())


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value)
        case int() | float() | Decimal():
            return format(value, "f") if isinstance(value, Decimal) else repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def some_value(chance: random.Random, kind: str) -> Any:
    if chance.random() < 0.15:
        return None
    match kind:
        case "int":
            return chance.randint(0, 4)
        case "string":
            return chance.choice(["", "a", "A", "b ", "b", "é", "Z"])
        case "double":
            return chance.randint(-8, 8) / 4
        case "timestamp":
            return chance.choice(["2024-01-01 00:00:00", "2024-03-10 02:30:00.123456", "1969-12-31 23:59:59"])
    return Decimal(chance.randint(-300, 300)) / 100


def some_row(chance: random.Random, table: TableColumns) -> Row:
    """Both texts of a key equal the number 1."""
    return tuple(
        (chance.randint(0, KEYS - 1) if kind == "int" else chance.choice(["1", "01"]))
        if name in table.key
        else some_value(chance, kind)
        for name, kind in table.columns
    )


def some_walks(chance: random.Random) -> Walks:
    """Of each table some leading columns, then the key."""
    leading = {
        name: chance.sample([column for column, kind in table.columns if kind != "double"], chance.choice([0, 1, 1, 2]))
        for name, table in TABLES.items()
    }
    return {name: tuple(dict.fromkeys((*leading[name], *table.key))) for name, table in TABLES.items()}


def key_of(table: TableColumns, row: Row) -> Row:
    return columns_at(table, row, table.key)


def columns_at(table: TableColumns, row: Row, columns: Iterable[str]) -> Row:
    names = [name for name, _ in table.columns]
    return tuple(row[names.index(name)] for name in columns)


@dataclass(eq=False)
class Covered:
    """One occurrence: along which columns it is walked, up to where it is covered, behind which key it was empty at
    the first step, and so is covered too, and the rows it has."""

    scan: Scan
    walk: tuple[str, ...]
    upto: Key = EVERYTHING
    behind: Key = EVERYTHING
    rows: dict[Row, Row] = field(default_factory=dict)

    def place(self, row: Row) -> Key:
        return Key(columns_at(TABLES[self.scan.table], row, self.walk))

    def covers(self, row: Row) -> bool:
        return not self.upto < self.place(row) <= self.behind


def ending(bound: Key, group_columns: int) -> Key:
    return end_of_group(bound, group_columns) if group_columns and bound.values else bound


def normal(rows: Iterable[Row]) -> Counter[Row]:
    """Numbers by value: what is a decimal here may be a whole number there."""

    def value(one: Any) -> Any:
        return round(float(one), 9) + 0.0 if isinstance(one, float | Decimal | int) else one

    return Counter(tuple(map(value, row)) for row in rows)


class World:
    """Tables, and one view over them. `walks`: along which columns a table is walked, if not its key."""

    def __init__(
        self, sql: str, chance: random.Random, connection: duckdb.DuckDBPyConnection, walks: Walks | None = None
    ) -> None:
        self.sql, self.chance, self.connection = sql, chance, connection
        self.data: dict[str, dict[Row, Row]] = {name: {} for name in TABLES}
        tree = sqlglot.parse_one(sql, read=Verbatim)
        self.user_sql = tree.sql(dialect="duckdb")
        names = [row[0] for row in self._run(f"DESCRIBE {self.user_sql}")]
        self.names = [f"u{index}" for index, _ in enumerate(names)]
        self._texts: dict[tuple[str, ...], tuple[tuple[str, str, tuple[str, ...]], ...]] = {}
        self.plan: ViewPlan = compile_view(tree, find, self.names, self._types)
        self.walks = {name: table.key for name, table in TABLES.items()} | dict(walks or {})
        self.covered = [Covered(scan, self.walks[scan.table]) for scan in self.plan.scans]
        self.target: dict[Row, Row] = {}
        self.checks = 0
        self.appends = 0
        self.limits = 0
        self.share_large = 0.5

    def _run(self, sql: str) -> list[Row]:
        return self.connection.execute(sql).fetchall()

    def _types(self, query: exp.Query, scans: Sequence[Scan]) -> Sequence[str]:
        for number, scan in enumerate(scans):
            self._put(f"__tf_new_{number}", TABLES[scan.table], [])
        return [spark_type(row[1]) for row in self._run(f"DESCRIBE {query.sql(dialect='duckdb')}")]

    def _put(self, name: str, table: TableColumns, rows: Iterable[Row], more: str = "") -> None:
        self.connection.execute(f'CREATE OR REPLACE TEMP TABLE "{name}" ({columns_of(table)}{more})')
        self._insert(name, rows)

    def _insert(self, name: str, rows: Iterable[Row]) -> None:
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
        if values:
            self.connection.execute(f'INSERT INTO "{name}" VALUES {values}')

    @cached_property
    def whole(self) -> str:
        return self.plan.whole().sql(dialect="duckdb")

    def _changes(self, changed: tuple[str, ...]) -> list[Row]:
        if changed not in self._texts:
            script = self.plan.changes(changed, self.reading)
            stages = [(stage.name, stage.query.sql(dialect="duckdb"), stage.limits) for stage in script.stages]
            self._texts[changed] = (*stages, ("", script.last.sql(dialect="duckdb"), ()))
        *stages, (_, last, _) = self._texts[changed]
        known: dict[str, str] = {}

        def with_limits(text: str) -> str:
            return _LIMIT.sub(lambda found: known[found[1]], text)

        for name, text, limits in stages:
            stage = with_limits(text)
            if limits:
                (values,) = self._run(stage)
                known |= dict(zip(limits, map(_literal, values), strict=True))
                self.limits += 1
            else:
                self._run(f'CREATE OR REPLACE TEMP TABLE "{name}" AS {stage}')
        return self._run(with_limits(last))

    @cached_property
    def reading(self) -> Reading:
        """Some tables are too large to be read whole."""
        kinds = {
            column: dict(TABLES[scan.table].columns)[source]
            for scan in self.plan.scans
            for column, source in zip(scan.columns, scan.sources, strict=True)
        }
        large = [scan for scan in self.plan.scans if self.chance.random() < self.share_large]
        columns = frozenset(column for scan in large for column in scan.columns)
        return Reading(kinds, columns)

    # Steps.

    def start(self, uncovered: Iterable[int] = (), group_columns: int = 0) -> None:
        """Some rows; of the given occurrences nothing is covered but what lies behind their last group."""
        for name, table in TABLES.items():
            for _ in range(self.chance.randint(0, KEYS)):
                row = some_row(self.chance, table)
                self.data[name][key_of(table, row)] = row
        self.begin(uncovered, group_columns)

    def begin(self, uncovered: Iterable[int] = (), group_columns: int = 0) -> None:
        """The first commit."""
        for number in uncovered:
            one = self.covered[number]
            one.upto, one.behind = NOTHING, max(map(one.place, self.data[one.scan.table].values()), default=NOTHING)
            one.behind = ending(one.behind, group_columns)
        for one in self.covered:
            one.rows = self._rows_of(one)
        self._put_inputs({}, {})
        self.target = {self._key(row): row for row in self._run(self.whole)}
        self.check()

    def _rows_of(self, one: Covered) -> dict[Row, Row]:
        return {key: row for key, row in self.data[one.scan.table].items() if one.covers(row)}

    def bound(self, number: int, rows: int, group_columns: int) -> Key:
        """Where a chunk ends that has so many rows, or a few more so as to end a group."""
        one = self.covered[number]
        left = sorted(filter(one.upto.__lt__, map(one.place, self.data[one.scan.table].values())))
        if not rows:
            return one.upto
        return ending(left[rows - 1], group_columns) if rows <= len(left) else EVERYTHING

    def _key(self, row: Row) -> Row:
        columns = (*self.plan.columns, *self.plan.hidden)
        return tuple(row[columns.index(name)] for name in self.plan.key)

    def write(self) -> None:
        """Somebody changes a table."""
        name = self.chance.choice(list(TABLES))
        table, rows = TABLES[name], self.data[name]
        kind = self.chance.random()
        if kind < 0.4 or not rows:
            row = some_row(self.chance, table)
        elif kind < 0.65:
            del rows[self.chance.choice(list(rows))]
            return
        elif kind < 0.9:
            old = list(self.chance.choice(list(rows.values())))
            place = self.chance.choice([i for i, (column, _) in enumerate(table.columns) if column not in table.key])
            old[place] = some_value(self.chance, table.columns[place][1])
            row = tuple(old)
        else:
            del rows[self.chance.choice(list(rows))]
            row = some_row(self.chance, table)
        rows[key_of(table, row)] = row

    def append(self, number: int, upto: Key) -> None:
        """Cover more of one occurrence by a chunk whose outputs are its own. Nothing else has changed."""
        one = self.covered[number]
        walked = [other for other in self.covered if other.behind is not EVERYTHING]
        before, one.upto = one.rows, upto
        one.rows = self._rows_of(one)
        for other in self.covered:
            rows = {key: row for key, row in other.rows.items() if key not in before} if other is one else {}
            self._put_input(other, rows if other in walked else other.rows)
        chunk = self._run(self.whole)
        for row in chunk:
            assert self._key(row) not in self.target, f"the chunk of {self.sql} has {row} once more"
        self.target |= {self._key(row): row for row in chunk}
        self.appends += bool(chunk)
        self._put_inputs({}, {})
        self.check()

    def step(self, fill: Mapping[int, Key] | None = None) -> None:
        """Take in what changed, and cover more of some occurrences."""
        before = [one.rows for one in self.covered]
        for number, upto in (fill or {}).items():
            self.covered[number].upto = upto
        for one in self.covered:
            one.rows = self._rows_of(one)
        old: dict[int, Iterable[Row]] = {}
        delta: dict[int, list[Row]] = {}
        for number, (was, one) in enumerate(zip(before, self.covered, strict=True)):
            gone = [(*row, -1) for key, row in was.items() if one.rows.get(key) != row]
            come = [(*row, 1) for key, row in one.rows.items() if was.get(key) != row]
            if gone or come:
                old[number], delta[number] = was.values(), [*gone, *come]
        self._put_inputs(old, delta)
        if delta:
            changed = tuple(self.covered[number].scan.occurrence for number in delta)
            self._apply(self._changes(changed))
        self.check()

    def _put_inputs(self, old: dict[int, Iterable[Row]], delta: dict[int, list[Row]]) -> None:
        for number, one in enumerate(self.covered):
            table = TABLES[one.scan.table]
            self._put_input(one, one.rows)
            if number in delta:
                self._put(f"__tf_old_{number}", table, old[number])
                self._put(f"__tf_delta_{number}", table, delta[number], ", __tf_w INT")
        if self.plan.strategy is not Strategy.CHANGES and delta:
            empty = f"SELECT * FROM ({self.whole}) LIMIT 0"
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE __tf_target AS {empty}")
            self._insert("__tf_target", self.target.values())

    def _put_input(self, one: Covered, rows: Mapping[Row, Row]) -> None:
        self._put(f"__tf_new_{self.covered.index(one)}", TABLES[one.scan.table], rows.values())

    def _apply(self, changes: Sequence[Row]) -> None:
        """Marks are exact: what is inserted is not there, what is updated or deleted is."""
        keys = [self._key(row) for row in changes]
        assert len(set(keys)) == len(keys), f"several changes of one key: {changes}"
        for key, (*row, mark) in zip(keys, changes, strict=True):
            assert mark in ("I", "U", "D"), f"{MARK} is {mark}"
            assert (key in self.target) == (mark != "I"), f"{mark} of {key}, which is {self.target.get(key)}"
            if mark == "D":
                del self.target[key]
            else:
                self.target[key] = tuple(row)

    def check(self) -> None:
        """I1: the target is the view over what is covered."""
        wanted = self._run(self.whole)
        assert len({self._key(row) for row in wanted}) == len(wanted), f"{self.plan.key} is no key of {wanted}"
        self._equal(normal(self.target.values()), normal(wanted), "the target")
        self.checks += 1

    def check_query(self) -> None:
        """The view from nothing is what the user asked for."""
        for name, table in TABLES.items():
            self._put(name, table, self.data[name].values())
        for number, one in enumerate(self.covered):
            self._put(f"__tf_new_{number}", TABLES[one.scan.table], self.data[one.scan.table].values())
        shown = len(self.plan.columns)
        found = normal(row[:shown] for row in self._run(self.whole))
        self._equal(found, normal(self._asked()), "the plan")
        self.checks += 1

    def _asked(self) -> list[Row]:
        """What the user's own query gives. The optimizer of DuckDB stumbles over a few, so they go without it."""
        try:
            return self._run(self.user_sql)
        except duckdb.InternalException:
            self._run("PRAGMA disable_optimizer")
            try:
                return self._run(self.user_sql)
            finally:
                self._run("PRAGMA enable_optimizer")

    def _equal(self, found: Counter[Row], wanted: Counter[Row], what: str) -> None:
        assert found == wanted, (
            f"{what} of {self.sql} ({self.plan.strategy.name})\n"
            f"  too much: {list((found - wanted).items())[:3]}\n  missing: {list((wanted - found).items())[:3]}"
        )
