"""A query in steps that have names, some of which are computed before others are planned."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidefill.errors import QueryTooLarge
from tidefill.views.plan import limits
from tidefill.views.relations.texts import col, number, select, table
from tidefill.views.relations.texts import name as name_of

COLUMNS_MAX = 100_000  # named in one statement: about 3 MB of SQL, which Spark takes a minute to plan


@dataclass(frozen=True, slots=True)
class Stage:
    """A query that is computed once and kept under its name for those after it; or, if it asks for `limits`, whose one
    row gives the constants of these names."""

    name: str
    query: exp.Query
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """Stages, in their order, then the last query."""

    stages: tuple[Stage, ...]
    last: exp.Query

    @property
    def queries(self) -> tuple[exp.Query, ...]:
        """All of them, in their order."""
        return (*(stage.query for stage in self.stages), self.last)


@dataclass(frozen=True, slots=True)
class _Step:
    """A query with a name, and the tables and columns that it names."""

    name: str
    query: exp.Query
    tables: frozenset[str]
    columns: frozenset[str]
    size: int


class Statement:
    """A query in steps that have names. It is ended once: then its steps are those of the query that is made."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._stages: set[str] = set()
        self._limits: dict[str, tuple[str, ...]] = {}
        self._asked: dict[str, list[str]] = {}
        self._asking: dict[str, int] = {}
        self._given: set[str] = set()
        self._size = 0

    def step(self, hint: str, query: exp.Query, *, stage: bool = False) -> str:
        """The step's name. A `stage` is small and asked for more than once, so it is worth keeping. QueryTooLarge if
        the steps come to more than a statement may be."""
        name = f"__tf_{len(self._steps)}_{hint}"
        self._steps.append(_step(name, query))
        self._size += self._steps[-1].size
        if self._size > COLUMNS_MAX:
            raise QueryTooLarge(
                "the query would be compiled into very large statements",
                detail=f"They would name columns more than {COLUMNS_MAX:,} times.",
                hint="Split it into several views that read each other, or use WITH (refresh = full).",
            )
        if stage:
            self._stages.add(name)
        return name

    def keep(self, step: str) -> str:
        """The step, which is computed once: it is small, costly, and asked for more than once."""
        self._stages.add(step)
        return step

    def limits(self, step: str, columns: Sequence[str], *, costly: bool) -> dict[str, limits.Ends]:
        """By which names the limits of these columns of a step are known. All that is asked of one step is asked at
        once. A step that is `costly` is kept for it."""
        if costly:
            self.keep(step)
        asked = self._asked.setdefault(step, [])
        if not asked:
            self._asking[step] = len(self._steps)
            self.step("limits", select([], table(step)), stage=True)
        asked += [column for column in columns if column not in asked]
        place = self._asking[step]
        name = self._steps[place].name
        self._steps[place] = _step(name, limits.asked(step, asked))
        ends = {column: limits.constants(name, index) for index, column in enumerate(asked)}
        self._limits[name] = tuple(end for both in ends.values() for end in both)
        return ends

    def any_of(self, step: str) -> exp.Column:
        """A constant: whether the step has rows. What is asked only where it has is not even read if it has none."""
        some = exp.GT(this=exp.Count(this=exp.Star()), expression=number(0))
        name = self.step("limits", select([("__tf_any", some)], table(step)), stage=True)
        self._limits[name] = (f"{name}_any",)
        return col(f"{name}_any")

    def ending(self, query: exp.Query) -> exp.Query:
        """The whole as one query, with those steps that it needs."""
        return self._with(_step("", query), frozenset())[0]

    def script(self, query: exp.Query) -> Script:
        """The whole in stages."""
        last, needed = self._with(_step("", query), self._stages)
        stages: list[Stage] = []
        for step in reversed(self._steps):
            if step.name in self._stages and step.name in needed:
                stage, more = self._with(step, self._stages)
                stages.append(Stage(step.name, stage, self._limits.get(step.name, ())))
                needed |= more
        return Script(tuple(reversed(stages)), last)

    def _with(self, last: _Step, apart: Collection[str]) -> tuple[exp.Query, set[str]]:
        """The query with the steps that it needs, but for those that are kept apart; and the names of all."""
        query, needed = self._tree(last), self._needed(last)
        kept: list[tuple[str, exp.Query]] = []
        for step in reversed(self._steps):
            if step.name in needed and step.name not in apart:
                needed |= self._needed(step)
                kept.append((step.name, self._tree(step)))
        if kept:
            ctes = [exp.CTE(this=step, alias=exp.TableAlias(this=name_of(name))) for name, step in reversed(kept)]
            query.set("with_", exp.With(expressions=ctes))
        return query, needed

    def _tree(self, step: _Step) -> exp.Query:
        """Of a step, to be put into a query. A tree can be in one place only."""
        if step.name in self._given:
            return step.query.copy()
        self._given.add(step.name)
        return step.query

    def _needed(self, step: _Step) -> set[str]:
        """The steps that it reads, and those whose limits it says."""
        limited = (name for name, known in self._limits.items() if not step.columns.isdisjoint(known))
        return {*step.tables, *limited}


def _step(name: str, query: exp.Query) -> _Step:
    tables: set[str] = set()
    columns: set[str] = set()
    size = 0
    for node in query.find_all(exp.Table, exp.Column):
        (tables if isinstance(node, exp.Table) else columns).add(node.name)
        size += 1
    return _Step(name, query, frozenset(tables), frozenset(columns), size)
