"""The Delta adapters keep their contracts on real tables: some tests of each suite always, all in `make full`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.delta.harness import DeltaTargetHarness, DeltaUpstreamHarness
from tests.suites import marked
from tidefill.testing.conformance.target.counts import COUNTS
from tidefill.testing.conformance.target.harness import TargetTest
from tidefill.testing.conformance.target.suite import TARGET_SUITE
from tidefill.testing.conformance.target.writes import WRITES
from tidefill.testing.conformance.upstream.harness import UpstreamTest
from tidefill.testing.conformance.upstream.suite import UPSTREAM_SUITE

UPSTREAM_ALWAYS = {
    "what_was_written_is_counted_if_at_all",
    "changes_of_every_kind_in_every_place",
    "a_commit_that_changes_no_row",
    "lost_history",
    "another_table_under_the_name",
}
TARGET_ALWAYS = {
    "merge_by_exact_marks",
    "a_deletion_that_meets_two_rows",
    "merge_that_deletes_everything",
    "a_stranger_between_plan_and_commit",
    "a_table_that_could_not_be_made",
    "a_table_that_is_there_is_not_made_by_append",
    "a_table_is_made_during_append",
}


@pytest.mark.parametrize("test", marked(UPSTREAM_SUITE, UPSTREAM_ALWAYS))
def test_upstream(test: UpstreamTest, spark: SparkSession, tmp_path: Path) -> None:
    # R2, R3, R6, R7, R13, R14, R31
    test(DeltaUpstreamHarness(spark, tmp_path))


@pytest.mark.parametrize("test", marked(TARGET_SUITE, TARGET_ALWAYS))
def test_target(test: TargetTest, spark: SparkSession, tmp_path: Path) -> None:
    # R12, R14, R33
    test(DeltaTargetHarness(spark, tmp_path))


@pytest.mark.parametrize("test", marked((*WRITES, *COUNTS), {"merge_by_exact_marks", "a_deletion_that_meets_two_rows"}))
def test_target_that_merges(
    test: TargetTest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does with more keys than a predicate may have."""
    monkeypatch.setattr("tidefill.delta.changed_keys.KEYS_MAX", 0)
    test(DeltaTargetHarness(spark, tmp_path))
