"""Spark's SQL as sqlglot reads it, but for calls: a function of which the compiler need not know anything stays what
the user wrote.

sqlglot knows hundreds of functions by what they mean in any dialect, and writes each in one way: `nvl` becomes
COALESCE, `date_sub(d, 1)` DATE_ADD with a factor, `percentile_cont` even another function. Spark could not tell that
the two mean the same.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

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
