"""Tables that are written as seldom as their rows allow have the rows that they should."""

from __future__ import annotations

import random
from collections import Counter

import duckdb

from tests.views.incremental.tables import Tables
from tests.views.incremental.world import TABLES, columns_of, some_row


def test_a_table_has_the_rows_that_were_put_last() -> None:
    chance = random.Random(1)
    with duckdb.connect() as connection:
        tables = Tables(connection)
        for _ in range(200):
            name, table = chance.choice(["t", "u"]), TABLES[chance.choice(["a", "b"])]
            rows = [some_row(chance, table) for _ in range(chance.randint(0, 3))] * chance.choice([1, 2])
            for wanted in (rows, [*rows, some_row(chance, table)], list(reversed(rows)), rows[1:]):
                tables.put(name, f"({columns_of(table)})", wanted)
                assert Counter(connection.execute(f"FROM {name}").fetchall()) == Counter(wanted)


def test_what_is_there_is_not_written_again() -> None:
    written: list[str] = []

    class Listening:
        def execute(self, sql: str) -> None:
            written.append(sql)

    tables = Tables(Listening())  # type: ignore[arg-type]
    for rows in ([(1,), (2,)], [(2,), (1,)], [(3,), (1,), (2,)], [(3,)]):
        tables.put("t", "(id INT)", rows)
    assert written == [
        'CREATE OR REPLACE TEMP TABLE "t" (id INT)',
        'INSERT INTO "t" VALUES (1), (2)',
        'INSERT INTO "t" VALUES (3)',
        'TRUNCATE "t"',
        'INSERT INTO "t" VALUES (3)',
    ]
