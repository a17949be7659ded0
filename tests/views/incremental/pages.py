"""What the compiler says of a query, as cells of a page's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import sqlglot
from sqlglot import exp

from tests.views.incremental.duck import in_duckdb
from tests.views.incremental.world import columns_of, spark_type
from tidefill.views.plan.drivers import choose
from tidefill.views.plan.plan import ViewPlan, compile_view
from tidefill.views.plan.plan_text import filled, kept_fresh
from tidefill.views.reading.dialect import Verbatim
from tidefill.views.relations.lowered import TableColumns
from tidefill.views.relations.relations import Scan


def planned(sql: str, tables: Mapping[str, TableColumns], connection: duckdb.DuckDBPyConnection) -> ViewPlan:
    """The plan of a query; DuckDB, which has the tables, tells names and types. Raises UnsupportedQuery."""
    tree = sqlglot.parse_one(sql, read=Verbatim)
    assert isinstance(tree, exp.Query)

    def columns(query: exp.Query) -> list[tuple[str, str]]:
        described = connection.execute(f"DESCRIBE {in_duckdb(query.copy())}").fetchall()
        return [(name, spark_type(kind)) for name, kind, *_ in described]

    def types(query: exp.Query, scans: Sequence[Scan]) -> list[str]:
        for place, scan in enumerate(scans):
            made = columns_of(tables[scan.table])
            connection.execute(f'CREATE OR REPLACE TEMP TABLE "__tf_new_{place}" ({made})')
        return [kind for _, kind in columns(query)]

    return compile_view(tree, lambda parts: tables[parts[0]], [name for name, _ in columns(tree)], types)


def cells(plan: ViewPlan, tables: Mapping[str, TableColumns], rows: Mapping[str, int]) -> tuple[str, str, str]:
    """How the view is kept fresh, what is walked if each table has so many rows, and how it is filled."""
    keys = {scan.occurrence: tables[scan.table].key for scan in plan.scans}
    drivers = choose(plan.root, {scan.occurrence: rows[scan.table] for scan in plan.scans}, keys.__getitem__)
    how = filled(drivers.appends, drivers.starts_empty, bool(drivers.group_columns))
    return kept_fresh(plan.strategy.value, plan.reason), ", ".join(drivers.occurrences), how
