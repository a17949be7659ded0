"""What is computed anew stands outside of those who go in step, and what it reads goes in step for it."""

from tidefill.jobs import agreement as ticks
from tidefill.jobs.definitions import FullViewDefinition, Part, PlannedViewDefinition, job_to_text
from tidefill.jobs.graph import Graph
from tidefill.jobs.row import Job


def job(name: str, *tables: str, full: bool = False) -> Job:
    parts = tuple(Part(table, table, (), ("id",), ("id",)) for table in tables)
    planned = PlannedViewDefinition("", ("id",), (), parts)
    return Job(name, name, job_to_text(FullViewDefinition("", (), parts) if full else planned))


def test_nobody_waits_for_it_and_its_inputs_go_together() -> None:
    rows = [
        job("flagged", "t"),
        job("full", "t", "flagged", full=True),
        job("above", "full", "t"),
        job("top", "above", "t"),
    ]
    reads = Graph(rows).reads_in_step
    assert ticks.in_step(reads) == {"t": {"flagged", "above"}}
    assert ticks.bases("above", reads) == {"t", "anew full"}
    assert ticks.meets("full", reads) == {"t"}


def test_its_changes_are_followed_by_those_that_are_not_computed_anew_themselves() -> None:
    rows = [job("full", "t", full=True), job("other", "t", full=True), job("above", "full")]
    graph = Graph([*rows, job("paired", "other", "above", full=True)])
    assert graph.are_read >= {"full", "above", "t"}
    assert "other" not in graph.are_read
    assert graph.members == {}


def test_two_ways_from_it_go_in_step() -> None:
    rows = [job("full", "t", full=True), job("left", "full"), job("right", "full"), job("top", "left", "right")]
    graph = Graph(rows)
    assert graph.members == {"anew full": {"left", "right"}}
    assert ticks.bases("top", graph.reads_in_step) == {"anew full"}
