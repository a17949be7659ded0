"""What a program reads: JSON of any value and of a status."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum

import pytest

from tests.cli.render.examples import FAILED, FILLING
from tidefill.core.budget import BUDGET
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.plain_json import as_json
from tidefill.jobs.row import LOG_LIMIT
from tidefill.jobs.status import status_json


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: object
    a: object = None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Point((1, 2.5)), '{"a": null, "x": [1, 2.5]}'),
        (Decimal("1.50"), '"1.50"'),
        (date(2024, 1, 2), '"2024-01-02"'),
        (datetime(2024, 1, 2, 3, tzinfo=UTC), '"2024-01-02T03:00:00+00:00"'),
        (b"\x00\xff", '"AP8="'),
        ([float("nan"), float("inf"), float("-inf")], '["NaN", "Infinity", "-Infinity"]'),
        ({2: True, "1": None}, '{"1": null, "2": true}'),
        ({"b", "a"}, '["a", "b"]'),
        (Colour.RED, '"red"'),
        ("é", '"\\u00e9"'),
        (Life, "\"<enum 'Life'>\""),
    ],
)
def test_json(value: object, text: str) -> None:
    assert as_json(value) == text


def test_a_status_as_json() -> None:
    data = status_json(FAILED)
    assert (data["name"], data["percent"], data["failure"]["code"]) == ("customers", 13, "KEY_NOT_UNIQUE")
    settings = {"parallelism": 1, "rate_limit": None, "chunk_rows": None, "target_lag_s": 0.0, "verify": True}
    assert data["settings"] == {
        **settings,
        "wal_budget": BUDGET,
        "wal_limit": None,
        "steps_only": False,
        "vacuum": True,
        "wait_timeout_s": None,
        "abort_waiting": False,
        "deferred": False,
        "log_limit": LOG_LIMIT,
        "sort": "",
    }
    assert data["log_bytes"] is None
    assert json.loads(as_json(status_json(FILLING)))["splits"][1] == {
        "range": "1000000 .. 2000000",
        "reached": "up to 1400000",
        "share": 0.4,
    }
