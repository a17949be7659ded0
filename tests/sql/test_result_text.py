"""What a REPL and a notebook show of a result."""

from __future__ import annotations

from tidefill.sql.execute import FACTS
from tidefill.sql.result import Result

SHOUT = "<script>alert(1)</script>"


def test_rows_are_a_table() -> None:
    shown = Result(("job", "rows"), (("a", 1), ("longer", None)), "2 rows")
    assert repr(shown) == str(shown) == "job     rows\n------  ----\na       1\nlonger  NULL\n2 rows"


def test_a_message_is_itself() -> None:
    assert repr(Result(message="table events registered")) == "table events registered"
    assert repr(Result()) == "done"


def test_facts_go_over_several_lines() -> None:
    shown = repr(Result(FACTS, (("makes", "view x"), ("plan", "filter\n  scan"))))
    assert shown == "makes  view x\nplan   filter\n         scan"


def test_a_notebook_gets_markup_that_is_escaped() -> None:
    markup = Result((SHOUT, "n"), ((SHOUT, 1),), SHOUT)._repr_html_()
    assert "<table>" in markup
    assert "<script>" not in markup
    assert markup.count("&lt;script&gt;") == 3
