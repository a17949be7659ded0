"""Checks what a user asks for over Delta tables, and defines it: key, walk, columns, and what the job will do."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType
from sqlglot import exp

from tidefill.delta.build import Builder, columns_of
from tidefill.delta.explain_result import Explained
from tidefill.delta.inputs import Input, Tables, frozen, row_wise, typed, visible
from tidefill.delta.layout import layout_notices
from tidefill.delta.refusals import as_input, refuse_columns, refuse_incomparable, refuse_maps, refuse_names
from tidefill.delta.walk import Walk, along
from tidefill.errors import BadInput, BadSql, UnknownTable, UnsupportedKey, UnsupportedQuery
from tidefill.jobs.definitions import (
    FullViewDefinition,
    JobDefinition,
    LakeIndexDefinition,
    Part,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
)
from tidefill.jobs.wishes import IndexWish
from tidefill.spark.compiling import Compiled, Known, analyzed, parsed, understood
from tidefill.spark.compiling import compiled as compile_query
from tidefill.spark.coverage import key_types
from tidefill.spark.derive_rows import RowWise
from tidefill.spark.names import HIDDEN, quoted
from tidefill.spark.session import Semantics
from tidefill.views.plan.drivers import Drivers, choose
from tidefill.views.plan.plan import ViewPlan
from tidefill.views.reading.full import repeatable, tables_of
from tidefill.views.reading.index_query import index_query
from tidefill.views.reading.lexer import read
from tidefill.views.reading.names import columns_named
from tidefill.views.reading.rowwise import Item, RowQuery, Star, parse_row_query
from tidefill.views.reading.unique import unique_columns
from tidefill.views.relations.relations import Scan

GROUP_ROWS_MAX = 5_000_000  # that are filled in one commit: as many as in a first chunk
LINEAR_PLAN = frozenset({"Project", "Filter", "SubqueryAlias", "View", "Relation", "LocalRelation"})
SYNTAX = frozenset({"case", "cast", "extract", "if", "in", "overlay", "position", "substring", "trim", "try_cast"})

Find = Callable[[tuple[str, ...]], Input]
"""The input of a name; UnknownTable if there is none."""


class Definer:
    """Defines jobs over these tables."""

    def __init__(self, tables: Tables, builder: Builder) -> None:
        self._tables = tables
        self._builder = builder

    def explain_replica(self, table: Input) -> Explained:
        """A copy of every column."""
        self._refuse_names(table)
        semantics = frozen(Semantics.of(self._tables.spark))
        return self._explained(
            table,
            lambda walk, _: ReplicaDefinition(table.name, table.key, walk.columns, walk.reason, semantics),
            self._tables.shown(table),
        )

    def _refuse_names(self, table: Input) -> None:
        hint = "Create a view that gives them other names: SELECT `a b` AS a_b, ... FROM ..."
        refuse_names(table.name, self._tables.shown(table), hint)

    def check_reader(self, reader: JobDefinition, find: Find, changed: Input) -> None:
        """Raise if a job, whose definition stays, could not be made over an input that has changed, though all columns
        that it reads are there. `find` gives its other inputs."""
        match reader:
            case ReplicaDefinition():
                self._refuse_names(changed)
            case PlannedViewDefinition():
                inputs = {name: changed if name == changed.name else find((name,)) for name in reader.tables}
                self._builder.planned(reader, inputs, self._tables.session_with(dict(reader.semantics)))
            case _:  # its text is taken as it is, over the columns that it reads
                return

    def explain_view(self, find: Find, sql: str) -> Explained:
        """A query. `find` gives the input of a name. Over one table, row by row, it stays as it was written; else it is
        compiled."""
        try:
            query = parse_row_query(sql)
        except UnsupportedQuery:
            return self._explain_planned(find, sql)
        return self._explain_row_wise(find(query.table), sql, query)

    def explain_index(self, table: Input, wish: IndexWish) -> Explained:
        """An index: a view of its key, the table's key and included columns, walked and laid out by its key."""
        asked = index_query(table.name, self._tables.shown(table).fieldNames(), table.key, wish)
        found = self._explain_row_wise(table, asked.sql, asked.query, asked.lead)
        key_types(found.schema, asked.order)
        view = found.definition
        assert isinstance(view, RowViewDefinition), "an index is a view, row by row"
        known = {each.name: getattr(view, each.name) for each in fields(view)}
        definition = LakeIndexDefinition(
            **known, order=asked.order, indexed=wish.columns, include=wish.include, rows_with=wish.where,
            unique=wish.unique,
        )  # fmt: skip
        notices = (*found.notices, *layout_notices(definition, found.schema))
        return replace(found, definition=definition, notices=notices)

    def _explain_row_wise(self, table: Input, sql: str, query: RowQuery, lead: Sequence[str] = ()) -> Explained:
        """A query over one table, row by row. `lead`: the columns of the table that its walk shall begin with, if that
        matters."""
        self._refuse_unknown_functions(query.functions)
        items = _expanded(query, self._tables.shown(table))
        session = self._tables.session_with(Semantics.of(self._tables.spark).to_json())
        empty = self._tables.empty(table, session)
        with as_input("Spark does not take the query", BadSql):
            self._refuse_other_plans(session, empty, query, items)
            shown = RowWise(empty, None, (), where=query.where, alias=query.alias).derive(empty)
            schema = shown.select(*(f.expr(item.text) for item in items)).schema
        refuse_columns(schema)
        refuse_incomparable(schema)
        columns = [(field.name, item.text) for field, item in zip(schema, items, strict=True)]
        key, hidden = _output_key(items, schema, table.key, query.alias)
        reads = [name for name in empty.columns if name in table.key or _may_name(sql, name) or Star() in query.items]
        semantics = frozen(Semantics.of(self._tables.spark))

        def define(walk: Walk, known: Sequence[str]) -> RowViewDefinition:
            return RowViewDefinition(
                table.name, sql, table.key, key, walk.columns, walk.reason, query.alias, (*columns, *hidden),
                query.where, tuple(reads), semantics, tuple(known) if reads else (),
            )  # fmt: skip

        return self._explained(table, define, schema, reads, query.notices, lead)

    def _explain_planned(self, find: Find, sql: str) -> Explained:
        semantics = Semantics.of(self._tables.spark)
        if semantics.case_sensitive == "true":
            hint = "SET spark.sql.caseSensitive = false, or write the view over one table, row by row."
            raise UnsupportedQuery("names are case-sensitive in this session", hint=hint)
        session = self._tables.session_with(semantics.to_json())
        named = _Named(find, lambda table: self._tables.empty(table, session))
        with as_input("Spark does not take the query", BadSql):
            compiled = compile_query(session, sql, named.known)
        self._refuse_unknown_functions(compiled.functions)
        refuse_columns(compiled.schema)
        refuse_incomparable(compiled.schema)
        details = {name: self._tables.detail_of(table) for name, table in named.inputs.items()}
        sizes = {name: self._tables.size(table, details[name]) for name, table in named.inputs.items()}
        rows = {name: size.rows or 0 for name, size in sizes.items()}
        walk_of = cache(lambda table: self._tables.walk(named.inputs[table], details[table]))
        drivers = self._drivers(compiled.plan, named.inputs, rows, walk_of)
        tables = {scan.occurrence: scan.table for scan in compiled.plan.scans}
        walks = {name: walk_of(tables[name]) for name in drivers.occurrences}
        definition = _planned_definition(sql, compiled, named, walks, drivers, semantics, session)
        with as_input("the query cannot be kept fresh as it is compiled", UnsupportedQuery):
            self._builder.planned(definition, named.inputs, session)
        total = sum(rows[tables[name]] for name in drivers.occurrences)
        clustered = drivers.appends and walks[definition.walked[0].occurrence].clustered
        read = tuple(sizes[name] for name in definition.tables)
        notices = compiled.plan.notices
        return Explained(definition, clustered, total, compiled.schema, notices, compiled.plan, drivers, read)

    def _drivers(
        self, plan: ViewPlan, inputs: Mapping[str, Input], rows: Mapping[str, int], walk_of: Callable[[str], Walk]
    ) -> Drivers:
        """Which occurrences are walked. Groups are kept whole only if none of them is too large for a chunk."""
        tables = {scan.occurrence: scan.table for scan in plan.scans}
        counts = {name: rows[table] for name, table in tables.items()}
        drivers = choose(
            plan.root, counts, lambda name: () if inputs[tables[name]].made_by else walk_of(tables[name]).columns
        )
        if drivers.group_columns and self._has_large_groups(drivers, inputs, tables, walk_of):
            return choose(plan.root, counts)
        return drivers

    def _has_large_groups(
        self,
        drivers: Drivers,
        inputs: Mapping[str, Input],
        tables: Mapping[str, str],
        walk_of: Callable[[str], Walk],
    ) -> bool:
        """Whether a chunk that holds whole groups could become larger than a chunk may be."""
        for table in {tables[name] for name in drivers.occurrences}:
            group = map(quoted, walk_of(table).columns[: drivers.group_columns])
            counted = self._tables.frame(inputs[table].location).groupBy(*group).count()
            if counted.where(f.col("count") > GROUP_ROWS_MAX).limit(1).collect():
                return True
        return False

    def explain_full(self, find: Find, sql: str) -> Explained:
        """Any deterministic query, computed from nothing at each refresh. `find` gives the input of a name. It sees all
        columns that its tables have now: a NATURAL JOIN or a PIVOT goes by columns that it does not name."""
        semantics = Semantics.of(self._tables.spark)
        session = self._tables.session_with(semantics.to_json())
        source = read(sql)
        tree = parsed(source.text)
        checked = repeatable(source, tree)
        inputs = {parts: find(parts) for parts in tables_of(tree, lambda parts: _or_none(find, parts))}
        if not inputs:
            raise UnsupportedQuery("the query reads no table", hint="Name a table after FROM.")
        found = {parts: Known(table.name, self._tables.empty(table, session), ()) for parts, table in inputs.items()}
        with as_input("Spark does not take the query", BadSql):
            schema = understood(session, source.text, tree, found)
        self._refuse_unknown_functions(checked.functions)
        refuse_columns(schema)
        refuse_incomparable(schema)
        tables = {table.name: table for table in inputs.values()}
        shown = {known.name: visible(known.empty.schema) for known in found.values()}
        parts = [Part(name, name, typed(shown[name]), ()) for name in tables]
        key = self._key_of_full(session, sql, tree, schema, inputs)
        definition = FullViewDefinition(sql, typed(schema), tuple(parts), frozen(semantics), key)
        sizes = tuple(self._tables.size(table, self._tables.detail_of(table)) for table in tables.values())
        rows = sum(size.rows or 0 for size in sizes)
        return Explained(definition, True, rows, schema, checked.notices, inputs=sizes)

    def _key_of_full(
        self,
        session: SparkSession,
        sql: str,
        tree: exp.Expr,
        schema: StructType,
        inputs: Mapping[tuple[str, ...], Input],
    ) -> tuple[str, ...]:
        """The columns that identify a row, where the query itself or the compiler tells them, a reader could follow
        them, and users see them. None: nobody can follow its changes."""
        told = unique_columns(tree, schema.fieldNames())
        if _may_be_key(schema, told):
            return told
        if not all(table.key for table in inputs.values()) or Semantics.of(session).case_sensitive == "true":
            return ()
        named = _Named(lambda parts: _found(inputs, parts), lambda table: self._tables.empty(table, session))
        with suppress(BadInput), as_input("it has no key", UnsupportedQuery):
            found = compile_query(session, sql, named.known).plan.key
            return found if _may_be_key(schema, found) else ()
        return ()

    def _explained(
        self,
        table: Input,
        define: Callable[[Walk, Sequence[str]], ReplicaDefinition | RowViewDefinition],
        schema: StructType,
        reads: Sequence[str] = (),
        notices: tuple[str, ...] = (),
        lead: Sequence[str] = (),
    ) -> Explained:
        """A job over one input. `define`: the definition, given the walk and all columns of the input. `schema`: what
        the user sees. `reads`: the input's columns that are needed; none: all. `lead`: what the walk begins with."""
        frame, detail = self._tables.empty(table, self._tables.spark), self._tables.detail_of(table)
        walk, size = self._tables.walk(table, detail), self._tables.size(table, detail)
        if lead:
            key_types(frame.schema, lead)
            walk = along(walk, lead, table.key, one_file=detail is None or detail["numFiles"] <= 1)
        refuse_maps(frame.schema, reads or frame.columns)
        definition = define(walk, frame.columns)
        with as_input("the query cannot be kept fresh over the columns that it reads", UnsupportedQuery):
            row_wise(definition, frame).nothing()
        return Explained(definition, walk.clustered, size.rows or 0, schema, notices, inputs=(size,))

    def _refuse_unknown_functions(self, called: frozenset[str]) -> None:
        """A function of the user's own may change under the view."""
        known = {row[0] for row in self._tables.spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
        for name in sorted(called - known - SYNTAX):
            raise UnsupportedQuery(
                f"{name} is no function of Spark's own",
                hint="Use built-in functions: others may change or be volatile.",
            )

    def _refuse_other_plans(
        self, session: SparkSession, empty: DataFrame, query: RowQuery, items: Sequence[Item]
    ) -> None:
        """What Spark makes of the query has to be a projection and a filter: one row for each row, or none."""
        view = HIDDEN + uuid.uuid4().hex
        empty.createOrReplaceTempView(view)
        try:
            where = f" WHERE {query.where}" if query.where else ""
            texts = ", ".join(item.text for item in items)
            told = analyzed(session, f"SELECT {texts} FROM {view} AS {quoted(query.alias)}{where}")
        finally:
            session.catalog.dropTempView(view)
        nodes = re.findall(r"^[\s:+\-]*([A-Z]\w+)", "\n".join(told.strip().splitlines()[1:]), re.MULTILINE)
        for node in nodes:
            if node not in LINEAR_PLAN:
                raise UnsupportedQuery(
                    f"a view cannot have this yet: {node}", hint="Only columns, expressions and WHERE over one table."
                )


class _Named:
    """The inputs that a query names, by their own names, and the same without rows.."""

    def __init__(self, find: Find, empty_of: Callable[[Input], DataFrame]) -> None:
        self._find = find
        self._empty_of = empty_of
        self.inputs: dict[str, Input] = {}
        self.empty: dict[str, DataFrame] = {}

    def known(self, parts: tuple[str, ...], certain: bool) -> Known | None:
        """What the compiler has to know of the input; None if there is none, and the name may mean something else."""
        found = self._find(parts) if certain else _or_none(self._find, parts)
        if found is None:
            return None
        if found.name not in self.inputs:
            self.inputs[found.name], self.empty[found.name] = found, self._empty_of(found)
        return Known(found.name, self.empty[found.name], found.key)


def _planned_definition(
    sql: str,
    compiled: Compiled,
    named: _Named,
    walks: Mapping[str, Walk],
    drivers: Drivers,
    semantics: Semantics,
    session: SparkSession,
) -> PlannedViewDefinition:
    plan, words = compiled.plan, columns_named(compiled.tree)
    parts = [
        _part(scan, named.inputs[scan.table].key, named.empty[scan.table].schema, words, walks, drivers)
        for scan in plan.scans
    ]
    with as_input("Spark does not take what the query is compiled into", UnsupportedQuery):
        whole = columns_of(plan, named.empty, session)
    columns = [*compiled.schema, *(field for field in whole if field.name in plan.hidden)]
    return PlannedViewDefinition(sql, plan.key, typed(columns), tuple(parts), frozen(semantics))


def _found(inputs: Mapping[tuple[str, ...], Input], parts: tuple[str, ...]) -> Input:
    if parts not in inputs:
        raise UnknownTable(f"there is no table {'.'.join(parts)}", hint="The query does not name it.")
    return inputs[parts]


def _may_be_key(schema: StructType, columns: Sequence[str]) -> bool:
    """Whether there are such columns, each of a type that a key may have."""
    try:
        return bool(columns) and set(columns) <= set(schema.names) and bool(key_types(schema, columns))
    except UnsupportedKey:
        return False


def _or_none(find: Find, parts: tuple[str, ...]) -> Input | None:
    try:
        return find(parts)
    except UnknownTable:
        return None


def _part(
    scan: Scan,
    key: tuple[str, ...],
    schema: StructType,
    named: Collection[str],
    walks: Mapping[str, Walk],
    drivers: Drivers,
) -> Part:
    """It reads what the plan needs, and what the text names beside that: without those columns Spark would not take the
    text when a runner compiles it again, or when VERIFY runs it."""
    shown = (name for name in schema.fieldNames() if name.casefold() in named and not name.startswith(HIDDEN))
    reads = tuple(dict.fromkeys((*scan.sources, *shown)))
    refuse_maps(schema, reads)
    columns = typed(schema[name] for name in reads)
    if scan.occurrence not in drivers.occurrences:
        return Part(scan.occurrence, scan.table, columns, key)
    walk = walks[scan.occurrence]
    return Part(scan.occurrence, scan.table, columns, key, walk.columns, walk.reason, drivers.group_columns)


def _expanded(query: RowQuery, shown: StructType) -> list[Item]:
    """The items, with every column in place of a star."""
    every = [Item(f"{quoted(query.alias)}.{quoted(field.name)}", field.name, field.name) for field in shown]
    return [one for item in query.items for one in (every if isinstance(item, Star) else [item])]


def _may_name(sql: str, column: str) -> bool:
    """Whether the query may name the column: sometimes it does not after all, and the column is read for nothing."""
    name = re.escape(column.replace("`", "``").casefold())
    return re.search(rf"(?<!\w){name}(?!\w)", sql.casefold()) is not None


def _output_key(
    items: Sequence[Item], schema: StructType, key: Sequence[str], alias: str
) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """The output columns that identify a row; a column of the input's key that is not selected becomes a hidden one."""
    names: list[str] = []
    hidden: list[tuple[str, str]] = []
    for column in key:
        shown = (field.name for field, item in zip(schema, items, strict=True) if _is_same(item.column, column))
        name = next(shown, f"{HIDDEN}key_{column.removeprefix(HIDDEN + 'key_')}")
        if name.startswith(HIDDEN):
            hidden.append((name, f"{quoted(alias)}.{quoted(column)}"))
        names.append(name)
    return tuple(names), hidden


def _is_same(written: str | None, column: str) -> bool:
    """Whether the column may be meant. (Where names are case-sensitive, two columns may differ in case alone; then the
    hidden column is the safe choice.)"""
    return written is not None and written.casefold() == column.casefold()
