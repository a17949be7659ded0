"""docs/tpch.md is what the compiler says of TPC-H: `python -m tests.views.incremental.tpch_page --write` renews it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import sqlglot
from sqlglot import exp

from tests.views.incremental.tpch import INCREMENTAL, QUERIES, TABLES
from tests.views.incremental.world import columns_of, spark_type
from tidefill.errors import UnsupportedQuery
from tidefill.views.plan.drivers import choose
from tidefill.views.plan.plan import ViewPlan, compile_view
from tidefill.views.plan.plan_text import filled, kept_fresh
from tidefill.views.relations.relations import Scan

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


def planned(number: int, connection: duckdb.DuckDBPyConnection) -> ViewPlan:
    """The plan of a query; DuckDB tells the types."""
    tree = sqlglot.parse_one(QUERIES[number], read="spark")
    assert isinstance(tree, exp.Query)

    def types(query: exp.Query, scans: Sequence[Scan]) -> list[str]:
        for place, scan in enumerate(scans):
            made = columns_of(TABLES[scan.table])
            connection.execute(f'CREATE OR REPLACE TEMP TABLE "__tf_new_{place}" ({made})')
        return [spark_type(row[1]) for row in connection.execute(f"DESCRIBE {query.sql(dialect='duckdb')}").fetchall()]

    return compile_view(tree, lambda parts: TABLES[parts[0]], [item.alias_or_name for item in tree.selects], types)


def lines() -> Iterator[str]:
    """The page."""
    yield HEAD.format(little=", ".join(map(str, INCREMENTAL)))
    with duckdb.connect() as connection:
        for number in QUERIES:
            try:
                plan = planned(number, connection)
            except UnsupportedQuery as refused:
                yield f"| {number} | refused: {refused.fact} | | |"
                continue
            keys = {scan.occurrence: TABLES[scan.table].key for scan in plan.scans}
            rows = {scan.occurrence: ROWS[scan.table] for scan in plan.scans}
            drivers = choose(plan.root, rows, keys.__getitem__)
            kept = kept_fresh(plan.strategy.value, plan.reason)
            how = filled(drivers.appends, drivers.starts_empty, bool(drivers.group_columns))
            yield f"| {number} | {kept} | {', '.join(drivers.occurrences)} | {how} |"


def page() -> str:
    """The text of docs/tpch.md."""
    return "\n".join(lines()) + "\n"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    PAGE.write_text(page(), encoding="utf-8")
