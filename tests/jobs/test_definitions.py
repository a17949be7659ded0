"""Definitions survive the store, and what is damaged or newer is a named error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidefill.errors import StoreUnreadable
from tidefill.jobs.definitions import (
    JobDefinition,
    Kind,
    Part,
    TableDefinition,
    job_from_text,
    job_to_text,
    table_from_text,
    table_to_text,
)

TABLE = TableDefinition("/lake/t", ("id",), ("day",))
VIEW = JobDefinition(
    Kind.VIEW, "t", "SELECT v AS `w` FROM t", ("id",), ("__tf_key_id",), ("day", "id"), "partitioned by day",
    "t", (("w", "v AS `w`"), ("__tf_key_id", "`t`.`id`")), "v > 'ü'", ("id", "v"), (("ansi", "true"),),
)  # fmt: skip


JOIN = replace(
    VIEW, columns=(("w", "int"),),
    parts=(Part("t", "T", (("id", "int"),), ("id",), ("id",), "its key"), Part("u", "u", (("v", "string"),), ("v",))),
)  # fmt: skip


GROUPS = replace(JOIN, parts=(replace(JOIN.parts[0], group_columns=1), JOIN.parts[1]))


def test_definitions_survive() -> None:
    assert table_from_text(table_to_text(TABLE)) == TABLE
    assert job_from_text(job_to_text(VIEW)) == VIEW
    assert job_from_text(job_to_text(JOIN)) == JOIN
    assert job_from_text(job_to_text(GROUPS)) == GROUPS


def test_a_query_over_several_tables_is_not_taken_for_one_over_its_first() -> None:
    """Releases that know one table only must stop at it."""
    assert '"form": 3' in job_to_text(replace(JOIN, full=True))
    assert '"anew": true' in job_to_text(replace(JOIN, full=True)), "as the first release wrote it"
    assert '"form": 2' in job_to_text(JOIN)
    assert '"form": 1' in job_to_text(VIEW)
    assert (JOIN.tables, VIEW.tables) == (("T", "u"), ("t",))


def test_whole_groups_are_not_cut_by_a_release_that_does_not_know_of_them() -> None:
    assert '"form": 3' in job_to_text(GROUPS)
    assert "group_columns" not in job_to_text(JOIN), "nor does it have to know the word for a view without them"


def test_the_same_wish_is_the_same_whatever_was_worked_out_from_it() -> None:
    assert VIEW.same_wish(replace(VIEW, input="T", columns=(), walk=("id",)))
    assert not VIEW.same_wish(replace(VIEW, sql="SELECT v FROM t"))
    assert not VIEW.same_wish(replace(VIEW, kind=Kind.REPLICA))
    assert not VIEW.same_wish(replace(VIEW, full=True))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"form": 4}', '{"form": 1}', '{"form": 1, "key": 3}'])
def test_what_is_damaged_or_newer_is_named(text: str) -> None:
    with pytest.raises(StoreUnreadable):
        job_from_text(text)
    with pytest.raises(StoreUnreadable):
        table_from_text(text)


def test_a_newer_form_names_the_release() -> None:
    for text, read in ((job_to_text(VIEW), job_from_text), (table_to_text(TABLE), table_from_text)):
        with pytest.raises(StoreUnreadable, match="has form 4, this release knows 3"):
            read(text.replace('"form": 1', '"form": 4'))
