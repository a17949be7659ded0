"""An index is filled through Spark: read by chunks into files, cut into ranges, sorted, loaded by tasks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from tests.postgres.harness import PASSWORD, ROLE, Postgres
from tests.postgres.index import harness, spark_runner
from tests.postgres.index.harness import PATIENCE_S, Indexed
from tests.postgres.index.test_jobs import ends_soon
from tests.postgres.index.test_jobs import table as table
from tests.postgres.index.test_scenarios import SCANNED
from tidefill import connect
from tidefill.engine.engine import Engine
from tidefill.errors import DuplicateKeys, Fenced, InvalidSetting, JobFailed, KeyUnindexable, NotYet, TidefillError
from tidefill.indexes import sorting
from tidefill.indexes.next_action import BuildKey, FillChunk, Merge
from tidefill.indexes.shape import shape_to_text
from tidefill.indexes.sorting import FILES, LOADED, STAGED, Sort
from tidefill.indexes.states import State
from tidefill.postgres.index import copying, spark_sort
from tidefill.postgres.index.session import IndexSession
from tidefill.postgres.index.spark_sort import SparkSort, target_of
from tidefill.postgres.server import PostgresServer
from tidefill.testing.turns import turns

if TYPE_CHECKING:
    from tests.postgres.index.harness import Through

Make = Callable[..., Indexed]
ROOT = Path(__file__).parents[3]
ROWS_MAX = 10
WAIT_S = 60.0
ODD = ("", "tab\t", "back\\slash", "line\nline\r", "\\N", "é", "a'b", "NULL", None, None)
Rows = list[tuple[int, int, str | None]]
ROWS: Rows = [(number, number % 4, f"v{number % 7}{number}") for number in range(1, 31)]
ROWS += [(100 + at, at % 4, text) for at, text in enumerate(ODD)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where chunks are staged. Ranges are small in this test, and a step of Spark takes longer than others."""
    monkeypatch.setattr(sorting, "RANGE_ROWS", ROWS_MAX)
    monkeypatch.setattr(harness, "PATIENCE_S", 4 * PATIENCE_S)
    return tmp_path / "staged"


@pytest.fixture
def through(spark: SparkSession, folder: Path) -> Callable[..., Through]:
    """Makes what fills an index through Spark."""

    def make(rows: int = len(ROWS), sort: Sort = Sort.SPARK) -> Through:
        def of(session: IndexSession) -> SparkSort:
            def remove() -> None:
                shutil.rmtree(folder, ignore_errors=True)

            return SparkSort(lambda: spark, session._server, str(folder), remove, sort, lambda: rows)

        return of

    return make


def checkpoints(index: Indexed, kind: str) -> list[tuple[Any, ...]]:
    """The checkpoints of that kind, each with the transaction that wrote it."""
    query = "SELECT chunk, upto, rows, xmin::text FROM tidefill.index_chunks WHERE id = %s ORDER BY 1"
    return index.sql(query, f"{index.shape.id}/{kind}")


def to_load(index: Indexed) -> None:
    """Take turns until all is staged."""
    index.run_until(lambda index: index.truth.filled.is_read)


@pytest.mark.parametrize("sort", [Sort.SPARK, pytest.param(Sort.NONE, marks=pytest.mark.full)])
def test_it_has_what_the_table_has(indexed: Make, through: Callable[..., Through], folder: Path, sort: Sort) -> None:
    index = indexed(ROWS, chunk_rows=8, tasks=2, through=through(sort=sort))
    while index.state is not State.READ_WRITE_AND_DELETE:
        index.turn()
        index.sql("UPDATE {t} SET v = v || 'x', inc = 'tab\t' WHERE id IN (3, 104)")
        index.sql("DELETE FROM {t} WHERE id = 200")
        index.sql("INSERT INTO {t} (id, r, v) VALUES (200, 1, 'new')")
    index.run()
    assert index.differences() == []
    assert not folder.exists()
    assert len(checkpoints(index, LOADED)) == len(ROWS) // ROWS_MAX
    assert len(checkpoints(index, STAGED)) >= len(ROWS) // 8


