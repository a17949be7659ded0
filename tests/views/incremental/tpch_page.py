"""docs/tpch.md is what the compiler says of TPC-H: `python -m tests.views.incremental.tpch_page --write` renews it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.views.incremental.pages import cells, planned
from tests.views.incremental.tpch import INCREMENTAL, QUERIES, TABLES
from tests.views.incremental.world import connected
from tidefill.errors import UnsupportedQuery

PAGE = Path(__file__).parents[3] / "docs" / "tpch.md"
ROWS = {
    "region": 5, "nation": 25, "supplier": 10_000, "part": 200_000, "partsupp": 800_000, "customer": 150_000,
    "orders": 1_500_000, "lineitem": 6_000_000,
}  # fmt: skip
HEAD = """# TPC-H as views

How each of the 22 queries would be kept fresh, with what is walked at scale 1, if it is walked along its key. ORDER BY
and LIMIT are left out: they belong to whoever reads the view. (This page is made from what the compiler says, by
`python -m tests.views.incremental.tpch_page --write`.)

What a small change costs differs: when a ten thousandth of the orders goes, in one place, a step of queries
{little} reads less than a fifth of what the query reads, and a step of the
others more, some of them more than the query ([measured](../benchmarks/RESULTS-tpch.md)).

| query | kept fresh | walked | filled |
|---|---|---|---|"""


def lines() -> Iterator[str]:
    """The page."""
    yield HEAD.format(little=", ".join(map(str, INCREMENTAL)))
    with connected(TABLES.values()) as connection:
        for number, sql in QUERIES.items():
            try:
                plan = planned(sql, TABLES, connection)
            except UnsupportedQuery as refused:
                yield f"| {number} | refused: {refused.fact} | | |"
                continue
            yield f"| {number} | {' | '.join(cells(plan, TABLES, ROWS))} |"


def page() -> str:
    """The text of docs/tpch.md."""
    return "\n".join(lines()) + "\n"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    PAGE.write_text(page(), encoding="utf-8")
