"""The predicate of a small change set is true for rows with its keys, and false for all others, whatever the types."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.spark.test_coverage_column import POOLS, WALKS, a_key, frame_of
from tidefill.core.confirm import NO_TABLE, Counts, Payload
from tidefill.core.keys import Key
from tidefill.core.state import initial
from tidefill.delta import changed_keys as module
from tidefill.delta.changed_keys import ChangedKeys, changed_keys
from tidefill.delta.target import DeltaTarget
from tidefill.errors import KeyNotUnique
from tidefill.ports.frames import Append, Merge
from tidefill.spark.coverage import collectable, key_of, key_types
from tidefill.spark.keeping import Kept
from tidefill.spark.names import MARK
from tidefill.spark.session import job_session

COMPOSITE = [*WALKS, ("int", "finest", "short"), ("text", "text"), ("byte", "date", "moment", "wall", "bool", "bytes")]
NONE = Counts()


@pytest.mark.parametrize("names", COMPOSITE, ids="-".join)
def test_it_is_true_for_its_keys_alone(spark: SparkSession, names: tuple[str, ...]) -> None:
    session = job_session(spark)
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    chance = random.Random("-".join(names))
    keys = list(dict.fromkeys(a_key(chance, names) for _ in range(60)))
    chosen = [key for key in keys if chance.random() < 0.4 or None not in key.values][: len(keys) // 2]
    frame = frame_of(session, names, keys)
    types = key_types(frame.schema, frame.columns)
    known = ChangedKeys(tuple(chosen[: module.NULLS_MAX]), NONE, tuple(frame.columns), types)
    predicate = known.predicate()
    assert predicate is not None
    found = frame.select(*collectable(frame.columns, types), f.expr(predicate)).collect()
    verdicts = {key_of(tuple(row)[:-1], types): row[-1] for row in found}
    assert verdicts == {key: key in known.keys for key in keys}


def test_keys_are_collected_with_what_is_done_to_them(spark: SparkSession) -> None:
    changes = spark.sql(f"SELECT * FROM VALUES (3, 'I'), (1, 'U'), (2, 'D'), (5, 'I') AS c (id, {MARK})")
    types = key_types(changes.schema, ["id"])
    found = changed_keys(changes, ["id"], types)
    assert found is not None
    assert found.counts == Counts(inserted=2, updated=1, deleted=1)
    assert (found.first(), found.only_inserts) == ("1", False)
    with pytest.raises(KeyNotUnique, match=r"e\.g\. \(3,\)"):
        changed_keys(changes.unionAll(changes.where("id = 3")), ["id"], types)


def test_too_many_are_merged(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEYS_MAX", 3)
    changes = spark.range(4).withColumn(MARK, f.lit("I"))
    types = key_types(changes.schema, ["id"])
    assert changed_keys(changes, ["id"], types) is None
    assert changed_keys(changes.limit(3), ["id"], types) is not None


def test_a_predicate_that_would_be_too_long_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = POOLS["int"][0]
    assert ChangedKeys((), NONE, ("k",), (kind,)).predicate() is None
    nulls = tuple(Key((None, number)) for number in range(module.NULLS_MAX + 1))
    assert ChangedKeys(nulls, NONE, ("a", "b"), (kind, kind)).predicate() is None
    assert ChangedKeys(nulls[1:], NONE, ("a", "b"), (kind, kind)).predicate() is not None
    monkeypatch.setattr(module, "PREDICATE_MAX", 20)
    assert ChangedKeys((Key((1,)),), NONE, ("key",), (kind,)).predicate() is None


def test_a_key_with_null_has_no_first() -> None:
    kind = POOLS["int"][0]
    assert ChangedKeys((Key((None,)), Key((1,))), NONE, ("k",), (kind,)).first() is None
    assert ChangedKeys((), NONE, ("k",), (kind,)).first() is None


def test_the_greatest_key_and_what_lies_above_it() -> None:
    keys = ChangedKeys((Key((3, "b")), Key((7, "a")), Key((7, "c"))), NONE, ("k", "t"), ())
    assert keys.greatest() == Key((7,))
    assert keys.lie_above(Key((2,)))
    assert not keys.lie_above(Key((3,))), "there may be a row with the key (3, b)"
    with_null = ChangedKeys((Key((None, "b")), Key((7, "a"))), NONE, ("k", "t"), ())
    assert with_null.greatest() == Key((7,))
    assert not with_null.lie_above(Key((2,)))
    assert ChangedKeys((), NONE, ("k",), ()).greatest() is None


def test_changes_that_come_to_nothing_are_written_whatever_the_key(spark: SparkSession, tmp_path: Path) -> None:
    """A struct, as of a time window, is no constant, so it is merged by. A MERGE without anything to do is refused."""
    rows = spark.sql("SELECT named_struct('n', id) AS w, id AS v FROM range(3)")
    target = DeltaTarget(rows.sparkSession, str(tmp_path / "target"), rows.schema, ["w"], "by_struct")
    target.commit(Append(rows), Payload(initial(1), "generation", "first", NO_TABLE))
    nothing = rows.where("v < 0").withColumn(MARK, f.lit("U"))
    target.commit(Merge(nothing, exact=True), Payload(replace(initial(1), step=2), "generation", "second", 0))
    (*_, last) = target.log()
    assert last.payload is not None
    assert (last.payload.commit_uuid, last.counts) == ("second", Counts())


@pytest.mark.parametrize("exact", [True, False])
def test_only_changes_that_are_known_to_be_light_are_brought_to_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exact: bool
) -> None:
    """Ten thousand messages of a megabyte are few, but not light."""
    brought = list[DataFrame]()
    keep_few = Kept.keep_few

    def spied(self: Kept, frame: DataFrame) -> DataFrame:
        brought.append(frame)
        return keep_few(self, frame)

    monkeypatch.setattr(Kept, "keep_few", spied)
    rows = spark.range(3).selectExpr("id", "id AS v")
    target = DeltaTarget(spark, str(tmp_path / "target"), rows.schema, ["id"], "light")
    target.commit(Append(rows), Payload(initial(1), "generation", "first", NO_TABLE))
    changes = rows.where("id < 2").selectExpr("id", "v + 1 AS v", f"'U' AS {MARK}")
    write = Merge(changes, exact=exact, few=True, read=True)
    target.commit(write, Payload(replace(initial(1), step=2), "generation", "second", 0))
    assert bool(brought) is exact
    found = spark.read.format("delta").load(str(tmp_path / "target")).orderBy("id").collect()
    assert [tuple(row) for row in found] == [(0, 1), (1, 2), (2, 2)]
