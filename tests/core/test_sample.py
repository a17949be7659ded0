"""Where a sample says that a table should be cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.keys import Key
from tidefill.core.sample import Sample
from tidefill.core.walk import Split

ALL = Split(None, None)


def sample(keys: int, rows_per_key: int = 1) -> Sample:
    return Sample(tuple(Key((number,)) for number in range(keys)), keys * rows_per_key)


def cut(keys: int, stride: int) -> list[int]:
    """How many of so many keys each chunk has."""
    found = sample(keys)
    ends = [-1, *(found.keys.index(bound) for bound in found.bounds(ALL, stride)), keys - 1]
    return [upto - after for after, upto in pairwise(ends)]


def test_chunks_are_even_but_for_the_last() -> None:
    assert cut(100, 30) == [30, 30, 30, 10]
    assert cut(90, 30) == [30, 30, 30]
    assert cut(5, 30) == [5]


def test_a_last_chunk_of_hardly_any_rows_is_none() -> None:
    assert cut(93, 30) == [30, 30, 33]
    assert cut(94, 30) == [30, 30, 30, 4]


def test_a_key_stands_for_many_rows() -> None:
    assert sample(100, rows_per_key=50).bounds(ALL, 2500) == [Key((49,))]


@given(st.integers(1, 300), st.integers(1, 300))
def test_every_key_is_in_a_chunk_and_no_chunk_is_much_too_large(keys: int, stride: int) -> None:
    chunks = cut(keys, stride)
    assert sum(chunks) == keys
    assert all(0 < rows <= stride * 1.1 for rows in chunks)
