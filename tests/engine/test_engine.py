"""The Python API on real tables: what a user creates, what is refused, what is left."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from tests.engine.shop import Shop
from tidefill import connect
from tidefill.errors import (
    BadSql,
    InUse,
    InvalidSetting,
    JobFailed,
    NameTaken,
    NotYet,
    TidefillError,
    TimedOut,
    UnknownJob,
    UnknownTable,
    UnsupportedKey,
    UnsupportedQuery,
    UpstreamUnfit,
)
from tidefill.storage.local import remove_tree


def test_views_and_replicas_stay_fresh_until_nothing_is_left_of_them(shop: Shop) -> None:
    # R17, R28
    shop.make()
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    view = engine.create_view("big", "SELECT upper(name) AS n, v * 2 AS w FROM events e WHERE e.v > 2")
    assert engine.create_view("big", "SELECT upper(name) AS n, v * 2 AS w FROM events e WHERE e.v > 2").id == view.id
    above = engine.create_view("above", "SELECT n, w + 1 AS w FROM big WHERE w < 12")
    with pytest.raises(NotYet, match="big is not live yet"):
        engine.table("big")
    assert view.wait(300).status().state == "live"
    copy = engine.create_replica("copy", "events", parallelism=2, chunk_rows=30)
    shop.sql("UPDATE SOURCE SET v = 6 WHERE id < 10")
    shop.sql("ALTER TABLE SOURCE ADD COLUMNS (extra STRING)")
    shop.sql("INSERT INTO SOURCE VALUES (999, 5, 'late', 'x')")
    engine.run_once()
    shop.expect("big", "SELECT upper(name) AS n, v * 2 AS w FROM SOURCE WHERE v > 2")
    shop.expect("above", "SELECT upper(name) AS n, v * 2 + 1 AS w FROM SOURCE WHERE v > 2 AND v * 2 < 12")
    shop.expect("copy", "SELECT * FROM SOURCE")
    assert [text for _, text in view.events() if "column extra" in text], "a view ignores it, and says so"
    assert view.verify().differences == copy.verify().differences == ()
    explained = view.explained()
    assert explained is not None, "what EXPLAIN said is kept"
    assert (explained["name"], explained["key"]) == ("big", ["__tf_key_id"])
    assert "live, 100%" in repr(copy)
    assert "100&nbsp;%" in copy._repr_html_()
    with pytest.raises(InUse, match="big is in use"):
        view.drop()
    with pytest.raises(InUse):
        engine.unregister("events")
    for job in (above, view, copy):
        job.drop()
    engine.run_once()
    assert engine.jobs() == []
    assert list(shop.warehouse.iterdir()) == []
    assert not shop.spark.catalog.tableExists("big")
    with pytest.raises(UnknownJob):
        view.status()
    engine.unregister("events")
    logged = [json.loads(line) for line in (shop.folder / "store" / "tidefill.log").read_text().splitlines()]
    assert {"big: live", "big: dropped"} <= {line["text"] for line in logged}


REFUSED: list[tuple[str, type[TidefillError]]] = [
    ("SELECT approx_top_k(v) AS s FROM events", UnsupportedQuery),
    ("SELECT stack(2, 1, 2) AS x FROM events", UnsupportedQuery),
    ("SELECT rand() AS r FROM events", UnsupportedQuery),
    ("SELECT e.* FROM events e JOIN events f USING (id)", UnsupportedQuery),
    ("SELECT v, count(*) AS n FROM events GROUP BY v LIMIT 3", UnsupportedQuery),
    ("SELECT v, count(*) FROM events GROUP BY v", UnsupportedQuery),
    ("SELECT v, rand() AS r, count(*) AS n FROM events GROUP BY v, r", UnsupportedQuery),
    ("SELECT name, count(*) AS n FROM events GROUP BY v", BadSql),
    ("SELECT e.id FROM events e JOIN nowhere n ON true", UnknownTable),
    ("SELECT v + 1 FROM events", UnsupportedQuery),
    ("SELECT NULL AS nothing FROM events", UnsupportedQuery),
    ("SELECT *, v AS name FROM events", UnsupportedQuery),
    ("SELECT my_own(v) AS x FROM events", UnsupportedQuery),
    ("SELECT nowhere AS x FROM events", BadSql),
    ("SELECT v + 'a' +  FROM events", BadSql),
    ("SELECT id FROM nowhere", UnknownTable),
    ("SELECT id FROM db.events", UnknownTable),
]


def test_what_cannot_be_done_is_refused_and_nothing_is_made(shop: Shop) -> None:
    shop.make(10, "id, id % 7 AS v, concat('n', id) AS name, rand() AS d, map('a', id) AS m")
    engine = shop.engine
    engine.register("events", location=shop.source, key=["id"])
    for sql, kind in REFUSED:
        with pytest.raises(kind):
            engine.create_view("x", sql)
    attempts: list[tuple[Callable[[], object], type[TidefillError]]] = [
        (lambda: engine.create_replica("x", "events"), UpstreamUnfit),
        (lambda: engine.create_view("x", "SELECT id FROM events", parallelism=0), InvalidSetting),
        (lambda: engine.create_view("x", "SELECT id FROM events", target_lag="soon"), InvalidSetting),
        (lambda: engine.create_view("x", "SELECT id FROM events", rate="fast"), InvalidSetting),
        (lambda: engine.create_view("x" * 300, "SELECT id FROM events"), InvalidSetting),
        (lambda: engine.create_view("events", "SELECT id FROM events"), NameTaken),
        (lambda: engine.register("other", location=shop.source, key="nowhere"), UnsupportedKey),
        (lambda: engine.register("other", location=shop.source, key="d"), UnsupportedKey),
        (lambda: engine.register("other", location=shop.source, key=()), InvalidSetting),
        (lambda: engine.register("other", location=shop.folder / "nothing", key="id"), UpstreamUnfit),
        (lambda: engine.register("other", table="nothing", key="id"), UpstreamUnfit),
        (lambda: engine.job("nothing"), UnknownJob),
        (lambda: engine.table("nothing"), UnknownTable),
    ]
    for attempt, kind in attempts:
        with pytest.raises(kind):
            attempt()
    assert engine.jobs() == []
    assert engine.tables() == ["events"]
    assert list(shop.warehouse.iterdir()) == []


def test_a_table_without_a_change_feed_is_refused_with_the_statement_that_mends_it(shop: Shop) -> None:
    shop.spark.range(3).write.format("delta").save(shop.source)
    with pytest.raises(UpstreamUnfit) as refused:
        shop.engine.register("events", location=shop.source, key="id")
    shop.spark.sql(refused.value.hint)
    shop.engine.register("events", location=shop.source, key="id")


def test_wishes_need_no_spark(shop: Shop) -> None:
    shop.make(10)
    shop.engine.register("events", location=shop.source, key="id")
    shop.engine.create_view("strange name, `quoted` and ünïcode", "SELECT id FROM events")
    with connect(store=shop.folder / "store") as other:
        (job,) = other.jobs()
        job.pause()
        job.alter(rate_limit=5, target_lag="2 minutes")
        job.resume()
        job.alter(rate_limit=None)
        with pytest.raises(TimedOut):
            shop.engine.job(job.name).wait(0)
        job.cancel()
        assert not other.uses_spark
    shop.engine.run_once()
    assert shop.engine.jobs() == []


@pytest.mark.parametrize(
    ("what", "outcome"),
    [
        ("OPTIMIZE SOURCE", ""),
        ("ALTER TABLE SOURCE ALTER COLUMN v TYPE BIGINT", ""),
        ("ALTER TABLE SOURCE DROP COLUMN v", "UPSTREAM_REPLACED"),
        ("ALTER TABLE SOURCE RENAME COLUMN v TO w", "UPSTREAM_REPLACED"),
        ("RESTORE TABLE SOURCE TO VERSION AS OF 0", ""),
        ("INSERT OVERWRITE SOURCE SELECT id + 5 AS id, 3 AS v, 'x' AS name FROM range(60)", ""),
        ("DELETE FROM SOURCE", ""),
        ("CREATE OR REPLACE TABLE SOURCE USING delta AS SELECT 1L AS id, 2 AS v, 'x' AS name", "UPSTREAM_REPLACED"),
    ],
)
@pytest.mark.full
def test_what_happens_upstream_is_followed_or_is_a_named_stop(shop: Shop, what: str, outcome: str) -> None:
    # R14, R15
    shop.make(100, "id, cast(id % 7 AS INT) AS v, concat('n', id) AS name", **{"delta.enableTypeWidening": "true"})
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    job = engine.create_view("view", "SELECT id, v, name FROM events WHERE v <> 3").wait(300)
    shop.sql("UPDATE SOURCE SET v = 5 WHERE id = 7")
    shop.sql("ALTER TABLE SOURCE SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    engine.run_once()
    shop.sql(what)
    engine.run_once()
    failure = job.status().failure
    assert (failure.code if failure else "") == outcome, failure
    if not outcome:
        shop.sql("INSERT INTO SOURCE VALUES (5000, 1, 'late')")
        engine.run_once()
        shop.expect("view", "SELECT id, v, name FROM SOURCE WHERE v <> 3")


@pytest.mark.full
def test_run_once_passes_over_what_stands_still(shop: Shop) -> None:
    # R17
    shop.make()
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    below = engine.create_view("below", "SELECT id, v FROM events")
    above = engine.create_view("above", "SELECT v FROM below")
    below.pause()
    engine.run_once()
    assert [below.status().state, above.status().state] == ["paused", "created"]
    below.resume()
    remove_tree(shop.source)
    engine.run_once()
    assert [below.status().state, above.status().state] == ["failed", "created"]


@pytest.mark.full
def test_a_target_that_was_touched_is_built_anew_on_request(shop: Shop) -> None:
    # R20, R33
    shop.make()
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    job = engine.create_view("view", "SELECT id, v FROM events").wait(300)
    (path,) = shop.warehouse.iterdir()
    shop.spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 10")
    shop.sql("UPDATE SOURCE SET v = 5 WHERE id = 7")
    engine.run_once()
    with pytest.raises(JobFailed, match="TARGET_TOUCHED"):
        job.wait(0)
    job.resync()
    engine.run_once()
    shop.expect("view", "SELECT id, v FROM SOURCE")
    assert [one.name[-2:] for one in shop.warehouse.iterdir()] == ["-2"]


@pytest.mark.full
def test_a_replica_follows_new_columns_and_stops_at_lost_ones(shop: Shop) -> None:
    # R15
    shop.make(100)
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    job = engine.create_replica("copy", "events", chunk_rows=40)
    shop.turns(2)
    shop.sql("ALTER TABLE SOURCE ADD COLUMNS (extra INT)")
    shop.sql("UPDATE SOURCE SET extra = 1 WHERE id % 2 = 0")
    job.wait(300)
    engine.run_once()
    shop.expect("copy", "SELECT * FROM SOURCE")
    shop.sql("ALTER TABLE SOURCE SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    shop.sql("ALTER TABLE SOURCE DROP COLUMN v")
    engine.run_once()
    failure = job.status().failure
    assert failure is not None
    assert failure.code == "UPSTREAM_REPLACED", failure


@pytest.mark.full
def test_files_that_were_vacuumed(shop: Shop) -> None:
    # R31
    shop.make(100)
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    job = engine.create_view("view", "SELECT id, v FROM events", chunk_rows=40)
    shop.turns(2)
    shop.sql("UPDATE SOURCE SET v = 5 WHERE id % 2 = 0")
    shop.sql("OPTIMIZE SOURCE")
    shop.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    shop.sql("VACUUM SOURCE RETAIN 0 HOURS")
    with pytest.raises(JobFailed, match=r"files of .* that are needed are gone"):
        job.wait(300)
    assert job.status().failure is not None
    assert job.status().failure.code == "HISTORY_GONE"  # type: ignore[union-attr]


def test_duplicate_keys_are_named_at_creation(shop: Shop) -> None:
    # R34
    shop.make(10, "id, id % 7 AS v")
    shop.sql("INSERT INTO SOURCE VALUES (3, 1), (4, 4)")
    shop.engine.register("events", location=shop.source, key="id")
    with pytest.raises(TidefillError, match=r"KEY_NOT_UNIQUE[\s\S]*\([34],\)"):
        shop.engine.create_view("view", "SELECT v FROM events")
    assert shop.engine.jobs() == []


def test_a_view_means_what_it_meant_at_its_creation(shop: Shop, spark: SparkSession) -> None:
    # R35
    shop.make(4, "id, timestamp_seconds(id * 3600) AS at")
    mine = spark.newSession()
    mine.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    mine.conf.set("spark.sql.ansi.enabled", "false")
    sql = "SELECT id, date_format(at, 'HH') AS hour, CAST('x' || id AS INT) AS n FROM events"
    with connect(mine, shop.warehouse, shop.folder / "store") as creator:
        creator.register("events", location=shop.source, key="id")
        creator.create_view(f"hours_{uuid.uuid4().hex}", sql)
    (job,) = shop.engine.jobs()
    job.wait(300)
    assert [tuple(row) for row in job.table().orderBy("id").collect()] == [
        (0, "09", None), (1, "10", None), (2, "11", None), (3, "12", None)
    ]  # fmt: skip


@pytest.mark.full
def test_what_reads_a_job_that_is_built_anew_is_built_anew_too(shop: Shop) -> None:
    # R17
    shop.make()
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    below = engine.create_view(f"below_{uuid.uuid4().hex}", "SELECT id, v + 1 AS w FROM events")
    above = engine.create_view(f"above_{uuid.uuid4().hex}", f"SELECT w * 2 AS x FROM {below.name}")
    engine.run_once()
    shop.sql("UPDATE SOURCE SET v = 50 WHERE id < 5")
    below.resync()
    engine.run_once()
    engine.run_once()
    assert [(job.status().generation, job.status().state) for job in (below, above)] == [(2, "live"), (2, "live")]
    shop.expect(above.name, "SELECT (v + 1) * 2 AS x FROM SOURCE")
    assert len(list(shop.warehouse.iterdir())) == 2, "of each only what is published is left"