def test_two_ranges_are_loaded_at_a_time_and_a_take_over_ends_them(
    indexed: Make, through: Callable[..., Through], folder: Path
) -> None:
    index = indexed(ROWS, chunk_rows=20, tasks=2, through=through())
    to_load(index)
    shutil.copytree(next(folder.iterdir()), folder / "chunk=of-an-attempt-that-was-cut-off")
    index.turn()
    first = checkpoints(index, LOADED)
    assert [number for number, *_ in first] == [0, 1]
    holder, machine, job, truth = index.writer(), index.machine, index.job, index.truth
    holder.execute(f"BEGIN; LOCK TABLE {index.shape.entries} IN SHARE MODE")
    plan = machine.plan(job, truth, spark_runner.round_of_now())
    with index.meanwhile(lambda: machine.execute(job, truth, plan)) as said:  # type: ignore[arg-type]
        index.until(lambda: waiting(index, holder.info.backend_pid) == 2)
        index.restart()
        holder.execute("COMMIT")
    assert isinstance(said[0], TidefillError), said
    assert checkpoints(index, LOADED) == first, "what was not committed is gone with its checkpoint"
    index.run()
    assert index.differences() == []
    assert checkpoints(index, LOADED)[:2] == first, "what was loaded is not loaded again"
    assert sum(rows for _, _, rows, _ in checkpoints(index, LOADED)) == len(ROWS)


def waiting(index: Indexed, pid: int) -> int:
    """How many sessions wait for a lock of that one."""
    return len(index.sql("SELECT 1 FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))", pid))


def test_equal_keys_are_not_loaded_but_judged_by_the_merge(indexed: Make, through: Callable[..., Through]) -> None:
    rows: Rows = [(number, number % 4, f"v{number}") for number in range(1, 9)]
    rows += [(20, 0, "v1"), (21, 1, "v1"), (22, 0, "v8"), (23, 0, None), (24, 1, None)]
    index = indexed(rows, chunk_rows=4, tasks=4, through=through(rows=20))
    index.run_before(BuildKey)
    logged = index.sql(f"SELECT p1::int FROM {index.shape.log(1)} ORDER BY 1")
    assert logged == [(1,), (8,), (20,), (21,), (22,)], "in one chunk or in several"
    assert index.sql(f"SELECT count(*) FROM {index.shape.entries} WHERE k1 IN ('v1', 'v8')") == [(0,)]
    index.sql("DELETE FROM {t} WHERE id = 22")
    with pytest.raises(DuplicateKeys) as caught:
        index.run()
    assert caught.value.detail == "(v1) by the rows (1,1), (20,0), (21,1)"
    index.machine.abandon(index.job, caught.value)
    index.sql("DELETE FROM {t} WHERE id IN (20, 21)")


@pytest.mark.full
@pytest.mark.parametrize("sort", [Sort.SPARK, Sort.NONE])
def test_entries_of_all_chunks_are_loaded_in_one_order(
    indexed: Make, through: Callable[..., Through], sort: Sort
) -> None:  # C10
    """Keys of all chunks lie all over the key space. They come into the table in the order of the key."""
    rows: Rows = [(number, number % 4, f"v{(number * 37) % 41:02}") for number in range(1, 41)]
    index = indexed(rows, chunk_rows=8, tasks=2, through=through(sort=sort))
    to_load(index)
    index.settings = replace(index.settings, parallelism=1)
    index.restart()
    index.run_before(BuildKey)
    keys = [key for (key,) in index.sql(f"SELECT k1 FROM {index.shape.entries} ORDER BY ctid")]
    assert (keys == sorted(text for _, _, text in rows if text)) is (sort is Sort.SPARK)
    assert len(checkpoints(index, LOADED)) > 1


# A job.


@pytest.fixture
def engine(spark: SparkSession, postgres: Postgres, table: str, tmp_path: Path) -> Iterator[Engine]:
    with connect(spark, tmp_path / "lake", tmp_path / "store", {"shop": postgres.server.url()}) as made:
        yield made
        for job in made.jobs():
            job.drop()
        made.run_once(ends_soon())


