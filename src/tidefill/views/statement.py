"""A query in steps that have names, some of which are computed before others are planned."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidefill.views import limits
from tidefill.views.texts import col, number, select, table
from tidefill.views.texts import name as name_of


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


class Statement:
    """A query in steps that have names."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, exp.Query]] = []
        self._stages: set[str] = set()
        self._limits: dict[str, tuple[str, ...]] = {}
        self._asked: dict[str, list[str]] = {}
        self._asking: dict[str, int] = {}

    def step(self, hint: str, query: exp.Query, *, stage: bool = False) -> str:
        """The step's name. A `stage` is small and asked for more than once, so it is worth keeping."""
        name = f"__tf_{len(self._steps)}_{hint}"
        self._steps.append((name, query))
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
        name = self._steps[place][0]
        self._steps[place] = name, limits.asked(step, asked)
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
        return self._with(query, frozenset())[0]

    def script(self, query: exp.Query) -> Script:
        """The whole in stages."""
        last, needed = self._with(query, self._stages)
        stages: list[Stage] = []
        for name, step in reversed(self._steps):
            if name in self._stages and name in needed:
                stage, more = self._with(step.copy(), self._stages)
                stages.append(Stage(name, stage, self._limits.get(name, ())))
                needed |= more
        return Script(tuple(reversed(stages)), last)

    def _with(self, query: exp.Query, apart: Collection[str]) -> tuple[exp.Query, set[str]]:
        """The query with the steps that it needs, but for those that are kept apart; and the names of all."""
        needed = self._names(query)
        kept: list[tuple[str, exp.Query]] = []
        for name, step in reversed(self._steps):
            if name in needed and name not in apart:
                needed |= self._names(step)
                kept.append((name, step.copy()))
        if kept:
            ctes = [exp.CTE(this=step, alias=exp.TableAlias(this=name_of(name))) for name, step in reversed(kept)]
            query.set("with_", exp.With(expressions=ctes))
        return query, needed

    def _names(self, query: exp.Query) -> set[str]:
        """The steps that it reads, and those whose limits it says."""
        said = {column.name for column in query.find_all(exp.Column)} if self._limits else set()
        limited = {name for name, known in self._limits.items() if not said.isdisjoint(known)}
        return {found.name for found in query.find_all(exp.Table)} | limited
