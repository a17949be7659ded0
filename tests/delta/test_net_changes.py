"""What Spark makes of a change feed is what `testing.memory.changes`, which the simulator uses, says of it."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from tests.delta.test_few_changes import FIRST, wrote
from tidefill.core.keys import Key
from tidefill.core.version import Number, Version
from tidefill.core.walk import Coverage, Range, above, start, union, whole
from tidefill.delta.history import DeltaHistory
from tidefill.delta.log.commits import Commit
from tidefill.delta.log.survey import Survey
from tidefill.delta.upstream import DeltaUpstream
from tidefill.spark.weights import came, went
from tidefill.testing.memory.changes import judge, net

Row = tuple[int, int]  # id, v
KEYS, VALUES = 200, 12
HALF = union(start(above(Key((VALUES, KEYS)))), [Range(None, Key((5, KEYS // 2)))])


def feed_of(chance: random.Random) -> list[tuple[int, Row]]:
    """The changes of a table that is written: several times the same row, there and back, gone and come again."""
    table = {key: (key, chance.randrange(VALUES)) for key in range(0, KEYS, 2)}
    feed: list[tuple[int, Row]] = []
    for _ in range(6 * KEYS):
        key = chance.randrange(KEYS)
        if key in table:
            feed.append((-1, table.pop(key)))
        if chance.randrange(3):
            table[key] = (key, chance.randrange(VALUES))
            feed.append((+1, table[key]))
    chance.shuffle(feed)
    return feed


def walk_key(row: Row | None) -> Key | None:
    return None if row is None else Key((row[1], row[0]))


@pytest.mark.parametrize("coverage", [whole(), HALF], ids=["whole", "half"])
def test_net_changes_and_their_weights(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, coverage: Coverage
) -> None:
    # R2, R3
    feed = feed_of(random.Random(7))
    history = DeltaHistory(spark, "t")
    history._last = Survey("a", {0: Commit(0.0, plain=True), 1: wrote(len(feed))}, True, 60.0, 0, 0.0, 0.0)
    table = DeltaUpstream(spark, "t", ["id"], ["v", "id"], history=history)
    rows = [(key, value, weight) for weight, (key, value) in feed]
    weighted = spark.createDataFrame(rows, "id BIGINT, v BIGINT, __tf_w INT")
    monkeypatch.setattr(table, "_weighted", lambda after, upto: weighted)
    changes = table.read_changes(FIRST, Version("a", Number(1)), coverage)
    removed: list[Row] = []
    added: list[Row] = []
    for old, new in net(feed, lambda row: row[0]).values():
        goes, comes = judge(walk_key(old), walk_key(new), coverage)
        removed += [old] if goes and old else []
        added += [new] if comes and new else []
    assert sorted(map(tuple, went(changes.rows).collect())) == sorted(removed)
    assert sorted(map(tuple, came(changes.rows).collect())) == sorted(added)
    assert removed
    assert added
