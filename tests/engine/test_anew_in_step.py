"""What is computed anew stands outside of those who go in step, and what it reads goes in step for it."""

from pathlib import Path

from tidefill import connect
from tidefill.jobs import agreement as ticks
from tidefill.jobs.definitions import JobDefinition, Kind, Part, job_to_text
from tidefill.jobs.row import Job


def job(name: str, *tables: str, full: bool = False) -> Job:
    parts = tuple(Part(table, table, (), ("id",)) for table in tables)
    definition = JobDefinition(Kind.VIEW, tables[0], "", ("id",), ("id",), (), "", parts=parts, full=full)
    return Job(name, name, job_to_text(definition))


def test_nobody_waits_for_it_and_its_inputs_go_together(tmp_path: Path) -> None:
    rows = [
        job("flagged", "t"),
        job("full", "t", "flagged", full=True),
        job("above", "full", "t"),
        job("top", "above", "t"),
    ]
    with connect(store=tmp_path) as engine:
        reads = engine._reads_in_step(rows)
    assert ticks.in_step(reads) == {"t": {"flagged", "above"}}
    assert ticks.bases("above", reads) == {"t", "anew full"}
    assert ticks.meets("full", reads) == {"t"}
