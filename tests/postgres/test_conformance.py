"""The adapter of PostgreSQL keeps the contract of upstreams on a real server: some tests always, all in `make full`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.postgres.harness import Postgres, PostgresUpstreamHarness
from tests.suites import marked
from tidefill.testing.conformance.upstream.harness import UpstreamTest
from tidefill.testing.conformance.upstream.suite import UPSTREAM_SUITE

ALWAYS = {
    "a_head_stands_still",
    "a_version_lasts_or_ends_with_its_head",
    "changes_of_every_kind_in_every_place",
    "a_row_changes_its_key",
    "a_commit_that_changes_no_row",
    "truncate_is_a_change_of_all",
    "a_backfill_among_writes",
    "lost_history",
    "another_table_under_the_name",
    "an_idle_release_outlives_a_restart",
    "walks_composite_keys",
}


@pytest.fixture
def harness(spark: SparkSession, postgres: Postgres) -> Iterator[PostgresUpstreamHarness]:
    made = PostgresUpstreamHarness(spark, postgres)
    yield made
    made.remove()


@pytest.mark.parametrize("test", marked(UPSTREAM_SUITE, ALWAYS))
def test_upstream(test: UpstreamTest, harness: PostgresUpstreamHarness) -> None:
    # R2, R3, R6, R13, R14, R21, R31
    test(harness)
