"""Statements that need no Spark, on a real store; and what is told of those that do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.stores import REPLICA, VIEW, made, row
from tidefill.core.progress import Progress
from tidefill.engine.connect import connect
from tidefill.engine.engine import Engine
from tidefill.errors import BadSql, InUse, InvalidSetting, TidefillError, UnknownJob, UnknownTable, WrongState
from tidefill.jobs.amounts import GB
from tidefill.jobs.definitions import RowViewDefinition, ServerReplicaDefinition
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Failure, Job, Pause
from tidefill.sql.execute import FACTS
from tidefill.sql.result import Result, Until
from tidefill.sql.script import is_complete, results

ODD, COPY = row("odd", 1), row("copy", 2, REPLICA, life=Life.LIVE, published=1)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with made(tmp_path, ODD, COPY) as store:
        store.add_event(ODD.id, 1000.0, "backfilling")
        store.add_event(COPY.id, 1001.0, "live")
    with connect(store=tmp_path / ".tidefill") as made_of_it:
        yield made_of_it
        assert not made_of_it.uses_spark, "Spark was started"


def stored(engine: Engine, job: Job) -> Job:
    found = engine._store.job(job.id)
    assert found is not None
    return found


def facts_of(result: Result) -> dict[object, object]:
    return {label: value for label, value in result.rows}  # noqa: C416


def test_what_there_is(engine: Engine) -> None:
    assert engine.execute("SHOW TABLES").rows == (("events", "id", "day", "/lake/events"),)
    jobs = engine.execute("SHOW JOBS")
    assert [values[:4] for values in jobs.rows] == [("copy", "replica", "live", 0), ("odd", "view", "created", 0)]
    events = engine.execute("SHOW EVENTS")
    assert [values[1:] for values in events.rows] == [("odd", "backfilling"), ("copy", "live")]
    assert [values[1] for values in engine.execute("SHOW EVENTS FOR ODD").rows] == ["odd"]


def test_nothing_is_told_in_words(tmp_path: Path) -> None:
    with connect(store=tmp_path) as empty:
        told = [empty.execute(f"SHOW {what}").message for what in ("TABLES", "JOBS", "EVENTS")]
        assert told == ["no tables", "no jobs", "no events"]
        assert empty.execute(" -- nothing") == Result()


ORDERS = ServerReplicaDefinition("shop.public.orders", ("id",), "", "shop")


def test_the_log_that_a_server_keeps(engine: Engine) -> None:
    # R25
    orders = row("orders", 3, ORDERS, life=Life.PAUSED, progress=Progress(1, 0.5, 1, 1.0, 1.0, log_bytes=3 << 29))
    engine._store.create(orders)
    engine.execute("ALTER JOB orders SET wal_limit = '10 GB', wal_budget = 2000000")
    settings = stored(engine, orders).settings
    assert (settings.wal_limit, settings.wal_budget) == (10 * GB, 2_000_000)
    facts = facts_of(engine.execute("SHOW JOB orders"))
    assert (facts["log kept for it"], facts["wal_budget"], facts["wal_limit"]) == ("1.5 GB", "1.9 MB", "10 GB")
    engine.execute("ALTER JOB orders SET wal_limit = NONE, wal_budget = NONE")
    assert stored(engine, orders).settings.wal_limit is stored(engine, orders).settings.wal_budget is None
    for size in ("'much'", "1.5", "0", "'10'"):
        with pytest.raises(InvalidSetting, match="wal_limit is"):
            engine.execute(f"ALTER JOB orders SET wal_limit = {size}")
    assert "wal_limit" not in facts_of(engine.execute("SHOW JOB odd"))


def test_a_slot_of_somebody_else_has_no_limit(engine: Engine) -> None:
    # R25
    engine._store.create(row("orders", 3, replace(ORDERS, slot="theirs")))
    with pytest.raises(InvalidSetting, match="would drop the slot theirs"):
        engine.execute("ALTER JOB orders SET wal_limit = '10 GB'")
    engine.execute("ALTER JOB orders SET wal_budget = '10 GB'")


def test_all_there_is_to_know_about_a_job(engine: Engine) -> None:
    failure = Failure("HISTORY_GONE", "it is gone", "version 3", "RESYNC it.")
    engine._store.change(ODD.id, lambda job: replace(job, life=Life.FAILED, failure=failure, pause=Pause.FILL))
    found = engine.execute("SHOW JOB odd")
    facts = facts_of(found)
    assert found.columns == FACTS
    assert (facts["kind"], facts["reads"], facts["query"]) == ("materialized view", "events", "SELECT v FROM events")
    assert (facts["key"], facts["walk"]) == ("id (kept in hidden columns)", "id: the key")
    assert (facts["failure"], facts["hint"]) == ("it is gone [HISTORY_GONE]", "RESYNC it.")
    assert (facts["parallelism"], facts["rate_limit"], facts["paused"]) == (1, "NONE", "fill")
    assert str(facts["event"]).endswith("backfilling")
    assert "query" not in facts_of(engine.execute("SHOW JOB copy"))


@pytest.mark.parametrize(
    ("sql", "message", "until"),
    [
        ("PAUSE JOB odd", "odd: asked to pause", Until.NOTHING),
        ("PAUSE JOB odd FILL", "odd: asked to stop filling", Until.NOTHING),
        ("RESUME JOB odd", "odd: asked to resume", Until.LIVE),
        ("RESYNC JOB odd", "odd: asked to be built anew", Until.LIVE),
        ("CANCEL JOB odd", "odd: asked to cancel", Until.GONE),
        ("DROP MATERIALIZED VIEW odd", "odd: asked to drop", Until.GONE),
        ("DROP MATERIALIZED VIEW odd CASCADE", "odd: asked to drop", Until.GONE),
        ("DROP JOB Odd RESTRICT", "odd: asked to drop", Until.GONE),
        ("ALTER JOB odd SET rate_limit = NONE, parallelism = 4", "odd: asked for rate_limit = NONE, parallelism = 4",
         Until.NOTHING),
    ],
)  # fmt: skip
def test_wishes(engine: Engine, sql: str, message: str, until: Until) -> None:
    result = engine.execute(sql)
    assert (result.message, result.until, [job.id for job in result.jobs]) == (message, until, [ODD.id])
    assert stored(engine, ODD).wish_number == 1


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE MATERIALIZED VIEW Odd AS SELECT v FROM events", "materialized view odd: created, 0 %, and was there"),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS odd AS SELECT other FROM elsewhere", "materialized view odd: created"),
        ("CREATE REPLICA copy FROM EVENTS", "replica copy: live, 0 %, and was there before"),
        ("CREATE REPLICA IF NOT EXISTS odd FROM nowhere", "materialized view odd: created, 0 %"),
        ("DROP REPLICA IF EXISTS nobody", "there is no replica nobody; nothing to do"),
        ("DROP JOB IF EXISTS nobody CASCADE", "there is no job nobody; nothing to do"),
        ("DROP MATERIALIZED VIEW IF EXISTS nobody", "there is no materialized view nobody; nothing to do"),
        ("UNREGISTER TABLE IF EXISTS nobody", "there is no table nobody; nothing to do"),
    ],
)
def test_what_is_so_already(engine: Engine, sql: str, message: str) -> None:
    assert engine.execute(sql).message.startswith(message)
    assert [stored(engine, ODD), stored(engine, COPY)] == [ODD, COPY]


@pytest.mark.parametrize(
    ("sql", "kind", "told"),
    [
        ("SHOW JOB nobody", UnknownJob, "there is no job nobody"),
        ("SHOW EVENTS FOR nobody", UnknownJob, "there is no job nobody"),
        ("PAUSE JOB nobody", UnknownJob, "there is no job nobody"),
        ("VERIFY nobody", UnknownJob, "there is no job nobody"),
        ("DROP REPLICA nobody", UnknownJob, "there is no job nobody"),
        ("DROP JOB nobody CASCADE", UnknownJob, "there is no job nobody"),
        ("DROP REPLICA odd", UnknownJob, r"no replica odd[\s\S]*odd is a materialized view[\s\S]*VIEW `odd`"),
        ("DROP MATERIALIZED VIEW copy", UnknownJob, r"no materialized view copy[\s\S]*DROP REPLICA `copy`"),
        ("UNREGISTER TABLE nobody", UnknownTable, "there is no table nobody"),
        ("CANCEL JOB copy", WrongState, "copy is live"),
        ("ALTER JOB odd SET colour = 1", InvalidSetting, "there is no setting colour"),
        ("ALTER JOB odd SET self = 1", InvalidSetting, "there is no setting self"),
        ("ALTER JOB odd SET rate_limit = 1.5", InvalidSetting, "rate_limit is 1.5"),
        ("ALTER JOB odd SET wal_limit = '10 GB'", InvalidSetting, "wal_limit is for replicas of another database"),
        ("CREATE REPLICA x FROM events WITH (name = 1)", InvalidSetting, "there is no setting name"),
        ("CREATE REPLICA x FROM events WITH (parallelism = 0)", InvalidSetting, "parallelism is 0"),
        ("EXPLAIN CREATE REPLICA x FROM events WITH (if_not_exists = ON)", InvalidSetting, "no setting if_not_exists"),
        ("CREATE REPLICA x FROM nowhere", UnknownTable, r"no table nowhere[\s\S]*REGISTER TABLE nowhere AS"),
        ("CREATE REPLICA x FROM shop.orders", UnknownTable, r"REGISTER TABLE orders AS shop\.orders KEY"),
        ("SHOW JOBS; SHOW", BadSql, "the SHOW statement cannot be read"),
    ],
)  # fmt: skip
def test_mistakes_need_no_spark_and_change_nothing(
    engine: Engine, sql: str, kind: type[TidefillError], told: str
) -> None:
    with pytest.raises(kind, match=told):
        engine.execute(sql)
    assert [stored(engine, ODD), stored(engine, COPY)] == [ODD, COPY]
    assert len(engine.jobs()) == 2


def test_what_is_being_dropped_is_not_attached_to(engine: Engine) -> None:
    engine.execute("DROP MATERIALIZED VIEW odd")
    for sql in ("CREATE MATERIALIZED VIEW odd AS SELECT v FROM events", "CREATE REPLICA IF NOT EXISTS odd FROM events"):
        with pytest.raises(WrongState, match="odd is being dropped"):
            engine.execute(sql)


def over(name: str) -> RowViewDefinition:
    return replace(VIEW, input=name, sql=f"SELECT v FROM {name}")


ABOVE, TOP = row("above", 3, over("ODD")), row("Top", 4, over("above"))


def test_what_is_read_is_dropped_with_all_that_reads_it_or_not_at_all(engine: Engine) -> None:
    for job in (ABOVE, TOP):
        engine._store.create(job)
    for sql in ("DROP JOB odd", "DROP MATERIALIZED VIEW above RESTRICT", "CANCEL JOB odd"):
        with pytest.raises(InUse, match=r"in use[\s\S]*add CASCADE"):
            engine.execute(sql)
    assert [stored(engine, job) for job in (ODD, ABOVE, TOP)] == [ODD, ABOVE, TOP]
    result = engine.execute("DROP MATERIALIZED VIEW odd CASCADE")
    assert (result.message, result.until) == ("odd: asked to drop, and with it above, Top", Until.GONE)
    assert [job.name for job in result.jobs] == ["odd", "above", "Top"]
    assert all(stored(engine, job).wants_end for job in (ODD, ABOVE, TOP))
    assert stored(engine, COPY) == COPY
    with pytest.raises(InUse, match="events is in use"):
        engine.unregister("events")


def test_cancelling_with_all_that_reads_it(engine: Engine) -> None:
    engine._store.create(ABOVE)
    assert [job.name for job in engine.job("odd").cancel(cascade=True)] == ["above"]
    engine._store.create(row("mirror", 5, replace(REPLICA, input="copy"), life=Life.LIVE, published=1))
    with pytest.raises(WrongState, match="copy is live"):
        engine.execute("CANCEL JOB copy CASCADE")


@pytest.mark.parametrize("first", [0, 1, 2])
def test_what_is_dropped_together_goes_in_any_order(engine: Engine, first: int) -> None:
    """Whoever is last has lost its input by then."""
    for job in (ABOVE, TOP):
        engine._store.create(job)
    jobs = list(engine.execute("DROP JOB odd CASCADE").jobs)
    runner = engine.scheduler()._runner
    for going in (*jobs[first:], *jobs[:first]):
        runner.turn(going.id)
        assert going._is_gone()
    assert [job.name for job in engine.jobs()] == ["copy"]


def test_a_replica_of_another_database_reads_nothing_of_ours(engine: Engine) -> None:
    engine._store.create(row("shop.public.orders", 3, REPLICA))
    engine._store.create(row("orders", 4, ORDERS))
    assert engine.job("shop.public.orders").drop(cascade=True) == []


def test_an_error_in_a_script_says_where_and_keeps_what_was_done(engine: Engine) -> None:
    script = "PAUSE JOB odd;\n\nPAUSE JOB nobody"
    with pytest.raises(UnknownJob) as raised:
        engine.execute(script)
    assert raised.value.detail == "In line 3: PAUSE JOB nobody"
    assert stored(engine, ODD).pause is Pause.ALL


def test_statements_are_executed_as_they_are_asked_for(engine: Engine) -> None:
    script = results(engine, "PAUSE JOB odd; PAUSE JOB copy")
    next(script)
    assert [stored(engine, ODD).pause, stored(engine, COPY).pause] == [Pause.ALL, Pause.NOTHING]


def test_a_job_that_stands_still_is_not_waited_for(engine: Engine) -> None:
    engine._store.change(ODD.id, lambda job: replace(job, life=Life.PAUSED, pause=Pause.ALL))
    with pytest.raises(WrongState, match=r"odd is paused[\s\S]*RESUME JOB"):
        engine.job("odd").wait()


def test_a_job_that_is_gone_was_waited_for(engine: Engine) -> None:
    job = engine.job("odd")
    engine._store.change(ODD.id, lambda row: replace(row, wants_end=True))
    engine._store.change(COPY.id, lambda row: replace(row, life=Life.FAILED))
    assert job.wait(30, gone=True) is job
    with pytest.raises(UnknownJob):
        job.wait(30)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("-- only a comment", True),
        ("SHOW JOBS", False),
        ("SHOW JOBS;", True),
        ("SHOW JOBS; SHOW", False),
        ("SELECT ';", False),
        ("SELECT ';';", True),
        ("SELECT 1 /* ;", False),
        ("SELECT `a;", False),
        ("SELECT 1; -- done", True),
        ("SELECT \x00;", True),
    ],
)
def test_when_typing_has_come_to_an_end(text: str, complete: bool) -> None:
    assert is_complete(text) is complete
