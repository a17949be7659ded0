"""SQL that cannot be read is one BadSql that shows the place."""

from __future__ import annotations

import pytest

from tests.sql.parser.reading import refused


def test_an_error_shows_the_place() -> None:
    error = refused("SHOW JOBS;\nREGISTER TABLE a\tLOCATION 'x' ; SHOW JOBS")
    assert str(error) == (
        "the REGISTER statement cannot be read [BAD_SQL]\n"
        "Detail: line 2, column 31: expected KEY, found ';'\n"
        "  REGISTER TABLE a LOCATION 'x' ; SHOW JOBS\n"
        "                                ^\n"
        "Hint: Write REGISTER TABLE name LOCATION 'path' KEY (columns) [WALK (columns)]; or AS table, not LOCATION."
    )


def test_a_long_line_is_cut_around_the_place() -> None:
    _, line, caret = refused(f"SELECT {'a, ' * 100} ) {', b' * 100}").detail.split("\n")
    assert len(line) < 120
    assert line[caret.index("^")] == ")"


def test_the_caret_is_below_signs_of_two_columns() -> None:
    _, line, caret = refused("SHOW JOB 日本 ?").detail.split("\n")
    assert caret.index("^") == line.index("?") + 2


BAD = {
    # sql: line and column, the problem
    "SHWO JOBS": ("1, column 1", "expected a statement, found SHWO"),
    "\n  5": ("2, column 3", "expected a statement, found 5"),
    "'SHOW' JOBS": ("1, column 1", "expected a statement, found 'SHOW'"),
    "`SHOW` JOBS": ("1, column 1", "expected a statement, found `SHOW`"),
    "(SELECT 1)": ("1, column 1", "expected a statement, found '('"),
    "\x00": ("1, column 1", "expected a statement, found '\ufffd'"),
    "SHOW": ("1, column 5", "expected TABLES, JOBS, JOB, EVENTS, STEPS, INDEXES or VIOLATIONS, found the end"),
    "SHOW -- jobs": ("1, column 5", "expected TABLES, JOBS, JOB, EVENTS, STEPS, INDEXES or VIOLATIONS, found the end"),
    "SHOW JOB ;": ("1, column 10", "expected a name, found ';'"),
    "SHOW JOB 'x'": ("1, column 10", "expected a name, found 'x'"),
    "SHOW JOB 5": ("1, column 10", "expected a name, found 5"),
    "SHOW JOB a€b": ("1, column 10", "expected a name, found a€b"),
    "SHOW JOB a.b": ("1, column 11", "unexpected '.' after the statement"),
    "SHOW JOB my-job": ("1, column 12", "unexpected '-' after the statement"),
    "SHOW JOBS x": ("1, column 11", "unexpected x after the statement"),
    "SHOW JOBS SHOW JOBS": ("1, column 11", "unexpected SHOW after the statement"),
    "SHOW EVENTS FOR": ("1, column 16", "expected a name, found the end"),
    "VERIFY JOB": ("1, column 11", "expected a name, found the end"),
    "PAUSE JOB x FIL": ("1, column 13", "unexpected FIL after the statement"),
    "PAUSE x": ("1, column 7", "expected JOB, found x"),
    "SHOW JOB ``": ("1, column 10", "nothing is in these backticks"),
    "SHOW JOB `__TF_x`": ("1, column 10", "this one does"),
    "REGISTER TABLE t KEY (a)": ("1, column 18", "expected LOCATION or AS, found KEY"),
    "REGISTER TABLE t LOCATION x KEY (a)": ("1, column 27", "expected a string, found x"),
    "REGISTER TABLE t LOCATION '' KEY (a)": ("1, column 27", "this says nothing"),
    "REGISTER TABLE t LOCATION X'1F' KEY (a)": ("1, column 27", "expected a string, found X'1F'"),
    "REGISTER TABLE t LOCATION 'x' KEY ()": ("1, column 36", "expected a name, found ')'"),
    "REGISTER TABLE t LOCATION 'x' KEY (a,)": ("1, column 38", "expected a name, found ')'"),
    "REGISTER TABLE t LOCATION 'x' KEY (a b)": ("1, column 38", "expected ',' or ')', found b"),
    "REGISTER TABLE t LOCATION 'x' KEY a": ("1, column 35", "expected '(', found a"),
    "REGISTER TABLE t LOCATION 'x' KEY (a": ("1, column 35", "expected ')' for it, found the end"),
    "REGISTER TABLE t AS a.b.c.d KEY (a)": ("1, column 26", "expected KEY, found '.'"),
    "CREATE MATERIALIZED VIEW v SELECT 1": ("1, column 28", "expected AS, found SELECT"),
    "CREATE MATERIALIZED VIEW v AS": ("1, column 30", "expected a query, found the end"),
    "CREATE MATERIALIZED VIEW v AS -- x\n;": ("2, column 1", "expected a query, found ';'"),
    "CREATE VIEW v AS SELECT 1": (
        "1, column 8",
        "expected MATERIALIZED, REPLICA, UNIQUE, INDEXES or INDEX, found VIEW",
    ),
    "CREATE REPLICA r FROM t WITH ()": ("1, column 31", "expected a name, found ')'"),
    "CREATE REPLICA r FROM t WITH (a 1)": ("1, column 33", "expected '=' or TO, found 1"),
    "CREATE REPLICA r FROM t WITH (a = )": ("1, column 35", "expected a value, found ')'"),
    "CREATE REPLICA r FROM t WITH (a = 1, A = 2)": ("1, column 38", "this is the second"),
    "EXPLAIN SELECT 1": ("1, column 9", "expected CREATE, found SELECT"),
    "ALTER JOB x SET": ("1, column 16", "expected a name, found the end"),
    "ALTER JOB x SET a = fast": ("1, column 21", "expected a value, found fast"),
    "ALTER JOB x SET a = - 'x'": ("1, column 23", "expected a value, found 'x'"),
    "ALTER JOB x SET a = 1000 rows": ("1, column 26", "unexpected rows after the statement"),
    "ALTER JOB x SET a = " + "9" * 5000: ("1, column 21", "this is more than any option can be"),
    "ALTER JOB x SET a = 1e999": ("1, column 21", "this is more than any option can be"),
    "SELECT (a; SHOW JOBS)": ("1, column 8", "expected ')' for it, found ';'"),
    "SELECT ((a) FROM t": ("1, column 8", "expected ')' for it, found the end"),
    "SELECT a) FROM t": ("1, column 9", "no '(' is there for it"),
    "SELECT {# a #} 1": ("1, column 8", "Spark's SQL has nothing like this"),
    "SHOW JOB 'x": ("1, column 10", "' opens, and nothing closes it"),
    'SHOW JOB\n "x': ("2, column 2", '" opens, and nothing closes it'),
    "SHOW JOB `x": ("1, column 10", "` opens, and nothing closes it"),
    "SELECT 'x\\'": ("1, column 8", "' opens, and nothing closes it"),
    "SHOW JOBS /* x": ("1, column 11", "/* opens, and nothing closes it"),
    "SHOW JOBS /* x /* y */": ("1, column 11", "/* opens, and nothing closes it"),
}


