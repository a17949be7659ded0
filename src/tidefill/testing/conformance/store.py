"""The contract of `tidefill.ports.Store`, as a suite that any store can run.

Each test takes a function that makes an empty store. From pytest:

    @pytest.mark.parametrize("test", STORE_SUITE, ids=lambda test: test.__name__)
    def test_conformance(test: StoreTest) -> None:
        test(MyStore)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias
from unittest.mock import patch

from tidefill.core.progress import Progress
from tidefill.errors import Fenced, InUse, InvalidSetting, NameTaken, UnknownJob, UnknownTable, WrongState
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import NamesRead, Registered
from tidefill.jobs.row import (
    NAME_CHARACTERS_MAX,
    Doing,
    Failure,
    Job,
    Lease,
    Pause,
    Settings,
    acquire,
    fenced,
    forget,
    intend,
    release_lease,
    wish_cancel,
    wish_drop,
    wish_pause,
    wish_resume,
)
from tidefill.ports import store as ports
from tidefill.ports.store import Store
from tidefill.testing.conformance.expecting import raised

MakeStore: TypeAlias = Callable[[], Store]
StoreTest: TypeAlias = Callable[[MakeStore], None]

ODD_NAMES = (
    "orders",
    "naïve Straße",
    "注文",
    "🌊 tide",
    "o'brien",
    'the "best"',
    "back`tick",
    "per%cent_under",
    "semi;colon -- DROP TABLE jobs",
    "back\\slash",
    " outer spaces ",
    "line\nbreak",
)


def create_gives_the_new_job(make_store: MakeStore) -> None:
    store = make_store()
    assert store.create(_job("a")) == _job("a")
    assert store.job("a") == _job("a")
    assert store.find("name of a") == _job("a")


def an_equal_definition_attaches(make_store: MakeStore) -> None:
    store = make_store()
    store.create(_job("a", "x"))
    paused = store.change("a", wish_pause(Pause.ALL))
    assert store.create(_job("b", "x")) == paused, "it is the job as it is now, not as it was created"
    assert store.job("b") is None
    assert len(store.jobs()) == 1


def another_definition_is_refused(make_store: MakeStore) -> None:
    store = make_store()
    first = store.create(_job("a", "x"))
    error = raised(NameTaken, lambda: store.create(replace(_job("b", "x"), definition="another")))
    assert "x" in error.fact
    assert error.hint, "the one who reads it needs to know what to do"
    assert list(store.jobs()) == [first]


def names_ignore_case(make_store: MakeStore) -> None:
    store = make_store()
    first = store.create(_job("a", "Orders_Straße"))
    assert store.find("ORDERS_STRASSE") == first
    assert store.create(_job("b", "orders_STRAßE")) == first
    assert first.name == "Orders_Straße", "the name is shown as it was written"
    raised(NameTaken, lambda: store.create(replace(_job("c", "oRDERS_strasse"), definition="another")))


def any_text_can_be_a_name(make_store: MakeStore) -> None:
    store = make_store()
    for number, name in enumerate(ODD_NAMES):
        store.create(_job(str(number), name))
    for number, name in enumerate(ODD_NAMES):
        found = store.find(name)
        assert found is not None, name
        assert (found.id, found.name) == (str(number), name)
    assert len(store.jobs()) == len(ODD_NAMES)


def the_longest_name(make_store: MakeStore) -> None:
    store = make_store()
    longest = "ß" * NAME_CHARACTERS_MAX
    store.create(_job("a", longest))
    found = store.find(longest)
    assert found is not None
    assert found.name == longest
    raised(InvalidSetting, lambda: store.create(_job("b", longest + "x")))
    raised(InvalidSetting, lambda: store.change("a", lambda job: replace(job, name=longest + "x")))
    assert list(store.jobs()) == [found]


def what_is_not_there(make_store: MakeStore) -> None:
    store = make_store()
    assert store.job("a") is None
    assert store.find("a") is None
    assert list(store.jobs()) == []
    assert list(store.events("a")) == []
    assert store.table("a") is None
    assert list(store.tables()) == []
    raised(UnknownJob, lambda: store.change("a", wish_pause(Pause.ALL)))
    raised(UnknownJob, lambda: store.wish_end("a", wish_drop, _nothing))
    raised(UnknownJob, lambda: store.wish_end("a", wish_drop, _nothing, cascade=True))
    error = raised(UnknownTable, lambda: store.unregister("a", _nothing))
    assert "a" in error.fact


def jobs_come_by_name(make_store: MakeStore) -> None:
    store = make_store()
    for job_id, name in (("1", "b"), ("2", "C"), ("3", "a"), ("4", "ä"), ("5", "B2")):
        store.create(_job(job_id, name))
    assert [job.name for job in store.jobs()] == ["a", "b", "B2", "C", "ä"]


def change_applies_and_returns(make_store: MakeStore) -> None:
    store = make_store()
    store.create(_job("a"))
    store.create(_job("b"))
    after = store.change("a", wish_pause(Pause.FILL))
    assert (after.pause, after.wish_number) == (Pause.FILL, 1)
    assert store.job("a") == after
    assert store.change("a", wish_resume).wish_number == 2, "the next change sees the one before"
    assert store.job("b") == _job("b"), "the other row is as it was"


def a_change_that_raises_changes_nothing(make_store: MakeStore) -> None:
    store = make_store()
    before = store.create(_job("a"))

    def break_off(job: Job) -> Job:
        replace(job, anchor="half")
        raise ZeroDivisionError

    try:
        store.change("a", break_off)
    except ZeroDivisionError:
        pass
    else:
        raise AssertionError("what the function raises has to come through")
    assert store.job("a") == before
    assert store.change("a", wish_pause(Pause.ALL)).wish_number == 1, "the store works on"


def a_change_to_the_same(make_store: MakeStore) -> None:
    store = make_store()
    before = store.create(_job("a"))
    assert store.change("a", lambda job: job) == before
    assert store.change("a", lambda job: replace(job)) == before
    assert store.job("a") == before


def a_lease_is_taken_renewed_and_over(make_store: MakeStore) -> None:
    store = make_store()
    store.create(_job("a"))
    assert store.change("a", acquire("one", 100.0, 60.0)).lease == Lease("one", 1, 160.0)
    assert store.change("a", acquire("two", 110.0, 60.0)).lease == Lease("one", 1, 160.0), "it is held"
    assert store.change("a", acquire("one", 150.0, 60.0)).lease == Lease("one", 1, 210.0), "renewing keeps the fence"
    assert store.change("a", acquire("two", 210.0, 60.0)).lease == Lease("two", 2, 270.0), "it was over"
    store.change("a", release_lease)
    assert store.change("a", acquire("one", 211.0, 60.0)).lease == Lease("one", 3, 271.0), "it was let go"


def whoever_is_fenced_changes_nothing(make_store: MakeStore) -> None:
    store = make_store()
    store.create(_job("a"))
    old = store.change("a", acquire("one", 0.0, 60.0)).lease.fence
    new = store.change("a", acquire("two", 60.0, 60.0)).lease.fence
    before = store.job("a")
    raised(Fenced, lambda: store.change("a", fenced(old, intend("slot"))))
    assert store.job("a") == before
    assert store.change("a", fenced(new, intend("slot"))).resources == ("slot",)


def a_dropped_job_frees_its_name(make_store: MakeStore) -> None:
    store = make_store()
    store.create(_job("a", "x"))
    dropped = store.change("a", _now(Life.DROPPED))
    assert store.find("x") is None
    assert store.job("a") == dropped, "the row stays until it is deleted"
    anew = store.create(replace(_job("b", "X"), definition="another"))
    assert store.find("x") == anew
    assert sorted(job.id for job in store.jobs()) == ["a", "b"]
    store.change("a", forget("nothing"))
    store.delete("a")
    assert list(store.jobs()) == [anew]


def a_job_that_is_being_dropped_keeps_its_name(make_store: MakeStore) -> None:
    store = make_store()
    store.create(_job("a", "x"))
    for life in Life:
        if life is not Life.DROPPED:
            held = store.change("a", _now(life))
            assert store.find("x") == held
            raised(NameTaken, lambda: store.create(replace(_job("b", "x"), definition="another")))


def delete_takes_the_events_along(make_store: MakeStore) -> None:
    store = make_store()
    store.create(_job("a"))
    store.create(_job("b"))
    store.add_event("a", 1.0, "of a")
    store.add_event("b", 2.0, "of b")
    store.delete("a")
    store.delete("a")
    assert store.job("a") is None
    assert list(store.events("a")) == []
    assert list(store.events("b")) == [(2.0, "of b")]
    store.create(_job("a"))
    assert list(store.events("a")) == [], "what comes anew has no past"


def events_come_in_the_order_written(make_store: MakeStore) -> None:
    store = make_store()
    store.create(_job("a"))
    written = [(5.5, "later"), (1.25, "a clock went back"), (1.25, "at once"), (1.7e9, "日本 🌊 'quoted'\n"), (0.0, "")]
    for at_s, text in written:
        store.add_event("a", at_s, text)
    assert list(store.events("a")) == written


def only_the_newest_events_are_kept(make_store: MakeStore) -> None:
    with patch.object(ports, "EVENTS_MAX", 5):
        store = make_store()
        for job in ("a", "b"):
            store.create(_job(job))
        store.add_event("b", 0.0, "of b")
        written = [(float(second), f"event {second}") for second in range(20)]
        for at_s, text in written:
            store.add_event("a", at_s, text)
        assert list(store.events("a")) == written[-5:]
        assert list(store.events("b")) == [(0.0, "of b")], "those of others stay"


def every_field_comes_back(make_store: MakeStore) -> None:
    store = make_store()
    full = _full_job()
    plain = Job(full.id, full.name, full.definition)
    for name in Job.__dataclass_fields__:
        same = name in ("id", "name", "definition", "unread_settings")
        assert (getattr(full, name) == getattr(plain, name)) is same, f"{name} is not tested here"
    store.create(plain)
    assert store.change(plain.id, lambda job: full) == full
    assert store.job(full.id) == full
    assert store.find(full.name) == full
    assert list(store.jobs()) == [full]


def register_gives_the_new_table(make_store: MakeStore) -> None:
    store = make_store()
    assert store.register(_table("t")) == _table("t")
    assert store.table("t") == _table("t")
    assert list(store.tables()) == [_table("t")]
    assert store.find("t") is None, "a table is no job"


def an_equal_table_attaches(make_store: MakeStore) -> None:
    store = make_store()
    first = store.register(_table("Straße"))
    assert store.register(_table("STRASSE")) == first, "it is the table as it was first written"
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
        store.unregister(name, _nothing)
    assert list(store.tables()) == []


def tables_come_by_name(make_store: MakeStore) -> None:
    store = make_store()
    for name in ("b", "C", "a", "ä", "B2"):
        store.register(_table(name))
    assert [table.name for table in store.tables()] == ["a", "b", "B2", "C", "ä"]


def a_table_takes_its_name_from_jobs(make_store: MakeStore) -> None:
    store = make_store()
    table = store.register(_table("Straße"))
    error = raised(NameTaken, lambda: store.create(Job("a", "STRASSE", table.definition)))
    assert "table" in error.fact
    assert "unregister Straße" in error.hint
    assert list(store.jobs()) == []
    store.unregister("sTRASSE", _nothing)
    assert store.table("Straße") is None
    assert store.create(_job("a", "STRASSE")) == _job("a", "STRASSE")


def a_job_takes_its_name_from_tables(make_store: MakeStore) -> None:
    store = make_store()
    job = store.create(_job("a", "Straße"))
    for life in Life:
        if life is not Life.DROPPED:
            store.change("a", _now(life))
            error = raised(NameTaken, lambda: store.register(Registered("STRASSE", job.definition)))
            assert "job" in error.fact
            assert "drop Straße" in error.hint
    assert list(store.tables()) == []
    store.change("a", _now(Life.DROPPED))
    assert store.register(_table("STRASSE")) == _table("STRASSE"), "a dropped job has no name"
    raised(NameTaken, lambda: store.create(_job("b", "Straße")))


def a_table_that_is_read_stays(make_store: MakeStore) -> None:
    store = make_store()
    table = store.register(_table("t"))
    store.create(_job("a", "reader"))
    store.create(_job("b", "other"))
    for life in Life:
        store.change("a", _now(life))
        if life is not Life.DROPPED:
            error = raised(InUse, lambda: store.unregister("T", _reading(reader=["T"], other=["u"])))
            assert "t" in error.fact
            assert "reader" in error.detail
            assert "other" not in error.detail
            assert store.table("t") == table
    store.unregister("T", _reading(reader=["T"]))
    assert list(store.tables()) == []
    raised(UnknownTable, lambda: store.unregister("t", _nothing))


def unregister_asks_about_the_jobs_as_they_are(make_store: MakeStore) -> None:
    store = make_store()
    table = store.register(_table("t"))
    store.create(_job("a"))
    paused = store.change("a", wish_pause(Pause.ALL))
    asked: list[Job] = []

    def break_off(job: Job) -> list[str]:
        asked.append(job)
        raise ZeroDivisionError

    raised(ZeroDivisionError, lambda: store.unregister("t", break_off))
    assert asked == [paused]
    assert store.table("t") == table, "what the function raises leaves the table"
    store.unregister("t", _nothing)
    assert store.job("a") == paused


def a_new_job_needs_what_it_reads(make_store: MakeStore) -> None:
    store = make_store()
    store.register(_table("Table"))
    below = store.create(_job("a", "Below"))
    above = store.create(_job("b", "above"), needs=("TABLE", "below", "table"))
    assert list(store.jobs()) == [above, below]
    for needs in (("missing",), ("table", "missing"), ("missing", "below"), ("itself",)):
        error = raised(UnknownTable, partial(store.create, _job("c", "itself"), needs))
        assert "missing" in error.fact or needs == ("itself",)
    assert list(store.jobs()) == [above, below], "nothing was made"
    store.unregister("table", _nothing)
    raised(UnknownTable, lambda: store.create(_job("c"), ["Table"]))
    assert store.create(_job("d", "above"), ["Table"]) == above, "what is there already needs nothing more"
    raised(NameTaken, lambda: store.create(replace(_job("d", "above"), definition="another"), ["Table"]))


def a_new_job_reads_nothing_that_ends(make_store: MakeStore) -> None:
    store = make_store()
    store.create(_job("a", "below"))
    (ending,) = store.wish_end("a", wish_drop, _nothing)
    for life in (ending.life, Life.CANCELLING):
        store.change("a", _now(life))
        error = raised(WrongState, lambda: store.create(_job("b"), ["Below"]))
        assert "below" in error.fact
    store.change("a", lambda job: replace(job, wants_end=False))
    raised(WrongState, lambda: store.create(_job("b"), ["Below"]))
    store.change("a", _now(Life.DROPPED))
    raised(UnknownTable, lambda: store.create(_job("b"), ["below"]))
    for life in Life:
        if life not in (Life.CANCELLING, Life.DROPPED):
            store.change("a", _now(life))
            store.create(_job(life.value), ["below"])


def a_job_that_is_read_does_not_end(make_store: MakeStore) -> None:
    store = make_store()
    below = store.create(_job("a", "below"))
    store.create(_job("b", "reader"), ["below"])
    store.create(_job("c", "other"))
    for life in Life:
        if life not in (Life.CANCELLING, Life.DROPPED):
            store.change("b", _now(life))
            error = raised(InUse, lambda: store.wish_end("a", wish_drop, _reading(reader=["x", "Below"])))
            assert "below" in error.fact
            assert "reader" in error.detail
            assert "other" not in error.detail
            assert "CASCADE" in error.hint
            assert store.job("a") == below
    for life in (Life.CANCELLING, Life.DROPPED):
        store.change("b", _now(life))
        (after,) = store.wish_end("a", wish_drop, _reading(reader=["below"]))
        assert after.wants_end
        assert store.job("a") == after


def wish_end_is_a_change(make_store: MakeStore) -> None:
    store = make_store()
    store.create(_job("a"))
    store.create(_job("b"))
    (after,) = store.wish_end("a", wish_drop, lambda job: ["name of a"] if job.id == "a" else [])
    assert (after.wants_end, after.wish_number) == (True, 1), "a job is not in its own way"
    assert store.job("a") == after
    assert store.job("b") == _job("b")
    live = store.change("b", lambda job: replace(job, published=1))
    raised(WrongState, lambda: store.wish_end("b", wish_cancel, _nothing))
    assert store.job("b") == live, "what the wish raises leaves the row"
    gone = store.change("a", _now(Life.DROPPED))
    assert list(store.wish_end("a", wish_drop, _nothing)) == [gone], "asking twice is no mistake"


def _tower(store: Store) -> NamesRead:
    """`base`, read by `left` and `Right`, over which there is `top`, and over that `roof`; `beside` reads none."""
    reads = {"left": ["BASE", "t"], "Right": ["base"], "top": ["left", "right"], "roof": ["Top"], "beside": ["t"]}
    for name in ("base", *reads):
        store.create(_job(name, name))
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
        raised(WrongState, partial(store.create, _job("late"), [name]))


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
    store.change("top", _now(Life.CANCELLING))
    once = store.wish_end("base", wish_drop, reads, cascade=True)
    assert [job.name for job in once] == ["base", "left", "Right", "roof", "top"]
    store.change("top", _now(Life.DROPPED))
    twice = store.wish_end("base", wish_drop, reads, cascade=True)
    assert [job.name for job in twice] == ["base", "left", "Right"], "a dropped job has no name to be read by"


def cascade_of_a_dropped_job_spares_who_has_its_name_now(make_store: MakeStore) -> None:
    store = make_store()
    reads = _tower(store)
    gone = store.change("base", _now(Life.DROPPED))
    store.create(_job("anew", "base"))
    before = store.jobs()
    assert list(store.wish_end("base", wish_drop, reads, cascade=True)) == [gone]
    assert store.jobs() == before


def _full_job() -> Job:
    """A row in which no field has its default."""
    return Job(
        id="0b5c",
        name="Orders'",
        definition='{"query": "SELECT \\"x\\" FROM t WHERE a = \'ü🌊\'"}',
        life=Life.FAILED,
        settings=Settings(parallelism=7, rate_limit=0, chunk_rows=12, target_lag_s=0.1, verify=False),
        generation=3,
        generation_uuid="6f",
        source="0b5d-2",
        published=2,
        pause=Pause.FILL,
        wants_end=True,
        wants_resync=True,
        wants_resume=True,
        wish_number=2**40,
        lease=Lease("host:1", 2**40, 1_700_000_000.123456),
        anchor='{"state": {"form": 1, "text": "\\ud83c\\udf0a"}}',
        released='{"t": {"identity": "é"}}',
        resources=("slot:a", "path:b c", "slot:a'"),
        failure=Failure("BUG", "a fact", 'a "detail"', "a hint\nin two lines"),
        waiting="rate limit",
        progress=Progress(3, 1 / 3, 10**12, 12345.678, None, 7, 0.5, 1_700_000_000.25),
        doing=Doing("fill", 1_700_000_000.5, 2, 500, '[[null, [["i", 7]]]]', 0.75),
        ended_at_s=0.1 + 0.2,
    )


def _job(job_id: str, name: str = "") -> Job:
    return Job(job_id, name or f"name of {job_id}", '{"query": "SELECT 1"}')


def _table(name: str) -> Registered:
    return Registered(name, '{"location": "lake/t", "key": ["id"]}')


def _nothing(job: Job) -> list[str]:
    return []


def a_tick_moves_from_the_one_that_was_seen(make_store: MakeStore) -> None:
    store = make_store()
    assert store.tick("t") is None
    assert store.open_tick("t", None, 7) == 7
    assert store.open_tick("t", None, 8) == 7, "whoever saw none comes too late"
    assert store.open_tick("t", 6, 9) == 7
    assert store.tick("t") == 7
    assert store.open_tick("t", 7, 9) == 9
    assert store.tick("t") == 9
    assert store.open_tick("another", 3, 1 << 40) == 1 << 40, "one that was forgotten begins anew"


def ticks_that_are_not_kept_are_forgotten(make_store: MakeStore) -> None:
    store = make_store()
    for base in ("t", "u", "w"):
        store.open_tick(base, None, 1)
    store.keep_ticks({"u", "x"})
    assert [store.tick(base) for base in ("t", "u", "w", "x")] == [None, 1, None, None]
    store.keep_ticks(())
    assert store.tick("u") is None


def _reading(**names: list[str]) -> NamesRead:
    return lambda job: names.get(job.name, [])


def _now(life: Life) -> Callable[[Job], Job]:
    return lambda job: replace(job, life=life)


STORE_SUITE: tuple[StoreTest, ...] = (
    create_gives_the_new_job,
    an_equal_definition_attaches,
    another_definition_is_refused,
    names_ignore_case,
    any_text_can_be_a_name,
    the_longest_name,
    what_is_not_there,
    jobs_come_by_name,
    change_applies_and_returns,
    a_change_that_raises_changes_nothing,
    a_change_to_the_same,
    a_lease_is_taken_renewed_and_over,
    whoever_is_fenced_changes_nothing,
    a_dropped_job_frees_its_name,
    a_job_that_is_being_dropped_keeps_its_name,
    delete_takes_the_events_along,
    events_come_in_the_order_written,
    only_the_newest_events_are_kept,
    every_field_comes_back,
    register_gives_the_new_table,
    an_equal_table_attaches,
    any_text_can_name_a_table,
    tables_come_by_name,
    a_table_takes_its_name_from_jobs,
    a_job_takes_its_name_from_tables,
    a_table_that_is_read_stays,
    unregister_asks_about_the_jobs_as_they_are,
    a_new_job_needs_what_it_reads,
    a_new_job_reads_nothing_that_ends,
    a_job_that_is_read_does_not_end,
    wish_end_is_a_change,
    cascade_ends_all_that_read_it,
    cascade_goes_up_and_not_down,
    cascade_is_a_change_of_all_or_none,
    cascade_passes_what_ends_already,
    cascade_of_a_dropped_job_spares_who_has_its_name_now,
    a_tick_moves_from_the_one_that_was_seen,
    ticks_that_are_not_kept_are_forgotten,
)
