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


_READER = "Leave it out here, and apply it where the view is read."
_OTHERS = {
    "limit": ("the query takes only some rows (LIMIT)", _READER),
    "offset": ("the query takes only some rows (OFFSET)", _READER),
    "sample": ("the query takes a sample of the rows", _READER),
    "windows": ("a subquery without window functions has WINDOW", "Leave it out."),
    "laterals": ("the query can make several rows out of one (LATERAL)", "Explode where the view is read."),
    "pivots": ("the query turns rows into columns (PIVOT)", _READER),
    "version": ("the query reads one version of a table", "Leave it out: the view follows the table."),
    "all": ("the groups are not named (GROUP BY ALL)", "Name them."),
    "except": ("a star is changed (EXCEPT)", "Name the columns that the view shall have."),
    "replace": ("a star is changed (REPLACE)", "Name the columns that the view shall have."),
}


def refused(tree: exp.Expr, fact: str, hint: str) -> UnsupportedQuery:
    return UnsupportedQuery(fact, detail=shown_as(tree), hint=hint)


def shown_as(tree: exp.Expr) -> str:
    try:
        text = " ".join(tree.sql(dialect="spark").split())
    except (ValueError, TypeError, AttributeError):
        return type(tree).__name__
    return text if len(text) <= 80 else text[:77] + "..."
