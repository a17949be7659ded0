"""What a REPL and a notebook show of a result, and of what a job would do."""

from __future__ import annotations

from dataclasses import replace

from tests.engine.test_explaining import ROW_WISE
from tidefill.sql.execute import FACTS, Result

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


def test_what_a_job_would_do_reads_like_explain() -> None:
    shown = repr(ROW_WISE)
    assert "reads            events: about 12,000,000 rows, 1.5 GB\n" in shown
    assert "StructType" not in shown
    assert "<td>events: about 12,000,000 rows" in ROW_WISE._repr_html_()
    loud = replace(ROW_WISE, notices=(SHOUT,))
    assert "<script>" not in loud._repr_html_()
