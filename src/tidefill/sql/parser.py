"""From a script to its statements: the grammar.

A script is read as a whole before any of it is executed, so one that has a mistake anywhere does nothing. The text of a
query is never written anew: Spark, and the rules for views, see what the user wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidefill.errors import BadSql
from tidefill.sql.cursor import Cursor
from tidefill.sql.statements import (
    AlterJob,
    BackfillIndexes,
    CancelJob,
    CatalogTable,
    Create,
    CreateIndex,
    CreateIndexes,
    CreateReplica,
    CreateView,
    DropIndex,
    DropJob,
    DropReplica,
    DropView,
    Explain,
    IndexPart,
    Location,
    Options,
    Parsed,
    PauseJob,
    Query,
    RegisterTable,
    ResumeJob,
    ResyncJob,
    ShowEvents,
    ShowIndexes,
    ShowJob,
    ShowJobs,
    ShowSteps,
    ShowTables,
    ShowViolations,
    Statement,
    UnregisterTable,
    Value,
    Verify,
)
from tidefill.sql.words import Script, shown, words_of
from tidefill.views.reading.lexer import Token

__all__ = ["parse"]


def parse(text: str) -> list[Parsed]:
    """The statements of a script, which are separated by semicolons. Raises BadSql, and nothing else."""
    script = Script(text)
    return [_parsed(cursor) for cursor in _cut(script)]


def _cut(script: Script) -> Iterator[Cursor]:
    """At semicolons; empty statements are left out."""
    tokens: list[Token] = []
    opened: list[Token] = []
    for token in words_of(script):
        match token.word:
            case "(":
                opened.append(token)
            case ")" if not opened:
                raise script.bad("a parenthesis is not opened", "no '(' is there for it", "Remove it.", token.start)
            case ")":
                opened.pop()
        if token.word != ";":
            tokens.append(token)
            continue
        _check_closed(script, opened, token)
        if tokens:
            yield Cursor(script, tokens, token)
        tokens = []
    if tokens:
        end = Token("", "", tokens[-1].end, tokens[-1].end)
        _check_closed(script, opened, end)
        yield Cursor(script, tokens, end)


def _check_closed(script: Script, opened: list[Token], end: Token) -> None:
    if opened:
        problem = f"expected ')' for it, found {shown(end)}"
        raise script.bad("a parenthesis is not closed", problem, "Close it with ).", opened[-1].start)


def _parsed(cursor: Cursor) -> Parsed:
    first, last = cursor.tokens[0], cursor.tokens[-1]
    rule = _RULES.get(first.word)
    if rule is None:
        raise _unknown(cursor)
    cursor.form = rule.form
    statement = rule.read(cursor)
    cursor.finish()
    return Parsed(statement, cursor.script.text[first.start : last.end], cursor.script.line_number(first.start))


def _unknown(cursor: Cursor) -> BadSql:
    fact = f"no statement begins with {shown(cursor.current)}"
    hint = f"Statements begin with {', '.join(_RULES)}."
    return cursor.expected("a statement", tuple(_RULES), fact=fact, hint=hint)


def _register(cursor: Cursor) -> RegisterTable:
    cursor.expect("REGISTER")
    cursor.expect("TABLE")
    name = cursor.name()
    table = _registered(cursor)
    cursor.expect("KEY")
    key = cursor.in_parentheses(cursor.name)
    walk = cursor.in_parentheses(cursor.name) if cursor.accept("WALK") else ()
    return RegisterTable(name, table, key, walk)


def _registered(cursor: Cursor) -> Location | CatalogTable:
    if cursor.expect("LOCATION", "AS") == "LOCATION":
        return Location(cursor.string())
    else:
        return CatalogTable(cursor.qualified_name())


def _unregister(cursor: Cursor) -> UnregisterTable:
    cursor.expect("UNREGISTER")
    cursor.expect("TABLE")
    if_exists = cursor.accept("IF", "EXISTS")
    return UnregisterTable(cursor.name(), if_exists)


def _create(cursor: Cursor) -> Create:
    cursor.expect("CREATE")
    if cursor.accept("OR", "REPLACE"):
        cursor.expect("MATERIALIZED")
        return _create_view(cursor, or_replace=True)
    match cursor.expect("MATERIALIZED", "REPLICA", "UNIQUE", "INDEXES", "INDEX"):
        case "MATERIALIZED":
            return _create_view(cursor)
        case "REPLICA":
            return _create_replica(cursor)
        case "UNIQUE":
            cursor.expect("INDEX")
            return _create_index(cursor, unique=True)
        case "INDEXES":
            return _create_indexes(cursor)
        case _:
            return _create_index(cursor, unique=False)


def _create_index(cursor: Cursor, *, unique: bool) -> CreateIndex:
    cursor.form = _INDEX_FORM
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    cursor.expect("ON")
    table = cursor.qualified_name()
    columns = cursor.texts_in_parentheses("a column")
    nulls = _nulls_not_distinct(cursor)
    include = cursor.in_parentheses(cursor.name) if cursor.accept("INCLUDE") else ()
    nulls = _nulls_not_distinct(cursor) or nulls
    where = cursor.text_until("a condition", "WITH", "(") if cursor.accept("WHERE") else ""
    return CreateIndex(name, table, columns, unique, include, where, _with_options(cursor), if_not_exists, nulls)


def _nulls_not_distinct(cursor: Cursor) -> bool:
    return cursor.accept("NULLS", "NOT", "DISTINCT")


def _create_indexes(cursor: Cursor) -> CreateIndexes:
    cursor.form = _INDEXES_FORM
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    cursor.expect("ON")
    table = cursor.qualified_name()
    indexes = cursor.in_parentheses(lambda: _index_part(cursor))
    return CreateIndexes(name, table, indexes, _with_options(cursor), if_not_exists)


def _index_part(cursor: Cursor) -> IndexPart:
    unique = cursor.accept("UNIQUE")
    name = cursor.name()
    columns = cursor.texts_in_parentheses("a column")
    nulls = _nulls_not_distinct(cursor)
    include = cursor.in_parentheses(cursor.name) if cursor.accept("INCLUDE") else ()
    nulls = _nulls_not_distinct(cursor) or nulls
    where = cursor.text_in_list("a condition") if cursor.accept("WHERE") else ""
    return IndexPart(name, columns, unique, include, where, nulls)


def _backfill(cursor: Cursor) -> BackfillIndexes:
    cursor.expect("BACKFILL")
    cursor.expect("INDEXES")
    cursor.expect("ON")
    return BackfillIndexes(cursor.qualified_name())


def _create_view(cursor: Cursor, *, or_replace: bool = False) -> CreateView:
    cursor.form = _VIEW_FORM
    cursor.expect("VIEW")
    if_not_exists = not or_replace and cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    options = _with_options(cursor)
    cursor.expect("AS")
    return CreateView(name, cursor.rest("a query"), options, if_not_exists, or_replace)


def _create_replica(cursor: Cursor) -> CreateReplica:
    cursor.form = _REPLICA_FORM
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    cursor.expect("FROM")
    source = cursor.qualified_name()
    return CreateReplica(name, source, _with_options(cursor), if_not_exists)


def _with_options(cursor: Cursor) -> Options:
    options: dict[str, Value] = {}
    if cursor.accept("WITH"):
        cursor.in_parentheses(lambda: _option(cursor, options))
    return tuple(options.items())


def _option(cursor: Cursor, options: dict[str, Value]) -> None:
    """Adds one. It may not be there already: which of the two would count?"""
    token = cursor.current
    name = cursor.name().lower()
    if name in options:
        raise cursor.refused(f"the option {name} is given twice", "this is the second", "Leave one of them out.", token)
    cursor.expect("=", "TO")
    options[name] = cursor.value()


def _explain(cursor: Cursor) -> Explain:
    cursor.expect("EXPLAIN")
    with_sql = cursor.accept("SQL")
    return Explain(_create(cursor), with_sql)


def _drop(cursor: Cursor) -> DropView | DropReplica | DropIndex | DropJob:
    cursor.expect("DROP")
    kind = _DROPS[cursor.expect(*_DROPS)]
    if kind is DropView:
        cursor.expect("VIEW")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name()
    return kind(name, if_exists, _cascade(cursor))


def _cascade(cursor: Cursor) -> bool:
    """RESTRICT is what happens without a word."""
    if cursor.accept("RESTRICT"):
        return False
    return cursor.accept("CASCADE")


def _show(
    cursor: Cursor,
) -> ShowTables | ShowJobs | ShowJob | ShowEvents | ShowSteps | ShowIndexes | ShowViolations:
    cursor.expect("SHOW")
    match cursor.expect("TABLES", "JOBS", "JOB", "EVENTS", "STEPS", "INDEXES", "VIOLATIONS"):
        case "TABLES":
            return ShowTables()
        case "JOBS":
            return ShowJobs()
        case "JOB":
            return ShowJob(cursor.name())
        case "STEPS":
            return ShowSteps(cursor.name())
        case "INDEXES":
            return ShowIndexes(cursor.qualified_name() if cursor.accept("ON") else ())
        case "VIOLATIONS":
            return ShowViolations(cursor.name())
        case _:
            named = cursor.accept("FOR") or not cursor.at_end
            return ShowEvents(cursor.name() if named else None)


def _pause(cursor: Cursor) -> PauseJob:
    name = _job(cursor, "PAUSE")
    return PauseJob(name, fill_only=cursor.accept("FILL"))


def _cancel(cursor: Cursor) -> CancelJob:
    name = _job(cursor, "CANCEL")
    return CancelJob(name, _cascade(cursor))


def _alter(cursor: Cursor) -> AlterJob:
    name = _job(cursor, "ALTER")
    cursor.expect("SET")
    options: dict[str, Value] = {}
    _option(cursor, options)
    while cursor.accept(","):
        _option(cursor, options)
    return AlterJob(name, tuple(options.items()))


def _verify(cursor: Cursor) -> Verify:
    cursor.expect("VERIFY")
    cursor.accept("JOB")
    return Verify(cursor.name())


def _job(cursor: Cursor, verb: str) -> str:
    cursor.expect(verb)
    cursor.expect("JOB")
    return cursor.name()


def _query(cursor: Cursor) -> Query:
    return Query(cursor.rest("a query"))


@dataclass(frozen=True, slots=True)
class _Rule:
    """How a statement is written, and what reads it."""

    form: str
    read: Callable[[Cursor], Statement]


_REGISTER_FORM = "REGISTER TABLE name LOCATION 'path' KEY (columns) [WALK (columns)]; or AS table, not LOCATION"
_VIEW_FORM = (
    "CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [WITH (option = value, ...)] AS query "
    "(OR REPLACE or IF NOT EXISTS, not both)"
)
_REPLICA_FORM = "CREATE REPLICA [IF NOT EXISTS] name FROM table [WITH (option = value, ...)]"
_INDEX_FORM = (
    "CREATE [UNIQUE] INDEX [IF NOT EXISTS] name ON table (columns) [INCLUDE (columns)] "
    "[NULLS NOT DISTINCT] [WHERE condition] [WITH (option = value, ...)]"
)
_INDEXES_FORM = (
    "CREATE INDEXES [IF NOT EXISTS] name ON connection.schema.table "
    "([UNIQUE] name (columns) [INCLUDE (columns)] [NULLS NOT DISTINCT] [WHERE condition], ...) "
    "[WITH (option = value, ...)]"
)
_SHOW_FORM = (
    "SHOW TABLES, SHOW JOBS, SHOW JOB name, SHOW EVENTS [FOR name], SHOW STEPS name, SHOW INDEXES [ON table], "
    "or SHOW VIOLATIONS name"
)
_DROP_FORM = "DROP MATERIALIZED VIEW [IF EXISTS] name [CASCADE]; or REPLICA, INDEX or JOB, not MATERIALIZED VIEW"
_DROPS: dict[str, type[DropView | DropReplica | DropIndex | DropJob]] = {
    "MATERIALIZED": DropView,
    "REPLICA": DropReplica,
    "INDEX": DropIndex,
    "JOB": DropJob,
}

_RULES = {
    "REGISTER": _Rule(_REGISTER_FORM, _register),
    "UNREGISTER": _Rule("UNREGISTER TABLE [IF EXISTS] name", _unregister),
    "CREATE": _Rule(f"{_VIEW_FORM}, or {_REPLICA_FORM}, or {_INDEX_FORM}, or {_INDEXES_FORM}", _create),
    "EXPLAIN": _Rule("EXPLAIN [SQL] CREATE ..., with the rest as for CREATE itself", _explain),
    "BACKFILL": _Rule("BACKFILL INDEXES ON connection.schema.table", _backfill),
    "DROP": _Rule(_DROP_FORM, _drop),
    "SHOW": _Rule(_SHOW_FORM, _show),
    "PAUSE": _Rule("PAUSE JOB name [FILL]", _pause),
    "RESUME": _Rule("RESUME JOB name", lambda cursor: ResumeJob(_job(cursor, "RESUME"))),
    "CANCEL": _Rule("CANCEL JOB name [CASCADE]", _cancel),
    "RESYNC": _Rule("RESYNC JOB name", lambda cursor: ResyncJob(_job(cursor, "RESYNC"))),
    "ALTER": _Rule("ALTER JOB name SET option = value, ...", _alter),
    "VERIFY": _Rule("VERIFY name", _verify),
    "SELECT": _Rule("SELECT ... FROM name", _query),
    "WITH": _Rule("WITH name AS (query) SELECT ... FROM name", _query),
}
