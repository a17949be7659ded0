"""Which functions an expression calls, and which of them are not functions of one row.

The lists are those of Spark 4.2. A function that a user made can be any of these kinds; only Spark can tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidefill.views.reading.lexer import Token

VOLATILE = frozenset({
    "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "now", "curdate", "current_date",
    "current_timestamp", "current_time", "localtimestamp", "current_timezone", "current_user", "session_user",
    "user", "current_catalog", "current_database", "current_schema", "current_path", "version",
    "monotonically_increasing_id", "spark_partition_id", "input_file_name", "input_file_block_start",
    "input_file_block_length", "reflect", "java_method", "try_reflect", "aes_encrypt",
})  # fmt: skip
"""They give something else each time, or depend on the session or on where a row lies. `aes_encrypt` begins with bytes
that it draws by chance."""

VOLATILE_WITHOUT_ARGUMENTS = frozenset({"unix_timestamp"})

GENERATORS = frozenset({
    "explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple",
    "variant_explode", "variant_explode_outer", "range", "collations", "sql_keywords", "window", "session_window",
})  # fmt: skip
"""They can give several rows for one."""

AGGREGATES = re.compile(
    r"\w+_agg(_\w+)?|listagg|(try_)?(avg|sum)|mean|median|mode|measure|count(_if|_min_sketch)?|(min|max)(_by)?"
    r"|any|some|every|bool_(and|or)|bit_(and|or|xor)|(first|last)(_value)?|any_value|approx_count_distinct|corr"
    r"|approx_top_k(_accumulate|_combine)?|approx_percentile|percentile(_approx|_cont|_disc)?|covar_(pop|samp)"
    r"|regr_\w+|std|(stddev|var)_(pop|samp)|stddev|variance|skewness|kurtosis|histogram_numeric|collect_(list|set)"
    r"|vector_(avg|sum)|grouping(_id)?"
)
"""They give one result for many rows."""

EXACT_AGGREGATES = re.compile(
    r"(try_)?(avg|sum)|mean|median|count(_if)?|min|max|some|every|bool_(and|or)|bit_(and|or|xor)|percentile(_cont|_disc)?"
    r"|grouping(_id)?|approx_count_distinct|std|(stddev|var)(_(pop|samp))?|variance|covar_(pop|samp)|corr|skewness|kurtosis|regr_\w+"
)
"""Those of them that do not depend on the order of the rows, but for the last bits of floating-point numbers."""

OF_ORDER = frozenset({"row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value"})
"""Window functions that tell rows apart which are equal in the order."""

SETTLED = re.compile(
    r"(first|last)(_value)?|any_value|collect_(list|set)|array_agg|listagg|string_agg|mode|(min|max)_by"
    r"|percentile_approx|approx_percentile"
)
"""Aggregates that leave a choice open which the compiler makes, by the key or by the values. Some may be window
functions too: over an order that is known."""

ROW_MAKERS = re.compile(r"((pos)?explode|inline)(_outer)?|(session_)?window")
"""Generators of which the compiler knows how to tell their rows apart."""

# Spark calls these without parentheses too, where the table has no such column. Backticks make no difference.
_WITHOUT_PARENTHESES = frozenset({
    "current_date", "current_timestamp", "current_time", "localtimestamp", "current_user", "session_user", "user",
})  # fmt: skip
# A parenthesis after one of these words is not a call; after ANY, SOME and ALL it is none in LIKE ANY (...).
_OPERATORS = frozenset({
    "AND", "OR", "NOT", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "IS", "DIV", "ESCAPE", "CASE", "WHEN",
    "THEN", "ELSE", "FROM", "FOR", "BOTH", "LEADING", "TRAILING", "PLACING",
})  # fmt: skip
_QUANTIFIERS = {"ANY", "SOME", "ALL"}
# Words of clauses that a parenthesis may follow. Spark reserves none of them: a function may have such a name.
_CLAUSES = frozenset({
    "all", "as", "by", "cube", "distinct", "except", "group", "group by", "grouping sets", "having", "intersect",
    "join", "minus", "on", "order by", "over", "partition by", "qualify", "rollup", "select", "union", "using",
    "values", "where",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """`name` is in lower case, with its qualifiers as written."""

    name: str
    token: Token
    has_arguments: bool

    @property
    def last_name(self) -> str:
        """Without qualifiers: `system.builtin.rand` is `rand`."""
        return self.name.rpartition(".")[2]


def calls(tokens: Sequence[Token]) -> Iterator[Call]:
    """All calls in an expression without its alias."""
    tokens = without_types(tokens)
    words = ["", *(token.word for token in tokens), "", ""]
    for index, token in enumerate(tokens):
        before, after, then = words[index], words[index + 2], words[index + 3]
        if after == "(" and _can_be_called(token, before):
            yield Call(_qualified(tokens, index), token, then != ")")
        elif token.is_name and token.name.lower() in _WITHOUT_PARENTHESES and "." not in (before, after):
            yield Call(token.name.lower(), token, False)


def without_clauses(names: Iterable[str], tree: exp.Expr) -> frozenset[str]:
    """Of the names of calls in a query, those that are not words of its clauses, nor aliases before names of columns,
    by its parse."""
    functions = {call.name.lower() for call in tree.find_all(exp.Anonymous)}
    aliases = {alias.name.lower() for alias in tree.find_all(exp.TableAlias) if alias.args.get("columns")}
    return frozenset(name for name in names if name not in _CLAUSES | aliases or name in functions)


def names_of(function: exp.Func) -> list[str]:
    """The names that a call of it may have, in lower case."""
    names = [function.name] if isinstance(function, exp.Anonymous) else type(function).sql_names()
    return [name.lower() for name in names]


def without_types(tokens: Sequence[Token]) -> list[Token]:
    """The tokens without the types of casts, and without names after AS: `decimal(10, 2)` there is no call."""
    left: list[Token] = []
    index = 0
    while index < len(tokens):
        left.append(tokens[index])
        index = _past_type(tokens, index + 1) if tokens[index].word in ("AS", "::") else index + 1
    return left


def _past_type(tokens: Sequence[Token], index: int) -> int:
    """Where the type that begins at `index` is over: after its name, or after what its name has in brackets. A query
    in parentheses, after the AS of a WITH, is none."""
    match [token.word for token in tokens[index : index + 2]]:
        case ["(", *_]:
            return index
        case [_, "("] | ["ARRAY" | "MAP" | "STRUCT", "<"]:
            index += 1
        case _:
            return index + 1
    depth = 0
    for end, token in enumerate(tokens[index:], start=index + 1):
        depth += sum((sign in "(<") - (sign in ")>") for sign in token.word)
        if depth == 0:
            return end
    return len(tokens)


def _can_be_called(token: Token, before: str) -> bool:
    if token.word in _QUANTIFIERS:
        return before not in ("LIKE", "ILIKE")
    return token.is_name and (token.word not in _OPERATORS or before == ".")


def _qualified(tokens: Sequence[Token], index: int) -> str:
    first = index
    while first >= 2 and tokens[first - 1].word == ".":
        first -= 2
    return ".".join(token.name.lower() for token in tokens[first : index + 1 : 2])
