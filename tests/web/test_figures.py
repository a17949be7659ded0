"""What the pages are told, worked out from rows."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.cli.stores import row
from tests.web.stores import INDEX, JOIN, NODES, SPLITS, anchor, filling, key, live
from tidefill.core.progress import Progress
from tidefill.core.walk import DONE, NOT_STARTED, Upto
from tidefill.errors import UnknownJob
from tidefill.jobs.row import Doing, Job
from tidefill.jobs.steps import DoneStep
from tidefill.store.sql_store import SqlStore
from tidefill.web import figures
from tidefill.web.key_line import key_line
from tidefill.web.looking import Looking


def test_the_key_line_of_a_job_that_is_being_filled() -> None:
    line = key_line(filling("x", 1, 0.4, 0.0), works=True)
    assert [each.state for each in line] == [*["covered"] * 3, "being read", *["not yet"] * 4, "covered"]
    assert [each.filled for each in line[:3]] == [1.0] * 3
    assert line[3].filled == pytest.approx(0.2)
    assert [each.beyond for each in line] == [False] * SPLITS + [True]
    assert line[3].range == "3000 .. 4000"
    assert not any(each.reading for each in key_line(filling("x", 1, 0.4, 0.0), works=False))


def test_the_key_line_of_one_split_goes_by_the_rows() -> None:
    """The range of a table's only split has no beginning: how far it is, the share of rows tells."""
    job = row("x", anchor=anchor([NOT_STARTED]), progress=Progress(1, 0.25, 10, 1.0, None))
    assert [each.filled for each in key_line(job, works=False)] == [0.0, 1.0]
    partly = replace(job, anchor=anchor([Upto(key(400))]))
    first, last = key_line(partly, works=False)
    assert (first.filled, first.guessed, first.state) == (0.25, True, "covered in part")
    assert (last.filled, last.guessed) == (1.0, False)


@pytest.mark.parametrize("text", ["", "no json", '{"form": 99}', '{"index": "i", "state": "MERGING"}'])
def test_a_state_that_cannot_be_read_has_no_key_line(text: str) -> None:
    assert key_line(row("x", anchor=text), works=True) == []


def test_ranges_that_cannot_be_read_are_not_being_read() -> None:
    job = replace(filling("x", 1, 0.4, 0.0), doing=Doing("fill", 0.0, ranges="no json"))
    assert not any(each.reading for each in key_line(job, works=True))


def test_the_ladder_of_an_index() -> None:
    index = row("x", 1, INDEX)
    states = figures.ladder(index, "MERGING")
    assert [each["is"] for each in states] == ["done", "done", "now", "to come", "to come"]
    assert [each["state"] for each in figures.ladder(index, "DRAINING")].count("DRAINING") == 1
    assert {each["is"] for each in figures.ladder(index, "")} == {"to come"}
    assert figures.ladder(row("x"), "") == []


def test_a_plan_that_nobody_kept() -> None:
    assert figures.explained_figures("") is None
    assert figures.explained_figures("no json") is None
    assert figures.explained_figures("[]") is None


def test_lag_over_time() -> None:
    forward = DoneStep("forward", 10.0, 2.0, versions={"t": (1, 2)}, lag_s=5.0)
    fill = DoneStep("fill", 20.0, 1.0, versions={"t": (2, 2)}, lag_s=0.0)
    broken = DoneStep("forward", 30.0, 1.0, lag_s=9.0, error="UNAVAILABLE")
    assert figures.lag_points([forward, fill, broken, DoneStep("fill", 40.0, 1.0)]) == [
        [10.0, 5.0], [12.0, 7.0], [12.0, 0.0], [20.0, 0.0], [21.0, 0.0],
    ]  # fmt: skip


def test_definitions_of_every_kind_are_told() -> None:
    assert figures.definition_figures(row("x", 1, JOIN))["facts"][0] == ["reads", "order_lines, customers"]
    assert ["columns", "lower(email) (unique)"] in figures.definition_figures(row("x", 1, INDEX))["facts"]
    assert figures.definition_figures(Job("1", "x", "no json"))["facts"][0][0] == "cannot be read"


def test_what_did_not_change_is_told_alike(store: SqlStore) -> None:
    """A section that differs each second would be sent each second."""
    now = [time.time()]
    looking = Looking(store, lambda: now[0])
    first, page, graph = looking.jobs(), looking.job(f"{1:032x}"), looking.graph()
    now[0] += 5.0
    assert looking.jobs() == first
    assert looking.job(f"{1:032x}") == page
    assert looking.graph() == graph


def test_the_pages_of_a_store(store: SqlStore) -> None:
    looking = Looking(store)
    page = looking.job(f"{3:032x}")
    assert page["plan"]["nodes"] == NODES
    assert page["line"]["lag_versions"] == 2
    assert len(page["steps"]) == 20
    assert len(looking.jobs()[f"{1:032x}"]["lags"]) == 40
    graph = looking.graph()
    assert graph[f"{3:032x}"]["depth"] == 2
    assert {edge["key"]: edge["behind"] for edge in graph[f"{3:032x}"]["reads"]} == {
        f"{2:032x}": 2, "table customers": None,
    }  # fmt: skip
    assert graph["table events"]["tick"] == 11
    assert [graph[f"table {name}"]["depth"] for name in ("events", "customers")] == [0, 1], "beside its first reader"
    assert graph["table shop.public.orders"]["kind"] == "table on a server"
    with pytest.raises(UnknownJob):
        looking.job("nobody")


def test_a_live_job_without_splits() -> None:
    line = key_line(live("x", 1, 0.0, anchor=anchor([DONE, NOT_STARTED])), works=False)
    assert [each.state for each in line] == ["covered", "not yet", "covered"]
