"""Sizes and durations as a person writes and reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.jobs.amounts import (
    GB,
    SIZE_UNITS,
    duration_text,
    interval_s,
    seconds_of,
    seconds_text,
    size_of,
    size_text,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [("10 GB", 10 * GB), ("1.5kB", 1536), (" 3 mb ", 3 << 20), ("2TB", 2 << 40), ("7 B", 7)],
)
def test_a_size_as_it_is_written(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "10", "GB", "-1 GB", "10 GiB", "10 GB 5 MB", "ten GB"])
def test_what_is_no_size(text: str) -> None:
    assert size_of(text) is None


@given(st.integers(0, 1 << 50))
def test_a_size_for_a_person_is_about_the_size(size: int) -> None:
    text = size_text(size)
    read = size_of(text)
    assert read is not None
    assert abs(read - size) <= SIZE_UNITS[text.split()[1]] * 0.051


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30 seconds", 30.0), ("1 second", 1.0), ("1.5 Minutes", 90.0), (" 2hours ", 7200.0), ("1 day", 86400.0)],
)
def test_a_duration_as_it_is_written(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "30", "seconds", "-1 seconds", "1 week", "1 minute 30 seconds"])
def test_what_is_no_duration(text: str) -> None:
    assert seconds_of(text) is None


@given(st.integers(0, 999_999))
def test_seconds_are_read_as_they_are_written(seconds: int) -> None:
    assert seconds_of(seconds_text(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("interval 7 days", 604800.0), ("INTERVAL 1 week 12 hours", 648000.0), ("interval 0.5 minute", 30.0), ("", 0.0)],
)
def test_intervals(text: str, seconds: float) -> None:
    assert interval_s(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-3, "0 s"), (0.4, "0 s"), (4, "4 s"), (60, "1 min"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (3601, "1 h"),
     (273_600, "3 d 4 h"), (float("inf"), "?")],
)  # fmt: skip
def test_durations(seconds: float, shown: str) -> None:
    assert duration_text(seconds) == shown
