"""New names for the columns and tables of a query, and the types of its columns."""

from __future__ import annotations

from sqlglot import exp

from tidefill.views.relations import keys
from tidefill.views.relations.texts import Expr, cast


class Names:
    """The names that one query has taken. `types`: of the columns whose types are known."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self.types: dict[str, str] = {}

    def fresh(self, wish: str) -> str:
        """A name that nobody has, whatever the capitals."""
        name, count = wish, 1
        while name.casefold() in self._taken:
            count += 1
            name = f"{wish}_{count}"
        self._taken.add(name.casefold())
        return name

    def taken(self) -> tuple[frozenset[str], dict[str, str]]:
        """What is taken now, to come back to it."""
        return frozenset(self._taken), dict(self.types)

    def give_back(self, taken: tuple[frozenset[str], dict[str, str]]) -> None:
        """Forget what was taken since then."""
        self._taken, self.types = set(taken[0]), dict(taken[1])

    def null(self, column: str) -> Expr:
        """In place of what the column holds."""
        kind = self.types.get(column)
        return cast(exp.null(), kind) if kind is not None and keys.is_plain(kind) else exp.null()

    def like(self, column: str) -> str:
        """A new name for what another column holds."""
        name = self.fresh(column)
        if column in self.types:
            self.types[name] = self.types[column]
        return name
