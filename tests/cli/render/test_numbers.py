"""Counts and lags as a person reads them."""

import pytest

from tidefill.cli.render.numbers import count, lag


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (7, "7"), (0.45, "0.4"), (999, "999"), (999.9, "999"), (1000, "1k"), (12_345, "12.3k"),
     (999_999, "999k"), (1_234_567, "1.2M"), (5.5e9, "5.5G"), (10**13, "10T"), (2 * 10**15, "2P"),
     (float("nan"), "?"), (float("inf"), "?")],
)  # fmt: skip
def test_counts(value: float, shown: str) -> None:
    assert count(value) == shown


def test_lag() -> None:
    assert lag(2, 4.0) == "lag 2 versions, 4 s"
    assert (lag(1, None), lag(None, 61.0)) == ("lag 1 version", "lag 1 min 1 s")
    assert (lag(0, 0.0), lag(None, None)) == ("no lag", "")
