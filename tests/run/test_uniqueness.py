"""The condition of a unique index belongs to one commit: after a crash between commit and report all is counted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tidefill.core.confirm import Truth
from tidefill.core.state import JobState
from tidefill.core.step import Step, Write
from tidefill.core.walk import start, whole
from tidefill.jobs.condition import Condition, condition_from_text
from tidefill.jobs.row import Job
from tidefill.run.uniqueness import Watch

MERGE = Step({}, {}, write=Write.MERGE)
UUID = "generation"


@dataclass
class Counting:
    """What a target would count: `at` each of its versions. `asked` notes how."""

    at: dict[int, int]
    asked: list[str] = field(default_factory=list)

    def violated(self, version: int) -> int:
        self.asked.append("all")
        return self.at[version]

    def violated_after(self, known: int, before: int, after: int) -> int:
        self.asked.append("touched")
        return known - self.at[before] + self.at[after]


def truth(step: int, *, filled: bool = True) -> Truth:
    """After the commit of that step, which is that version of the target."""
    coverage = {"t": whole() if filled else start(())}
    return Truth(JobState(1, step, {}, coverage), step, f"commit {step}", state_is_not_last_commit=False)


def job(condition: str = "") -> Job:
    return Job("id", "ix", "{}", generation_uuid=UUID, condition=condition)


def test_a_step_counts_the_keys_that_it_touched() -> None:
    counting = Counting({2: 1, 3: 3, 4: 0})
    watch, row = Watch(counting), job()
    assert watch.committed(row, truth(1, filled=False), MERGE, truth(1, filled=False)) == ()
    assert counting.asked == [], "nothing is counted before all is filled"
    (event,) = watch.committed(row, truth(1, filled=False), MERGE, truth(2))
    assert "VIOLATED (1 key)" in event
    row = job(watch.text(row, truth(2)))
    assert watch.committed(row, truth(2), MERGE, truth(3)) == (), "it was violated before"
    row = job(watch.text(row, truth(3)))
    assert watch.committed(row, truth(3), MERGE, truth(4)) == ("clean again: no two rows have one key",)
    assert counting.asked == ["all", "touched", "touched"]
    assert watch.committed(row, truth(4), replace(MERGE, write=Write.REPLACE), truth(4)) != ()
    assert counting.asked[-1] == "all", "all rows were written anew"


def test_a_runner_that_died_between_commit_and_report_counts_all_keys() -> None:
    counting = Counting({2: 1, 3: 3})
    before = Watch(counting)
    before.committed(job(), truth(1, filled=False), MERGE, truth(2))
    noted = before.text(job(), truth(2))
    same = Watch(counting)
    assert same.recovered(job(noted), truth(2)) == (False, ()), "the store has it"
    assert same.text(job(noted), truth(2)) == noted
    later = Watch(counting)
    assert later.recovered(job(noted), truth(3)) == (True, ())
    found = condition_from_text(later.text(job(noted), truth(3)))
    assert isinstance(found, Condition)
    assert (found.violated, found.step) == (3, 3)
    assert counting.asked == ["all", "all"]
    assert later.recovered(job(noted), truth(3)) == (False, ()), "once is enough"
    assert later.text(job(noted), truth(4)) == "", "nobody knows of another commit"


def test_another_generation_is_counted_for_itself() -> None:
    counting = Counting({2: 1})
    watch = Watch(counting)
    watch.committed(job(), truth(1, filled=False), MERGE, truth(2))
    noted = watch.text(job(), truth(2))
    other = replace(job(noted), generation_uuid="another")
    assert Watch(counting).recovered(other, truth(2))[0]
    assert Watch(counting).recovered(other, truth(2, filled=False)) == (False, ())
