"""A job in the middle of a step says what it does and for how long, and no figure that may be out of date."""

from __future__ import annotations

import json
from dataclasses import replace

from tidefill.cli.render.jobs import jobs_table
from tidefill.cli.render.lines import one_line
from tidefill.cli.render.numbers import lag
from tidefill.jobs.plain_json import as_json
from tidefill.jobs.status import DoingStatus, Status, status_json

FILLING = Status(
    name="revenue", kind="view", state="backfilling", share=0.5, rows=1000, rows_per_s=50.0, eta_s=20.0, version=7,
    waiting="", runs=True, failure=None, lag_versions=0, lag_s=0.0,
    doing=DoingStatus("fill", 12.0, 2, 100, ("0 .. 10", "10 .. 20")),
)  # fmt: skip


def test_what_is_done_comes_first() -> None:
    told = "revenue: backfilling 50 %, filling 2 chunks for 12 s, 50 rows/s, 1k rows, 20 s left"
    assert one_line(FILLING) == told
    assert "filling 2 chunks for 12 s" in jobs_table([FILLING], 80, colour=False)


def test_a_long_step_shows_no_rate() -> None:
    longer = replace(FILLING, rows_per_s=0.0, eta_s=None, doing=DoingStatus("both", 61.0, 1, longer=True))
    told = "revenue: backfilling 50 %, taking in changes and filling 1 chunk for 1 min 1 s, 1k rows"
    assert one_line(longer) == told


def test_a_lag_during_a_step_is_the_least_that_it_can_be() -> None:
    assert lag(2, 46.0, at_least=True) == "lag at least 2 versions, 46 s"
    assert lag(0, 0.0, at_least=True) == ""
    live = replace(FILLING, state="live", share=1.0, lag_versions=2, lag_s=46.0, doing=DoingStatus("forward", 42.0))
    assert one_line(live) == "revenue: live 100 %, taking in changes for 42 s, lag at least 2 versions, 46 s, version 7"


def test_json_tells_all_of_it() -> None:
    told = json.loads(as_json(status_json(FILLING)))
    assert told["doing"] == {
        "kind": "fill", "for_s": 12.0, "chunks": 2, "rows": 100, "ranges": ["0 .. 10", "10 .. 20"], "longer": False
    }  # fmt: skip
