"""The condition of a unique index, as its job's row keeps it."""

from __future__ import annotations

import pytest

from tidefill.jobs.condition import (
    Condition,
    Refused,
    condition_from_text,
    condition_of_commit,
    condition_to_text,
    told,
)

CLEAN, ONE, THREE = (Condition(violated, "uuid", 7) for violated in (0, 1, 3))


def test_it_survives_the_store_and_reads_well() -> None:
    assert [condition_from_text(condition_to_text(one)) for one in (CLEAN, THREE)] == [CLEAN, THREE]
    assert [str(one) for one in (CLEAN, ONE, THREE)] == ["", "VIOLATED (1 key)", "VIOLATED (3 keys)"]


def test_rows_that_are_refused_are_another_condition() -> None:
    refused = [Refused(rows) for rows in (0, 1, 2)]
    texts = [condition_to_text(one) for one in refused]
    assert [condition_from_text(text) for text in texts] == refused
    assert [condition_of_commit(text) for text in texts] == [None] * 3
    assert condition_of_commit(condition_to_text(THREE)) == THREE
    shown = ["", "VIOLATED (1 row without an entry)", "VIOLATED (2 rows without an entry)"]
    assert [str(one) for one in refused] == shown


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"violated": "3", "generation_uuid": "u", "step": 1}'])
def test_what_cannot_be_read_is_not_known(text: str) -> None:
    assert condition_from_text(text) is None


def test_only_a_turn_is_an_event() -> None:
    assert told(None, CLEAN) == told(CLEAN, CLEAN) == told(ONE, THREE) == ()
    assert told(None, THREE) == told(CLEAN, THREE)
    assert told(CLEAN, THREE)[0].startswith("VIOLATED (3 keys)")
    assert told(THREE, CLEAN) == ("clean again: no two rows have one key",)
