"""A user's query, compiled into a plan with the help of Spark, which alone knows names and types.

The plan is made from a parse of ours and written out anew, so Spark is asked whether the parse means the same to it:
the user's text and the text of our parse must have one analyzed plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from sqlglot import exp

from tidefill.core.state import Table
from tidefill.errors import BadSql, UnsupportedQuery
from tidefill.spark.derive_view import statement
from tidefill.spark.names import HIDDEN, quoted
from tidefill.views.plan.plan import Analyze, ViewPlan, compile_view
from tidefill.views.reading.dialect import Verbatim, require_interpreted, spellings
from tidefill.views.reading.functions import without_clauses
from tidefill.views.reading.lexer import UNREADABLE, read
from tidefill.views.reading.names import own_names
from tidefill.views.reading.refusals import check_query
from tidefill.views.relations.lowered import TableColumns
from tidefill.views.relations.relations import Scan

_TIMES = re.compile(r"cast\((\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d+)?)?) as (?:date|timestamp|timestamp_ntz)\)")
_NUMBERS = re.compile(r"cast\((-?\d+(?:\.\d+)?) as (?:tinyint|smallint|bigint|double|float|decimal\(\d+,\d+\))\)")
_SYNONYMS = {"Join Cross": "Join Inner", "NOT isnull(": "isnotnull("}
_IDS = re.compile(r"#\d+L?|\bplan_id=\d+|exprId=\d+|(?<=CTERelationDef )\d+|(?<=CTERelationRef )\d+")
_ANALYZED = re.compile(r"== Analyzed Logical Plan ==\n(.*?)\n== Optimized Logical Plan ==", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Compiled:
    """The query as it was parsed, its plan, what the user will see, and the functions that the query calls."""

    tree: exp.Expr
    plan: ViewPlan
    schema: StructType
    functions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Known:
    """A table that a query may read: the name we know it by, a frame of it without rows, and its key."""

    name: Table
    empty: DataFrame
    key: tuple[str, ...]


def compiled(session: SparkSession, sql: str, find: Callable[[tuple[str, ...], bool], Known | None]) -> Compiled:
    """The plan of a query. `find` gives the table of a name, or raises if it is certain that one is meant: it may be a
    name of the query's own WITH. Raises BadSql or UnsupportedQuery."""
    source = read(sql)
    functions = check_query(source)
    tree = parsed(source.text)
    found = {parts: known for parts, certain in _tables(tree).items() if (known := find(parts, certain)) is not None}
    schema = understood(session, source.text, tree, found)
    names = [field.name for field in schema]

    def columns(parts: tuple[str, ...]) -> TableColumns:
        known = found.get(parts) or find(parts, True)
        assert known is not None, "a table that is certain to be meant is there, or find says that it is not"
        return _columns(known)

    plan = compile_view(tree, columns, names, _analysis(session, found.values()))
    return Compiled(tree, plan, schema, without_clauses(functions, tree))


def recompiled(session: SparkSession, sql: str, tables: Sequence[Known], names: Sequence[str]) -> ViewPlan:
    """The plan of a query that was compiled before, over tables by our names for them."""
    found = {known.name.casefold(): known for known in tables}
    tree = parsed(read(sql).text)
    return compile_view(
        tree, lambda parts: _columns(found[parts[0].casefold()]), names, _analysis(session, found.values())
    )


def _columns(known: Known) -> TableColumns:
    kinds = tuple((field.name, field.dataType.simpleString()) for field in known.empty.schema)
    return TableColumns(known.name, kinds, known.key)


def parsed(text: str) -> exp.Expr:
    """The query as a tree. Raises BadSql or UnsupportedQuery; BadInput if sqlglot cannot be extended."""
    require_interpreted()
    try:
        return sqlglot.parse_one(text.rstrip().rstrip(";"), read=Verbatim)
    except UNREADABLE as error:
        raise BadSql("the SQL cannot be read", detail=str(error).splitlines()[0][:200]) from None
    except RecursionError:
        raise UnsupportedQuery("the query is nested too deeply", hint="Split it into several views.") from None


def _tables(tree: exp.Expr) -> dict[tuple[str, ...], bool]:
    """The tables that the query names, and whether they are certain not to be names of its WITH."""
    own = own_names(tree)
    found = [tuple(part.name for part in table.parts) for table in tree.find_all(exp.Table)]
    return {parts: len(parts) > 1 or parts[0].casefold() not in own for parts in found}


def understood(session: SparkSession, text: str, tree: exp.Expr, found: Mapping[tuple[str, ...], Known]) -> StructType:
    """Names and types of the outputs by Spark, if it understands the query as we do. In this session the tables have
    the names that the query gives them."""
    session.conf.set("spark.sql.debug.maxToStringFields", "100000")
    for parts, known in found.items():
        if len(parts) > 1:
            raise UnsupportedQuery(f"{'.'.join(parts)} has several parts", hint="Register it under one name.")
        shown = [quoted(name) for name in known.empty.columns if not name.startswith(HIDDEN)]
        known.empty.select(*shown).createOrReplaceTempView(quoted(parts[0]))
    try:
        schema = session.sql(text).schema
        meaning = _meaning(session, text)
        if all(meaning != _meaning(session, spelling) for spelling in spellings(tree)):
            raise UnsupportedQuery(
                "the query cannot be read with certainty", hint="Put names that are also keywords in backticks."
            )
        return schema
    finally:
        for parts in found:
            session.catalog.dropTempView(parts[0])


def analyzed(session: SparkSession, text: str) -> str:
    """What Spark makes of a query, as it writes it. BadSql if it does not take it."""
    told = str(session.sql(f"EXPLAIN EXTENDED {text}").collect()[0][0])
    match = _ANALYZED.search(told)
    if match is None:
        raise BadSql("Spark does not take the query", detail=told.strip().splitlines()[-1][:300])
    return match[1]


def _meaning(session: SparkSession, text: str) -> str:
    """The same for texts that mean the same: `FROM a, b` is `a CROSS JOIN b`, `NOT x IS NULL` is `x IS NOT NULL`,
    DATE'...' is a text that is cast and 1L a number that is, and numbers of columns mean nothing."""
    numbers: dict[str, str] = {}
    told = analyzed(session, text)
    for written, meant in _SYNONYMS.items():
        told = told.replace(written, meant)
    told = _NUMBERS.sub(r"\1", _TIMES.sub(r"\1", told))
    return _IDS.sub(lambda found: numbers.setdefault(found[0], f"#{len(numbers)}"), told)


def _analysis(session: SparkSession, tables: Collection[Known]) -> Analyze:
    empty = {known.name: known.empty for known in tables}

    def types(query: exp.Query, scans: Sequence[Scan]) -> list[str]:
        inputs = {f"__tf_new_{number}": empty[scan.table] for number, scan in enumerate(scans)}
        return [field.dataType.simpleString() for field in statement(session, query, inputs).schema]

    return types
