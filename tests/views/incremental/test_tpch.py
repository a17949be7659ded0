"""What is said of TPC-H."""

from __future__ import annotations

from tests.views.incremental.tpch import QUERIES
from tests.views.incremental.tpch_page import PAGE, page

INCREMENTAL_MIN = 22


def test_the_page_is_what_the_compiler_says() -> None:
    text = page()
    assert PAGE.read_text(encoding="utf-8") == text, (
        "run: .venv/bin/python -m tests.views.incremental.tpch_page --write"
    )
    assert text.count("| incrementally: ") >= INCREMENTAL_MIN
    assert text.count("\n| ") == 1 + len(QUERIES)
