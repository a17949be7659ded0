"""Small parts of the stream of Nexmark as tables that change: rows come, are changed into what another event could have
been, and go."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from benchmarks.nexmark.events import EPOCH, Shape, events
from benchmarks.nexmark.queries import QUERIES, SHARED, SIDE_ROWS, TABLES, Chain, reads
from tests.views.incremental.duck import in_duckdb
from tests.views.incremental.tables import Row
from tests.views.incremental.world import Source, World, columns_of, key_of, normal, some_walks
from tidefill.views.reading.dialect import Verbatim
from tidefill.views.relations.lowered import TableColumns

SMALL = Shape(
    events_per_s=4, start=datetime(2026, 3, 1, 23, 59, 35, tzinfo=UTC), open_auctions=6, active_people=4, hot_batch=4,
    lead=1, first_auction=1107,
)  # fmt: skip
"""Forty seconds around midnight; the first auction is one that the second query looks for."""
EPOCHS = 5
POOL_MAX = 40
ROWS_MAX = 20


def source(chance: random.Random, names: Iterable[str]) -> Source:
    """A part of a stream, in these tables of Nexmark."""
    pools = _pools(chance)
    tables = {name: TABLES[name] for name in names}

    def row(chance: random.Random, table: TableColumns) -> Row:
        return chance.choice(pools[table.name])

    def change(chance: random.Random, table: TableColumns, row_: Row) -> Row:
        """One column is that of another event."""
        other = row(chance, table)
        place = chance.choice([place for place, (name, _) in enumerate(table.columns) if name not in table.key])
        return (*row_[:place], other[place], *row_[place + 1 :])

    return Source(tables, row, change, ROWS_MAX)


def _pools(chance: random.Random) -> Mapping[str, list[Row]]:
    made = events(chance.randrange(1 << 20), range(EPOCHS * EPOCH), SMALL)
    bids = chance.sample(made.bids, POOL_MAX)
    side = [(bid.auction % SIDE_ROWS, f"side {bid.auction % 4}") for bid in bids]
    pools: Mapping[str, list[Row]] = {
        "person": [*made.people], "auction": [*made.auctions], "bid": [*bids], "side_input": [*side],
    }  # fmt: skip
    return {name: [tuple(map(_told, row)) for row in rows] for name, rows in pools.items()}


def _told(value: Any) -> Any:
    """Times as texts of one form, which have the order of the times."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "milliseconds")
    return value


def world(sql: str, chance: random.Random, connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> World:
    """The query over such a part."""
    made = source(chance, names)
    return World(sql, chance, connection, some_walks(chance, made.tables), made, said(sql))


def said(sql: str) -> str:
    """The query in DuckDB's words."""
    tree = sqlglot.parse_one(sql, read=Verbatim)
    assert isinstance(tree, exp.Query)
    return in_duckdb(tree)


class Above(World):
    """A view over the view of another world and over the tables of that, all at one version. Each world has a DuckDB
    of its own, as they have the same names for what they read."""

    def __init__(
        self,
        chain: Chain,
        chance: random.Random,
        connection: duckdb.DuckDBPyConnection,
        other: duckdb.DuckDBPyConnection,
    ) -> None:
        self.chain = chain
        names = reads(chain.sql)
        (shared,) = [name for name in names if name in SHARED]
        below = {*reads(SHARED[shared].sql), *(name for name in names if name in TABLES)}
        self.shared, self.below = shared, world(SHARED[shared].sql, chance, other, sorted(below))
        self.view = columns_shown(self.below, shared)
        connection.execute(f"CREATE OR REPLACE TABLE {shared} ({columns_of(self.view)})")
        made = self.below.source
        tables = {name: self.view if name == shared else TABLES[name] for name in names}
        over = Source(tables, made.row, made.change, made.rows_max)
        super().__init__(chain.sql, chance, connection, some_walks(chance, tables), over, said(chain.sql))

    def start(self, uncovered: Iterable[int] = (), group_columns: int = 0) -> None:
        self.below.start()
        self._follow()
        self.begin(uncovered, group_columns)

    def write(self) -> None:
        """Somebody changes a table, and the view below takes it in."""
        self.below.write()
        self.below.step()
        self._follow()

    def _follow(self) -> None:
        self.data = {name: dict(self.below.data.get(name, {})) for name in self.source.tables}
        rows = (tuple(map(_told, row)) for row in self.below.target.values())
        self.data[self.shared] = {key_of(self.view, row): row for row in rows}

    def check_query(self) -> None:
        """It is the one query over the tables, too."""
        super().check_query()
        for name, rows in self.below.data.items():
            self._put(name, TABLES[name], rows.values())
        found = (row[: len(self.plan.columns)] for row in self.target.values())
        wanted = self._run(said(QUERIES[self.chain.means].sql))
        self._equal(normal(found), normal(wanted), "the chain")


def columns_shown(below: World, name: str) -> TableColumns:
    """The view of a world as a table that others read: its columns, and the hidden ones."""
    shown = [row[0] for row in below._run(f"DESCRIBE {below.user_sql}")]
    kinds = below._types(below.plan.whole(), below.plan.scans)
    names = [*shown, *below.plan.hidden]
    called = dict(zip((*below.plan.columns, *below.plan.hidden), names, strict=True))
    columns = tuple(zip(names, kinds, strict=True))
    return TableColumns(name, columns, tuple(called[column] for column in below.plan.key))
