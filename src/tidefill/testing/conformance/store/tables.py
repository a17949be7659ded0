"""Tests of registered tables: they share their names with jobs, and one that a job reads stays."""

from __future__ import annotations

from tidefill.errors import InUse, NameTaken, UnknownTable
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import Registered
from tidefill.jobs.row import NAME_CHARACTERS_MAX, Job, Pause, wish_pause
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.store.rows import (
    ODD_NAMES,
    MakeStore,
    StoreTest,
    new_job,
    new_table,
    reading,
    reads_nothing,
    with_life,
)


def register_gives_the_new_table(make_store: MakeStore) -> None:
    store = make_store()
    assert store.register(new_table("t")) == new_table("t")
    assert store.table("t") == new_table("t")
    assert list(store.tables()) == [new_table("t")]
    assert store.find("t") is None, "a table is no job"


def an_equal_table_attaches(make_store: MakeStore) -> None:
    store = make_store()
    first = store.register(new_table("Straße"))
    assert store.register(new_table("STRASSE")) == first, "it is the table as it was first written"
    error = raised(NameTaken, lambda: store.register(Registered("strasse", "another")))
    assert "strasse" in error.fact
    assert error.hint
    assert list(store.tables()) == [first]


def any_text_can_name_a_table(make_store: MakeStore) -> None:
    store = make_store()
    names = (*ODD_NAMES, "ß" * NAME_CHARACTERS_MAX)
    for name in names:
        store.register(Registered(name, f"definition of {name}"))
    for name in names:
        assert store.table(name) == Registered(name, f"definition of {name}")
    assert len(store.tables()) == len(names)
    for name in names:
        store.unregister(name, reads_nothing)
    assert list(store.tables()) == []


def tables_come_by_name(make_store: MakeStore) -> None:
    store = make_store()
    for name in ("b", "C", "a", "ä", "B2"):
        store.register(new_table(name))
    assert [table.name for table in store.tables()] == ["a", "b", "B2", "C", "ä"]


def a_table_takes_its_name_from_jobs(make_store: MakeStore) -> None:
    store = make_store()
    table = store.register(new_table("Straße"))
    error = raised(NameTaken, lambda: store.create(Job("a", "STRASSE", table.definition)))
    assert "table" in error.fact
    assert "unregister Straße" in error.hint
    assert list(store.jobs()) == []
    store.unregister("sTRASSE", reads_nothing)
    assert store.table("Straße") is None
    assert store.create(new_job("a", "STRASSE")) == new_job("a", "STRASSE")


def a_job_takes_its_name_from_tables(make_store: MakeStore) -> None:
    store = make_store()
    job = store.create(new_job("a", "Straße"))
    for life in Life:
        if life is not Life.DROPPED:
            store.change("a", with_life(life))
            error = raised(NameTaken, lambda: store.register(Registered("STRASSE", job.definition)))
            assert "job" in error.fact
            assert "drop Straße" in error.hint
    assert list(store.tables()) == []
    store.change("a", with_life(Life.DROPPED))
    assert store.register(new_table("STRASSE")) == new_table("STRASSE"), "a dropped job has no name"
    raised(NameTaken, lambda: store.create(new_job("b", "Straße")))


def a_table_that_is_read_stays(make_store: MakeStore) -> None:
    store = make_store()
    table = store.register(new_table("t"))
    store.create(new_job("a", "reader"))
    store.create(new_job("b", "other"))
    for life in Life:
        store.change("a", with_life(life))
        if life is not Life.DROPPED:
            error = raised(InUse, lambda: store.unregister("T", reading(reader=["T"], other=["u"])))
            assert "t" in error.fact
            assert "reader" in error.detail
            assert "other" not in error.detail
            assert store.table("t") == table
    store.unregister("T", reading(reader=["T"]))
    assert list(store.tables()) == []
    raised(UnknownTable, lambda: store.unregister("t", reads_nothing))


def unregister_asks_about_the_jobs_as_they_are(make_store: MakeStore) -> None:
    store = make_store()
    table = store.register(new_table("t"))
    store.create(new_job("a"))
    paused = store.change("a", wish_pause(Pause.ALL))
    asked: list[Job] = []

    def break_off(job: Job) -> list[str]:
        asked.append(job)
        raise ZeroDivisionError

    raised(ZeroDivisionError, lambda: store.unregister("t", break_off))
    assert asked == [paused]
    assert store.table("t") == table, "what the function raises leaves the table"
    store.unregister("t", reads_nothing)
    assert store.job("a") == paused


TABLES: tuple[StoreTest, ...] = (
    register_gives_the_new_table,
    an_equal_table_attaches,
    any_text_can_name_a_table,
    tables_come_by_name,
    a_table_takes_its_name_from_jobs,
    a_job_takes_its_name_from_tables,
    a_table_that_is_read_stays,
    unregister_asks_about_the_jobs_as_they_are,
)
