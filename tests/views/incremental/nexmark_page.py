"""docs/nexmark.md is what the compiler says of Nexmark: `python -m tests.views.incremental.nexmark_page --write`
renews it."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.nexmark.events import AUCTIONS, BIDS, EPOCH, PEOPLE
from benchmarks.nexmark.queries import CHAINS, QUERIES, SHARED, SIDE_ROWS, TABLES
from tests.views.incremental.nexmark import columns_shown, world
from tests.views.incremental.pages import cells, planned
from tests.views.incremental.world import columns_of, connected
from tidefill.errors import UnsupportedQuery

PAGE = Path(__file__).parents[3] / "docs" / "nexmark.md"
EVENTS = 1_000_000
ROWS = {
    "person": EVENTS * PEOPLE // EPOCH, "auction": EVENTS * AUCTIONS // EPOCH, "bid": EVENTS * BIDS // EPOCH,
    "side_input": SIDE_ROWS, "winning_bids": EVENTS * AUCTIONS // EPOCH, "auction_counts": EVENTS * AUCTIONS // EPOCH,
    "window_prices": 10,
}  # fmt: skip
HEAD = """# Nexmark as views

Nexmark is an auction house: people register, sell things by auction, and bid. Its queries 0 to 22 are known from
streaming systems. Here each is a materialized view ([the texts](../benchmarks/nexmark/queries.py)) over Delta tables
that a generator of our own fills ([1 person, 3 auctions and 46 bids of 50 events](../benchmarks/nexmark/events.py)):
`person`, `auction`, `bid`, and a small one, `side_input`. A bid has a key of its own, which the published one has not.
No window is ever closed: a view has the windows of all bids that there are, and follows changes and deletes of them.

How each would be kept fresh, with what is walked if there are a million events and each table is walked along its key.
(This page is made from what the compiler says, by `python -m tests.views.incremental.nexmark_page --write`.)

| query | computes | kept fresh | walked | filled |
|---|---|---|---|---|"""
ABOVE = """
## As views on views

What several queries begin with, as a view by itself, and the queries as views over it:

| view | computes | kept fresh | walked | filled |
|---|---|---|---|---|"""
OTHERWISE = """
## Where a text differs from the published one
"""


def lines() -> Iterator[str]:
    """The page."""
    yield HEAD
    tables = dict(TABLES)
    with connected(TABLES.values()) as connection:

        def line(name: str, says: str, sql: str) -> str:
            try:
                told = cells(planned(sql, tables, connection), tables, ROWS)
            except UnsupportedQuery as refused:
                told = (f"refused: {refused.fact}", "", "")
            return f"| {name} | {says} | {' | '.join(told)} |"

        for number, query in QUERIES.items():
            yield line(str(number), query.says, query.sql)
        yield ABOVE
        for name, shared in SHARED.items():
            yield line(name, shared.says, shared.sql)
            view = columns_shown(world(shared.sql, random.Random(0), connection, TABLES), name)
            connection.execute(f"CREATE TABLE {name} ({columns_of(view)})")
            tables[name] = view
        for name, chain in CHAINS.items():
            yield line(name, f"query {chain.means}", chain.sql)
    yield OTHERWISE
    yield from (f"- Query {number}: {query.differs}" for number, query in QUERIES.items() if query.differs)


def page() -> str:
    """The text of docs/nexmark.md."""
    return "\n".join(lines()) + "\n"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    PAGE.write_text(page(), encoding="utf-8")
