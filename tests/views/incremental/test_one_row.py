"""Subqueries that stand for a value, where only the data tell whether they have one row."""

from __future__ import annotations

import random

import duckdb
import pytest

from tests.views.incremental.history import some_history_fails
from tests.views.incremental.world import World
from tidefill.errors import UnsupportedQuery
from tidefill.views.relations import keys, lower, single, subqueries, texts
from tidefill.views.relations.single import SEVERAL

SQL = "SELECT id, (SELECT y FROM b WHERE aid = 2) AS v FROM a"


def world(connection: duckdb.DuckDBPyConnection, sql: str = SQL) -> World:
    """With a row of `a`, and the first row of `b` for it."""
    made = World(sql, random.Random(1), connection)
    made.data["a"] = {(1,): (1, 0, None, "a")}
    made.data["b"] = {(1,): (1, 2, 5, "a", 0.0)}
    made.begin()
    return made


def test_several_rows_are_an_error_until_one_is_left(connection: duckdb.DuckDBPyConnection) -> None:
    one = world(connection)
    assert [row[:2] for row in one.target.values()] == [(1, 5)]
    one.data["b"][(2,)] = (2, 2, 7, "b", 0.0)
    before = [covered.rows for covered in one.covered]
    with pytest.raises(duckdb.Error, match=SEVERAL):
        one.step()
    for covered, rows in zip(one.covered, before, strict=True):
        covered.rows = rows
    del one.data["b"][(1,)]
    one.step()
    one.check_query()
    assert [row[:2] for row in one.target.values()] == [(1, 7)]


def test_equal_rows_are_several_but_not_after_distinct(connection: duckdb.DuckDBPyConnection) -> None:
    for sql, fails in ((SQL, True), (SQL.replace("SELECT y", "SELECT DISTINCT y"), False)):
        one = world(connection, sql)
        one.data["b"][(2,)] = (2, 2, 5, "b", 0.0)
        if fails:
            with pytest.raises(duckdb.Error, match=SEVERAL):
                one.step()
        else:
            one.step()
            one.check_query()


def test_the_user_is_told(connection: duckdb.DuckDBPyConnection) -> None:
    said = "SELECT y FROM b WHERE aid = 2 has to give one row or none"
    assert any(notice.startswith(said) for notice in world(connection).plan.notices)
    first = SQL.replace("WHERE aid = 2", "ORDER BY id LIMIT 1")
    assert not any(
        "has to give one row" in notice for notice in World(first, random.Random(1), connection).plan.notices
    )


def test_nobody_counts(connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: then the least value would stand for several."""
    monkeypatch.setattr(single, "has_one_row_at_most", lambda relation: True)
    one = world(connection)
    one.data["b"][(2,)] = (2, 2, 7, "b", 0.0)
    one.step()
    with pytest.raises(duckdb.Error, match="More than one row"):
        one.check_query()


def test_what_may_shrink_is_taken(connection: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: then a step fails while a table is walked, though the query never does."""
    sql = "SELECT id, (SELECT y FROM b WHERE NOT EXISTS (SELECT 1 FROM c WHERE id1 = b.id)) AS v FROM a"
    with pytest.raises(UnsupportedQuery, match="while tables are walked"):
        World(sql, random.Random(1), connection)
    monkeypatch.setattr(subqueries, "only_grows", lambda relation: True)
    for walked in (False, True):
        made = World(sql, random.Random(1), connection)
        made.data["a"] = {(1,): (1, 0, None, "a")}
        made.data["b"] = {(key,): (key, 2, 5, "a", 0.0) for key in (1, 2, 3)}
        made.data["c"] = {(key, "1"): (key, "1", 0, None) for key in (1, 2)}
        places = [place for place, covered in enumerate(made.covered) if walked and covered.scan.table == "c"]
        if walked:
            with pytest.raises(duckdb.Error, match=SEVERAL):
                made.begin(places)
        else:
            made.begin()


@pytest.mark.parametrize(
    ("sql", "place", "name", "broken"),
    [
        (
            "SELECT id FROM a WHERE (g = 1 AND x > 0) OR (g = 1 AND s = 'a')",
            keys, "_in_common", lambda condition: keys.conjuncts(keys._alternatives(condition)[0])[:1],
        ),
        ("SELECT g, max(id) + 1 AS n FROM a GROUP BY g HAVING n * 2 > 9", texts, "enclosed", lambda value: value),
        ("SELECT id FROM a LIMIT 3", lower, "has_one_row_at_most", lambda relation: True),
    ],
)  # fmt: skip
def test_a_broken_rule_is_noticed(
    sql: str, place: object, name: str, broken: object, connection: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(place, name, broken)
    if name == "enclosed":
        monkeypatch.setattr("tidefill.views.relations.groups.enclosed", broken)
    assert some_history_fails(lambda chance: World(sql, chance, connection))
