"""Figures of all jobs of a store, as Prometheus collects them: read from the store when it asks.

Gauges say how jobs stand. Counters add up the steps that ended since this process began; a scraper knows how to go on
when they begin at none again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job
from tidefill.jobs.status import Status, status_of
from tidefill.jobs.steps import DoneStep
from tidefill.run.owner_process import is_gone, process_of
from tidefill.store.sql_store import SqlStore

STEPS_MAX = 100_000
"""Steps that one scrape adds up. More than that between two scrapes have not been seen."""

Labels = tuple[str, ...]


class StoreMetrics(Collector):
    """A collector of `prometheus_client`."""

    def __init__(self, store: SqlStore, now_s: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now_s = now_s
        self._read_upto = max((number for number, _, _ in store.steps_after(0, 1)), default=0)
        self._steps = Counter[Labels]()
        self._seconds = Counter[Labels]()
        self._rows = Counter[Labels]()
        self._retries = Counter[Labels]()

    def collect(self) -> Iterator[Metric]:
        """All figures, as they are now."""
        rows = [row for row in self._store.jobs() if row.life is not Life.DROPPED]
        found = [(row, status_of(row, self._now_s(), is_gone)) for row in rows]
        yield from _of_states(found)
        yield from _of_jobs([status for _, status in found])
        self._add_steps({row.id: row.name for row in rows})
        yield _counter("steps", "Steps that ended.", ("job", "kind"), self._steps)
        yield _counter("step_seconds", "Time that steps took.", ("job", "kind", "phase"), self._seconds)
        yield _counter("step_rows", "Rows that steps read and wrote.", ("job", "kind", "direction"), self._rows)
        yield _counter("retries", "Steps that an error ended.", ("job", "code"), self._retries)

    def _add_steps(self, names: dict[str, str]) -> None:
        """Add up what is new. Of a job that is gone nothing is told any more."""
        for number, job_id, step in self._store.steps_after(self._read_upto, STEPS_MAX):
            self._read_upto = number
            if job_id in names:
                self._add(names[job_id], step)
        known = set(names.values())
        for counter in (self._steps, self._seconds, self._rows, self._retries):
            for labels in [labels for labels in counter if labels[0] not in known]:
                del counter[labels]

    def _add(self, job: str, step: DoneStep) -> None:
        kind = step.kind.partition(" (")[0]  # what stands in parentheses differs from step to step
        if step.error:
            self._retries[job, step.error] += 1
            return
        self._steps[job, kind] += 1
        for phase, seconds in step.phases.items():
            self._seconds[job, kind, phase] += seconds  # type: ignore[assignment]
        rest_s = step.took_s - sum(step.phases.values())
        self._seconds[job, kind, "other"] += max(0.0, rest_s)  # type: ignore[assignment]
        for direction, rows in (("in", step.rows_in), ("out", step.rows_out)):
            self._rows[job, kind, direction] += rows or 0


def _of_states(found: Sequence[tuple[Job, Status]]) -> Iterator[Metric]:
    states = Counter(status.state for _, status in found)
    jobs = _gauge("jobs", "Jobs by state.", "state")
    for life in Life:
        if life is not Life.DROPPED:
            jobs.add_metric((life.value,), states[life.value])
    yield jobs
    owners = {process_of(row.lease.owner) for row, status in found if status.runs}
    runners = _gauge("runners", "Processes that run jobs now.")
    runners.add_metric((), len(owners))
    yield runners
    age = _gauge("job_figures_age_seconds", "How old the figures of a job are.", "job")
    for row, status in found:
        if status.seen_s is not None:
            age.add_metric((row.name,), status.seen_s)
    yield age


def _of_jobs(statuses: Sequence[Status]) -> Iterator[Metric]:
    """What is not known of a job is left out."""
    state = _gauge("job_state", "1 for the state that a job is in.", "job", "kind", "state")
    waits = _gauge("job_waits", "1 for what a job waits for.", "job", "reason")
    failed = _gauge("job_failed", "1 for the error by which a job has failed.", "job", "code")
    for each in statuses:
        state.add_metric((each.name, each.kind, each.state), 1)
        if each.waits_for:
            waits.add_metric((each.name, each.waits_for), 1)
        if each.failure is not None and each.state == Life.FAILED.value:
            failed.add_metric((each.name, each.failure.code), 1)
    yield from (state, waits, failed)
    for name, help, value in _NUMBERS:
        gauge = _gauge(name, help, "job")
        for each in statuses:
            number = value(each)
            if number is not None:
                gauge.add_metric((each.name,), number)
        yield gauge


_NUMBERS: tuple[tuple[str, str, Callable[[Status], float | None]], ...] = (
    ("job_share", "How much is filled, from 0 to 1.", lambda status: status.share),
    ("job_rows_filled", "Rows that were filled.", lambda status: status.rows),
    ("job_rows_per_second", "Rows that are filled per second.", lambda status: status.rows_per_s),
    ("job_lag_versions", "Versions of the input that are not taken in yet.", lambda status: status.lag_versions),
    ("job_lag_seconds", "For how long the first of them has been there.", lambda status: status.lag_s),
    ("job_log_bytes", "Bytes of its log that a server keeps for the job.", lambda status: status.log_bytes),
    ("job_violated_keys", "Keys of a unique index that several rows have.", lambda status: status.violated),
)


def _gauge(name: str, help: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tidefill_{name}", help, labels=labels)


def _counter(name: str, help: str, labels: Sequence[str], values: Counter[Labels]) -> CounterMetricFamily:
    made = CounterMetricFamily(f"tidefill_{name}", help, labels=labels)
    for each, value in sorted(values.items()):
        made.add_metric(each, value)
    return made
