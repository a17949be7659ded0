"""What Prometheus is told of a store."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.stores import row
from tests.web.stores import filling, live
from tidefill.errors import BadInput
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Failure
from tidefill.jobs.steps import DoneStep
from tidefill.metrics.exposing import exposed, exposition
from tidefill.metrics.of_store import StoreMetrics
from tidefill.store.sql_store import SqlStore, open_store

JOB = f"{1:032x}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    now_s = time.time()
    with open_store(tmp_path / "jobs.db") as opened:
        opened.create(filling('odd "name"\\', 1, 0.5, now_s))
        opened.create(live("steady", 2, now_s))
        opened.create(row("broken", 3, life=Life.FAILED, failure=Failure("HISTORY_GONE", "it is gone")))
        yield opened


def told(metrics: StoreMetrics) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels."""
    text = exposition(metrics)[0].decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    order = ("job", "kind", "state", "reason", "code", "phase", "direction")
    return {(one.name, *(one.labels[name] for name in order if name in one.labels)): one.value for one in samples}


def test_how_jobs_stand(store: SqlStore) -> None:
    found = told(StoreMetrics(store))
    assert found["tidefill_jobs", "backfilling"] == 1
    assert found["tidefill_jobs", "paused"] == 0, "a state without a job is told too: else its line would stand still"
    assert found["tidefill_runners",] == 1
    assert found["tidefill_job_state", 'odd "name"\\', "view", "backfilling"] == 1
    assert found["tidefill_job_rows_filled", 'odd "name"\\'] == 4000
    assert found["tidefill_job_lag_versions", 'odd "name"\\'] == 2
    assert found["tidefill_job_lag_seconds", "steady"] == 0
    assert found["tidefill_job_failed", "broken", "HISTORY_GONE"] == 1
    assert found["tidefill_job_waits", "steady", "IDLE"] == 1
    assert ("tidefill_job_lag_versions", "broken") not in found, "what is not known is not told"


def test_steps_are_added_up_from_the_start_of_the_process_on(store: SqlStore) -> None:
    fill = DoneStep("fill", 0.0, 3.0, phases={"look": 0.5, "commit": 2.0}, rows_in=10, rows_out=9)
    store.change(JOB, lambda job: job, fill)
    metrics = StoreMetrics(store)
    assert not [name for name in told(metrics) if name[0] == "tidefill_steps_total"]
    store.change(JOB, lambda job: job, fill)
    store.change(JOB, lambda job: job, fill)
    store.change(JOB, lambda job: job, DoneStep("fill", 0.0, 1.0, error="UNAVAILABLE"))
    for _ in range(2):
        found, name = told(metrics), 'odd "name"\\'
        assert found["tidefill_steps_total", name, "fill"] == 2
        assert found["tidefill_step_seconds_total", name, "fill", "commit"] == 4.0
        assert found["tidefill_step_seconds_total", name, "fill", "other"] == 1.0
        assert found["tidefill_step_rows_total", name, "fill", "out"] == 18
        assert found["tidefill_retries_total", name, "UNAVAILABLE"] == 1
    store.change(JOB, lambda job: job, DoneStep("taking a partition in (5 rows so far)", 0.0, 1.0))
    assert told(metrics)["tidefill_steps_total", name, "taking a partition in"] == 1
    store.delete(JOB)
    assert not [labels for labels in told(metrics) if name in labels], "a job that is gone is not told"


def test_a_port_of_a_process(store: SqlStore) -> None:
    with exposed(StoreMetrics(store), "127.0.0.1", 0) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            assert b"tidefill_jobs" in answer.read()
        with pytest.raises(BadInput, match="cannot listen"), exposed(StoreMetrics(store), "127.0.0.1", port):
            raise AssertionError
