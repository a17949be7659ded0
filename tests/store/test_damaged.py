"""Files that are no store, or a damaged one: the error is ours, and nothing is overwritten."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.store.examples import EVENTS, JOB, run_sql
from tidefill.errors import StoreUnreadable, TidefillError
from tidefill.jobs.namespace import Registered
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job, intend
from tidefill.store.sql_store import SqlStore, open_store


def test_something_that_is_no_database(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(b"a letter to a friend, " * 100)
    with pytest.raises(StoreUnreadable, match="not a database") as caught:
        open_store(file)
    assert "backup" in caught.value.hint
    assert file.read_bytes().startswith(b"a letter")


def test_the_database_of_another_program_is_left_alone(file: Path) -> None:
    file.parent.mkdir(parents=True)
    run_sql(file, "CREATE TABLE letters (a)")
    with pytest.raises(StoreUnreadable, match="letters"):
        open_store(file)
    assert run_sql(file, "SELECT name FROM sqlite_master") == [("letters",)]


DAMAGES = ("''", "'{'", "'[]'", "'{}'", "'null'", "7", "x'ff'", "CAST(x'ff' AS TEXT)")


@pytest.mark.parametrize("data", DAMAGES)
def test_a_row_that_cannot_be_read(file: Path, store: SqlStore, data: str) -> None:
    store.create(JOB)
    run_sql(file, f"UPDATE jobs SET data = {data}")
    for read in (store.jobs, lambda: store.job("1"), lambda: store.change("1", lambda job: job)):
        with pytest.raises(StoreUnreadable):
            read()


@pytest.mark.parametrize("data", DAMAGES)
def test_a_table_that_cannot_be_read(file: Path, store: SqlStore, data: str) -> None:
    store.register(EVENTS)
    run_sql(file, f"UPDATE tables SET data = {data}")
    for read in (store.tables, lambda: store.table("events"), lambda: store.unregister("events", lambda job: [])):
        with pytest.raises(StoreUnreadable):
            read()


def test_a_missing_table_is_named(file: Path, store: SqlStore) -> None:
    run_sql(file, "DROP TABLE events")
    with pytest.raises(StoreUnreadable, match="no such table"):
        store.events("1")


def test_whatever_is_damaged_the_error_is_ours(file: Path) -> None:
    with open_store(file) as store:
        for number in range(6):
            store.create(Job(str(number), f"job {number}", "x" * 2000))
            store.add_event(str(number), 0.0, "created")
            store.register(Registered(f"table {number}", "x" * 2000))
    whole, chance, outcomes = file.read_bytes(), Random(7), Counter[str]()
    for _ in range(40):
        file.write_bytes(_damaged(whole, chance))
        outcomes[_outcome(file)] += 1
    assert outcomes["fine"] < 40
    assert set(outcomes) <= {"fine", "STORE_UNREADABLE", "UNAVAILABLE"}, outcomes


def _damaged(whole: bytes, chance: Random) -> bytes:
    data = bytearray(whole)
    at = chance.randrange(len(data) - 600)
    data[at : at + 600] = chance.randbytes(600)
    return bytes(data[: chance.choice([len(data), len(data), chance.randrange(1, len(data))])])


def _outcome(file: Path) -> str:
    try:
        with open_store(file, busy_s=0.05) as store:
            store.tables()
            for job in store.jobs():
                store.events(job.id)
                store.change(job.id, intend(Resource("mark", "slot")))
    except TidefillError as error:
        return error.code
    finally:
        for beside in file.parent.glob(f"{file.name}-*"):
            beside.unlink()
    return "fine"