@pytest.mark.parametrize(("sql", "place", "problem"), [(sql, *wrong) for sql, wrong in BAD.items()])
def test_sql_that_cannot_be_read(sql: str, place: str, problem: str) -> None:
    error = refused(sql)
    assert error.detail.startswith(f"line {place}: {problem}\n")
    assert error.fact
    assert error.hint


@pytest.mark.parametrize(
    ("sql", "meant"),
    [
        ("SHWO JOBS", "SHOW"),
        ("regsiter TABLE t", "REGISTER"),
        ("SHOW TABEL", "TABLES"),
        ("CREATE MATERIALISED VIEW v AS SELECT 1", "MATERIALIZED"),
        ("ALTER JOB x SET a = flase", "FALSE"),
    ],
)
def test_a_misspelt_word_gets_the_nearest_one(sql: str, meant: str) -> None:
    assert refused(sql).hint == f"Did you mean {meant}?"


def test_a_name_that_needs_backticks_gets_told_so() -> None:
    assert "backticks" in refused("SHOW JOB my-job").hint
    assert "backticks" not in refused("SHOW JOB").hint


@pytest.mark.parametrize("sql", ["CREATE INDEX i ON t ()", "CREATE INDEX i ON t (a, , b)", "CREATE INDEX i ON t (a,)"])
def test_an_index_needs_columns(sql: str) -> None:
    assert "expected a column" in refused(sql).detail
