"""The predicate of a small change set is true for rows with its keys, and false for all others, whatever the types."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.spark.test_coverage_column import POOLS, WALKS, a_key, frame_of
from tidefill.core.confirm import Counts
from tidefill.core.keys import Key
from tidefill.delta import changed_keys as module
from tidefill.delta.changed_keys import ChangedKeys, changed_keys
from tidefill.errors import KeyNotUnique
from tidefill.spark.coverage import collectable, key_of, key_types
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
