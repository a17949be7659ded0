"""Views on DuckDB: tables that change, of which parts are covered, and a view that is kept by the statements of its
plan. After every step the target is what the plan computes from nothing, which is what the user's own query gives."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from tests.views.incremental.duck import MACROS, in_duckdb
from tests.views.incremental.forms import FORMS, IN_DUCKDB
from tests.views.incremental.tables import Row, Tables, hashable, literal
from tidefill.core.keys import TOP, Key, end_of_group
from tidefill.views.plan.limits import Reading
from tidefill.views.plan.plan import TARGET, ViewPlan, compile_view
from tidefill.views.reading.dialect import Verbatim
from tidefill.views.relations.lowered import TableColumns
from tidefill.views.relations.relations import Scan
from tidefill.views.relations.texts import HIDDEN, MARK

Walks = Mapping[str, tuple[str, ...]]
NOTHING, EVERYTHING = Key(()), Key((TOP,))

TABLES = {
    "a": TableColumns("a", (("id", "int"), ("g", "int"), ("x", "decimal(10,2)"), ("s", "string")), ("id",)),
    "b": TableColumns("b", (("id", "int"), ("aid", "int"), ("y", "int"), ("s", "string"), ("f", "double")), ("id",)),
    "c": TableColumns("c", (("id1", "int"), ("id2", "string"), ("g", "int"), ("d", "timestamp")), ("id1", "id2")),
}
KEYS = 10
_SAID = {FORMS[name]: text for name, text in IN_DUCKDB.items()}
_INPUT = re.compile(r'"(__tf_(?:old_\d+|delta_\d+|target))"')
_LIMIT = re.compile(r'"(__tf_\d+_limits_(?:lo\d+|hi\d+|any))"')
_DUCK = {"int": "INT", "bigint": "BIGINT", "string": "VARCHAR", "double": "DOUBLE", "timestamp": "TIMESTAMPTZ"}
_SPARK = {
    "INTEGER": "int", "BIGINT": "bigint", "HUGEINT": "decimal(38,0)", "VARCHAR": "string", "DOUBLE": "double",
    "TIMESTAMP": "timestamp_ntz", "TIMESTAMP WITH TIME ZONE": "timestamp", "BOOLEAN": "boolean",
}  # fmt: skip


def connected(tables: Iterable[TableColumns] = tuple(TABLES.values())) -> duckdb.DuckDBPyConnection:
    """Without the optimizer: of ten rows any plan will do, and over a few queries it stumbles."""
    connection = duckdb.connect()
    connection.execute("PRAGMA disable_optimizer")
    connection.execute("SET threads = 1")
    connection.execute("SET TimeZone = 'UTC'")
    for macro in MACROS:
        connection.execute(macro)
    for table in tables:
        connection.execute(f"CREATE TABLE {table.name} ({columns_of(table)})")
    return connection


def columns_of(table: TableColumns) -> str:
    return ", ".join(f'"{name}" {_DUCK.get(kind, kind)}' for name, kind in table.columns)


def spark_type(kind: str) -> str:
    return _SPARK.get(kind, kind.lower())


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


def some_change(chance: random.Random, table: TableColumns, row: Row) -> Row:
    """The row with another value in a column that is not of its key."""
    changed = list(row)
    place = chance.choice([i for i, (column, _) in enumerate(table.columns) if column not in table.key])
    changed[place] = some_value(chance, table.columns[place][1])
    return tuple(changed)


def some_walks(chance: random.Random, tables: Mapping[str, TableColumns] = TABLES) -> Walks:
    """Of each table some leading columns, then the key."""
    leading = {
        name: chance.sample([column for column, kind in table.columns if kind != "double"], chance.choice([0, 1, 1, 2]))
        for name, table in tables.items()
    }
    return {name: tuple(dict.fromkeys((*leading[name], *table.key))) for name, table in tables.items()}


def key_of(table: TableColumns, row: Row) -> Row:
    return columns_at(table, row, table.key)


def columns_at(table: TableColumns, row: Row, columns: Iterable[str]) -> Row:
    names = [name for name, _ in table.columns]
    return tuple(row[names.index(name)] for name in columns)


@dataclass(frozen=True)
class Source:
    """Tables, the rows that may come to them, what may become of a row, and how many rows there are at first."""

    tables: Mapping[str, TableColumns]
    row: Callable[[random.Random, TableColumns], Row]
    change: Callable[[random.Random, TableColumns, Row], Row]
    rows_max: int

    def find(self, parts: tuple[str, ...]) -> TableColumns:
        """The table that a name in a query means."""
        return self.tables[parts[-1].lower()]


ABC = Source(TABLES, some_row, some_change, KEYS)
find = ABC.find


@dataclass(eq=False)
class Covered:
    """One occurrence: along which columns it is walked, up to where it is covered, behind which key it was empty at
    the first step, and so is covered too, and the rows it has."""

    scan: Scan
    table: TableColumns
    walk: tuple[str, ...]
    upto: Key = EVERYTHING
    behind: Key = EVERYTHING
    rows: dict[Row, Row] = field(default_factory=dict)

    def place(self, row: Row) -> Key:
        return Key(columns_at(self.table, row, self.walk))

    def covers(self, row: Row) -> bool:
        return not self.upto < self.place(row) <= self.behind


@dataclass(frozen=True)
class Texts:
    """The statements of a step: stages with their names and the limits that they give, and the last one."""

    stages: tuple[tuple[str, str, tuple[str, ...]], ...]
    last: str

    @cached_property
    def inputs(self) -> frozenset[str]:
        """What they read of what was, of what changed, and of the target."""
        return frozenset(_INPUT.findall(" ".join([*(text for _, text, _ in self.stages), self.last])))


def ending(bound: Key, group_columns: int) -> Key:
    return end_of_group(bound, group_columns) if group_columns and bound.values else bound


def normal(rows: Iterable[Row]) -> Counter[Row]:
    """Numbers by value: what is a decimal here may be a whole number there."""

    def value(one: Any) -> Any:
        if isinstance(one, tuple):
            return tuple(map(value, one))
        return round(float(one), 9) + 0.0 if isinstance(one, float | Decimal | int) else one

    return Counter(tuple(map(value, row)) for row in rows)


class World:
    """Tables, and one view over them. `walks`: along which columns a table is walked, if not its key. `said`: the query
    in DuckDB's words, where it has others."""

    def __init__(
        self,
        sql: str,
        chance: random.Random,
        connection: duckdb.DuckDBPyConnection,
        walks: Walks | None = None,
        source: Source = ABC,
        said: str | None = None,
    ) -> None:
        self.sql, self.chance, self.connection, self.source = sql, chance, connection, source
        self.data: dict[str, dict[Row, Row]] = {name: {} for name in source.tables}
        tree = sqlglot.parse_one(sql, read=Verbatim)
        self._named = {table.name.lower() for table in tree.find_all(exp.Table)} & source.tables.keys()
        self.user_sql = said or _SAID.get(sql) or tree.sql(dialect="duckdb")
        names = [row[0] for row in self._run(f"DESCRIBE {self.user_sql}")]
        self.names = [f"u{index}" for index, _ in enumerate(names)]
        self._tables = Tables(connection)
        self._texts: dict[tuple[str, ...], Texts] = {}
        self._inputs: list[list[Row]] = []
        self._view: list[Row] = []
        self.plan: ViewPlan = compile_view(tree, source.find, self.names, self._types)
        self.walks = {name: table.key for name, table in source.tables.items()} | dict(walks or {})
        self.covered = [Covered(scan, source.tables[scan.table], self.walks[scan.table]) for scan in self.plan.scans]
        self.target: dict[Row, Row] = {}
        self.checks = 0
        self.appends = 0
        self.limits = 0
        self.constants: dict[str, str] = {}
        self.share_large = 0.5

    def _run(self, sql: str) -> list[Row]:
        return [tuple(map(hashable, row)) for row in self.connection.execute(sql).fetchall()]

    def _types(self, query: exp.Query, scans: Sequence[Scan]) -> Sequence[str]:
        for number, scan in enumerate(scans):
            self._put(f"__tf_new_{number}", self.source.tables[scan.table], [])
        return [spark_type(row[1]) for row in self._run(f"DESCRIBE {in_duckdb(query)}")]

    def _put(self, name: str, table: TableColumns, rows: Iterable[Row], more: str = "") -> None:
        self._tables.put(name, f"({columns_of(table)}{more})", rows)

    @cached_property
    def whole(self) -> str:
        return in_duckdb(self.plan.whole())

    def _view_of(self, inputs: Sequence[Iterable[Row]]) -> list[Row]:
        """The whole view over these rows of its occurrences. It is what it was if they are what they were."""
        rows = [list(one) for one in inputs]
        self._put_new(rows)
        if rows != self._inputs:
            self._inputs, self._view = rows, self._run(self.whole)
        return self._view

    def _put_new(self, inputs: Sequence[Iterable[Row]]) -> None:
        for number, (one, rows) in enumerate(zip(self.covered, inputs, strict=True)):
            self._put(f"__tf_new_{number}", one.table, rows)

    def _texts_of(self, changed: tuple[str, ...]) -> Texts:
        if changed not in self._texts:
            script = self.plan.changes(changed, self.reading)
            stages = ((stage.name, in_duckdb(stage.query), stage.limits) for stage in script.stages)
            self._texts[changed] = Texts(tuple(stages), in_duckdb(script.last))
        return self._texts[changed]

    def _changes(self, texts: Texts) -> list[Row]:
        known = self.constants = dict[str, str]()

        def with_limits(text: str) -> str:
            return _LIMIT.sub(lambda found: known[found[1]], text)

        for name, text, limits in texts.stages:
            stage = with_limits(text)
            if limits:
                (values,) = self._run(stage)
                known |= dict(zip(limits, map(literal, values), strict=True))
                self.limits += 1
            else:
                self._run(f'CREATE OR REPLACE TEMP TABLE "{name}" AS {stage}')
        return self._run(with_limits(texts.last))

    @cached_property
    def reading(self) -> Reading:
        """Some tables are too large to be read whole."""
        kinds = {
            column: dict(self.source.tables[scan.table].columns)[source]
            for scan in self.plan.scans
            for column, source in zip(scan.columns, scan.sources, strict=True)
        }
        large = [scan for scan in self.plan.scans if self.chance.random() < self.share_large]
        columns = frozenset(column for scan in large for column in scan.columns)
        return Reading(kinds, columns)

    # Steps.

    def start(self, uncovered: Iterable[int] = (), group_columns: int = 0) -> None:
        """Some rows; of the given occurrences nothing is covered but what lies behind their last group."""
        for name, table in self.source.tables.items():
            for _ in range(self.chance.randint(0, self.source.rows_max)):
                row = self.source.row(self.chance, table)
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
        self.target = {self._key(row): row for row in self._covered_view()}
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
        name = self.chance.choice(list(self.source.tables))
        table, rows = self.source.tables[name], self.data[name]
        kind = self.chance.random()
        if kind < 0.4 or not rows:
            row = self.source.row(self.chance, table)
        elif kind < 0.65:
            del rows[self.chance.choice(list(rows))]
            return
        elif kind < 0.9:
            row = self.source.change(self.chance, table, self.chance.choice(list(rows.values())))
        else:
            del rows[self.chance.choice(list(rows))]
            row = self.source.row(self.chance, table)
        rows[key_of(table, row)] = row

    def append(self, number: int, upto: Key) -> None:
        """Cover more of one occurrence by a chunk whose outputs are its own. Nothing else has changed."""
        one = self.covered[number]
        walked = [other for other in self.covered if other.behind is not EVERYTHING]
        before, one.upto = one.rows, upto
        one.rows = self._rows_of(one)
        come = {key: row for key, row in one.rows.items() if key not in before}
        of_walked = {other: come if other is one else {} for other in walked}
        chunk = self._view_of([of_walked.get(other, other.rows).values() for other in self.covered])
        for row in chunk:
            assert self._key(row) not in self.target, f"the chunk of {self.sql} has {row} once more"
        self.target |= {self._key(row): row for row in chunk}
        self.appends += bool(chunk)
        self.check()

    def step(self, fill: Mapping[int, Key] | None = None) -> None:
        """Take in what changed, and cover more of some occurrences."""
        before = [one.rows for one in self.covered]
        for number, upto in (fill or {}).items():
            self.covered[number].upto = upto
        for one in self.covered:
            one.rows = self._rows_of(one)
        delta: dict[int, list[Row]] = {}
        for number, (was, one) in enumerate(zip(before, self.covered, strict=True)):
            gone = [(*row, -1) for key, row in was.items() if one.rows.get(key) != row]
            come = [(*row, 1) for key, row in one.rows.items() if was.get(key) != row]
            if gone or come:
                delta[number] = [*gone, *come]
        if delta:
            texts = self._texts_of(tuple(self.covered[number].scan.occurrence for number in delta))
            self._put_inputs(texts.inputs, before, delta)
            self._apply(self._changes(texts))
        self.check()

    def _put_inputs(
        self, read: frozenset[str], old: Sequence[Mapping[Row, Row]], delta: Mapping[int, list[Row]]
    ) -> None:
        """What the statements of a step read."""
        self._put_new([one.rows.values() for one in self.covered])
        for name in read - {TARGET}:
            what, number = name.removeprefix(HIDDEN).split("_")
            assert int(number) in delta, f"{name} is read, of which nothing changed"
            table = self.covered[int(number)].table
            if what == "old":
                self._put(name, table, old[int(number)].values())
            else:
                self._put(name, table, delta[int(number)], ", __tf_w INT")
        if TARGET in read:
            self._tables.put(TARGET, f"AS SELECT * FROM ({self.whole}) LIMIT 0", self.target.values())

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
        wanted = self._covered_view()
        assert len({self._key(row) for row in wanted}) == len(wanted), f"{self.plan.key} is no key of {wanted}"
        self._equal(normal(self.target.values()), normal(wanted), "the target")
        self.checks += 1

    def _covered_view(self) -> list[Row]:
        return self._view_of([one.rows.values() for one in self.covered])

    def check_query(self) -> None:
        """The view from nothing is what the user asked for."""
        for name in self._named:
            self._put(name, self.source.tables[name], self.data[name].values())
        shown = len(self.plan.columns)
        view = self._view_of([self.data[one.scan.table].values() for one in self.covered])
        found = normal(row[:shown] for row in view)
        self._equal(found, normal(self._run(self.user_sql)), "the plan")
        self.checks += 1

    def _equal(self, found: Counter[Row], wanted: Counter[Row], what: str) -> None:
        assert found == wanted, (
            f"{what} of {self.sql} ({self.plan.strategy.name})\n"
            f"  too much: {list((found - wanted).items())[:3]}\n  missing: {list((wanted - found).items())[:3]}"
        )
