"""Small random rows of the 24 tables of TPC-DS, whose keys meet, and which the conditions of a text let through."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import sqlglot

from benchmarks.tpcds.queries import QUERIES, reads
from benchmarks.tpcds.tables import TABLES
from tests.views.incremental.tables import Row
from tests.views.incremental.tpcds_values import Asked, asked
from tests.views.incremental.world import Source
from tidefill.views.reading.dialect import Verbatim
from tidefill.views.relations.lowered import TableColumns

ROWS_MAX = 24
DAYS = 6
FIRST, LAST = date(1998, 1, 1), date(2003, 12, 31)
_NEAR = (1, 2, 6, 7, 20, 30, 31, 61, 90, 364, 365, 371)
"""Days between dates that texts compare: of one week, a month or a year later, and so on."""
_NUMBERS = {
    "_ticket_number": 4, "_order_number": 4, "_item_sk": 3, "_customer_sk": 3, "_store_sk": 2, "_addr_sk": 3,
    "_address_sk": 3, "_demo_sk": 3, "_cdemo_sk": 3, "_hdemo_sk": 3,
}  # fmt: skip
"""How many there are of what the keys of others name: keys that end so go from 1 to this."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What else than the usual a text needs to have rows. `numbers`: as `_NUMBERS`."""

    rows_max: int = ROWS_MAX
    numbers: Mapping[str, int] = field(default_factory=dict)


SCALES: Mapping[str, Scale] = {}


@dataclass(frozen=True, slots=True)
class Rows:
    """Makes rows for one text. `days`: the dates that there are, of which each has one key. `focus`: by its conditions
    at which part of it the text is to be met."""

    asked: Asked
    scale: Scale
    days: Sequence[date]
    focus: float

    def row(self, chance: random.Random, table: TableColumns) -> Row:
        if table.name == "date_dim":
            return self._day(chance)
        return tuple(self._value(chance, table, name, kind) for name, kind in table.columns)

    def change(self, chance: random.Random, table: TableColumns, row: Row) -> Row:
        """Another value in a column; of a day only one of those that do not follow from its date."""
        if table.name == "date_dim":
            return (*row[:-1], chance.choice(["Y", "N", None]))
        changed = list(row)
        named = [at for at, (name, _) in enumerate(table.columns) if name in self.asked.values or name.endswith("_sk")]
        places = [at for at in named if table.columns[at][0] not in table.key]
        if not places or chance.random() < 0.3:
            places = [at for at, (name, _) in enumerate(table.columns) if name not in table.key]
        place = chance.choice(places)
        changed[place] = self._value(chance, table, *table.columns[place])
        return tuple(changed)

    def _day(self, chance: random.Random) -> Row:
        at = chance.randrange(len(self.days))
        return day_row(at + 1, self.days[at])

    def _value(self, chance: random.Random, table: TableColumns, name: str, kind: str) -> Any:
        if name not in table.key and chance.random() < 0.04:
            return None
        if name in self.asked.values and chance.random() < 0.85:
            value = self.asked.some(chance, name, self.focus)
            if value is not None or name not in table.key:
                return _as(kind, value)
        if name.endswith("date_sk"):
            return chance.randint(1, len(self.days))
        numbers = {**_NUMBERS, **self.scale.numbers}
        for ending, count in sorted(numbers.items(), key=lambda pair: -len(pair[0])):
            if name.endswith(ending):
                return chance.randint(1, count)
        return _any(chance, kind, few=name.endswith("_sk"))


def _any(chance: random.Random, kind: str, *, few: bool) -> Any:
    match kind:
        case "int":
            return chance.randint(1, 2 if few else 5)
        case "string":
            return chance.choice(["a", "b", "B c"])
        case "date":
            return str(FIRST + timedelta(days=chance.randrange(3)))
    return Decimal(chance.randint(-200, 2000)) / 100


def _as(kind: str, value: Any) -> Any:
    """A value that a text names, as its column has it."""
    match kind:
        case "string":
            return None if value is None else str(value)
        case "int":
            return None if value is None else int(value)
        case "date":
            return None if value is None else str(value)
    return None if value is None else Decimal(value).quantize(Decimal("0.01"))


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


def some_days(chance: random.Random, wanted: Asked) -> list[date]:
    """Dates that meet the conditions on date_dim, and such as are near to them."""
    sets = {
        name: {str(value) for values in wanted.values[name] for value in values}
        for name in _PLACES
        if name in wanted.values
    }

    def met(day: date) -> int:
        row = day_row(0, day)
        return sum(str(row[_PLACES[name]]) in values for name, values in sets.items())

    best = sorted(_EVERY_DAY, key=lambda day: (-met(day), chance.random()))[: DAYS * 40]
    most = met(best[0])
    good = [day for day in best if met(day) == most]
    known = set(good)
    days = [chance.choice(good)]
    while len(days) < DAYS:
        near = [day + timedelta(days=off * sign) for day in days for off in _NEAR for sign in (1, -1)]
        tied = [day for day in near if day in known and day not in days]
        pool = [tied, good, near][chance.choices([0, 1, 2], [6, 3, 1])[0]] or good
        day = chance.choice(pool)
        if day not in days or len(set(good)) < DAYS:
            days.append(day)
    return list(dict.fromkeys(days))


def source(name: str, chance: random.Random) -> Source:
    """The tables of a text, and rows for them."""
    sql = QUERIES[name]
    wanted = asked(sqlglot.parse_one(sql, read=Verbatim))
    scale = SCALES.get(name, Scale())
    rows = Rows(wanted, scale, some_days(chance, wanted), chance.random())
    return Source({table: TABLES[table] for table in reads(sql)}, rows.row, rows.change, scale.rows_max)
