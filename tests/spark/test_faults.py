"""What Spark raises is told apart by its condition and SQLSTATE, never by words that may come from a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.engine.shop import Shop
from tidefill.errors import (
    CommitConflict,
    HistoryGone,
    KeyNotUnique,
    QueryFailed,
    TargetTouched,
    TidefillError,
    Unavailable,
    Unexplained,
    Unreadable,
)
from tidefill.spark.faults import KEY_NOT_UNIQUE, translate, translated

# The value of `word` has everything in it by which errors were once told apart.
WORD = "FileNotFoundException DELTA_CONCURRENT DELTA_TABLE_NOT_FOUND TIDEFILL_SNAPSHOT_GONE"
FORGED = "concat('x', chr(10), 'Caused by: java.io.FileNotFoundException: ', word)"

DATA = {
    "index of an array": "SELECT array(1)[id] AS x FROM rows",
    "element_at": "SELECT element_at(array(1), int(id) + 2) AS x FROM rows",
    "raise_error": "SELECT raise_error(word) AS x FROM rows",
    "raise_error with a stack of its own": f"SELECT raise_error({FORGED}) AS x FROM rows",
    "assert_true": "SELECT assert_true(id < 0, word) AS x FROM rows",
    "key of a map": "SELECT map(id % 1, 1, 0L, 2) AS x FROM rows",
    "division by zero": "SELECT 1 / id AS x FROM rows",
    "overflow": "SELECT id + 9223372036854775807 AS x FROM rows",
    "cast": "SELECT CAST(word AS INT) AS x FROM rows",
    "date": "SELECT to_timestamp(word, 'yyyy') AS x FROM rows",
    "number format": "SELECT to_number(word, '999') AS x FROM rows",
    "subquery of several rows": "SELECT (SELECT word FROM rows) AS x",
    "json": "SELECT from_json(word, 'a INT', map('mode', 'FAILFAST')) AS x FROM rows",
}


@pytest.fixture(scope="module", params=["classic", "connect"])
def session(request: pytest.FixtureRequest, spark: SparkSession, connect_url: str) -> Iterator[SparkSession]:
    if request.param == "classic":
        yield spark.newSession()
        return
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    remote = RemoteSession.builder.remote(connect_url).create()
    yield remote  # type: ignore[misc]
    remote.stop()


@pytest.fixture
def rows(session: SparkSession, tmp_path: Path) -> str:
    path = str(tmp_path / "rows")
    made = session.sql(f"SELECT id, '{WORD}' AS word FROM range(0, 4, 1, 2)")
    made.write.format("delta").save(path)
    session.read.format("delta").load(path).createOrReplaceTempView("rows")
    return path


def _raised(session: SparkSession, query: str) -> TidefillError:
    with pytest.raises(TidefillError) as caught, translated():
        session.sql(query).collect()
    return caught.value


def test_what_a_row_holds_stops_the_query_whatever_its_words_are(session: SparkSession, rows: str) -> None:
    found = {name: type(_raised(session, query)).__name__ for name, query in DATA.items()}
    assert found == dict.fromkeys(DATA, "QueryFailed")


def test_a_row_that_cannot_be_written_is_as_bad_as_one_that_cannot_be_read(session: SparkSession, rows: str) -> None:
    for name in ("division by zero", "raise_error with a stack of its own", "json"):
        with pytest.raises(QueryFailed) as caught, translated():
            session.sql(DATA[name]).write.format("delta").save(f"{rows}-{name}")
        assert "TASK_WRITE_FAILED" not in caught.value.detail, "the detail is about the value"


def test_the_error_shows_the_value_the_place_in_the_query_and_a_way_out(session: SparkSession, rows: str) -> None:
    error = _raised(session, "SELECT id, CAST(word AS INT) AS x FROM rows")
    assert "CAST_INVALID_INPUT" in error.detail
    assert "CAST(word AS INT)" in error.detail
    assert "try_cast" in error.hint
    assert "RESUME" in error.hint


def test_our_own_word_about_keys_counts_only_where_we_say_it(session: SparkSession, rows: str) -> None:
    assert isinstance(_raised(session, f"SELECT raise_error('[{KEY_NOT_UNIQUE}] a row came') FROM rows"), KeyNotUnique)
    assert isinstance(_raised(session, f"SELECT raise_error('id 3: [{KEY_NOT_UNIQUE}]') FROM rows"), QueryFailed)


def test_what_delta_says_of_its_tables_keeps_its_meaning(session: SparkSession, rows: str) -> None:
    assert isinstance(_raised(session, f"SELECT * FROM delta.`{rows}-none`"), TargetTouched)
    assert isinstance(_raised(session, f"SELECT * FROM delta.`{rows}` VERSION AS OF 9"), HistoryGone)
    with pytest.raises(CommitConflict), translated():
        session.range(1).write.format("delta").save(rows)
    for file in Path(rows).glob("*.parquet"):
        file.unlink()
    assert isinstance(_raised(session, f"SELECT word FROM delta.`{rows}`"), Unreadable)


def test_what_nobody_can_name_is_tried_again(session: SparkSession, rows: str) -> None:
    error = _raised(session, "SELECT sequence(1, int(id) - 9, 1) AS x FROM rows")  # a bare IllegalArgumentException
    assert isinstance(error, Unexplained)
    assert isinstance(error, Unavailable)
    assert "IllegalArgumentException" in error.fact


def test_an_error_without_any_word_is_tried_again() -> None:
    assert type(translate(Exception())) is Unavailable


def test_a_job_stops_at_a_value_and_goes_on_when_it_was_mended(shop: Shop) -> None:
    shop.make(20, "id, if(id = 7, 0, 1) AS n, 'FileNotFoundException DELTA_CONCURRENT' AS word")
    shop.engine.register("numbers", location=shop.source, key="id")
    job = shop.engine.create_view("shares", "SELECT id, if(n = 0, raise_error(word), 6) AS share FROM numbers")
    shop.turns(12)
    status = job.status()
    assert (status.state, status.failure.code if status.failure else "") == ("failed", "QUERY_FAILED")
    shop.sql("UPDATE SOURCE SET n = 3 WHERE n = 0")
    job.resume()
    job.wait()
    shop.expect("shares", "SELECT id, 6 AS share FROM SOURCE")
