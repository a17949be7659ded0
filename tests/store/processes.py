"""Ten processes at one store, whichever database it is in."""

import json
import subprocess
import sys
from collections import Counter
from typing import Any

from tests.store.examples import REPO
from tests.store.worker import CONTENDED, NAMES
from tidefill.store.sql_store import open_store

CONTESTS_MAX = 5


def check_ten_processes(place: str) -> None:
    """At a store that does not exist yet."""
    done = _work_together(place, "share")
    with open_store(place) as store:
        jobs = {job.name: job for job in store.jobs()}
    assert sorted(jobs) == sorted(NAMES)
    assert Counter(name for one in done for name in one["created"]) == Counter(NAMES), "each was created once"
    for job in jobs.values():
        assert {one["ids"][job.name] for one in done} == {job.id}, "everybody got the same job"
        assert job.wish_number == sum(one["wishes"].count(job.id) for one in done)
        assert sorted(one.name for one in job.resources) == sorted(
            mark for one in done for id, mark in one["marks"] if id == job.id
        )
        fences = [fence for one in done for id, fence in one["fences"] if id == job.id]
        assert sorted(fences) == list(range(1, job.lease.fence + 1)), "every fence was given to one, and only once"
        assert job.lease.fence > 3, "the lease did not go round: the test tests nothing"


def check_ten_processes_at_odds(place: str) -> None:
    """The same. Now and then the name is a job from the first moment to the last; then they try again."""
    outcomes: Counter[str] = Counter()
    wanted = ("table: done", "job: done", "reader: done", "no_table: done", "no_job_nor_readers: done")
    for _ in range(CONTESTS_MAX):
        done = _work_together(place, "contend")
        for jobs, tables, readers in {tuple(look) for one in done for look in one["seen"]}:
            assert jobs + tables <= 1, "a name is one thing"
            assert jobs + tables == 1 or not readers, "what is read is there"
        outcomes.update(outcome for one in done for outcome in one["outcomes"])
        if all(outcomes[outcome] for outcome in wanted):
            break
    for outcome in wanted:
        assert outcomes[outcome], f"not once {outcome}: the test tests nothing"
    with open_store(place) as store:
        assert store.find(CONTENDED) is None or store.table(CONTENDED) is None


def _work_together(place: str, what: str) -> list[dict[str, Any]]:
    """What each of ten processes says that it did."""
    command = [sys.executable, "-m", "tests.store.worker", place, "10", what]
    done = subprocess.run(command, cwd=REPO, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    return json.loads(done.stdout)  # type: ignore[no-any-return]
