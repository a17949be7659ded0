"""Tests of jobs that read others: what a new job needs has to be there, and CASCADE ends all readers or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tidefill.errors import InUse, NameTaken, UnknownJob, UnknownTable, UnsupportedQuery, WrongState
from tidefill.jobs.generations import next_generation
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import NamesRead, Replacement
from tidefill.jobs.row import Job, wish_cancel, wish_drop, wish_replace
from tidefill.ports.store import Store
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.store.rows import (
    MakeStore,
    StoreTest,
    new_job,
    new_table,
    reading,
    reads_nothing,
    with_life,
)


def a_new_job_needs_what_it_reads(make_store: MakeStore) -> None:
    store = make_store()
    store.register(new_table("Table"))
    below = store.create(new_job("a", "Below"))
    above = store.create(new_job("b", "above"), needs=("TABLE", "below", "table"))
    assert list(store.jobs()) == [above, below]
    for needs in (("missing",), ("table", "missing"), ("missing", "below"), ("itself",)):
        error = raised(UnknownTable, partial(store.create, new_job("c", "itself"), needs))
        assert "missing" in error.fact or needs == ("itself",)
    assert list(store.jobs()) == [above, below], "nothing was made"
    store.unregister("table", reads_nothing)
    raised(UnknownTable, lambda: store.create(new_job("c"), ["Table"]))
    assert store.create(new_job("d", "above"), ["Table"]) == above, "what is there already needs nothing more"
    raised(NameTaken, lambda: store.create(replace(new_job("d", "above"), definition="another"), ["Table"]))


def a_new_job_reads_nothing_that_ends(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a", "below"))
    (ending,) = store.wish_end("a", wish_drop, reads_nothing)
    for life in (ending.life, Life.CANCELLING):
        store.change("a", with_life(life))
        error = raised(WrongState, lambda: store.create(new_job("b"), ["Below"]))
        assert "below" in error.fact
    store.change("a", lambda job: replace(job, wants_end=False))
    raised(WrongState, lambda: store.create(new_job("b"), ["Below"]))
    store.change("a", with_life(Life.DROPPED))
    raised(UnknownTable, lambda: store.create(new_job("b"), ["below"]))
    for life in Life:
        if life not in (Life.CANCELLING, Life.DROPPED):
            store.change("a", with_life(life))
            store.create(new_job(life.value), ["below"])


def _reads_twice(job: Job) -> list[str]:
    """A definition that is the name of what the job reads, and the one that it is to have."""
    return [job.definition, job.newest_definition]


def _wish(definition: str) -> Callable[[Job], Job]:
    return wish_replace(definition, lambda settings: replace(settings, parallelism=3))


def another_definition_is_wished_for_with_all_that_belongs_to_it(make_store: MakeStore) -> None:
    store = make_store()
    for name in ("t", "u"):
        store.register(new_table(name))
    store.create(replace(new_job("a", "view"), definition="t"), ["t"], "of t")
    wished = store.replace("a", _wish("u"), Replacement(["U"], _reads_twice, {}, "of u"))
    assert (wished.definition, wished.wanted_definition, wished.settings.parallelism) == ("t", "u", 3)
    assert store.job("a") == wished
    assert store.explained("a") == "of u"
    for name in ("t", "u"):
        raised(InUse, partial(store.unregister, name, _reads_twice))
    store.change("a", next_generation("next"))
    store.unregister("t", _reads_twice)
    raised(InUse, lambda: store.unregister("u", _reads_twice))


def a_definition_that_cannot_be_changes_nothing(make_store: MakeStore) -> None:
    store = make_store()
    store.register(new_table("t"))
    below = store.create(replace(new_job("a", "below"), definition="t"), explained="of t")
    above = store.create(replace(new_job("b", "above"), definition="below"), ["below"])
    known = {"b": ("below", "below")}
    raised(
        UnknownTable, lambda: store.replace("a", _wish("missing"), Replacement(["missing"], _reads_twice, known, "no"))
    )
    raised(
        UnsupportedQuery, lambda: store.replace("a", _wish("above"), Replacement(["above"], _reads_twice, known, "no"))
    )
    raised(WrongState, lambda: store.replace("a", _wish("u"), Replacement(["t"], _reads_twice, {}, "no")))
    raised(UnknownJob, lambda: store.replace("c", _wish("u"), Replacement(["t"], _reads_twice, {}, "no")))
    assert list(store.jobs()) == [above, below]
    assert store.explained("a") == "of t"
    store.change("a", wish_drop)
    raised(WrongState, lambda: store.replace("b", _wish("below"), Replacement(["below"], _reads_twice, {}, "no")))
    store.change("a", with_life(Life.CANCELLING))
    raised(WrongState, lambda: store.replace("a", _wish("t"), Replacement(["t"], _reads_twice, known, "no")))


def a_job_that_is_read_does_not_end(make_store: MakeStore) -> None:
    store = make_store()
    below = store.create(new_job("a", "below"))
    store.create(new_job("b", "reader"), ["below"])
    store.create(new_job("c", "other"))
    for life in Life:
        if life not in (Life.CANCELLING, Life.DROPPED):
            store.change("b", with_life(life))
            error = raised(InUse, lambda: store.wish_end("a", wish_drop, reading(reader=["x", "Below"])))
            assert "below" in error.fact
            assert "reader" in error.detail
            assert "other" not in error.detail
            assert "CASCADE" in error.hint
            assert store.job("a") == below
    for life in (Life.CANCELLING, Life.DROPPED):
        store.change("b", with_life(life))
        (after,) = store.wish_end("a", wish_drop, reading(reader=["below"]))
        assert after.wants_end
        assert store.job("a") == after


def wish_end_is_a_change(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a"))
    store.create(new_job("b"))
    (after,) = store.wish_end("a", wish_drop, lambda job: ["name of a"] if job.id == "a" else [])
    assert (after.wants_end, after.wish_number) == (True, 1), "a job is not in its own way"
    assert store.job("a") == after
    assert store.job("b") == new_job("b")
    live = store.change("b", lambda job: replace(job, published=1))
    raised(WrongState, lambda: store.wish_end("b", wish_cancel, reads_nothing))
    assert store.job("b") == live, "what the wish raises leaves the row"
    gone = store.change("a", with_life(Life.DROPPED))
    assert list(store.wish_end("a", wish_drop, reads_nothing)) == [gone], "asking twice is no mistake"


def _tower(store: Store) -> NamesRead:
    """`base`, read by `left` and `Right`, over which there is `top`, and over that `roof`; `beside` reads none."""
    reads = {"left": ["BASE", "t"], "Right": ["base"], "top": ["left", "right"], "roof": ["Top"], "beside": ["t"]}
    for name in ("base", *reads):
        store.create(new_job(name, name))
    return lambda job: reads.get(job.name, [])


def cascade_ends_all_that_read_it(make_store: MakeStore) -> None:
    store = make_store()
    reads = _tower(store)
    beside = store.job("beside")
    after = store.wish_end("base", wish_drop, reads, cascade=True)
    assert [job.name for job in after] == ["base", "left", "Right", "roof", "top"], "the job itself, then by name"
    assert all(job.wants_end for job in after)
    assert [store.job(job.id) for job in after] == list(after)
    assert store.job("beside") == beside
    for name in ("base", "left", "roof"):
        raised(WrongState, partial(store.create, new_job("late"), [name]))


def cascade_goes_up_and_not_down(make_store: MakeStore) -> None:
    store = make_store()
    reads = _tower(store)
    after = store.wish_end("left", wish_drop, reads, cascade=True)
    assert [job.name for job in after] == ["left", "roof", "top"]
    assert sorted(job.name for job in store.jobs() if not job.wants_end) == ["Right", "base", "beside"]
    (right,) = store.wish_end("Right", wish_drop, reads)
    assert right.wants_end, "what reads it is ending"


def cascade_is_a_change_of_all_or_none(make_store: MakeStore) -> None:
    store = make_store()
    reads = _tower(store)
    store.change("roof", lambda job: replace(job, published=1))
    before = store.jobs()
    error = raised(WrongState, lambda: store.wish_end("base", wish_cancel, reads, cascade=True))
    assert "roof" in error.fact
    assert store.jobs() == before, "what one of the wishes raises leaves every row"


def cascade_passes_what_ends_already(make_store: MakeStore) -> None:
    store = make_store()
    reads = _tower(store)
    store.change("top", with_life(Life.CANCELLING))
    once = store.wish_end("base", wish_drop, reads, cascade=True)
    assert [job.name for job in once] == ["base", "left", "Right", "roof", "top"]
    store.change("top", with_life(Life.DROPPED))
    twice = store.wish_end("base", wish_drop, reads, cascade=True)
    assert [job.name for job in twice] == ["base", "left", "Right"], "a dropped job has no name to be read by"


def cascade_of_a_dropped_job_spares_who_has_its_name_now(make_store: MakeStore) -> None:
    store = make_store()
    reads = _tower(store)
    gone = store.change("base", with_life(Life.DROPPED))
    store.create(new_job("anew", "base"))
    before = store.jobs()
    assert list(store.wish_end("base", wish_drop, reads, cascade=True)) == [gone]
    assert store.jobs() == before


READERS: tuple[StoreTest, ...] = (
    a_new_job_needs_what_it_reads,
    another_definition_is_wished_for_with_all_that_belongs_to_it,
    a_definition_that_cannot_be_changes_nothing,
    a_new_job_reads_nothing_that_ends,
    a_job_that_is_read_does_not_end,
    wish_end_is_a_change,
    cascade_ends_all_that_read_it,
    cascade_goes_up_and_not_down,
    cascade_is_a_change_of_all_or_none,
    cascade_passes_what_ends_already,
    cascade_of_a_dropped_job_spares_who_has_its_name_now,
)
