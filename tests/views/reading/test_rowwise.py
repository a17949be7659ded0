"""Views over one table are cut into the user's own texts, or left to the compiler of views, or cannot be read."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.errors import BadInput
from tidefill.views.reading.rowwise import VOLATILE, Item, RowQuery, Star, parse_row_query


def item(text: str) -> Item | Star:
    """The only item of a query."""
    (only,) = parse_row_query(f"SELECT {text} FROM t").items
    return only


def refused(sql: str) -> BadInput:
    with pytest.raises(BadInput) as caught:
        parse_row_query(sql)
    return caught.value


def test_a_query_is_cut_into_its_texts() -> None:
    sql = """
        SELECT id, e.Total  AS sum, -- the total
               upper( name ) big,
               price /* net */ * 1.19
        FROM main.shop.`Events` AS e
        WHERE total > 10 AND
              name IS DISTINCT FROM 'x'  -- all but x
        ;
    """
    assert parse_row_query(sql) == RowQuery(
        table=("main", "shop", "Events"),
        alias="e",
        items=(
            Item("id", "id", "id"),
            Item("e.Total  AS sum", "Total", "sum"),
            Item("upper( name ) big", None, "big"),
            Item("price           * 1.19", None, None),
        ),
        where="total > 10 AND\n              name IS DISTINCT FROM 'x'",
        functions=frozenset({"upper"}),
        notices=(),
    )


@pytest.mark.parametrize(
    ("origin", "table", "alias"),
    [
        ("t", ("t",), "t"),
        ("a.b.c.t", ("a", "b", "c", "t"), "t"),
        ("s.t x", ("s", "t"), "x"),
        ("s.t AS `x y`", ("s", "t"), "x y"),
        ("delta.`/data/a.b`", ("delta", "/data/a.b"), "/data/a.b"),
        ("`Größe``n`.日本", ("Größe`n", "日本"), "日本"),
    ],
)
def test_the_table_and_its_alias(origin: str, table: tuple[str, ...], alias: str) -> None:
    query = parse_row_query(f"SELECT 1 FROM {origin}")
    assert (query.table, query.alias) == (table, alias)


@pytest.mark.parametrize(
    ("text", "column", "name"),
    [
        ("a", "a", "a"),
        ("t.A", "A", "A"),
        ("T.a", "a", "a"),
        ("a b", "a", "b"),
        ("a AS `b.c`", "a", "b.c"),
        ("`a``b`", "a`b", "a`b"),
        ("`x, y FROM z`", "x, y FROM z", "x, y FROM z"),
        ("t.`größe` AS 日本", "größe", "日本"),
        ("t.user", "user", "user"),
        ("a user", "a", "user"),
        ("a AS from", "a", "from"),
        ("date", "date", "date"),
        ("timestamp AS end", "timestamp", "end"),
        ("1a", "1a", "1a"),
        ("a + 1 b", None, "b"),
        ("a + 1", None, None),
        ("(a)", None, None),
        ("a.b", None, None),
        ("a.b AS c", None, "c"),
        ("t.a.b", None, None),
        ("user.name", None, None),
        ("true", None, None),
        ("NULL n", None, "n"),
        ("1L", None, None),
        ("'a'", None, None),
        ('"a"', None, None),
        ("a[0]", None, None),
        ("CASE WHEN a THEN b END c", None, "c"),
        ("CASE a WHEN 1 THEN 'x, y' ELSE 'FROM' END", None, None),
    ],
)
def test_what_is_known_of_an_item(text: str, column: str | None, name: str | None) -> None:
    assert item(text) == Item(text, column, name)


def test_an_alias_hides_the_name_of_the_table() -> None:
    items = parse_row_query("SELECT e.a, t.b, s.t.c FROM s.t e").items
    assert items == (Item("e.a", "a", "a"), Item("t.b", None, None), Item("s.t.c", None, None))


@pytest.mark.parametrize("text", ["*", "t.*", "s.t.*", "T . *"])
def test_stars(text: str) -> None:
    query = parse_row_query(f"SELECT {text}, 1 FROM s.t")
    assert query.items == (Star(), Item("1", None, None))


EXPRESSIONS = [
    "extract(year FROM d)",
    "trim(both ' ' FROM s)",
    "substring(s FROM 2 FOR 3)",
    "overlay(s PLACING 'x' FROM 2)",
    "position('a' IN s)",
    "a IS DISTINCT FROM b",
    "a IS NOT DISTINCT FROM b AND c",
    "CASE WHEN a IS DISTINCT FROM b THEN 1 ELSE 2 END",
    "', FROM t WHERE -- /* '",
    '"it\'s, \\" FROM"',
    "'it\\'s'",
    "'it''s'",
    "r'\\'",
    'R"\\"',
    "X'1F'",
    "'a' 'b'",
    "`from`.`where`",
    "s.from",
    "transform(a, x -> x + 1)",
    "aggregate(a, 0, (acc, x) -> acc + x)",
    "exists(a, x -> x > 1)",
    "cast(a AS DECIMAL(10, 2))",
    "cast(a AS STRUCT<x: INT, y: MAP<STRING, DECIMAL(3, 1)>>)",
    "a::decimal(10, 2) < 3",
    "a::int < b AND c > 2",
    "(a, b) IN ((1, 2), (3, 4))",
    "a NOT LIKE ALL ('x%', 'y%')",
    "a BETWEEN (1) AND (2)",
    "f(a => 1, b => 'x')",
    "struct(a AS x, b AS y).x",
    "map('k', 1)['k']",
    "a <=> b OR NOT (c)",
    "INTERVAL '1' DAY + d",
    "DATE '2024-01-01' + INTERVAL 1 DAY 2 HOURS",
    "get_json_object(a, '$.b[0]')",
    "1.5BD + 2e3 - .5 * 3L",
    "a DIV 2 % 3 || 'x'",
    "unix_timestamp(a)",
    "if(a, left(b, 1), c)",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_nothing_inside_of_an_expression_cuts_it(text: str) -> None:
    query = parse_row_query(f"SELECT {text} AS a, b, {text}\nFROM t WHERE {text}")
    assert query.items == (Item(f"{text} AS a", None, "a"), Item("b", "b", "b"), Item(text, None, None))
    assert query.where == text


@pytest.mark.parametrize(
    ("text", "functions"),
    [
        ("Upper(a) || lower (b)", {"upper", "lower"}),
        ("`f`(a) + db.G(b)", {"f", "db.g"}),
        ("transform(a, x -> abs(x))", {"transform", "abs"}),
        ("cast(char(65) AS VARCHAR(10))", {"cast", "char"}),
        ("a::decimal(1, 2) + decimal(b)", {"decimal"}),
        ("a IN (1) AND (b) OR NOT (c) LIKE ANY ('x')", set()),
        ("CASE WHEN (a) THEN (b) ELSE (c) END", set()),
        ("'f(x)' || `g(x)`", set()),
    ],
)
def test_the_functions_that_are_called(text: str, functions: set[str]) -> None:
    assert parse_row_query(f"SELECT {text} AS x FROM t WHERE g(1)").functions == functions | {"g"}


def test_an_order_is_left_out_with_a_notice() -> None:
    query = parse_row_query("SELECT a FROM t WHERE b ORDER\n BY rand(), a DESC NULLS LAST;")
    assert (query.where, len(query.notices)) == ("b", 1)
    assert "ORDER BY" in query.notices[0]


def test_comments_are_blanks_as_spark_reads_them() -> None:
    query = parse_row_query("/* a;b */ SELECT a--'\n,/*'*/b -- x \\\n, c FROM u\nFROM t ORDER/**/BY a;; -- `")
    assert query.items == (Item("a", "a", "a"), Item("b", "b", "b"))
    assert query.table == ("t",)


def test_blanks_of_all_kinds() -> None:
    query = parse_row_query("SELECT\u00a0a\r\n\t,b\u3000c\fFROM\u2003t")
    assert query.items == (Item("a", "a", "a"), Item("b\u3000c", "b", "c"))


REFUSED = {
    "several statements": "SELECT a FROM t; SELECT b FROM t",
    "insert": "INSERT INTO u SELECT a FROM t",
    "from first": "FROM t SELECT a",
    "table": "TABLE t",
    "values": "VALUES (1)",
    "in parentheses": "(SELECT a FROM t)",
    "no table": "SELECT 1",
    "join": "SELECT a FROM t JOIN u ON t.a = u.a",
    "left join": "SELECT a FROM t LEFT JOIN u USING (a)",
    "natural join": "SELECT a FROM t NATURAL JOIN u",
    "comma join": "SELECT a FROM t, u",
    "lateral join": "SELECT a FROM t, LATERAL explode(t.b)",
    "group by": "SELECT a FROM t GROUP BY a",
    "group by all": "SELECT a FROM t GROUP BY ALL",
    "having": "SELECT a FROM t HAVING a > 1",
    "distinct": "SELECT DISTINCT a FROM t",
    "all": "SELECT ALL a FROM t",
    "limit": "SELECT a FROM t LIMIT 5",
    "limit of an order": "SELECT a FROM t ORDER BY a LIMIT 5",
    "offset": "SELECT a FROM t OFFSET 5",
    "top": "SELECT TOP 5 a FROM t",
    "fetch": "SELECT a FROM t FETCH FIRST 5 ROWS ONLY",
    "window": "SELECT sum(a) OVER (PARTITION BY b) FROM t",
    "window of a name": "SELECT f(a) OVER w FROM t",
    "window clause": "SELECT a FROM t WINDOW w AS (PARTITION BY b)",
    "qualify": "SELECT a FROM t QUALIFY a > 1",
    "aggregate": "SELECT sum(a) FROM t",
    "aggregate in where": "SELECT a FROM t WHERE 1 < max(a)",
    "count": "SELECT count(*) FROM t",
    "quoted aggregate": "SELECT `Sum`(a) FROM t",
    "any": "SELECT any(a) FROM t",
    "sketch": "SELECT hll_sketch_agg(a) FROM t",
    "filter": "SELECT f(a) FILTER (WHERE b) FROM t",
    "within group": "SELECT f(a) WITHIN GROUP (ORDER BY b) FROM t",
    "ignore nulls": "SELECT f(a) IGNORE NULLS FROM t",
    "distinct argument": "SELECT f(DISTINCT a) FROM t",
    "union": "SELECT a FROM t UNION ALL SELECT a FROM u",
    "except": "SELECT a FROM t EXCEPT SELECT a FROM u",
    "minus": "SELECT a FROM t MINUS SELECT a FROM u",
    "intersect": "SELECT a FROM t INTERSECT SELECT a FROM u",
    "with": "WITH u AS (SELECT 1) SELECT a FROM u",
    "scalar subquery": "SELECT (SELECT max(a) FROM u) FROM t",
    "in subquery": "SELECT a FROM t WHERE a IN (SELECT a FROM u)",
    "exists subquery": "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u)",
    "from subquery": "SELECT a FROM (SELECT a FROM u)",
    "values in an expression": "SELECT a FROM t WHERE a IN (VALUES (1))",
    "from in an expression": "SELECT (FROM u SELECT a) FROM t",
    "lateral view": "SELECT a FROM t LATERAL VIEW explode(b) x AS c",
    "explode": "SELECT explode(a) FROM t",
    "explode with aliases": "SELECT posexplode(a) AS (i, x) FROM t",
    "time window": "SELECT window(a, '1 day') FROM t",
    "script": "SELECT TRANSFORM(a) USING 'cat' AS b FROM t",
    "sample": "SELECT a FROM t TABLESAMPLE (10 PERCENT)",
    "version": "SELECT a FROM t VERSION AS OF 1",
    "timestamp": "SELECT a FROM t TIMESTAMP AS OF '2024-01-01'",
    "for version": "SELECT a FROM t FOR SYSTEM_VERSION AS OF 1",
    "at version": "SELECT a FROM t@v1",
    "pivot": "SELECT a FROM t PIVOT (sum(a) FOR b IN (1, 2))",
    "unpivot": "SELECT a FROM t UNPIVOT (x FOR y IN (a, b))",
    "table function": "SELECT a FROM range(10)",
    "computed table": "SELECT a FROM identifier('t')",
    "values as a table": "SELECT a FROM VALUES (1) AS t(a)",
    "columns renamed": "SELECT a FROM t AS x(a, b)",
    "stream": "SELECT a FROM STREAM t",
    "hint": "SELECT /*+ COALESCE(1) */ a FROM t",
    "cluster by": "SELECT a FROM t CLUSTER BY a",
    "distribute by": "SELECT a FROM t DISTRIBUTE BY a",
    "sort by": "SELECT a FROM t SORT BY a",
    "pipe": "SELECT a FROM t |> WHERE b",
    "into": "SELECT a INTO u FROM t",
    "lock": "SELECT a FROM t FOR UPDATE",
    "star except": "SELECT * EXCEPT (a) FROM t",
    "star replace": "SELECT t.* REPLACE (1 AS a) FROM t",
    "star of a struct": "SELECT s.* FROM t",
    "star inside": "SELECT struct(*) FROM t",
    "parameter": "SELECT a FROM t WHERE a = :x",
    "positional parameter": "SELECT a FROM t WHERE a = ?",
    "path": "SELECT a:b.c FROM t",
    "session variable": "SELECT '${spark.app.name}' FROM t",
    "computed column": "SELECT identifier('a') FROM t",
    "same name": "SELECT a, b AS A FROM t",
    "same column": "SELECT t.a, a FROM t",
    "reserved column": "SELECT __tf_side FROM t",
    "reserved alias": "SELECT a AS `__TF_x` FROM t",
    "reserved table": "SELECT a FROM __tf_t",
    "reserved name in where": "SELECT a FROM t WHERE t.__tf_x",
    "hidden column": "SELECT _metadata.file_path FROM t",
    "qualified by the schema": "SELECT a FROM s.t WHERE S.t.b > 1",
    "no arguments": "SELECT unix_timestamp() FROM t",
    "without parentheses": "SELECT a FROM t WHERE d < current_date",
    "perhaps a column": "SELECT upper(user) FROM t",
    "perhaps a quoted column": "SELECT `user` FROM t",
    "qualified function": "SELECT system.builtin.rand() FROM t",
    "word for a time": "SELECT a FROM t WHERE d > 'Yesterday'",
    "word for a time and a zone": "SELECT TIMESTAMP 'today UTC' FROM t",
    "comment in a comment": "SELECT a /* /* */ */ FROM t",
    "nested too deeply": "SELECT " + "(" * 5000 + "a" + ")" * 5000 + " FROM t",
}  # fmt: skip


@pytest.mark.parametrize("sql", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_left_to_the_compiler_of_views(sql: str) -> None:
    """The code alone counts: `Lake.explain_view` then compiles the query, and nobody sees the words."""
    assert refused(sql).code == "UNSUPPORTED_QUERY"


@pytest.mark.parametrize("name", sorted(VOLATILE))
def test_volatile_functions_are_refused_everywhere(name: str) -> None:
    calls = (f"{name}()", f"{name.upper()}(a)", f"`{name}`(1, 2)")
    assert "UNSUPPORTED_QUERY" in {refused(f"SELECT {call} FROM t").code for call in calls}
    assert "UNSUPPORTED_QUERY" in {refused(f"SELECT a FROM t WHERE f(x -> {call} > x)").code for call in calls}
    assert parse_row_query(f"SELECT t.{name}, '{name}()' AS x FROM t").functions == frozenset()


BAD = {
    "": "line 1, column 1",
    " \n -- only a comment": "line 1, column 1",
    ";": "line 1, column 1",
    "SELECT 'a FROM t": "line 1, column 8",
    "SELECT\n  `a FROM t": "line 2, column 3",
    'SELECT a,\n"b FROM t': "line 2, column 1",
    "SELECT a FROM t /* b": "line 1, column 17",
    "SELECT (a FROM t": "line 1, column 11",
    "SELECT 'x\n', a)\nFROM t": "line 2, column 5",
    "SELECT a FROM t WHERE": "line 1, column",
    "SELECT a, FROM t": "line 1, column 9",
    "SELECT a,, b FROM t": "line 1, column 10",
    "SELECT FROM t": "line 1, column",
    "SELECT a FROM t WHERE b WHERE c": "line 1, column 25",
    "SELECT a FROM t ORDER BY a WHERE b": "line 1, column 1",
    "SELECT a FROM t x y": "line 1, column 19",
    "SELECT a FROM my-table": "line 1, column 17",
    "SELECT a 'b' FROM t": "line 1, column 10",
    "SELECT a AS 'b' FROM t": "line 1, column 13",
    "SELECT {{ a }} FROM t": "line 1, column 8",
    "SELECT a {# , b #} FROM t": "line 1, column 10",
    "SELECT a$b FROM t": "line 1, column 9",
    "SELECT factorial(FROM t": "line 1, column",
}


@pytest.mark.parametrize(("sql", "place"), BAD.items())
def test_sql_that_cannot_be_read(sql: str, place: str) -> None:
    error = refused(sql)
    assert error.code == "BAD_SQL"
    assert error.fact
    assert error.hint
    assert error.detail.startswith(place)


WORDS = [
    "SELECT", "FROM", "WHERE", "ORDER", "BY", "AS", "CASE", "END", "IS", "DISTINCT", "INTERVAL", "a", "b.c", "1", "f(",
    "(", ")", ",", ".", "*", ";", ":", "'", '"', "`", "\\", "--", "/*", "*/",
]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_any_text_is_taken_apart_or_refused(text: str) -> None:
    for sql in (text, f"SELECT {text} FROM t WHERE a"):
        with contextlib.suppress(BadInput):
            parse_row_query(sql)


names = st.text(alphabet="abAB`'\". ,;-ß日", min_size=1).map(lambda name: "`x" + name.replace("`", "``") + "`")
strings = st.text(alphabet="ab'\\\" ,;-`\n", max_size=6).map(
    lambda text: "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
)
atoms = st.sampled_from(EXPRESSIONS) | names | strings | st.integers(0, 99).map(str)
expressions = st.lists(atoms, min_size=1, max_size=3).map(lambda parts: " AND ".join(f"({part})" for part in parts))
blanks = st.sampled_from([" ", "\n", "\t ", " /* , FROM */ ", " -- ' WHERE\n"])


@given(st.lists(st.tuples(expressions, names), min_size=1, max_size=4), expressions | st.just(""), blanks)
def test_the_texts_that_were_joined_come_back(items: list[tuple[str, str]], where: str, blank: str) -> None:
    aliased = [f"{text} AS {name[:-1]}{number}`" for number, (text, name) in enumerate(items)]
    condition = f"{blank}WHERE{blank}{where}" if where else ""
    sql = f"{blank}SELECT{blank}{f'{blank},{blank}'.join(aliased)}{blank}FROM{blank}t{condition}{blank};"
    query = parse_row_query(sql)
    assert [item.text for item in query.items if isinstance(item, Item)] == aliased
    assert query.where == where
    assert [item.name for item in query.items if isinstance(item, Item)] == [
        name[1:-1].replace("``", "`") + str(number) for number, (_, name) in enumerate(items)
    ]
