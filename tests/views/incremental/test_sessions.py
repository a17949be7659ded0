"""session_window: which rows are one session, and what is refused."""

from __future__ import annotations

import random

import duckdb
import pytest

from tests.views.incremental.sessions import SESSIONS
from tests.views.incremental.test_plan_text import planned
from tests.views.incremental.world import World
from tidefill.errors import BadSql, TidefillError, UnsupportedQuery


def test_rows_between_two_sessions_make_them_one(connection: duckdb.DuckDBPyConnection) -> None:
    world = World(SESSIONS["sessions of all rows"], random.Random(1), connection)
    world.data["a"] = {(id,): (id, 1, None, "a") for id in (1, 2, 9)}
    world.begin()
    assert sorted(row[1] for row in world.target.values()) == [3, 9]
    for id in (4, 6, 7):
        world.data["a"][(id,)] = (id, 1, None, "a")
    world.step()
    assert [row[1] for row in world.target.values()] == [29]
    del world.data["a"][(6,)]
    world.step()
    assert sorted(row[1] for row in world.target.values()) == [7, 16]


BY = "FROM c GROUP BY session_window(d, '5 minutes')"
REFUSED: dict[str, type[TidefillError]] = {
    "SELECT session_window(d, '5 minutes') AS w FROM c": UnsupportedQuery,
    "SELECT session_window(d, '5 minutes') AS w, count(*) AS n FROM c GROUP BY g": UnsupportedQuery,
    "SELECT g AS h, count(*) AS n FROM c GROUP BY h, session_window(d, '5 minutes')": UnsupportedQuery,
    "SELECT g, count(*) AS n FROM c GROUP BY 1, session_window(d, '5 minutes')": UnsupportedQuery,
    "SELECT count(*) AS n FROM c GROUP BY ROLLUP (session_window(d, '5 minutes'))": UnsupportedQuery,
    f"SELECT session_window(d, '6 minutes') AS w, count(*) AS n {BY}": UnsupportedQuery,
    "SELECT count(*) AS n FROM c GROUP BY session_window(d, '24 hours')": UnsupportedQuery,
    "SELECT count(*) AS n FROM c GROUP BY session_window(d, '1 month')": UnsupportedQuery,
    "SELECT count(*) AS n FROM c GROUP BY session_window(d, '0 seconds')": UnsupportedQuery,
    "SELECT count(*) AS n FROM c GROUP BY session_window(d, concat(g, ' minutes'))": UnsupportedQuery,
    "SELECT count(*) AS n FROM c GROUP BY session_window(d)": BadSql,
    f"SELECT hash(session_window(d, '5 minutes')) AS h, count(*) AS n {BY} HAVING session_window(d, '4 days') > g": (
        UnsupportedQuery
    ),
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_refused(sql: str) -> None:
    with pytest.raises(REFUSED[sql]):
        planned(sql)
