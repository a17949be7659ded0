"""Tests of what is kept beside a job's row: the names of its parts, which are taken together, and what EXPLAIN said."""

from __future__ import annotations

from dataclasses import replace

from tidefill.errors import InUse, NameTaken
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import wish_drop
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.store.rows import (
    MakeStore,
    StoreTest,
    new_job,
    new_table,
    reading,
    with_life,
)


def a_job_is_found_by_the_names_of_its_parts(make_store: MakeStore) -> None:
    store = make_store()
    job = store.create(replace(new_job("a", "x"), part_names=("Part 1", "part 2")))
    for name in ("x", "part 1", "PART 2"):
        assert store.find(name) == job
    assert store.create(job) == job, "the same wish again"
    assert [row.id for row in store.jobs()] == ["a"], "it is one job"


def all_names_are_taken_or_none(make_store: MakeStore) -> None:
    store = make_store()
    store.register(new_table("t"))
    store.create(replace(new_job("a", "x"), part_names=("p",)))
    for taken in ("t", "X", "P"):
        job = replace(new_job("b", "y"), definition="another", part_names=("free", taken))
        error = raised(NameTaken, lambda job=job: store.create(job))  # type: ignore[misc]
        assert error.hint
    assert store.find("free") is None
    assert store.find("y") is None
    raised(NameTaken, lambda: store.create(replace(new_job("b", "p"), definition="another")))
    raised(NameTaken, lambda: store.register(new_table("p")))


def names_of_parts_are_free_after_a_drop(make_store: MakeStore) -> None:
    store = make_store()
    store.create(replace(new_job("a", "x"), part_names=("p",)))
    store.change("a", with_life(Life.CANCELLING))
    assert store.find("p") is not None, "it is still being removed"
    store.change("a", with_life(Life.DROPPED))
    assert store.find("p") is None
    again = store.create(replace(new_job("b", "p"), definition="another"))
    assert store.find("p") == again
    store.delete("a")
    assert store.find("p") == again


def a_part_that_is_read_keeps_its_job(make_store: MakeStore) -> None:
    store = make_store()
    store.create(replace(new_job("a", "x"), part_names=("p",)))
    store.create(replace(new_job("b", "reader"), definition="another"), ["p"])
    reads = reading(reader=["P"])
    raised(InUse, lambda: store.wish_end("a", wish_drop, reads))
    together = store.wish_end("a", wish_drop, reads, cascade=True)
    assert [job.id for job in together] == ["a", "b"]


def what_explain_said_is_kept_beside_the_row(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a"), explained='{"name": "é"}')
    store.create(replace(new_job("b"), definition="another"))
    assert (store.explained("a"), store.explained("b"), store.explained("c")) == ('{"name": "é"}', "", "")
    store.create(new_job("a"), explained="another")
    assert store.explained("a") == '{"name": "é"}', "the job was there already"
    store.delete("a")
    assert store.explained("a") == ""


NAMES: tuple[StoreTest, ...] = (
    a_job_is_found_by_the_names_of_its_parts,
    all_names_are_taken_or_none,
    names_of_parts_are_free_after_a_drop,
    a_part_that_is_read_keeps_its_job,
    what_explain_said_is_kept_beside_the_row,
)
