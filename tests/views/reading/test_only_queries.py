"""`Engine.query` reads. What the words of a text show to be anything else is refused before Spark sees it."""

from __future__ import annotations

import pytest

from tidefill.errors import BadInput, UnsupportedQuery
from tidefill.views.reading.names import names_read, without_end

STATEMENTS = [
    "DROP TABLE t",
    "INSERT INTO t VALUES (1)",
    "CREATE TABLE t (a INT)",
    "SET spark.sql.ansi.enabled = false",
    "ADD JAR '/tmp/x.jar'",
    "CALL system.run()",
    "TRUNCATE TABLE t",
    "VACUUM t",
    "CACHE TABLE t",
    "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
    "FROM u INSERT INTO t SELECT *",
    "EXECUTE IMMEDIATE 'DROP TABLE t'",
    "BEGIN DROP TABLE t; END",
    "EXPLAIN SELECT 1",
    "SELECT 1; DROP TABLE t",
    "SELECT 1;; SELECT 2",
    "/* SELECT */ DROP TABLE t",
]
PROGRAMS = [
    "SELECT TRANSFORM(a) USING 'rm -rf x' AS (b) FROM t",
    'SELECT transform(a, b) ROW FORMAT DELIMITED USING "cat" FROM t',
    "FROM t MAP a USING 'cat' AS b",
    "FROM t REDUCE a USING 'cat' AS b",
    "SELECT reflect('java.lang.System', 'exit', 1)",
    "SELECT Java_Method('java.lang.Runtime', 'x')",
    "SELECT system.builtin.`try_reflect`('a.B', 'c') FROM t",
    "SELECT a FROM t WHERE f(x -> reflect('a', 'b')) IS NULL",
]
QUERIES = [
    "SELECT a FROM t",
    "  -- a note\n WITH x AS (SELECT 1 AS a) SELECT * FROM x;",
    "(SELECT a FROM t) UNION ALL SELECT a FROM u",
    "SELECT transform(a, x -> x + 1) AS drop FROM t JOIN u USING (a)",
    "SELECT 'DROP TABLE t; INSERT' AS `reflect` FROM t",
    "FROM t SELECT a",
]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_statement_is_refused(sql: str) -> None:
    with pytest.raises(UnsupportedQuery, match="only queries can be executed"):
        names_read(sql)


@pytest.mark.parametrize("sql", PROGRAMS)
def test_a_query_that_runs_a_program_is_refused(sql: str) -> None:
    with pytest.raises(UnsupportedQuery, match="runs a program") as refused:
        names_read(sql)
    assert refused.value.hint


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_is_read(sql: str) -> None:
    names_read(sql)


def test_the_end_of_a_query_is_its_last_word() -> None:
    assert without_end("SELECT ';' AS a ; ; -- ; that is all\n") == "SELECT ';' AS a"


def test_no_text_is_no_query() -> None:
    with pytest.raises(BadInput):
        names_read(" -- nothing")
