"""TPC-DS as tables that change: small random rows of the 24 tables, whose keys meet, and which the conditions of a text
let through."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from benchmarks.tpcds.queries import QUERIES, reads
from benchmarks.tpcds.tables import TABLES
from tests.views.incremental.duck import in_duckdb
from tests.views.incremental.tables import Row, Tables
from tests.views.incremental.tpcds_values import Asked, asked, narrowed, some
from tests.views.incremental.world import Source, World, columns_of, connected, key_of, some_walks
from tidefill.views.reading.dialect import Verbatim
from tidefill.views.relations.lowered import TableColumns

ROWS_MAX = 24
DAYS = 6
FIRST, LAST = date(1998, 1, 1), date(2003, 12, 31)
_NEAR = (1, 2, 6, 7, 20, 30, 31, 61, 90, 364, 365, 371)
"""Days between dates that texts compare: of one week, a month or a year later, and so on."""
_NUMBERS = {
    "_ticket_number": (3, 8),
    "_order_number": (3, 8),
    "_item_sk": (1, 3),
    "_customer_sk": (1, 3),
    "_sk": (1, 2),
}
"""How many there are of what keys name, at least and at most, by how the keys end."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What else than the usual a text needs to have rows. `numbers`: exactly how many there are of what keys name.
    `values`: of columns that it compares with sums."""

    rows_max: int = ROWS_MAX
    days: int = DAYS
    numbers: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)


_OF_ONE = {"_customer_sk": 1, "_order_number": 20, "_ticket_number": 20}
_LITTLE = (Decimal("0.10"), Decimal("0.25"))
SCALES: Mapping[str, Scale] = {
    "4": Scale(
        40,
        days=2,
        numbers=_OF_ONE,
        values={f"{of}s_ext_{name}": _LITTLE for of in "scw" for name in ("wholesale_cost", "discount_amt")},
    ),
    "6": Scale(60, days=3, numbers={"_customer_sk": 1, "_item_sk": 3, "_ticket_number": 30}),
    "8": Scale(60, days=2, numbers={"c_customer_sk": 40, "c_current_addr_sk": 2}),
    "23a": Scale(60, days=2, numbers={"_ticket_number": 12, "_item_sk": 2}),
    "23b": Scale(60, days=2, numbers={"_ticket_number": 12, "_item_sk": 2}),
    "64": Scale(
        40,
        days=4,
        numbers={**_OF_ONE, "_item_sk": 1, "_order_number": 4, "_demo_sk": 3, "_cdemo_sk": 3},
        values={f"cr_{name}": _LITTLE for name in ("refunded_cash", "reversed_charge", "store_credit")},
    ),
    "34": Scale(60, days=2, numbers={"_item_sk": 20, "_ticket_number": 1, "_customer_sk": 1}),
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Makes rows for one text. `days`: the dates that there are, of which each has one key. `focus`: by its conditions
    at which part of it the text is to be met; `noise`: how often a value shall not meet any. `numbers`: how many there
    are of what keys name. `amounts`: the values that decimals have."""

    asked: Asked
    days: Sequence[date]
    focus: float
    noise: float
    numbers: Mapping[str, int]
    amounts: Sequence[Decimal]
    rows_max: int

    def row(self, chance: random.Random, table: TableColumns) -> Row:
        """A row of a table."""
        if table.name == "date_dim":
            at = chance.randrange(len(self.days))
            return day_row(at + 1, self.days[at])
        return tuple(self._value(chance, table, name, kind) for name, kind in table.columns)

    def some_rows(self, chance: random.Random, table: TableColumns) -> list[Row]:
        """Rows to begin with: of a table that others name by its key mostly all, of others as many as there may be, or
        half of them, and fewer of what is given back."""
        if len(table.key) > 1:
            most = self.rows_max // 4 if table.name.endswith("_returns") else self.rows_max
            return [self.row(chance, table) for _ in range(chance.randint(most // 2, most))]
        known = {row[0]: row for row in (self.row(chance, table) for _ in range(self.rows_max * 2))}
        return [row for row in known.values() if chance.random() > self.noise]

    def change(self, chance: random.Random, table: TableColumns, row: Row) -> Row:
        """Another value in a column; of a day only in one that does not follow from its date."""
        if table.name == "date_dim":
            return (*row[:-1], chance.choice(["Y", "N", None]))
        own = [at for at, (name, _) in enumerate(table.columns) if name not in table.key]
        read = [at for at in own if table.columns[at][0] in self.asked or table.columns[at][0].endswith("_sk")]
        place = chance.choice(read if read and chance.random() < 0.7 else own)
        return (*row[:place], self._value(chance, table, *table.columns[place]), *row[place + 1 :])

    def _value(self, chance: random.Random, table: TableColumns, name: str, kind: str) -> Any:
        is_key = name in table.key
        if name in self.asked and chance.random() > self.noise:
            value = some(self.asked, chance, name, self.focus)
            if value is not None or not is_key:
                return _as(kind, value)
        if not is_key and chance.random() < self.noise / 2:
            return None
        if name.endswith("date_sk"):
            return chance.randint(1, len(self.days))
        count = next((count for ending, count in self.numbers.items() if name.endswith(ending)), None)
        return chance.randint(1, count) if count is not None else self._any(chance, name, kind)

    def _any(self, chance: random.Random, name: str, kind: str) -> Any:
        match kind:
            case "int":
                return chance.randint(1, 5)
            case "string":
                return "UNITED STATES" if name.endswith("country") else chance.choice(["a", "b", "B c"])
            case "date":
                return str(FIRST + timedelta(days=chance.randrange(3)))
        return chance.choice(self.amounts)


def _as(kind: str, value: Any) -> Any:
    """A value that a text names, as its column has it."""
    if value is None:
        return None
    match kind:
        case "string" | "date":
            return str(value)
        case "int":
            return int(value)
    return Decimal(value).quantize(Decimal("0.01"))


def day_row(key: int, day: date) -> Row:
    """A row of date_dim, whose numbers of months, weeks and quarters go on from 1900."""
    quarter = (day.month + 2) // 3
    months = (day.year - 1900) * 12 + day.month - 1
    weeks = (day - date(1900, 1, 1)).days // 7 + 1
    quarters = (day.year - 1900) * 4 + quarter
    known: dict[str, Any] = {
        "d_date_sk": key, "d_date_id": f"day {key}", "d_date": str(day), "d_month_seq": months, "d_week_seq": weeks,
        "d_quarter_seq": quarters, "d_year": day.year, "d_dow": day.isoweekday() % 7, "d_moy": day.month,
        "d_dom": day.day, "d_qoy": quarter, "d_day_name": day.strftime("%A"), "d_quarter_name": f"{day.year}Q{quarter}",
        "d_current_year": "N",
    }  # fmt: skip
    return tuple(known.get(name) for name, _ in TABLES["date_dim"].columns)


_EVERY_DAY = [FIRST + timedelta(days=days) for days in range((LAST - FIRST).days + 1)]
_PLACES = {name: at for at, (name, _) in enumerate(TABLES["date_dim"].columns)}


def some_days(chance: random.Random, wanted: Asked, count: int) -> list[date]:
    """Dates that meet the conditions on date_dim, each of them if they are many, and such as are near to those."""
    asked_of = {name: {str(value) for values in wanted[name] for value in values} for name in _PLACES if name in wanted}

    def met(day: date) -> frozenset[str]:
        row = day_row(0, day)
        return frozenset(
            f"{name} {row[_PLACES[name]]}" for name, of in asked_of.items() if str(row[_PLACES[name]]) in of
        )

    meets = {day: met(day) for day in _EVERY_DAY}
    most = max(map(len, meets.values()))
    good = [day for day, of in meets.items() if len(of) == most]
    days = [chance.choice(good)]
    while len(days) < min(count, len(good)):
        known = frozenset().union(*(meets[day] for day in days))
        near = [day + timedelta(days=off * sign) for day in days for off in _NEAR for sign in (1, -1)]
        near = [day for day in near if day in meets]
        other = [day for day in good if not meets[day] <= known]
        pools = [other or good, [day for day in near if len(meets[day]) == most] or good, near or good]
        day = chance.choice(chance.choices(pools, [5, 4, 2])[0])
        if day not in days:
            days.append(day)
    return days


def rows_for(name: str, chance: random.Random) -> Rows:
    """Rows for a text."""
    sql, scale = QUERIES[name], SCALES.get(name, Scale())
    wanted = {**asked(sqlglot.parse_one(sql, read=Verbatim)), **{name: [of] for name, of in scale.values.items()}}
    numbers = {ending: chance.randint(*of) for ending, of in _NUMBERS.items()}
    return Rows(
        narrowed(wanted, chance),
        some_days(chance, wanted, scale.days),
        focus=chance.random(),
        noise=chance.choice([0.01, 0.05, 0.2]),
        numbers={**scale.numbers, **{end: count for end, count in numbers.items() if end not in scale.numbers}},
        amounts=[Decimal(chance.randint(-200, 3000)) / 100 for _ in range(chance.choice([1, 4, 20]))],
        rows_max=scale.rows_max,
    )


def spoken(sql: str) -> exp.Query:
    """A text as the compiler reads it, where a quotient of decimals is a decimal for DuckDB too, as it is for Spark."""
    tree = sqlglot.parse_one(sql, read=Verbatim)
    assert isinstance(tree, exp.Query)
    for node in list(tree.find_all(exp.Div)):
        node.replace(exp.Anonymous(this="quotient", expressions=[node.this, node.expression]))
    return tree


def said(tree: exp.Query) -> str:
    """A text in DuckDB's words. Spark shows no total of a ROLLUP over nothing, and DuckDB does."""
    tree = tree.copy()
    for select in tree.find_all(exp.Select):
        if select.args.get("group") and select.args["group"].find(exp.Rollup):
            some = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
            select.having(some, copy=False)
    return in_duckdb(tree)


def connected_to_tpcds() -> duckdb.DuckDBPyConnection:
    """A DuckDB that has the tables."""
    connection = connected(TABLES.values())
    connection.execute("CREATE MACRO quotient(a, b) AS CAST(a / nullif(b, 0) AS DECIMAL(38, 8))")
    return connection


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a history of a text begins with: by the seed alone. `chance`: what follows from the seed after that."""

    rows: Rows
    data: Mapping[str, Mapping[Row, Row]]
    chance: random.Random


def beginning(name: str, seed: int) -> Beginning:
    """The rows of the tables that a text reads."""
    chance = random.Random(f"{name} {seed}")
    rows = rows_for(name, chance)
    data = {
        table: {key_of(TABLES[table], row): row for row in rows.some_rows(chance, TABLES[table])}
        for table in reads(QUERIES[name])
    }
    return Beginning(rows, data, chance)


def says_something(rows: Iterable[Row]) -> bool:
    """Whether there are rows, with more than nothing in them."""
    return any(value not in (None, 0) for row in rows for value in row)


def beginnings(name: str, connection: duckdb.DuckDBPyConnection, seeds: Iterable[int]) -> Iterator[int]:
    """Of these seeds, those by which a text has rows in the beginning."""
    text = said(spoken(QUERIES[name]))
    held = Tables(connection)
    for seed in seeds:
        for table, rows in beginning(name, seed).data.items():
            held.put(table, f"({columns_of(TABLES[table])})", rows.values())
        with _optimized(connection):
            found = connection.execute(text).fetchall()
        if says_something(found):
            yield seed


@contextmanager
def _optimized(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """The texts join as many as eighteen tables by commas, which only the optimizer makes joins of."""
    connection.execute("PRAGMA enable_optimizer")
    try:
        yield
    finally:
        connection.execute("PRAGMA disable_optimizer")


class TpcdsWorld(World):
    """A text over such rows. `first_rows`: what each LIMIT in it takes; 0: what it says, which is more than there are.
    `had_rows`: whether the view ever had some."""

    def __init__(self, name: str, seed: int, connection: duckdb.DuckDBPyConnection, first_rows: int = 0) -> None:
        self.had_rows = False
        self.first = beginning(name, seed)
        made, chance = self.first.rows, self.first.chance
        source = Source({table: TABLES[table] for table in self.first.data}, made.row, made.change, made.rows_max)
        tree = spoken(QUERIES[name])
        for limit in tree.find_all(exp.Limit) if first_rows else ():
            limit.set("expression", exp.Literal.number(first_rows))
        walks = some_walks(chance, source.tables)
        super().__init__(tree.sql(dialect=Verbatim), chance, connection, walks, source, said(tree))
        settled = self.plan.settled
        self._is_open = bool(first_rows and settled.reason)
        if isinstance(settled.query, exp.Query):
            self.user_sql = said(settled.query)

    def start(self, uncovered: Iterable[int] = (), group_columns: int = 0) -> None:
        self.data = {table: dict(rows) for table, rows in self.first.data.items()}
        self.begin(uncovered, group_columns)

    def check(self) -> None:
        super().check()
        shown = len(self.plan.columns)
        self.had_rows |= says_something(row[:shown] for row in self.target.values())

    def check_query(self) -> None:
        """If the text leaves open which rows are first, by a key that it does not show, any would do: nothing is
        compared then."""
        with _optimized(self.connection):
            if not self._is_open:
                super().check_query()
