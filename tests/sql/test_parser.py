"""A script becomes statements, or one BadSql that shows the place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import assert_never

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.errors import BadSql
from tidefill.sql.parser import parse
from tidefill.sql.statements import (
    AlterJob,
    CancelJob,
    CatalogTable,
    CreateReplica,
    CreateView,
    DropJob,
    DropReplica,
    DropView,
    Explain,
    Location,
    Options,
    Parsed,
    PauseJob,
    Query,
    RegisterTable,
    ResumeJob,
    ResyncJob,
    ShowEvents,
    ShowJob,
    ShowJobs,
    ShowTables,
    Statement,
    UnregisterTable,
    Value,
    Verify,
)


def one(sql: str) -> Statement:
    """The only statement of a script."""
    (only,) = parse(sql)
    return only.statement


def refused(sql: str) -> BadSql:
    with pytest.raises(BadSql) as caught:
        parse(sql)
    return caught.value


STATEMENTS: dict[str, Statement] = {
    "REGISTER TABLE events LOCATION 'lake/events' KEY (id)": RegisterTable("events", Location("lake/events"), ("id",)),
    "REGISTER TABLE e LOCATION 'x' KEY (a, `b c`) WALK (day, a)": RegisterTable(
        "e", Location("x"), ("a", "b c"), ("day", "a")
    ),
    "REGISTER TABLE e AS main.shop.`Events` KEY (id)": RegisterTable(
        "e", CatalogTable(("main", "shop", "Events")), ("id",)
    ),
    "REGISTER TABLE e AS t KEY (id) WALK (d)": RegisterTable("e", CatalogTable(("t",)), ("id",), ("d",)),
    "UNREGISTER TABLE e": UnregisterTable("e"),
    "UNREGISTER TABLE IF EXISTS e": UnregisterTable("e", if_exists=True),
    "SHOW TABLES": ShowTables(),
    "CREATE MATERIALIZED VIEW v AS SELECT a FROM t": CreateView("v", "SELECT a FROM t"),
    "CREATE MATERIALIZED VIEW IF NOT EXISTS v AS WITH q AS (SELECT 1) SELECT * FROM q": CreateView(
        "v", "WITH q AS (SELECT 1) SELECT * FROM q", if_not_exists=True
    ),
    "CREATE MATERIALIZED VIEW v WITH (Target_Lag = '30 seconds', rate_limit = 5) AS SELECT 1": CreateView(
        "v", "SELECT 1", (("target_lag", "30 seconds"), ("rate_limit", 5))
    ),
    "CREATE REPLICA r FROM orders": CreateReplica("r", ("orders",)),
    "CREATE MATERIALIZED VIEW v WITH (refresh = full) AS SELECT 1": CreateView("v", "SELECT 1", (("refresh", "full"),)),
    "CREATE REPLICA IF NOT EXISTS r FROM shop.public.orders WITH (rate_limit = 50000)": CreateReplica(
        "r", ("shop", "public", "orders"), (("rate_limit", 50000),), if_not_exists=True
    ),
    "EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT 1": Explain(CreateView("v", "SELECT 1")),
    "EXPLAIN SQL CREATE REPLICA r FROM a.b": Explain(CreateReplica("r", ("a", "b")), with_sql=True),
    "DROP MATERIALIZED VIEW v": DropView("v"),
    "DROP MATERIALIZED VIEW IF EXISTS v": DropView("v", if_exists=True),
    "DROP REPLICA r": DropReplica("r"),
    "DROP REPLICA IF EXISTS r": DropReplica("r", if_exists=True),
    "DROP JOB x": DropJob("x"),
    "DROP JOB cascade CASCADE": DropJob("cascade", cascade=True),
    "DROP JOB IF EXISTS cascade": DropJob("cascade", if_exists=True),
    "DROP REPLICA r RESTRICT": DropReplica("r"),
    "DROP MATERIALIZED VIEW IF EXISTS v CASCADE": DropView("v", if_exists=True, cascade=True),
    "SHOW JOBS": ShowJobs(),
    "SHOW JOB x": ShowJob("x"),
    "SHOW EVENTS": ShowEvents(),
    "SHOW EVENTS x": ShowEvents("x"),
    "SHOW EVENTS FOR x": ShowEvents("x"),
    "PAUSE JOB x": PauseJob("x"),
    "PAUSE JOB x FILL": PauseJob("x", fill_only=True),
    "RESUME JOB x": ResumeJob("x"),
    "CANCEL JOB x": CancelJob("x"),
    "CANCEL JOB x CASCADE": CancelJob("x", cascade=True),
    "CANCEL JOB x RESTRICT": CancelJob("x"),
    "RESYNC JOB x": ResyncJob("x"),
    "VERIFY x": Verify("x"),
    "VERIFY JOB x": Verify("x"),
    "ALTER JOB x SET RATE_LIMIT = 1000": AlterJob("x", (("rate_limit", 1000),)),
    "ALTER JOB x SET RATE_LIMIT TO NONE, PARALLELISM = 4": AlterJob("x", (("rate_limit", None), ("parallelism", 4))),
    "SELECT a, ';' FROM t WHERE b > (1)": Query("SELECT a, ';' FROM t WHERE b > (1)"),
    "WITH q AS (SELECT 1) SELECT * FROM q": Query("WITH q AS (SELECT 1) SELECT * FROM q"),
}


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
    "SHOW": ("1, column 5", "expected TABLES, JOBS, JOB or EVENTS, found the end"),
    "SHOW -- jobs": ("1, column 5", "expected TABLES, JOBS, JOB or EVENTS, found the end"),
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
    "CREATE VIEW v AS SELECT 1": ("1, column 8", "expected MATERIALIZED or REPLICA, found VIEW"),
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


@pytest.mark.parametrize("sql", ["CREATE INDEX i ON t (a)", "EXPLAIN CREATE unique\nindex i ON t (a)"])
def test_indexes_are_not_there_yet(sql: str) -> None:
    assert refused(sql).fact == "indexes cannot be created yet"


# What was written comes back.

names = st.text(min_size=1).filter(lambda name: not name.lower().startswith("__tf_"))
columns = st.lists(names, min_size=1, max_size=3).map(tuple)
flags = st.booleans()
texts = st.text(st.characters(exclude_categories=["Cs"]))
queries = st.lists(st.sampled_from(["a", "(b)", "';'", "`;`", '"it\'s"', "/* ; */ 1", "-- '\n1"]), min_size=1).map(
    lambda words: " ".join(["SELECT", *words])
)
values: st.SearchStrategy[Value] = (
    st.integers(-(10**18) + 1, 10**18 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | flags
    | st.none()
)
options = st.dictionaries(names.map(str.lower), values, min_size=1, max_size=3).map(lambda found: tuple(found.items()))
maybe_options = st.just(()) | options
tables = st.builds(Location, texts.filter(bool)) | st.builds(CatalogTable, columns)
creates = st.builds(CreateView, names, queries, maybe_options, flags) | st.builds(
    CreateReplica, names, columns, maybe_options, flags
)
statements: st.SearchStrategy[Statement] = st.one_of(
    st.builds(RegisterTable, names, tables, columns, st.just(()) | columns),
    st.sampled_from([ShowTables(), ShowJobs(), ShowEvents()]),
    st.sampled_from([UnregisterTable, CancelJob, PauseJob]).flatmap(lambda kind: st.builds(kind, names, flags)),
    st.sampled_from([DropView, DropReplica, DropJob]).flatmap(lambda kind: st.builds(kind, names, flags, flags)),
    st.sampled_from([ShowJob, ShowEvents, ResumeJob, ResyncJob, Verify]).flatmap(lambda kind: st.builds(kind, names)),
    creates,
    st.builds(Explain, creates, flags),
    st.builds(AlterJob, names, options),
    st.builds(Query, queries),
)
blanks = st.sampled_from([" ", "\n", "\t \r\n", " /* ; ' */ ", " -- ; `\n"])


def written(statement: Statement) -> list[str]:
    """The inverse of `parse`, as words, all names in backticks."""
    match statement:
        case RegisterTable(name, table, key, walk):
            where = ["LOCATION", quoted(table.path)] if isinstance(table, Location) else ["AS", *dotted(table.parts)]
            walked = ["WALK", *listed(walk)] if walk else []
            return ["REGISTER", "TABLE", ticked(name), *where, "KEY", *listed(key), *walked]
        case UnregisterTable(name, if_exists):
            return ["UNREGISTER", "TABLE", *(["IF", "EXISTS"] if if_exists else []), ticked(name)]
        case CreateView(name, sql, found, if_not_exists):
            return ["CREATE", "MATERIALIZED", "VIEW", *unless(if_not_exists), ticked(name), *having(found), "AS", sql]
        case CreateReplica(name, source, found, if_not_exists):
            made = ["CREATE", "REPLICA", *unless(if_not_exists), ticked(name)]
            return [*made, "FROM", *dotted(source), *having(found)]
        case Explain(create, with_sql):
            return ["EXPLAIN", *(["SQL"] if with_sql else []), *written(create)]
        case (
            DropView(name, if_exists, cascade)
            | DropReplica(name, if_exists, cascade)
            | DropJob(name, if_exists, cascade)
        ):
            kind = {DropView: ["MATERIALIZED", "VIEW"], DropReplica: ["REPLICA"], DropJob: ["JOB"]}[type(statement)]
            exists, along = ["IF", "EXISTS"] if if_exists else [], ["CASCADE"] if cascade else []
            return ["DROP", *kind, *exists, ticked(name), *along]
        case ShowTables():
            return ["SHOW", "TABLES"]
        case ShowJobs():
            return ["SHOW", "JOBS"]
        case ShowJob(name):
            return ["SHOW", "JOB", ticked(name)]
        case ShowEvents(job):
            return ["SHOW", "EVENTS", *(["FOR", ticked(job)] if job is not None else [])]
        case PauseJob(name, fill_only):
            return ["PAUSE", "JOB", ticked(name), *(["FILL"] if fill_only else [])]
        case ResumeJob(name):
            return ["RESUME", "JOB", ticked(name)]
        case CancelJob(name, cascade):
            return ["CANCEL", "JOB", ticked(name), *(["CASCADE"] if cascade else [])]
        case ResyncJob(name):
            return ["RESYNC", "JOB", ticked(name)]
        case AlterJob(name, found):
            return ["ALTER", "JOB", ticked(name), "SET", *assigned(found)]
        case Verify(name):
            return ["VERIFY", ticked(name)]
        case Query(sql):
            return [sql]
        case _:
            assert_never(statement)


def ticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def dotted(parts: tuple[str, ...]) -> list[str]:
    return [word for part in parts for word in (".", ticked(part))][1:]


def listed(parts: tuple[str, ...]) -> list[str]:
    return ["(", *[word for part in parts for word in (",", ticked(part))][1:], ")"]


def unless(if_not_exists: bool) -> list[str]:
    return ["IF", "NOT", "EXISTS"] if if_not_exists else []


def having(found: Options) -> list[str]:
    return ["WITH", "(", *assigned(found), ")"] if found else []


def assigned(found: Options) -> list[str]:
    return [word for name, value in found for word in (",", ticked(name), "=", literal(value))][1:]


def literal(value: Value) -> str:
    return quoted(value) if isinstance(value, str) else str(value)


@given(statements, blanks)
def test_what_was_written_comes_back(statement: Statement, blank: str) -> None:
    assert one(blank.join(written(statement))) == statement


@given(st.lists(statements, max_size=4), blanks)
def test_scripts_come_back(found: list[Statement], blank: str) -> None:
    script = f"{blank};{blank}".join(" ".join(written(statement)) for statement in found)
    parsed = parse(script)
    assert [each.statement for each in parsed] == found
    assert [each.statement for each in parsed] == [one(each.text) for each in parsed]


@given(names, st.sampled_from([str.upper, str.lower, str.title]))
def test_any_name_comes_back(name: str, case: Callable[[str], str]) -> None:
    assert one(f"{case('SHOW JOB')} {ticked(name)}") == ShowJob(name)


# Whatever is typed, it is read or refused.

WORDS = [
    "SHOW", "JOB", "JOBS", "CREATE", "MATERIALIZED", "VIEW", "REPLICA", "AS", "SELECT", "WITH", "FROM", "KEY", "SET",
    "a", "1", "-", "=", "(", ")", ",", ".", ";", "'", '"', "`", "\\", "--", "/*", "*/", "{#", "${", "\n", "r'",
    "x'", "\x00",
]  # fmt: skip


def read_or_refuse(sql: str) -> None:
    error = refusal(sql)
    if error is not None:
        place, line, caret = error.detail.split("\n")
        assert place.startswith("line ")
        assert len(line) < 120
        assert caret.endswith("^")
        assert error.hint


def refusal(sql: str) -> BadSql | None:
    try:
        parse(sql)
    except BadSql as error:
        return error
    return None


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refuse(text)


@given(st.lists(st.sampled_from(WORDS), max_size=12), st.sampled_from(["", " "]))
def test_any_words_are_read_or_refused(words: list[str], blank: str) -> None:
    read_or_refuse(blank.join(words))


@given(st.sampled_from([*STATEMENTS]), st.data())
def test_a_damaged_statement_is_read_or_refused(sql: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(sql)))
    end = data.draw(st.integers(start, min(len(sql), start + 5)))
    piece = data.draw(st.sampled_from(["", *WORDS]) | st.text(max_size=3))
    read_or_refuse(sql[:start] + piece + sql[end:])


@given(st.sampled_from([*STATEMENTS]), st.integers(0, 80))
def test_a_statement_that_breaks_off_is_read_or_refused(sql: str, length: int) -> None:
    with contextlib.suppress(BadSql):
        assert [each.text for each in parse(sql[:length])] in ([], [sql[:length].strip()])
