"""The memory adapters keep the contracts that the real ones have to keep."""

from collections.abc import Callable
from typing import Any

import pytest

from tidefill.testing.conformance.machine.harness import MachineHarness, MachineTest
from tidefill.testing.conformance.machine.suite import MACHINE_SUITE
from tidefill.testing.conformance.target.counts import COUNTS
from tidefill.testing.conformance.target.harness import TargetHarness, TargetTest
from tidefill.testing.conformance.target.suite import TARGET_SUITE
from tidefill.testing.conformance.upstream.harness import UpstreamHarness, UpstreamTest
from tidefill.testing.conformance.upstream.suite import UPSTREAM_SUITE
from tidefill.testing.memory.harness import DeltaHarness, MemoryTargetHarness, PostgresHarness, TopicHarness
from tidefill.testing.memory.machines import BackfillHarness, TallyHarness
from tidefill.testing.memory.tables import Frame


# R2, R3, R7, R13
@pytest.mark.parametrize("test", UPSTREAM_SUITE, ids=lambda test: test.__name__)
def test_delta_in_memory_keeps_the_contract(test: UpstreamTest) -> None:
    harness: UpstreamHarness[Frame] = DeltaHarness()
    test(harness)


# R2, R3, R7, R13
@pytest.mark.parametrize("test", UPSTREAM_SUITE, ids=lambda test: test.__name__)
def test_postgres_in_memory_keeps_the_contract(test: UpstreamTest) -> None:
    harness: UpstreamHarness[Frame] = PostgresHarness()
    test(harness)


# R26
@pytest.mark.parametrize("test", UPSTREAM_SUITE, ids=lambda test: test.__name__)
def test_a_topic_in_memory_keeps_the_contract(test: UpstreamTest) -> None:
    harness: UpstreamHarness[Frame] = TopicHarness()
    test(harness)


# R12, R14
@pytest.mark.parametrize("test", TARGET_SUITE, ids=lambda test: test.__name__)
def test_the_target_in_memory_keeps_the_contract(test: TargetTest) -> None:
    harness: TargetHarness[Frame] = MemoryTargetHarness()
    test(harness)


@pytest.mark.parametrize("test", COUNTS, ids=lambda test: test.__name__)
def test_counts_that_are_not_compared_are_found_out(test: TargetTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidefill.core.confirm._refuse_wrong_counts", lambda *_: None)
    with pytest.raises(AssertionError):
        test(MemoryTargetHarness())


@pytest.mark.parametrize("harness", [BackfillHarness, TallyHarness])
@pytest.mark.parametrize("test", MACHINE_SUITE, ids=lambda test: test.__name__)
def test_both_machines_in_memory_keep_the_contract(test: MachineTest, harness: Callable[[], MachineHarness]) -> None:
    test(harness())


@pytest.mark.parametrize("suite", [UPSTREAM_SUITE, TARGET_SUITE, MACHINE_SUITE])
def test_a_suite_names_each_of_its_tests_once(suite: tuple[Any, ...]) -> None:
    names = [test.__name__ for test in suite]
    assert len(names) == len(set(names))
