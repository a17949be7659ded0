"""Spark's SQL as sqlglot reads it, but for calls: a function of which the compiler need not know anything stays what
the user wrote.

sqlglot knows hundreds of functions by what they mean in any dialect, and writes each in one way: `nvl` becomes
COALESCE, `date_sub(d, 1)` DATE_ADD with a factor, `percentile_cont` even another function. Spark could not tell that
the two mean the same. For the same reason QUALIFY and `<=>` are written as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp, transforms
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser

from tidefill.errors import BadInput
from tidefill.views.relations.windows import ONLY_OVER

_KNOWN: tuple[type[exp.Func], ...] = (
    exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Quantile, exp.Median, exp.LogicalOr,
    exp.LogicalAnd, exp.ApproxDistinct, exp.RegrCount, exp.First, exp.Last, exp.Coalesce, exp.If, exp.Abs, *ONLY_OVER,
)  # fmt: skip
_WITH_UNITS = frozenset({"DATEADD", "DATEDIFF", "TIMESTAMPADD", "TIMESTAMPDIFF"})  # a DAY in there is no column
_NAMES = frozenset(name for known in _KNOWN for name in known.sql_names()) - {"IFNULL", "NVL"} | _WITH_UNITS
_FORMS = frozenset({"CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "SUBSTRING", "OVERLAY", "PERCENTILE"})
"""Calls with words of their own between the parentheses."""


class Verbatim(Spark):
    """The dialect."""

    class Tokenizer(Spark.Tokenizer):
        """A quote in a string may be doubled."""

        STRING_ESCAPES: ClassVar = ["\\", "'", '"']

    class Parser(SparkParser):
        """Functions by name, of which few are known."""

        FUNCTIONS: ClassVar = {name: make for name, make in SparkParser.FUNCTIONS.items() if name in _NAMES}
        FUNCTION_PARSERS: ClassVar = {
            name: read for name, read in SparkParser.FUNCTION_PARSERS.items() if name in _FORMS
        }

        def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
            return super().parse(_with_window_calls(raw_tokens), sql)

    class Generator(SparkGenerator):
        """Spark has QUALIFY since 4.2."""

        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **SparkGenerator.TRANSFORMS,
            exp.Select: transforms.preprocess(
                [transforms.eliminate_distinct_on, transforms.unnest_to_explode, transforms.any_to_exists]
            ),
            exp.NullSafeEQ: lambda self, node: self.binary(node, "<=>"),
        }


class _Wrapping(Verbatim):
    """VALUES of FROM in parentheses."""

    class Generator(Verbatim.Generator):
        """The same, but for that."""

        WRAP_DERIVED_VALUES = True


@cache
def require_interpreted() -> None:
    """BadInput if sqlglot's classes are compiled: Python refuses to make an object of a class that extends one of them,
    and this dialect extends three."""
    try:
        Verbatim().parser()
    except TypeError as error:
        raise BadInput(
            "the compiled sqlglot that is installed cannot be extended",
            detail=f"sqlglotc: {error}",
            hint="pip uninstall sqlglotc (sqlglot itself stays, in Python)",
        ) from error


def spellings(tree: exp.Expr) -> Iterator[str]:
    """The texts that our parse of a query may stand for: it does not tell whether VALUES were in parentheses, and to
    Spark these are two plans."""
    yield tree.sql(dialect=Verbatim)
    if tree.find(exp.Values) is not None:
        yield tree.sql(dialect=_Wrapping)


def _with_window_calls(tokens: list[Token]) -> list[Token]:
    """WINDOW before a parenthesis is the function window(ts, '10 seconds'), and begins no WINDOW clause."""
    found = list(tokens)
    for index, (token, after) in enumerate(pairwise(tokens)):
        if token.token_type == TokenType.WINDOW and after.token_type == TokenType.L_PAREN:
            found[index] = Token(
                TokenType.VAR, token.text, token.line, token.col, token.start, token.end, token.comments
            )
    return found
