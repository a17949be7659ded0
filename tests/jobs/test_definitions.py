"""Definitions survive the store byte for byte, and what is damaged or newer is a value that says so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.cli import stores
from tidefill.errors import StoreUnreadable
from tidefill.jobs.definitions import (
    FullViewDefinition,
    IndexDefinition,
    IndexesDefinition,
    JobDefinition,
    Kind,
    LakeIndexDefinition,
    Part,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    TableDefinition,
    TopicReplicaDefinition,
    UnreadableDefinition,
    job_from_text,
    job_to_text,
    table_from_text,
    table_to_text,
)
from tidefill.jobs.upsert import Upsert
from tidefill.jobs.wishes import IndexWish, ViewWish, same_wish, wish_for_replica, wish_of

FIXTURES = Path(__file__).parent.parent / "fixtures"

TABLE = TableDefinition("/lake/t", ("id",), ("day",))
REPLICA = ReplicaDefinition("T", ("id",), ("day", "id"), "partitioned by day", (("ansi", "true"),))
ORDERS = ServerReplicaDefinition("shop.public.orders", ("id",), "the primary key", "shop", "theirs", "slot_1")
VIEW = RowViewDefinition(
    "t", "SELECT v AS `w` FROM t", ("id",), ("__tf_key_id",), ("day", "id"), "partitioned by day",
    "t", (("w", "v AS `w`"), ("__tf_key_id", "`t`.`id`")), "v > 'ü'", ("id", "v"), (("ansi", "true"),),
    ("id", "v", "x"),
)  # fmt: skip
JOIN = PlannedViewDefinition(
    "SELECT v AS w FROM T JOIN u", ("__tf_key_id",), (("w", "int"),),
    (Part("t", "T", (("id", "int"),), ("id",), ("id",), "its key"), Part("u", "u", (("v", "string"),), ("v",))),
    (("ansi", "true"),),
)  # fmt: skip
GROUPS = replace(JOIN, parts=(replace(JOIN.parts[0], group_columns=1), JOIN.parts[1]))
FULL = FullViewDefinition("SELECT v FROM u", (("v", "string"),), (replace(JOIN.parts[1], key=()),), (("ansi", "true"),))
INDEX = IndexDefinition("shop.public.orders", "shop", ("lower(email)",), ("total",), "void", True, "initput", "{}")
INDEXES = IndexesDefinition("shop.public.orders", "shop", ("a", "b"), (INDEX, replace(INDEX, unique=False)))
LAKE_INDEX = LakeIndexDefinition(
    **{each.name: getattr(VIEW, each.name) for each in fields(VIEW)}, order=("w",), indexed=("v",), include=("x",),
    rows_with="v > 'ü'", unique=True,
)  # fmt: skip
TOPIC = TopicReplicaDefinition(
    "events.shop.Clicks", "events", "json", (("id", "BIGINT"), ("at", "TIMESTAMP MILLIS")), ("key",), "latest", "keep",
    (("ansi", "true"),),
)  # fmt: skip
UPSERT = replace(TOPIC, begin="earliest", on_bad_message="stop", upsert=Upsert(("id",), "text", True))
ALL: tuple[JobDefinition, ...] = (REPLICA, ORDERS, VIEW, JOIN, GROUPS, FULL, stores.VIEW, stores.REPLICA)

TEXTS = (Path(__file__).parent / "definitions.jsonl").read_text(encoding="utf-8").splitlines()
"""The texts of all of them, in this order, as releases wrote them that had one class for all jobs."""


def stored_in_fixtures(table: str) -> Iterator[str]:
    """The definitions in the rows of that table, in the stores of all earlier releases."""
    for file in sorted(FIXTURES.rglob("store.sql")):
        for values in re.findall(rf"INSERT INTO \S*{table}\S* VALUES\s*\((.*)\);", file.read_text(encoding="utf-8")):
            for literal in re.findall(r"'((?:[^']|'')*)'", values):
                if literal.startswith("{"):
                    yield json.loads(literal.replace("''", "'"))["definition"]


def test_definitions_survive() -> None:
    assert table_from_text(table_to_text(TABLE)) == TABLE
    for definition in (*ALL, INDEX, INDEXES, LAKE_INDEX, TOPIC, UPSERT):
        assert job_from_text(job_to_text(definition)) == definition


def test_an_index_is_not_taken_for_something_else_by_a_release_that_knows_none() -> None:
    assert '"form": 4' in job_to_text(INDEX)
    assert '"form": 5' in job_to_text(INDEXES)
    assert INDEX.tables == INDEXES.tables == ()
    assert wish_of(replace(INDEXES, names=("a", "c"))) != wish_of(INDEXES)
    assert same_wish(wish_of(replace(INDEX, shape="worked out anew")), INDEX)  # type: ignore[arg-type]
    assert "nulls_not_distinct" not in job_to_text(INDEX), "the first release with indexes did not know it"
    nulls = replace(INDEX, nulls_not_distinct=True)
    assert job_from_text(job_to_text(nulls)) == nulls
    assert '"form": 5' in job_to_text(nulls)
    for other in (nulls, replace(INDEX, unique=False), replace(INDEX, where=""), replace(INDEX, method="bulk"), ORDERS):
        assert wish_of(other) != wish_of(INDEX)


def test_a_topic_is_no_table_to_a_release_that_knows_none() -> None:
    assert '"form": 6' in job_to_text(TOPIC)
    assert "upsert" not in job_to_text(TOPIC), "as the first release with topics wrote it"
    assert '"form": 7' in job_to_text(UPSERT)
    assert (UPSERT.key, UPSERT.walk) == (("id",), ("kafka_partition", "id"))
    assert (TOPIC.kind, TOPIC.tables, TOPIC.topic) == (Kind.REPLICA, (), "shop.Clicks")
    assert same_wish(wish_of(replace(TOPIC, semantics=())), TOPIC)  # type: ignore[arg-type]
    for other in (
        replace(TOPIC, format="raw"),
        replace(TOPIC, upsert=UPSERT.upsert),
        replace(TOPIC, input="events.shop.clicks"),
        replace(TOPIC, begin=""),
        ORDERS,
    ):
        assert wish_of(other) != wish_of(TOPIC)


def test_an_index_on_a_delta_table_is_no_view_to_a_release_that_knows_none() -> None:
    assert '"form": 5' in job_to_text(LAKE_INDEX)
    assert (LAKE_INDEX.kind, LAKE_INDEX.tables) == (Kind.INDEX, ("t",))
    assert wish_of(LAKE_INDEX) == IndexWish("t", ("v",), ("x",), "v > 'ü'", True, "")
    assert same_wish(wish_of(replace(LAKE_INDEX, walk=("id",))), LAKE_INDEX)  # type: ignore[arg-type]
    for other in (VIEW, INDEX, replace(LAKE_INDEX, unique=False), replace(LAKE_INDEX, rows_with="")):
        assert wish_of(other) != wish_of(LAKE_INDEX)


def test_texts_are_the_same_byte_for_byte_as_ever() -> None:
    for definition, text in zip(ALL, TEXTS, strict=True):
        assert job_to_text(definition) == text
        assert job_from_text(text) == definition


def test_texts_of_earlier_releases_survive_byte_for_byte() -> None:
    found = {text: job_from_text(text) for text in stored_in_fixtures("jobs")}
    kinds = {type(definition) for definition in found.values()}
    assert kinds == {type(definition) for definition in ALL}, "there is one of each class, and none is unreadable"
    for text, definition in found.items():
        assert not isinstance(definition, UnreadableDefinition)
        assert job_to_text(definition) == text
    tables = [*stored_in_fixtures("tables")]
    assert tables
    for text in tables:
        table = table_from_text(text)
        assert isinstance(table, TableDefinition)
        assert table_to_text(table) == text


def test_a_query_over_several_tables_is_not_taken_for_one_over_its_first() -> None:
    """Releases that know one table only must stop at it."""
    assert '"form": 3' in job_to_text(FULL)
    assert '"form": 2' in job_to_text(JOIN)
    assert '"form": 1' in job_to_text(VIEW)


def test_whole_groups_are_not_cut_by_a_release_that_does_not_know_of_them() -> None:
    assert '"form": 3' in job_to_text(GROUPS)
    assert "group_columns" not in job_to_text(JOIN), "nor does it have to know the word for a view without them"


def test_which_names_of_ours_are_read() -> None:
    names = {definition: definition.tables for definition in (REPLICA, ORDERS, VIEW, JOIN, FULL)}
    assert list(names.values()) == [("T",), (), ("t",), ("T", "u"), ("u",)]


def test_the_same_wish_is_the_same_whatever_was_worked_out_from_it() -> None:
    wish = ViewWish(VIEW.sql, full=False)
    for definition in (VIEW, replace(VIEW, input="T", columns=(), walk=("id",)), replace(JOIN, sql=VIEW.sql)):
        assert same_wish(wish, definition)
    for other in (
        replace(VIEW, sql="SELECT v FROM t"),
        replace(FULL, sql=VIEW.sql),
        REPLICA,
        UnreadableDefinition("damaged"),
    ):
        assert not same_wish(wish, other)
    assert same_wish(wish_for_replica("t"), REPLICA)
    assert same_wish(wish_for_replica("Shop.public.orders"), ORDERS)
    assert not same_wish(wish_for_replica("u"), REPLICA)
    assert wish_of(UnreadableDefinition("damaged")) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"form": 7}', '{"form": 1}', '{"form": 1, "key": 3}'])
def test_what_is_damaged_or_newer_is_a_value(text: str) -> None:
    for found in (job_from_text(text), table_from_text(text)):
        assert isinstance(found, UnreadableDefinition)
        assert found.hint
        assert found.tables == ()
        error = found.error("odd")
        assert isinstance(error, StoreUnreadable)
        assert error.fact.startswith("odd: a definition in the store")


def test_a_newer_form_names_the_release_and_still_tells_what_is_read() -> None:
    for definition, names in ((VIEW, ("t",)), (JOIN, ("T", "u")), (ORDERS, ()), (LAKE_INDEX, ("t",))):
        found = job_from_text(re.sub('"form": .', '"form": 8', job_to_text(definition)))
        assert isinstance(found, UnreadableDefinition)
        assert "has form 8, this release knows 7" in found.fact
        assert found.tables == names
    table = table_from_text(table_to_text(TABLE).replace('"form": 1', '"form": 8'))
    assert isinstance(table, UnreadableDefinition)
    assert "has form 8, this release knows 7" in table.fact


def test_parts_that_cannot_be_are_unreadable() -> None:
    for damaged in (re.sub(r'"walk": \["id"\]', '"walk": []', job_to_text(JOIN)),
                    re.sub(r'"parts": \[.*\], "pub', '"parts": [], "pub', job_to_text(FULL))):  # fmt: skip
        assert isinstance(job_from_text(damaged), UnreadableDefinition)
