"""A machine that is no backfill lives its whole life on the same runner, whatever happens at whichever effect."""

from __future__ import annotations

import pytest

from tidefill.errors import KeyNotUnique, TidefillError
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job
from tidefill.ports.machine import Outcome
from tidefill.run.runner import LEASE_S, Runner
from tidefill.testing.memory.tally import Tally, TallyRetiring, place_of
from tidefill.testing.memory.world import Violation
from tidefill.testing.simulation.second_machine import FAULTS, JOB_ID, NUMBERS, TallyHistory


def test_its_life_without_a_fault() -> None:
    history = TallyHistory()
    history.live()
    assert history.world.effects > 100


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_at_every_effect(fault: type[BaseException]) -> None:
    # R11, R24
    whole = TallyHistory()
    whole.live()
    for at in range(1, whole.world.effects):
        history = TallyHistory(at, fault)
        history.live()
        assert history.world.seen["fault"] == 1


def test_what_happened_is_told() -> None:
    history = TallyHistory()
    told: list[str] = []
    delete = history.store.delete

    def deleted(job_id: str) -> None:
        told.extend(text for _, text in history.store.events(job_id))
        delete(job_id)

    history.store.delete = deleted  # type: ignore[method-assign]
    history.live()
    wanted = ("it guards", "filled; verifying", "live", "resumed after a failure", "a new generation begins", "dropped")
    assert [text for text in wanted if text not in told] == []
    assert any("KEY_NOT_UNIQUE" in text for text in told)


def test_a_machine_that_is_not_abandoned_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "_abandon", lambda self, job, error: None)
    with pytest.raises(Violation, match="no guard of the dead"):
        TallyHistory().live()


def test_a_job_that_does_not_retire_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "_retire", lambda self, job, retiring: None)
    with pytest.raises(Violation, match="retired first"):
        TallyHistory().live()


def test_a_job_that_cannot_be_abandoned_is_not_failed_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """FAILED is written only after the machine has stopped what would harm others; a trouble in that is tried again."""
    history, tries = TallyHistory(), list[int]()
    abandon = Tally.abandon

    def at_the_third(self: Tally, job: Job, error: TidefillError) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise FAULTS[1]("no answer")
        abandon(self, job, error)

    monkeypatch.setattr(Tally, "abandon", at_the_third)
    history.live()
    assert len(tries) == 3
    assert JOB_ID not in history.store.rows


def test_a_machine_that_cannot_be_built_is_abandoned_by_who_retires_it(monkeypatch: pytest.MonkeyPatch) -> None:
    history, asked = TallyHistory(), list[str]()
    abandon = TallyRetiring.abandon

    def noted(self: TallyRetiring, job: Job, error: TidefillError) -> None:
        asked.append(error.code)
        abandon(self, job, error)

    monkeypatch.setattr(TallyRetiring, "abandon", noted)
    history.go(lambda: history.job.waits_for == "OTHERS")
    history.server.busy = False
    history.go(history._is_up_to_date)
    history._runner = history._start()
    history.world.now += 100

    def broken(job: Job) -> Tally:
        raise ZeroDivisionError

    monkeypatch.setattr(history._runner, "_build", broken)
    history.go(lambda: history.job.failure is not None)
    assert asked == ["BUG"]


def test_a_superseded_runner_abandons_nothing_that_another_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner meets an error after its lease went to another one. The other one's machine must go on guarding: to stop
    it would let writers in whom nobody checks any more."""
    history, abandoned = TallyHistory(), list[str]()
    history.go(lambda: history.job.waits_for == "OTHERS")
    history.server.busy = False
    history.go(history._is_up_to_date)
    copy, abandon = Tally._copy, Tally.abandon
    other = history._start()

    def overtaken(self: Tally, truth: int) -> Outcome[int]:
        """The first runner is suspended in its step; the second one takes the job over and does the step."""
        monkeypatch.setattr(Tally, "_copy", copy)
        history.world.now += LEASE_S + 1
        assert other.turn(JOB_ID).worked
        raise KeyNotUnique("what the first runner found")

    def noted(self: Tally, job: Job, error: TidefillError) -> None:
        abandoned.append(error.code)
        abandon(self, job, error)

    monkeypatch.setattr(Tally, "_copy", overtaken)
    monkeypatch.setattr(Tally, "abandon", noted)
    history.server.numbers.append(NUMBERS)
    assert not history._runner.turn(JOB_ID).worked
    assert (history.job.lease.owner, history.job.life) == (other._owner, Life.LIVE)
    assert abandoned == []
    assert history.server.controls[place_of(history.job)].guards
    history._runner = other
    history.go(history._is_up_to_date)
