"""docs/tpcds.md is what the compiler says of TPC-DS: `python -m tests.views.incremental.tpcds_page --write` renews
it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.tpcds.queries import QUERIES
from benchmarks.tpcds.tables import TABLES
from tests.views.incremental.pages import cells, planned
from tests.views.incremental.tpcds import connected_to_tpcds, spoken
from tidefill.errors import UnsupportedQuery
from tidefill.views.reading.dialect import Verbatim

PAGE = Path(__file__).parents[3] / "docs" / "tpcds.md"
ROWS = {
    "store_sales": 2_880_404, "store_returns": 287_514, "catalog_sales": 1_441_548, "catalog_returns": 144_067,
    "web_sales": 719_384, "web_returns": 71_763, "inventory": 11_745_000, "store": 12, "call_center": 6,
    "catalog_page": 11_718, "web_site": 30, "web_page": 60, "warehouse": 5, "customer": 100_000,
    "customer_address": 50_000, "customer_demographics": 1_920_800, "date_dim": 73_049,
    "household_demographics": 7_200, "item": 18_000, "income_band": 20, "promotion": 300, "reason": 35,
    "ship_mode": 20, "time_dim": 86_400,
}  # fmt: skip
"""At scale 1."""
UNNAMED = (
    "2", "8", "13", "14a", "15", "16", "23a", "32", "35", "38", "42", "45", "48", "50", "59", "61", "62", "79", "85",
    "87", "92", "94", "95", "96", "99",
)  # fmt: skip
"""Those of which Spark's own names for some columns are none for Delta."""
HEAD = """# TPC-DS as views

How each of the 103 texts that Spark tests itself with ([where they are from](../benchmarks/tpcds/README.md)) would be
kept fresh, with what is walked at scale 1, if it is walked along its key. {taken} of them are
incremental. Where a text has ORDER BY and LIMIT, the view has its first rows. {unnamed} of the texts show a
column that Delta cannot name, as `sum(x)` or one with a blank: CREATE asks for another name (AS) there. (This page is
made from what the compiler says, by `python -m tests.views.incremental.tpcds_page --write`. A quotient of decimals is a
decimal there, as Spark has it.)

| query | kept fresh | walked | filled |
|---|---|---|---|"""


def lines() -> Iterator[str]:
    """The lines of the table."""
    with connected_to_tpcds() as connection:
        for name, sql in QUERIES.items():
            try:
                plan = planned(spoken(sql).sql(dialect=Verbatim), TABLES, connection)
                refuse_one_name_for_two(plan.columns)
            except UnsupportedQuery as refused:
                yield f"| {name} | refused: {refused.fact} | | |"
                continue
            yield f"| {name} | {' | '.join(cells(plan, TABLES, ROWS))} |"


def refuse_one_name_for_two(columns: Sequence[str]) -> None:
    """As CREATE does, for no table can have such columns."""
    twice = [name for name, count in Counter(map(str.casefold, columns)).items() if count > 1]
    if twice:
        raise UnsupportedQuery(f"two columns are named {twice[0]}")


def page() -> str:
    """The text of docs/tpcds.md."""
    table = list(lines())
    taken = sum("| incrementally: " in line for line in table)
    return "\n".join([HEAD.format(taken=taken, unnamed=len(UNNAMED)), *table]) + "\n"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    PAGE.write_text(page(), encoding="utf-8")
