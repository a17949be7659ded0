"""Which parts of a query are known: all others are refused, with what to write in their place."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from tidefill.errors import UnsupportedQuery


def refuse_others(tree: exp.Expr, known: Collection[str]) -> None:
    """All parts but those."""
    for part, value in tree.args.items():
        if value and part.rstrip("_") not in known:
            fact, hint = _OTHERS.get(part.rstrip("_"), (f"a clause is not known ({part})", "Leave it out."))
            raise refused(tree, fact, hint)


GROUPING_SETS = ("the query groups in several ways", "Write a UNION ALL of queries with GROUP BY.")
_READER = "Leave it out here, and apply it where the view is read."
_OTHERS = {
    "limit": ("the query takes only some rows (LIMIT)", _READER),
    "offset": ("the query takes only some rows (OFFSET)", _READER),
    "sample": ("the query takes a sample of the rows", _READER),
    "windows": ("a subquery without window functions has WINDOW", "Leave it out."),
    "qualify": ("the query has QUALIFY", "Put the window function into a query in FROM, and the condition around it."),
    "laterals": ("the query can make several rows out of one (LATERAL)", "Explode where the view is read."),
    "pivots": ("the query turns rows into columns (PIVOT)", _READER),
    "version": ("the query reads one version of a table", "Leave it out: the view follows the table."),
    "rollup": ("the query groups in several ways (ROLLUP)", "Write a UNION ALL of queries with GROUP BY."),
    "cube": ("the query groups in several ways (CUBE)", "Write a UNION ALL of queries with GROUP BY."),
    "grouping_sets": GROUPING_SETS,
    "all": ("the groups are not named (GROUP BY ALL)", "Name them."),
    "except": ("a star is changed (EXCEPT)", "Name the columns that the view shall have."),
    "replace": ("a star is changed (REPLACE)", "Name the columns that the view shall have."),
}


def refuse_qualify(tree: exp.Expr) -> None:
    """It is written anew as a query in FROM, which Spark could not take for the same."""
    for clause in tree.find_all(exp.Qualify):
        raise refused(clause, *_OTHERS["qualify"])


def refused(tree: exp.Expr, fact: str, hint: str) -> UnsupportedQuery:
    return UnsupportedQuery(fact, detail=shown_as(tree), hint=hint)


def shown_as(tree: exp.Expr) -> str:
    try:
        text = " ".join(tree.sql(dialect="spark").split())
    except (ValueError, TypeError, AttributeError):
        return type(tree).__name__
    return text if len(text) <= 80 else text[:77] + "..."
