"""What a view must not have, and what to write in its place; and what makes a query more than one over one table, row
by row, so that the compiler of views has to take it.

A clause or a kind of expression that nobody thought of is none of one row.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidefill.errors import UnsupportedQuery
from tidefill.jobs.sql_names import HIDDEN
from tidefill.views.reading.functions import (
    AGGREGATES,
    EXACT_AGGREGATES,
    GENERATORS,
    OF_ORDER,
    ROW_MAKERS,
    SETTLED,
    VOLATILE,
    VOLATILE_WITHOUT_ARGUMENTS,
    Call,
    calls,
    without_types,
)
from tidefill.views.reading.lexer import Source, Token, statement_of


@dataclass(frozen=True, slots=True)
class Rule:
    """`words` are looked for, in this order, to say where it is."""

    fact: str
    hint: str
    words: tuple[str, ...] = ()


NO_ORDER = "ORDER BY was left out: a table has no order. Sort where the view is read."

# What the compiler of views may take. No user reads it: such a query goes there, and is refused there if at all.
_NOT_BY_ROWS = Rule("the query is not made from one table, row by row", "Let the compiler of views take it.")
_AGGREGATE = replace(_NOT_BY_ROWS, fact="the query has an aggregate function")

_STATEMENTS = Rule("there are several statements", "Give one SELECT at a time.")
_NO_SELECT = Rule("the query does not begin with SELECT", "Write SELECT ... FROM table WHERE condition.")
_PIPE = Rule("the query has pipes (|>)", "Write SELECT ... FROM table WHERE condition.")
_GENERATOR = Rule(
    "the query can make several rows out of one",
    "Keep the array or map as a column, and explode it where the view is read.",
)
_VERSION = Rule(
    "the query reads one version of the table", "Leave it out: the view follows the table.", ("VERSION", "TIMESTAMP")
)

_PARAMETER = Rule("the query has a parameter, or a path after a colon", "Write the value; for a path use variant_get.")
_BY_CHANCE = Rule(
    "the aggregate function depends on the order of the rows",
    "Use one that does not: count, sum, avg, min, max, bool_or, stddev, percentile ...",
)
_IDENTIFIER = Rule("a name is computed (IDENTIFIER)", "Write the name itself.")
_VOLATILE = Rule(
    "the function gives something else each time, or depends on the session",
    "Let the writers of the table fill a column with it. A column of that name is written with the table: t.user.",
)
_TIME_WORD = Rule(
    "the text is a word for a time, which Spark reads as the time of the query where it expects a date",
    "Write the date itself.",
)
_RESERVED = Rule(f"names that begin with {HIDDEN} are reserved", "Choose another name.")
_METADATA = Rule("the query reads where a row is stored (_metadata)", "Leave it out: rows move between files.")

_SIGNS = {"|>": _PIPE, "?": _PARAMETER, "?::": _PARAMETER, ":": _PARAMETER, "@": _VERSION}
_ALLOWED_CLAUSES = {"expressions", "from", "where", "order"}
_ALLOWED_OF_TABLE = {"this", "db", "catalog", "alias"}

KNOWN = (
    exp.Condition, exp.Identifier, exp.Var, exp.Alias, exp.Tuple, exp.Lambda, exp.Interval, exp.AtTimeZone,
    exp.FromTimeZone, exp.DataType, exp.DataTypeParam, exp.ColumnDef, exp.JSONPath, exp.JSONPathPart,
)  # fmt: skip
_OF_SEVERAL_ROWS = (exp.Query, exp.Values, exp.Window, exp.AggFunc, exp.Star)
_TIME_WORDS = re.compile(r"(?i:now)|(?i:today|tomorrow|yesterday)(\s+[A-Z+-]\S*)?")


def check_words(source: Source, tokens: Sequence[Token]) -> None:
    """What the words alone tell, before the parse."""
    _check_signs(source, tokens)
    for before, token in itertools.pairwise(tokens):
        if (before.word, token.word) == ("WINDOW", "("):
            raise _refusal(source, _NOT_BY_ROWS, before)
    match [token.word for token in tokens[:3]]:
        case ["WITH", *_]:
            raise _refusal(source, _NOT_BY_ROWS, tokens[0])
        case ["SELECT", "TOP", count] if count.isdigit():
            raise _refusal(source, _NOT_BY_ROWS, tokens[1])
        case [first, *_] if first != "SELECT":
            raise _refusal(source, _NO_SELECT, tokens[0])


def _check_signs(source: Source, tokens: Sequence[Token]) -> None:
    for token in tokens:
        if token.word == ";":
            raise _refusal(source, _STATEMENTS, token)
        if token.is_name and token.name.lower().startswith(HIDDEN):
            raise _refusal(source, _RESERVED, token)
    for token in without_types(tokens):
        if token.word in _SIGNS:
            raise _refusal(source, _SIGNS[token.word], token)
    for before, token in itertools.pairwise(tokens):
        if before.word == "FOR" and token.word in ("VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME"):
            raise _refusal(source, _VERSION, token)


def check_query(source: Source) -> frozenset[str]:
    """What the words tell of a query over several tables: all of it is deterministic and follows the tables. Gives the
    names of the functions that it calls."""
    found = _checked_calls(source)
    for call in found:
        rule = _rule_of(call)
        if rule is _AGGREGATE:
            rule = _BY_CHANCE if _is_by_chance(call) and not SETTLED.fullmatch(call.last_name) else None
        if rule is _GENERATOR and ROW_MAKERS.fullmatch(call.last_name):
            rule = None
        if rule is not None:
            raise source.refusal(rule.fact, rule.hint, call.token.start, call.token.end)
    return frozenset(call.name for call in found)


def check_repeatable(source: Source) -> tuple[frozenset[str], tuple[str, ...]]:
    """What the words tell of a query that is computed anew each time: all of it is deterministic and follows the
    tables. Gives the names of the functions that it calls, and a notice for each that sees rows in some order."""
    found = _checked_calls(source)
    for call in found:
        rule = _rule_of(call)
        if rule in (_VOLATILE, _IDENTIFIER):
            raise source.refusal(rule.fact, rule.hint, call.token.start, call.token.end)
    notices = [
        f"{call.last_name} depends on the order of the rows, unless the query gives one or sorts what it returns."
        for call in found
        if AGGREGATES.fullmatch(call.last_name) and _is_by_chance(call) and call.last_name not in OF_ORDER
    ]
    notices += [
        f"{call.last_name}: of rows that are equal in its ORDER BY, any may be the first."
        for call in found
        if call.last_name in OF_ORDER
    ]
    return frozenset(call.name for call in found), tuple(dict.fromkeys(notices))


def _checked_calls(source: Source) -> tuple[Call, ...]:
    """All calls of a query that reads nothing but tables as they are."""
    tokens = statement_of(source)
    _check_signs(source, tokens)
    if tokens[0].word not in ("SELECT", "WITH", "("):
        raise _refusal(source, _NO_SELECT, tokens[0])
    for token in tokens:
        if _is_time_word(token):
            raise source.refusal(_TIME_WORD.fact, _TIME_WORD.hint, token.start, token.end)
        if token.is_name and token.name.lower() == "_metadata":
            raise source.refusal(_METADATA.fact, _METADATA.hint, token.start, token.end)
    return tuple(calls(tokens))


def _is_by_chance(call: Call) -> bool:
    return not EXACT_AGGREGATES.fullmatch(call.last_name)


def check_clauses(source: Source, tokens: Sequence[Token], tree: exp.Expr) -> exp.Select:
    """The statement is a SELECT of items from one table with a condition and an order, and nothing more."""
    if isinstance(tree, exp.SetOperation):
        raise _refusal(source, _NOT_BY_ROWS, *tokens)
    if not isinstance(tree, exp.Select):
        raise _refusal(source, _NO_SELECT, *tokens)
    _check_parts(source, tokens, tree, _ALLOWED_CLAUSES)
    origin = tree.args.get("from_")
    if origin is None:
        raise _refusal(source, _NOT_BY_ROWS, *tokens)
    match origin.this:
        case exp.Table():
            _check_parts(source, tokens, origin.this, _ALLOWED_OF_TABLE)
        case exp.Query():
            raise _refusal(source, _NOT_BY_ROWS, *tokens)
        case _:
            raise not_a_table(source, tokens)
    return tree


def not_a_table(source: Source, tokens: Sequence[Token]) -> UnsupportedQuery:
    return _refusal(source, _NOT_BY_ROWS, *tokens)


def check_expression(source: Source, tokens: Sequence[Token], tree: exp.Expr) -> frozenset[str]:
    """The expression is a function of one row. Gives the names of the functions that it calls."""
    for rule, token in _found(tokens, tree):
        raise source.refusal(rule.fact, rule.hint, token.start, tokens[-1].end)
    return frozenset(call.name for call in calls(tokens))


def check_qualifiers(source: Source, tokens: Sequence[Token], qualifiers: Iterable[tuple[str, ...]]) -> None:
    """No column is named as `schema.table.column`: where the texts are read, the table has one name without dots."""
    for parts, first in itertools.product(qualifiers, range(len(tokens))):
        part = tokens[first : first + 2 * len(parts)]
        names, dots = tuple(token.name.lower() for token in part[::2]), [token.word for token in part[1::2]]
        if len(parts) > 1 and names == parts and dots == ["."] * len(parts):
            raise source.refusal(_NOT_BY_ROWS.fact, _NOT_BY_ROWS.hint, tokens[first].start, tokens[-1].end)


def _check_parts(source: Source, tokens: Sequence[Token], tree: exp.Expr, allowed: set[str]) -> None:
    for part, value in tree.args.items():
        part = part.rstrip("_")  # of those that are keywords of Python
        if value and part not in allowed:
            raise _refusal(source, _NOT_BY_ROWS, *tokens)


def _found(tokens: Sequence[Token], tree: exp.Expr) -> Iterator[tuple[Rule, Token]]:
    """What is wrong with the expression."""
    nodes = tuple(tree.walk())
    yield from ((rule, call.token) for call in calls(tokens) if (rule := _rule_of(call)))
    yield from ((_TIME_WORD, token) for token in tokens if _is_time_word(token))
    yield from ((_METADATA, token) for token in tokens if token.is_name and token.name.lower() == "_metadata")
    yield from ((_NOT_BY_ROWS, tokens[0]) for node in nodes if isinstance(node, _OF_SEVERAL_ROWS))
    yield from ((_NOT_BY_ROWS, tokens[0]) for node in nodes if not isinstance(node, KNOWN))


def _rule_of(call: Call) -> Rule | None:
    name = call.last_name
    if name in VOLATILE or (name in VOLATILE_WITHOUT_ARGUMENTS and not call.has_arguments):
        return _VOLATILE
    if name in GENERATORS:
        return _GENERATOR
    if AGGREGATES.fullmatch(name):
        return _AGGREGATE
    return _IDENTIFIER if name == "identifier" else None


def _is_time_word(token: Token) -> bool:
    return token.is_string and bool(_TIME_WORDS.fullmatch(token.text.lstrip("rR").strip("'\"").strip()))


def _refusal(source: Source, rule: Rule, *tokens: Token) -> UnsupportedQuery:
    starts = (token.start for word in rule.words for token in tokens if token.word == word)
    return source.refusal(rule.fact, rule.hint, next(starts, tokens[0].start))