def staged(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "lake").glob("*/chunk=*")]


def test_nothing_staged_is_left_after_a_drop(engine: Engine, table: str, tmp_path: Path) -> None:
    words = f"UNIQUE INDEX ix_{table} ON shop.{table} (email) WITH (sort = spark, chunk_rows = 200, parallelism = 2)"
    told = {name: value for name, value in engine.execute(f"EXPLAIN CREATE {words}").rows}  # noqa: C416
    assert str(told["sort"]).startswith("spark: Spark reads")
    assert told["loaded by"] == "tasks of Spark, one range each"
    job = engine.execute(f"CREATE {words}").jobs[0]
    while not staged(tmp_path):
        turns(engine, 1)
    job.alter(parallelism=3)
    with pytest.raises(InvalidSetting, match="when an index is created"):
        job.alter(sort="server")
    turns(engine, 1)
    assert len(staged(tmp_path)) == 2
    assert [job.status().rows, job.status().settings.sort] == [1000, "spark"]
    job.drop()
    engine.run_once(ends_soon())
    assert engine.jobs() == []
    assert list((tmp_path / "lake").iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize("ends", ["live", "failed"])
def test_nothing_staged_is_left_at_the_end(
    engine: Engine, postgres: Postgres, table: str, tmp_path: Path, ends: str
) -> None:
    if ends == "failed":
        postgres.execute(f"INSERT INTO {table} VALUES (2000, 0, 'u1'), (2001, 1, 'u2')")
    job = engine.create_index("ix", f"shop.{table}", "email", unique=True, sort="spark", chunk_rows=300)
    if ends == "failed":
        with pytest.raises(JobFailed, match="2 keys"):
            job.wait(WAIT_S)
        assert [key for key, _, _ in job.violations()] == ["(u1)", "(u2)"]
    else:
        job.wait(WAIT_S)
        assert job.verify().differences == ()
        assert not engine.needs_spark()
    assert list((tmp_path / "lake").iterdir()) == []
    if ends == "failed":
        postgres.execute(f"DELETE FROM {table} WHERE id >= 2000")
        job.resume()
        job.wait(WAIT_S)
        assert job.verify().rows == 1000


@pytest.mark.full
def test_the_rate_limit_holds_for_reading_and_loading(indexed: Make, through: Callable[..., Through]) -> None:
    index = indexed(ROWS, rate_limit=40, tasks=4, through=through())
    index.run_before(FillChunk)
    began_s, moved = time.time(), list[int]()
    while index.state is State.BACKFILLING:
        before = index.truth.filled
        index.turn()
        after = index.truth.filled
        moved.append(after.rows - before.rows + after.loaded - before.loaded)
        assert len(before.left) - len(after.left) <= 1 or not before.left, "one range at a time"
        assert sum(moved) <= 40 * (time.time() - began_s + 1) + ROWS_MAX
    index.run()
    assert index.differences() == []


# Trouble.


@pytest.mark.full
def test_a_take_over_in_mid_stage_repeats_one_step(indexed: Make, through: Callable[..., Through]) -> None:
    rows = [(number, 0, f"v{number}") for number in range(1, 21)] + [(21, 0, "a")]
    index = indexed(rows, columns=("{t}_key(v)",), setup=SCANNED, chunk_rows=5, tasks=1, through=through())
    index.run_until(lambda index: index.truth.filled.chunks == 4)
    files = checkpoints(index, FILES)
    holder, machine, job, truth = index.writer(), index.machine, index.job, index.truth
    holder.execute("SELECT pg_advisory_lock(9)")
    plan = machine.plan(job, truth, spark_runner.round_of_now())
    with index.meanwhile(lambda: machine.execute(job, truth, plan), holder.info.backend_pid) as said:  # type: ignore[arg-type]
        index.restart()
        holder.close()
    assert isinstance(said[0], TidefillError), said
    assert checkpoints(index, FILES) == files
    index.run()
    assert index.differences() == []
    assert checkpoints(index, FILES)[:4] == files
    assert len(checkpoints(index, FILES)) == 5


@pytest.mark.full
def test_a_runner_that_was_taken_over_notes_nothing(
    indexed: Make, through: Callable[..., Through], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its sessions live on: it reads and writes files, but no checkpoint names them, and no range is loaded."""
    monkeypatch.setattr(IndexSession, "end_older", lambda self: None)
    index = indexed(ROWS, chunk_rows=10, tasks=2, through=through())
    index.run_until(lambda index: index.truth.filled.chunks == 2)
    for done in (lambda index: index.truth.filled.is_read, lambda index: index.truth.filled.is_done):
        zombie, truth = index.machine, index.truth
        plan = zombie.plan(index.job, truth, spark_runner.round_of_now())
        index.restart()
        before = {kind: checkpoints(index, kind) for kind in (STAGED, FILES, LOADED)}
        with pytest.raises(Fenced):
            zombie.execute(index.job, truth, plan)  # type: ignore[arg-type]
        assert {kind: checkpoints(index, kind) for kind in before} == before
        index.run_until(done)
    index.run()
    assert index.differences() == []


@pytest.mark.full
@pytest.mark.parametrize("where", ["stage", "copy"])
def test_a_runner_is_killed(
    indexed: Make, through: Callable[..., Through], connect_url: str, folder: Path, where: str
) -> None:
    """By kill -9 in the middle of a read and of a load. The next one repeats what was under way, and nothing else."""
    rows = [(number, 0, f"v{number:02}") for number in range(1, 40)] + [(40, 0, "a")]
    index = indexed(rows, columns=("{t}_key(v)",), setup=SCANNED, chunk_rows=10, through=through())
    index.run_until(lambda index: index.truth.filled.chunks == (3 if where == "stage" else 5))
    if where == "copy":
        index.turn()
    before = {kind: checkpoints(index, kind) for kind in (STAGED, FILES, LOADED)}
    holder = index.writer()
    holder.execute("BEGIN")
    if where == "stage":
        holder.execute("SELECT pg_advisory_xact_lock(9)")
    else:
        holder.execute(f"LOCK TABLE {index.shape.entries} IN SHARE MODE")
    told = {
        "url": index.url, "shape": shape_to_text(index.shape), "fence": index.fence + 1, "chunk_rows": 10,
        "spark": connect_url, "folder": str(folder), "rows": len(ROWS), "ranges": ROWS_MAX,
    }  # fmt: skip
    command = [sys.executable, "-m", spark_runner.__name__, json.dumps(told)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        until_s = time.monotonic() + 3 * PATIENCE_S
        while not index.waits_for(holder.info.backend_pid):
            assert process.poll() is None, "the runner has ended"
            assert time.monotonic() < until_s, "the runner does not come to the lock"
        process.kill()
    index.fence += 1
    index.restart()
    assert {kind: checkpoints(index, kind) for kind in before} == before
    holder.execute("COMMIT")
    index.run()
    assert index.differences() == []
    for kind, known in before.items():
        assert checkpoints(index, kind)[: len(known)] == known, f"{kind} was repeated"
    assert [number for number, *_ in checkpoints(index, LOADED)] == [0, 1, 2, 3]


@pytest.mark.full
def test_a_row_that_cannot_be_indexed_is_named(indexed: Make, through: Callable[..., Through]) -> None:
    index = indexed([(1, 0, "5"), (2, 1, "x"), (3, 2, "7")], columns=("(v::int)",), through=through(rows=3))
    with pytest.raises(KeyUnindexable) as caught:
        index.run()
    assert "id = 2, r = 1" in caught.value.detail


@pytest.mark.full
def test_the_driver_loads_where_a_worker_cannot(
    indexed: Make, through: Callable[..., Through], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_sort, "attempt", lambda spark, login: copying.NO_DRIVER)
    index = indexed(ROWS, tasks=2, through=through())
    index.run()
    assert index.differences() == []
    assert len(checkpoints(index, LOADED)) == len(ROWS) // ROWS_MAX


VALUES = {
    "smallint": ("-3", "12", "7"),
    "numeric": ("1.50", "1.5", "-1e40", "NaN"),
    "double precision": ("0.1", "1e300", "-0", "NaN"),
    "date": ("2024-02-29", "infinity", "0044-03-15 BC"),
    "timestamptz": ("2024-02-29 12:00:00.123456+05", "-infinity"),
    "uuid": ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",),
    "bytea": ("\\x00ff5c09", "\\x"),
    "boolean": ("t", "f"),
    "char(5)": ("a", "a b"),
    "bpchar": ("a  ", "b"),
    "interval": ("1 mon -3 days 04:05:06.7",),
    "jsonb": ('{"a": "\\t\\\\"}', "null"),
    "int[]": ("{1,NULL,3}", "{}"),
    "inet": ("10.0.0.0/8", "::1"),
    '"char"': ("x", "\\"),
    "money": ("$1.50", "-$3.00"),
}


@pytest.mark.full
def test_values_of_all_types_come_back_unchanged(indexed: Make, through: Callable[..., Through]) -> None:
    columns = [f"x{at}" for at in range(len(VALUES))]
    setup = [f"ALTER TABLE {{t}} ADD COLUMN {name} {kind}" for name, kind in zip(columns, VALUES, strict=True)]
    for name, values in zip(columns, VALUES.values(), strict=True):
        setup += [f"UPDATE {{t}} SET {name} = '{value}' WHERE id = {at}" for at, value in enumerate(values, 1)]
    rows = [(number, number % 4, None) for number in range(1, 6)]
    index = indexed(rows, columns=tuple(columns), unique=False, setup=setup, through=through(rows=5))
    index.run()
    assert index.differences() == []
    keys = ", ".join(index.shape.k)
    images = f"record_image_eq(ROW({keys}), ROW({', '.join(columns)}))"
    assert index.sql(f"SELECT {images} FROM {index.shape.entries} JOIN {{t}} ON p1 = id") == [(True,)] * 5


@pytest.mark.full
def test_numbers_that_only_the_server_takes_for_equal(indexed: Make, through: Callable[..., Through]) -> None:
    """1.5 and 1.50 are different texts: the key finds them, and the merge judges them."""
    rows = [(number, number % 4, None) for number in range(1, 13)]
    setup = ["UPDATE {t} SET n = id", "UPDATE {t} SET n = 3.50 WHERE id = 1", "UPDATE {t} SET n = 3.5 WHERE id = 9"]
    index = indexed(rows, columns=("n",), setup=setup, chunk_rows=4, tasks=2, through=through(rows=12))
    index.run_before(Merge)
    index.sql("UPDATE {t} SET n = 99 WHERE id = 9")
    index.run()
    assert index.differences() == []


@pytest.mark.full
def test_no_plan_shows_the_url(
    indexed: Make, through: Callable[..., Through], spark: SparkSession, postgres: Postgres,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    index = indexed(ROWS, through=through())
    index.run_before(FillChunk)
    assert index.truth.control is not None
    secret = PostgresServer("shop", postgres.server.url(ROLE, PASSWORD))
    target = target_of(secret, index.session, index.truth.control, Sort.SPARK)
    spark.range(1).mapInArrow(copying.loads(target), copying.RESULT).explain("extended")
    shown = capsys.readouterr().out
    assert "MapInArrow" in shown
    assert PASSWORD not in shown
    assert ROLE + ":" not in shown


@pytest.mark.full
def test_a_table_that_is_renamed_is_read_on(indexed: Make, through: Callable[..., Through]) -> None:
    index = indexed(ROWS, chunk_rows=8, through=through())
    index.run_until(lambda index: index.truth.filled.chunks == 1)
    plan = index.machine.plan(index.job, index.truth, spark_runner.round_of_now())
    index.sql("ALTER TABLE {t} RENAME TO {t}_b")
    index.name += "_b"
    with pytest.raises(NotYet):
        index.machine.execute(index.job, index.truth, plan)  # type: ignore[arg-type]
    index.run()
    assert index.differences() == []
