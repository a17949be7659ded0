"""How large chunks get, under several laws of what a fill costs."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.sizing import (
    CEILING_ROWS,
    FIRST_ROWS,
    FIRST_ROWS_MAX,
    LIMITED_S,
    START_ROWS,
    TARGET_S,
    Sizing,
    after_fill,
    after_trouble,
    chunk_rows,
    first_rows,
    whole_rows,
)

BILLION = 10**9


def fills(rows: int, cost_s: Callable[[int], float], sizing: Sizing | None = None) -> list[int]:
    """The sizes of the chunks that a table of so many rows is filled by."""
    sizing, sizes = sizing or Sizing(), list[int]()
    while rows > 0:
        sizes.append(sizing.rows)
        rows -= sizing.rows
        sizing = after_fill(sizing, cost_s(sizing.rows))
    return sizes


def test_it_starts_small_and_doubles_while_quick() -> None:
    assert fills(150_000, lambda rows: 1.0) == [10_000, 20_000, 40_000, 80_000]


def test_it_stays_near_the_target_time() -> None:
    sizes = fills(10**8, lambda rows: 1 + rows / 50_000)
    assert max(1 + rows / 50_000 for rows in sizes) < 2 * TARGET_S
    assert max(sizes) == 1_280_000


# R40
@pytest.mark.parametrize("fixed_s", [0.1, 19.0, 20.0, 21.0, 30.0, 600.0])
def test_a_large_fixed_cost_does_not_keep_chunks_small(fixed_s: float) -> None:
    assert len(fills(BILLION, lambda rows: fixed_s + rows / 10**6)) < 300


def test_a_first_chunk_has_as_many_rows_as_two_cores_write_in_its_time() -> None:
    assert first_rows(10_000_000, 417 << 20) > 10_000_000, "a hundred bytes a row"
    assert first_rows(10_000_000, 10 << 30) == 500_000, "a kilobyte a row"
    assert first_rows(1_000, 10 << 30) == START_ROWS
    assert first_rows(10**9, 1 << 30) == FIRST_ROWS_MAX
    assert first_rows(0, 0) == first_rows(0, 1000) == FIRST_ROWS, "nothing is known"


def test_how_much_is_taken_in_at_once() -> None:
    assert whole_rows(Sizing(rows=7), None) == 7
    assert whole_rows(Sizing(rows=7, whole_rows=90), None) == 90
    assert whole_rows(Sizing(rows=7, whole_rows=90), 1000) == 0, "a limit counts the rows of chunks"
    for fixed in (False, True):
        assert whole_rows(after_trouble(Sizing(rows=7, whole_rows=90, fixed=fixed)), None) == 0, "not tried again"


def test_a_slow_first_fill_is_forgiven() -> None:
    """The first fill pays for what is started then: it says little about the ones to come."""
    sizing = after_fill(Sizing(), 45.0)
    assert sizing.rows == 2 * START_ROWS
    assert after_fill(sizing, 3.0).rows == 4 * START_ROWS


def test_a_size_that_costs_what_it_is_worth_stays() -> None:
    sizing = after_fill(after_fill(Sizing(), 15.0), 29.0)
    assert sizing.rows == 2 * START_ROWS
    assert after_fill(sizing, 29.0).rows == 2 * START_ROWS


def test_trouble_halves_and_success_grows_again() -> None:
    sizing = after_trouble(Sizing(rows=80_000))
    assert sizing.rows == 40_000
    assert after_trouble(Sizing(rows=1)).rows == 1
    assert after_fill(sizing, 1.0).rows == 80_000


def test_a_size_on_request_stays() -> None:
    fixed = Sizing(rows=7, fixed=True)
    assert after_fill(fixed, 0.1) == fixed
    assert after_trouble(fixed) == replace(fixed, whole_rows=0)


def test_a_rate_limit_bounds_a_chunk() -> None:
    assert chunk_rows(Sizing(rows=10_000), None) == 10_000
    assert chunk_rows(Sizing(rows=10_000), 100) == 100 * LIMITED_S
    assert chunk_rows(Sizing(rows=10_000), 10**6) == 10_000
    assert chunk_rows(Sizing(rows=10_000), 0) == 10_000, "nothing is filled, so nothing is bounded"


@given(st.lists(st.one_of(st.none(), st.floats(0, 1000)), max_size=40), st.integers(START_ROWS, CEILING_ROWS))
def test_sizes_stay_within_their_bounds(history: list[float | None], ceiling: int) -> None:
    """None in the history is trouble."""
    sizing = Sizing(ceiling_rows=ceiling)
    for took_s in history:
        before = sizing.rows
        sizing = after_trouble(sizing) if took_s is None else after_fill(sizing, took_s)
        assert 1 <= sizing.rows <= ceiling
        assert before // 2 <= sizing.rows <= 2 * before


# R40
@given(st.floats(0, 100), st.floats(1e-8, 1e-4))
def test_no_law_of_cost_makes_more_fills_than_it_must(fixed_s: float, row_s: float) -> None:
    """Either chunks reach the ceiling, or a chunk takes a good part of the target time for its rows alone."""
    sizes = fills(BILLION // 10, lambda rows: fixed_s + rows * row_s)
    if len(sizes) > 40:
        largest = max(sizes)
        assert largest == CEILING_ROWS or largest * row_s > TARGET_S / 4


@given(st.integers(1, 10**7), st.one_of(st.none(), st.integers(0, 10**9)))
def test_a_chunk_has_a_row_and_no_more_than_its_size(rows: int, rate_limit: int | None) -> None:
    assert 1 <= chunk_rows(Sizing(rows=rows), rate_limit) <= rows
