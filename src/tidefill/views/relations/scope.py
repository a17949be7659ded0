"""What a name in a query means: a column of something in FROM, or of the query around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidefill.errors import BadSql, UnsupportedQuery
from tidefill.views.relations.texts import HIDDEN, Expr, col


@dataclass(frozen=True, slots=True)
class Source:
    """Something in FROM: the alias it goes by, and its columns by the names that the query may use. `merged`: those
    that USING put into one with others, and that are found only with the alias before them; in small letters.
    `starred`: whether a star shows them."""

    alias: str
    columns: tuple[tuple[str, str], ...]
    merged: frozenset[str] = frozenset()
    starred: bool = True

    def find(self, written: str) -> list[str]:
        return [inner for shown, inner in self.columns if shown.casefold() == written.casefold()]

    def find_bare(self, written: str) -> list[str]:
        """Without an alias before it."""
        return [] if written.casefold() in self.merged else self.find(written)


@dataclass(frozen=True, slots=True)
class Scope:
    """All of FROM, and the scope around it. Capitals make no difference. `beyond`: one around it that is out of reach,
    because a row in here is not one of FROM: it is one of groups, or of a union."""

    sources: tuple[Source, ...]
    outer: Scope | None = None
    beyond: Scope | None = None

    def resolved(self, tree: Expr) -> Expr:
        """The expression over our own names. BadSql for a name that means nothing, or two things."""
        return tree.copy().transform(lambda node: self._column(node) if isinstance(node, exp.Column) else node)

    def star(self, alias: str = "") -> Iterator[tuple[str, str]]:
        """What `*` or `alias.*` stands for."""
        chosen = [source for source in self.sources if not alias or source.alias.casefold() == alias.casefold()]
        if not chosen:
            raise _unknown(f"{alias}.*")
        if alias and any(source.merged for source in chosen):
            raise UnsupportedQuery(f"{alias}.* has columns that USING merged", hint="Name the columns.")
        return (
            (shown, inner)
            for source in chosen
            for shown, inner in source.columns
            if source.starred and not shown.startswith(HIDDEN) and shown.casefold() not in source.merged
        )

    def has(self, written: str) -> bool:
        """Whether a name without a qualifier is a column of FROM itself."""
        return any(source.find_bare(written) for source in self.sources)

    def _column(self, node: exp.Column) -> Expr:
        parts = [part.name for part in node.parts]
        _refuse_parameter(node, parts[0])
        inner, fields = self._found(parts)
        tree: Expr = col(inner)
        for field in fields:
            tree = exp.Dot(this=tree, expression=exp.to_identifier(field, quoted=True))
        return tree

    def _found(self, parts: Sequence[str]) -> tuple[str, Sequence[str]]:
        """The column, and which of its fields is meant: `a.b` is column b of a, or field b of column a."""
        if len(parts) > 1 and (source := self._source(parts[0])) is not None and source.find(parts[1]):
            return _one(source.find(parts[1]), ".".join(parts)), parts[2:]
        found = [inner for source in self.sources for inner in source.find_bare(parts[0])]
        if found:
            return _one(found, ".".join(parts)), parts[1:]
        if self.outer is not None:
            return self.outer._found(parts)
        if self.beyond is not None:
            self.beyond._found(parts)
            raise _out_of_reach(".".join(parts))
        raise _unknown(".".join(parts))

    def _source(self, alias: str) -> Source | None:
        return next((source for source in self.sources if source.alias.casefold() == alias.casefold()), None)


def _refuse_parameter(node: exp.Column, written: str) -> None:
    """A parameter of a lambda that is written with other capitals is that parameter to Spark, and a column to us."""
    around = node.find_ancestor(exp.Lambda)
    while around is not None:
        if any(parameter.name.casefold() == written.casefold() for parameter in around.expressions):
            raise UnsupportedQuery(f"{written} is a parameter, written in two ways", hint="Write it in one way.")
        around = around.find_ancestor(exp.Lambda)


def _one(found: Sequence[str], written: str) -> str:
    if len(found) > 1:
        raise BadSql(f"column {written} is ambiguous", hint="Put the alias of its table in front of it.")
    return found[0]


def _out_of_reach(written: str) -> UnsupportedQuery:
    return UnsupportedQuery(
        "a subquery with groups, DISTINCT, windows, UNION or LIMIT refers to the query around it",
        detail=f"{written} is a column of the query around it.",
        hint="Put the groups into a query in its FROM, by the column that ties the two as well, and compare around it: "
        "EXISTS (SELECT 1 FROM (SELECT k FROM t GROUP BY k HAVING count(*) > 1) s WHERE s.k = a.k).",
    )


def _unknown(written: str) -> BadSql:
    return BadSql(
        f"there is no column {written} in FROM",
        hint="Names given with AS can be used in GROUP BY and HAVING, and by a query around this one.",
    )
