"""EXPLAIN says that a small input is computed at once, in the cases in which the planner does that."""

from __future__ import annotations

from dataclasses import replace

from tests.delta.test_explain_document import (
    GROUPS,
    ORDERS,
    ROW_WISE,
    V,
    compiled,
    read,
    told,
)
from tidefill.delta.explain_document import explanation, facts
from tidefill.delta.explain_result import Explained
from tidefill.delta.inputs import Size
from tidefill.jobs.row import Settings

AT_ONCE = "at once, by one query over all rows"


def test_a_small_view_is_not_said_to_be_merged() -> None:
    for small in (compiled(GROUPS, a=10, b=20), replace(ROW_WISE, rows=70, inputs=(Size("events", 70, 2000),))):
        assert read(small)["filled"] == AT_ONCE
        assert read(small)["rows in a chunk"] == "all of them, by one query"
        assert told(small).at_once


def test_a_chunk_size_that_holds_all_rows_does_the_same() -> None:
    small = compiled(GROUPS, a=10, b=20)
    assert read(small, 20)["filled"] == AT_ONCE
    assert read(small, 20)["rows in a chunk"] == "all of them, by one query"
    assert read(small, 19)["filled"] == "each chunk is merged into what is there"
    assert read(small, 19)["rows in a chunk"] == "19"


def test_under_a_rate_limit_it_goes_by_chunks() -> None:
    small = compiled(GROUPS, a=10, b=20)
    limited = explanation("x", small, Settings(rate_limit=5), with_sql=False)
    assert not limited.at_once
    assert dict(facts(limited, small.definition))["filled"] == "each chunk is merged into what is there"


def test_what_a_server_has_and_what_is_large_goes_by_chunks() -> None:
    server = Explained(ORDERS, True, 70, V, inputs=(Size("shop.public.orders", 70),))
    for other in (server, ROW_WISE, compiled(GROUPS, a=1_000, b=20_000_001)):
        assert not told(other).at_once
        assert str(read(other)["filled"]).startswith("each chunk is")
