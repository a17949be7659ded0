"""What a plan will do, for a person to read."""

from __future__ import annotations

from collections.abc import Iterator

from tidefill.views.drivers import Drivers
from tidefill.views.plan import Strategy, ViewPlan
from tidefill.views.relations import (
    Aggregate,
    Filter,
    InnerJoin,
    LeftJoin,
    Matched,
    Project,
    Relation,
    Scan,
    Union,
    Windowed,
    below,
)

ANEW = "affected groups anew"


def kept_fresh(plan: ViewPlan) -> str:
    """How, and why not better."""
    return f"incrementally: {plan.strategy.value}" + (f", because {plan.reason}" if plan.reason else "")


def filled(drivers: Drivers) -> str:
    """What a chunk does to the view."""
    what = "each chunk holds whole groups and is" if drivers.group_columns else "each chunk is"
    how = f"{what} appended" if drivers.appends else "each chunk is merged into what is there"
    return how if drivers.starts_empty else f"{how}; the first commit has what the view shows without any chunk"


def nodes(plan: ViewPlan) -> Iterator[str]:
    """The relations from the output down, a line each, with how each takes in changes."""
    of_last_aggregate = "counts and sums" if plan.strategy is Strategy.SUMS else ANEW
    return _nodes(plan.root, 0, of_last_aggregate, on_top=True)


def _nodes(relation: Relation, depth: int, of_last_aggregate: str, *, on_top: bool) -> Iterator[str]:
    line = _line(relation, of_last_aggregate if on_top else ANEW)
    if line:
        yield "  " * depth + line
    on_top = on_top and isinstance(relation, Project | Filter)
    for part in below(relation):
        yield from _nodes(part, depth + bool(line), of_last_aggregate, on_top=on_top)


def _line(relation: Relation, of_aggregate: str) -> str:
    match relation:
        case Project():
            return ""
        case Scan():
            return f"{relation.table} as {relation.occurrence}: {', '.join(relation.sources)}"
        case Filter():
            return "filter: row by row"
        case InnerJoin():
            return f"join of {len(relation.inputs)}: the changed rows of each with the others"
        case LeftJoin():
            return "left join: changed left rows; affected rows anew if the right side changed"
        case Matched():
            name = "no match" if relation.negated else "a match"
            return f"rows with {name}: changed rows; affected rows anew if the other side changed"
        case Aggregate():
            what = f"groups by {len(relation.groups)}" if relation.groups else "one row of aggregates"
            return f"{what}: {of_aggregate}"
        case Windowed():
            return f"windows by {len(relation.partition)}: affected partitions anew"
        case Union():
            return f"union of {len(relation.children)}: the changed rows of each"


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
