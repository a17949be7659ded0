"""Which tests of a conformance suite run in `make test`, and which in `make full` only."""

from __future__ import annotations

import pytest

from tests.suites import marked


def a_row() -> None: ...


def a_key() -> None: ...


def test_what_is_not_always_run_is_marked_full() -> None:
    chosen = marked([a_row, a_key], {"a_row"})
    assert [(test.id, [mark.name for mark in test.marks]) for test in chosen] == [("a_row", []), ("a_key", ["full"])]


def test_a_name_that_the_suite_does_not_have_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no test in its suite: a_kez, a_tow"):
        marked([a_row, a_key], {"a_row", "a_tow", "a_kez"})
