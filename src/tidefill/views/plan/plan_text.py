"""A plan as text: its relations as lines for a person, and its statements as SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidefill.views.plan.plan import Strategy, ViewPlan
from tidefill.views.relations.relations import (
    Aggregate,
    Constant,
    Filter,
    FullJoin,
    Generated,
    InnerJoin,
    LeftJoin,
    Matched,
    Project,
    Relation,
    Scan,
    Top,
    Union,
    Windowed,
    below,
)

ANEW, ALL_ANEW, TAIL_ANEW = "affected groups anew", "all rows anew", "what follows the first changed row anew"
_BY_CHANGES = {
    Strategy.SUMS: "counts and sums",
    Strategy.TOP: "the changed rows with those that are there; all rows anew if they do not suffice",
}
FILTER = ("filter", "row by row")


def kept_fresh(how: str, reason: str) -> str:
    """How, and why not better."""
    return f"incrementally: {how}" + (f", because {reason}" if reason else "")


def filled(appends: bool, starts_empty: bool, whole_groups: bool) -> str:
    """What a chunk does to the view."""
    what = "each chunk holds whole groups and is" if whole_groups else "each chunk is"
    how = f"{what} appended" if appends else "each chunk is merged into what is there"
    return how if starts_empty else f"{how}; the first commit has what the view shows without any chunk"


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a query, and how it takes in changes; of a table, which columns are read. What it reads comes after it,
    one deeper."""

    depth: int
    what: str
    how: str

    def __str__(self) -> str:
        return f"{'  ' * self.depth}{self.what}: {self.how}"


def nodes(plan: ViewPlan) -> Iterator[Node]:
    """The relations from the output down."""
    return _nodes(plan.root, 0, _BY_CHANGES.get(plan.strategy, ""))


def _nodes(relation: Relation, depth: int, by_changes: str) -> Iterator[Node]:
    """`by_changes`: how the last aggregate or LIMIT is kept by changes; empty if it is not, or if it is not below."""
    if isinstance(relation, Project):
        yield from _nodes(relation.child, depth, by_changes)
        return
    what, how = _what_and_how(relation, by_changes)
    yield Node(depth, what, how)
    for part in below(relation):
        yield from _nodes(part, depth + 1, by_changes if isinstance(relation, Filter) else "")


def _what_and_how(relation: Relation, by_changes: str) -> tuple[str, str]:
    match relation:
        case Project():
            raise AssertionError("it shows what is below it, and is no node")
        case Scan():
            return f"{relation.table} as {relation.occurrence}", ", ".join(relation.sources)
        case Constant():
            return f"{len(relation.rows)} rows of the query", "they never change"
        case Filter():
            return FILTER
        case Generated():
            return "rows made of each row", "row by row"
        case InnerJoin():
            return f"join of {len(relation.inputs)}", "the changed rows of each with the others"
        case LeftJoin():
            return "left join", "changed left rows; affected rows anew if the right side changed"
        case FullJoin():
            return "full join", "changed rows; affected rows anew if the other side changed"
        case Matched():
            name = "no match" if relation.negated else "a match"
            return f"rows with {name}", "changed rows; affected rows anew if the other side changed"
        case Aggregate():
            what = f"groups by {len(relation.groups)}" if relation.groups else "one row of aggregates"
            return what, by_changes or ANEW
        case Windowed():
            if relation.types:
                return "windows over all rows", TAIL_ANEW
            if not relation.partition:
                return "windows over all rows", ALL_ANEW
            return f"windows by {len(relation.partition)}", "affected partitions anew"
        case Top():
            what = f"first {relation.rows} rows" + (f" after {relation.skipped}" if relation.skipped else "")
            return what, by_changes or ALL_ANEW
        case Union():
            return f"union of {len(relation.children)}", "the changed rows of each"


def sql(plan: ViewPlan) -> str:
    """The statements: the view from nothing, and what changes of all of its inputs do to it."""
    inputs = [
        f"-- __tf_new_{number}, __tf_old_{number}, __tf_delta_{number}: {scan.table} as {scan.occurrence}"
        for number, scan in enumerate(plan.scans)
    ]
    changes = plan.changes([scan.occurrence for scan in plan.scans])
    parts = ["-- from nothing", *inputs, plan.whole().sql(dialect="spark", pretty=True)]
    for stage in changes.stages:
        parts += [f"-- {stage.name}", stage.query.sql(dialect="spark", pretty=True)]
    parts += ["-- changes", changes.last.sql(dialect="spark", pretty=True)]
    return "\n".join(parts)
