"""What may be computed anew at each refresh."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from tidefill.errors import BadInput, UnsupportedQuery
from tidefill.views.reading.dialect import Verbatim
from tidefill.views.reading.full import Repeatable, over, repeatable, tables_of
from tidefill.views.reading.lexer import read


def checked(sql: str) -> Repeatable:
    return repeatable(read(sql), sqlglot.parse_one(sql, read=Verbatim))


def query(sql: str) -> exp.Query:
    tree = sqlglot.parse_one(sql, read=Verbatim)
    assert isinstance(tree, exp.Query)
    return tree


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT g, grouping(g) AS all_of_them, count(*) AS n FROM t GROUP BY ROLLUP (g)",
        "SELECT id, e FROM t LATERAL VIEW explode(xs) AS e",
        "SELECT id, rank() OVER (ORDER BY x) AS r FROM t",
        "WITH w AS (SELECT * FROM t) SELECT * FROM w INTERSECT ALL SELECT * FROM t",
        "SELECT * FROM t PIVOT (sum(x) FOR g IN (1, 2))",
        "SELECT t.id FROM t, range(3) AS r",
    ],
)
def test_what_is_deterministic_is_taken_without_a_word(sql: str) -> None:
    assert checked(sql).notices == ()


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT id, rand() AS r FROM t", "each time"),
        ("SELECT id, current_date AS d FROM t", "each time"),
        ("SELECT * FROM t WHERE d > 'yesterday'", "word for a time"),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT)", "sample"),
        ("SELECT * FROM t VERSION AS OF 3", "one version"),
        ("SELECT * FROM t FOR VERSION AS OF 3", "one version"),
        ("SELECT * FROM t LIMIT 3", "LIMIT without ORDER BY"),
        ("SELECT * FROM (SELECT * FROM t LIMIT 3) ORDER BY id", "LIMIT without ORDER BY"),
        ("SELECT * FROM table_changes('t', 0)", "table function"),
        ("SELECT * FROM IDENTIFIER('t')", "computed"),
        ("SELECT _metadata.file_path FROM t", "stored"),
        ("DELETE FROM t", "SELECT"),
    ],
)
def test_what_may_differ_from_time_to_time_is_refused(sql: str, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        checked(sql)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT array_sort(collect_list(x)) AS xs FROM t", "collect_list"),
        ("SELECT * FROM t ORDER BY x LIMIT 3", "LIMIT"),
        ("SELECT row_number() OVER (ORDER BY x) AS n FROM t", "row_number"),
    ],
)
def test_what_the_order_of_rows_may_decide_is_taken_with_a_notice(sql: str, word: str) -> None:
    (notice,) = checked(sql).notices
    assert word in notice


def test_functions_are_told_from_words_of_clauses() -> None:
    sql = "WITH w (a, b) AS (SELECT g, mine(x) FROM t) SELECT my.own(b), sum(b) FROM w GROUP BY CUBE (a, b)"
    assert checked(sql).functions == {"mine", "my.own", "sum"}


def test_tables_are_found_but_not_the_names_of_a_with() -> None:
    sql = "WITH w AS (SELECT * FROM t JOIN u USING (id)) SELECT * FROM w WHERE id IN (SELECT id FROM s.v)"
    above = f"{sql} AND x > (SELECT max(x) FROM t)"
    assert set(tables_of(query(above), lambda parts: None)) == {("t",), ("u",), ("s", "v")}


def test_a_with_that_hides_a_table_is_refused() -> None:
    with pytest.raises(UnsupportedQuery):
        tables_of(query("WITH t AS (SELECT * FROM t) SELECT * FROM t"), lambda parts: parts)


def test_tables_are_read_from_frames_under_their_own_names() -> None:
    sql = "WITH w AS (SELECT T.id FROM T) SELECT w.id, u.x FROM w JOIN `u` ON u.id = w.id JOIN t AS z ON z.id = u.id"
    found = over(query(sql), {"t": "__tf_new_0", "u": "__tf_new_1"}).sql(dialect="spark")
    assert found == (
        "WITH w AS (SELECT T.id FROM `__tf_new_0` AS `T`) SELECT w.id, u.x FROM w JOIN `__tf_new_1` AS `u` "
        "ON u.id = w.id JOIN `__tf_new_0` AS z ON z.id = u.id"
    )
