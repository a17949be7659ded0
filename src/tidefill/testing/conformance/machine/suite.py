"""The contract of `tidefill.ports.machine`, as a suite that any machine can run.

Each test takes a harness: one job, and everybody else who has to do with it. From pytest:

    @pytest.mark.parametrize("test", MACHINE_SUITE, ids=lambda test: test.__name__)
    def test_conformance(test: MachineTest) -> None:
        test(MyHarness())
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidefill.core.reasons import Reason
from tidefill.errors import Bug, NameTaken, TidefillError, VerifyFailed
from tidefill.jobs.lifecycle import Life
from tidefill.ports.machine import Finish, Machine, Plan, Publish, Round, Step, Verify, Wait
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.machine.harness import MachineHarness, MachineTest

STEPS_MAX = 200
NOW_S = 1_000_000.0


def a_new_machine_knows_what_another_one_did(harness: MachineHarness) -> None:
    machine, truth = _moved(harness)
    machine.close()
    found = _prepared(harness).recover(harness.job, None)
    assert found.truth == truth
    assert found.ahead, "the row does not tell of the step yet"


def what_was_reported_is_not_ahead(harness: MachineHarness) -> None:
    machine, truth = _moved(harness)
    _report(harness, machine, truth)
    assert not _prepared(harness).recover(harness.job, None).ahead
    assert not machine.recover(harness.job, truth).ahead


def a_plan_changes_nothing(harness: MachineHarness) -> None:
    machine, truth = _begun(harness)
    before = harness.made()
    assert type(_plan(harness, machine, truth)) is type(_plan(harness, machine, truth))
    assert harness.made() == before
    machine.rest()


def prepare_makes_nothing_twice(harness: MachineHarness) -> None:
    machine, truth = _filled(harness)
    made = harness.made()
    machine.prepare(harness.job)
    again = _prepared(harness)
    assert harness.made() == made
    assert again.recover(harness.job, None).truth == truth


def everything_is_made_and_then_finished(harness: MachineHarness) -> None:
    machine, truth = _filled(harness)
    report = machine.report(harness.job, truth)
    assert report.finished
    assert isinstance(_plan(harness, machine, truth), Finish)


def progress_never_goes_back(harness: MachineHarness) -> None:
    machine, truth = _begun(harness)
    rows = 0
    for _ in range(STEPS_MAX):
        plan = _plan(harness, machine, truth)
        if not isinstance(plan, Step):
            break
        truth = machine.execute(harness.job, truth, plan).truth
        _report(harness, machine, truth)
        assert machine.report(harness.job, truth).rows_filled >= rows
        rows = machine.report(harness.job, truth).rows_filled
    assert machine.report(harness.job, truth).finished


def a_paused_job_waits_and_does_nothing(harness: MachineHarness) -> None:
    machine, truth = _filled(harness)
    harness.grow()
    harness.job = replace(harness.job, life=Life.PAUSED)
    assert _plan(harness, machine, truth) == Wait(Reason.PAUSED)


def pieces_of_a_comparison_reach_the_end(harness: MachineHarness) -> None:
    machine, truth = _filled(harness)
    harness.job = replace(harness.job, life=Life.VERIFYING)
    after, pieces = None, 0
    plan = _plan(harness, machine, truth)
    assert isinstance(plan, Verify), plan
    while pieces == 0 or after is not None:
        compared = machine.execute(harness.job, truth, replace(plan, after=after)).compared
        assert compared is not None
        assert not compared.differences
        after, pieces = compared.upto, pieces + 1
        assert pieces < STEPS_MAX, "it does not end"
    assert machine.execute(harness.job, truth, replace(plan, compares=False)).truth == truth


def what_somebody_spoiled_is_found(harness: MachineHarness) -> None:
    machine, truth = _filled(harness)
    harness.job = replace(harness.job, life=Life.VERIFYING)
    plan = _plan(harness, machine, truth)
    assert isinstance(plan, Verify), plan
    harness.spoil()
    error = raised(TidefillError, lambda: machine.execute(harness.job, truth, plan))
    assert isinstance(error, VerifyFailed) or error.hint, "a stop has a name and a way on"


def a_live_job_takes_in_what_is_new_and_is_up_to_date_then(harness: MachineHarness) -> None:
    machine, truth = _live(harness)
    harness.grow()
    plan = _plan(harness, machine, truth)
    assert isinstance(plan, Step), plan
    truth = _worked(harness, machine, machine.execute(harness.job, truth, plan).truth)
    waits = _plan(harness, machine, truth)
    assert isinstance(waits, Wait), waits
    assert waits.reason is Reason.IDLE
    if waits.released:
        harness.job = replace(harness.job, released=waits.released)
    machine.release(truth, waits.released)
    assert machine.recover(harness.job, truth).truth == truth


def publishing_shows_it_once_or_twice(harness: MachineHarness) -> None:
    machine, truth = _filled(harness)
    machine.execute(harness.job, truth, Publish(tries=True))
    assert not harness.is_shown(), "it was only tried"
    for _ in range(2):
        assert machine.execute(harness.job, truth, Publish()).truth == truth
        assert harness.is_shown()


def the_name_of_a_stranger_is_left_to_him(harness: MachineHarness) -> None:
    machine, truth = _filled(harness)
    harness.take_name()
    for plan in (Publish(tries=True), Publish()):
        raised(NameTaken, lambda plan=plan: machine.execute(harness.job, truth, plan))  # type: ignore[misc]


def giving_up_twice_is_no_mistake(harness: MachineHarness) -> None:
    machine, truth = _filled(harness)
    for _ in range(2):
        machine.abandon(harness.job, Bug("a trouble"))
    machine.close()
    assert _prepared(harness).recover(harness.job, None).truth == truth, "a job that failed can be resumed"


MACHINE_SUITE: tuple[MachineTest, ...] = (
    a_new_machine_knows_what_another_one_did,
    what_was_reported_is_not_ahead,
    a_plan_changes_nothing,
    prepare_makes_nothing_twice,
    everything_is_made_and_then_finished,
    progress_never_goes_back,
    a_paused_job_waits_and_does_nothing,
    pieces_of_a_comparison_reach_the_end,
    what_somebody_spoiled_is_found,
    a_live_job_takes_in_what_is_new_and_is_up_to_date_then,
    publishing_shows_it_once_or_twice,
    the_name_of_a_stranger_is_left_to_him,
    giving_up_twice_is_no_mistake,
)


def _prepared(harness: MachineHarness) -> Machine[Any]:
    machine = harness.machine()
    assert machine.resources, "what is made has a name"
    machine.prepare(harness.job)
    return machine


def _begun(harness: MachineHarness) -> tuple[Machine[Any], Any]:
    machine = _prepared(harness)
    return machine, machine.recover(harness.job, None).truth


def _moved(harness: MachineHarness) -> tuple[Machine[Any], Any]:
    """After the first step that changed what is true; nothing was reported."""
    machine, before = _begun(harness)
    truth = before
    for _ in range(STEPS_MAX):
        plan = _plan(harness, machine, truth)
        assert isinstance(plan, Step), plan
        truth = machine.execute(harness.job, truth, plan).truth
        if truth != before:
            return machine, truth
    raise AssertionError("no step changes what is true")


def _filled(harness: MachineHarness) -> tuple[Machine[Any], Any]:
    machine, truth = _begun(harness)
    return machine, _worked(harness, machine, truth)


def _live(harness: MachineHarness) -> tuple[Machine[Any], Any]:
    machine, truth = _filled(harness)
    harness.job = replace(harness.job, life=Life.LIVE, published=harness.job.generation)
    machine.execute(harness.job, truth, Publish())
    return machine, truth


def _worked(harness: MachineHarness, machine: Machine[Any], truth: Any) -> Any:
    """After all steps that it plans."""
    for _ in range(STEPS_MAX):
        plan = _plan(harness, machine, truth)
        if not isinstance(plan, Step):
            return truth
        truth = machine.execute(harness.job, truth, plan).truth
        _report(harness, machine, truth)
        machine.release(truth)
    raise AssertionError("it does not end")


def _plan(harness: MachineHarness, machine: Machine[Any], truth: Any) -> Plan:
    return machine.plan(harness.job, truth, Round(NOW_S, hurry=True))


def _report(harness: MachineHarness, machine: Machine[Any], truth: Any) -> None:
    """As the runner keeps it in the job's row."""
    harness.job = replace(harness.job, anchor=machine.report(harness.job, truth).anchor)
