"""The jobs of a store as a graph: what it says follows from the rows of one read alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.cli.stores import REPLICA, VIEW, row
from tests.jobs.test_definitions import FULL, JOIN, ORDERS
from tidefill.errors import StoreUnreadable
from tidefill.jobs.agreement import Reads
from tidefill.jobs.definitions import INPUT, PlannedViewDefinition
from tidefill.jobs.graph import Graph, definition_of, inputs_of, names_read, source_of
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job, Pause

ODD = Job(f"{9:032x}", "odd", '{"form": 99, "input": "View"}')


def over(*tables: str) -> PlannedViewDefinition:
    return replace(JOIN, parts=tuple(replace(JOIN.parts[0], table=name, occurrence=name) for name in tables))


VIEW_ROW, COPY = row("view", 1), row("Copy", 2, replace(REPLICA, input="VIEW"))
ORDERS_ROW, BOTH = row("orders", 3, ORDERS), row("both", 4, over("copy", "Orders"))


def test_inputs_are_jobs_by_id_and_tables_by_where_they_are() -> None:
    asked: list[str] = []

    def locations() -> dict[str, str]:
        asked.append("asked")
        return {"events": "/lake/events"}

    rows = [VIEW_ROW, COPY, ORDERS_ROW]
    assert inputs_of(rows, locations) == {
        VIEW_ROW.id: {INPUT: "events"}, COPY.id: {INPUT: VIEW_ROW.id}, ORDERS_ROW.id: {},
    }  # fmt: skip
    assert not asked, "one name is one table, wherever it is"
    found = inputs_of([*rows, BOTH, ODD], locations)
    assert found[VIEW_ROW.id] == {INPUT: "/lake/events"}
    assert found[BOTH.id] == {"copy": COPY.id, "Orders": ORDERS_ROW.id}
    assert ODD.id not in found, "it is not known what it reads"
    assert asked == ["asked"]


def test_what_is_asked_twice_is_worked_out_once() -> None:
    calls: list[Sequence[Job]] = []

    def reads(rows: Sequence[Job]) -> Reads:
        calls.append(rows)
        return inputs_of(rows)

    gone = row("gone", 8, life=Life.DROPPED)
    graph = Graph((VIEW_ROW, gone), reads)
    assert not calls
    assert [graph.reads, graph.reads_in_step, graph.members, graph.are_read][-1] == {"events"}
    assert calls == [[VIEW_ROW]], "a dropped job reads nothing"
    assert (list(graph.by_id), list(graph.by_name)) == ([VIEW_ROW.id, gone.id], ["view"])


def test_what_is_read_comes_before_what_reads_it() -> None:
    graph = Graph((BOTH, COPY, ODD, VIEW_ROW, ORDERS_ROW))
    names = [job.name for job in graph.order()]
    assert sorted(names) == sorted(job.name for job in graph.rows)
    for below, above in (("view", "Copy"), ("Copy", "both"), ("orders", "both"), ("view", "odd")):
        assert names.index(below) < names.index(above)


def test_rows_of_a_cycle_come_as_they_are() -> None:
    rows = [row("a", 1, replace(VIEW, input="b")), row("b", 2, replace(VIEW, input="a"))]
    assert Graph(rows).order() == rows


def test_a_job_that_was_dropped_is_not_what_has_its_name_now() -> None:
    rows = [row("a", 1, over("b", "c"), life=Life.DROPPED), row("b", 2, over("a", "c")), row("a", 3, over("c", "d"))]
    assert [job.id for job in Graph(rows).order()][-1] == rows[1].id


def test_inputs_and_who_stands_still_below() -> None:
    paused = replace(VIEW_ROW, life=Life.LIVE, pause=Pause.ALL)
    graph = Graph((paused, replace(COPY, life=Life.LIVE), replace(ORDERS_ROW, life=Life.LIVE), BOTH))
    assert [job.name for job in graph.inputs(BOTH.id)] == ["Copy", "orders"]
    assert graph.inputs(ODD.id) == []
    assert graph.blocked_by(BOTH.id) == paused
    assert graph.blocked_by(ORDERS_ROW.id) is None


def test_from_which_generations_a_job_comes() -> None:
    live = replace(COPY, published=3)
    graph = Graph((live, ORDERS_ROW, BOTH))
    assert graph.inputs_by_name(BOTH) == [live, ORDERS_ROW]
    assert graph.inputs_by_name(VIEW_ROW) == [None]
    assert source_of(graph.inputs_by_name(BOTH)) == f"{live.id}-3"
    assert graph.inputs_by_name(replace(BOTH, life=Life.DROPPED)) == []


def test_from_which_replicas_a_job_comes() -> None:
    graph = Graph((VIEW_ROW, COPY, ORDERS_ROW, BOTH, ODD))
    assert graph.replicas_below("BOTH") == {"shop.public.orders": "orders"}
    assert graph.replicas_below("orders") == {"shop.public.orders": "orders"}
    assert graph.replicas_below("view") == graph.replicas_below("nobody") == {}
    with pytest.raises(StoreUnreadable, match="odd: a definition in the store has form 99"):
        graph.replicas_below("odd")


def test_an_unreadable_job_still_says_which_names_it_reads() -> None:
    assert names_read(ODD) == ("View",)
    assert [job.name for job in Graph((VIEW_ROW, COPY, ODD)).woken_by(VIEW_ROW)] == ["Copy", "odd"]
    assert definition_of(row("full", 5, FULL)) == FULL
