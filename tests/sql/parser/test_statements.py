"""A script becomes statements."""

from __future__ import annotations

import pytest

from tests.sql.parser.reading import one
from tests.sql.parser.statements import STATEMENTS
from tidefill.sql.parser import parse
from tidefill.sql.statements import (
    AlterJob,
    CancelJob,
    CreateReplica,
    CreateView,
    Location,
    Parsed,
    PauseJob,
    Query,
    RegisterTable,
    ShowEvents,
    ShowJobs,
    ShowTables,
    Statement,
    UnregisterTable,
    Value,
    Verify,
)


@pytest.mark.parametrize(("sql", "statement"), STATEMENTS.items())
def test_a_statement(sql: str, statement: Statement) -> None:
    assert one(sql) == statement
    assert one(f"/* ; */ {sql}\n; -- ;") == statement


def test_a_script_is_cut_at_its_semicolons() -> None:
    script = "-- tables;\n;; SHOW TABLES ;\n\n  show /* ; */\n jobs\n-- the end\n;;VERIFY `a;b`"
    assert parse(script) == [
        Parsed(ShowTables(), "SHOW TABLES", 2),
        Parsed(ShowJobs(), "show /* ; */\n jobs", 4),
        Parsed(Verify("a;b"), "VERIFY `a;b`", 7),
    ]


@pytest.mark.parametrize("script", ["", " \n\t", ";", " ; ;; ", "-- nothing", "/* nothing; */;", "\ufeff"])
def test_nothing_is_no_statement(script: str) -> None:
    assert parse(script) == []


def test_a_mark_at_the_beginning_of_a_file_is_not_a_word() -> None:
    assert one("\ufeffSHOW JOBS") == ShowJobs()


@pytest.mark.parametrize(
    "query",
    [
        "select  A ,\n\tb -- c; d\nFROM `t;` /* ; */ WHERE x = ';'",
        "SELECT 'it\\'s;', \"it's;\", r'\\', 'a'';' FROM t",
        "SELECT /*+ BROADCAST(a) */ 1L + 2.5BD::decimal(3, 1), x -> y, a[0]:b, :p, X'1F' FROM a$b",
        "SELECT /* a /* b; */ c; */ 1",
        "SELECT 1 -- goes on \\\n ; after a backslash\n, 2",
        "SELECT '日本;', größe FROM 日本",
    ],
)
def test_the_text_of_a_query_is_kept(query: str) -> None:
    assert one(f"\n {query} ;") == Query(query)
    assert one(f"CREATE MATERIALIZED VIEW v AS\n  {query}\n-- the end\n;") == CreateView("v", query)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x", "x"),
        ("Größe_1", "Größe_1"),
        ("日本", "日本"),
        ("1a", "1a"),
        ("version", "version"),
        ("select", "select"),
        ("`a.b`", "a.b"),
        ("`a``b`", "a`b"),
        ("````", "`"),
        ("`it's -- /* \"`", "it's -- /* \""),
        ("`a\nb`", "a\nb"),
        ("n" * 1000, "n" * 1000),
    ],
)
def test_names(text: str, name: str) -> None:
    assert one(f"SHOW EVENTS FOR {text}") == ShowEvents(name)
    assert one(f"CREATE REPLICA {text} FROM {text}.{text}") == CreateReplica(name, (name, name))


@pytest.mark.parametrize(
    ("sql", "statement"),
    [
        ("PAUSE JOB fill", PauseJob("fill")),
        ("CANCEL JOB restrict", CancelJob("restrict")),
        ("PAUSE JOB fill FILL", PauseJob("fill", fill_only=True)),
        ("UNREGISTER TABLE if", UnregisterTable("if")),
        ("CREATE REPLICA if FROM from", CreateReplica("if", ("from",))),
        ("REGISTER TABLE key LOCATION 'x' KEY (key)", RegisterTable("key", Location("x"), ("key",))),
        ("VERIFY `job`", Verify("job")),
        ("SHOW EVENTS `for`", ShowEvents("for")),
    ],
)
def test_keywords_can_be_names(sql: str, statement: Statement) -> None:
    assert one(sql) == statement


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("'a b'", "a b"),
        ('"a\'b"', "a'b"),
        ("'it''s'", "it's"),
        ("'it\\'s'", "it's"),
        ("''''", "'"),
        ('"a""b"', 'a"b'),
        ("'a\\\\b\\tc'", "a\\b\tc"),
        ("'\\u65e5'", "日"),
        ("r'C:\\new'", "C:\\new"),
        ("';--'", ";--"),
    ],
)
def test_strings_are_what_spark_makes_of_them(text: str, path: str) -> None:
    assert one(f"REGISTER TABLE t LOCATION {text} KEY (a)") == RegisterTable("t", Location(path), ("a",))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1000", 1000),
        ("-5", -5),
        ("+ 5", 5),
        ("2.5", 2.5),
        ("-1e3", -1000.0),
        ("'30 seconds'", "30 seconds"),
        ("''", ""),
        ("'NONE'", "NONE"),
        ("true", True),
        ("ON", True),
        ("False", False),
        ("off", False),
        ("none", None),
        ("NULL", None),
    ],
)
def test_values_of_options(text: str, value: Value) -> None:
    for equals in ("=", "TO", "to"):
        statement = one(f"ALTER JOB x SET `Rate_Limit` {equals} {text}")
        assert isinstance(statement, AlterJob)
        ((name, found),) = statement.options
        assert (name, found, type(found)) == ("rate_limit", value, type(value))
