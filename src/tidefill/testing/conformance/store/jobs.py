"""Tests of jobs: creating and finding them, changing their rows, their leases, their end and their events."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from tidefill.core.progress import Progress
from tidefill.errors import Fenced, InvalidSetting, NameTaken, UnknownJob, UnknownTable, WrongState
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import (
    NAME_CHARACTERS_MAX,
    Doing,
    Failure,
    Job,
    Lease,
    PartReport,
    Pause,
    Settings,
    acquire,
    fenced,
    forget,
    intend,
    release_lease,
    wish_drop,
    wish_pause,
    wish_resume,
)
from tidefill.ports import store as ports
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.store.rows import ODD_NAMES, MakeStore, StoreTest, new_job, reads_nothing, with_life

SLOT = Resource("slot", "a")


def create_gives_the_new_job(make_store: MakeStore) -> None:
    store = make_store()
    assert store.create(new_job("a")) == new_job("a")
    assert store.job("a") == new_job("a")
    assert store.find("name of a") == new_job("a")


def an_equal_definition_attaches(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a", "x"))
    paused = store.change("a", wish_pause(Pause.ALL))
    assert store.create(new_job("b", "x")) == paused, "it is the job as it is now, not as it was created"
    assert store.job("b") is None
    assert len(store.jobs()) == 1


def another_definition_is_refused(make_store: MakeStore) -> None:
    store = make_store()
    first = store.create(new_job("a", "x"))
    error = raised(NameTaken, lambda: store.create(replace(new_job("b", "x"), definition="another")))
    assert "x" in error.fact
    assert error.hint, "the one who reads it needs to know what to do"
    assert list(store.jobs()) == [first]


def names_ignore_case(make_store: MakeStore) -> None:
    store = make_store()
    first = store.create(new_job("a", "Orders_Straße"))
    assert store.find("ORDERS_STRASSE") == first
    assert store.create(new_job("b", "orders_STRAßE")) == first
    assert first.name == "Orders_Straße", "the name is shown as it was written"
    raised(NameTaken, lambda: store.create(replace(new_job("c", "oRDERS_strasse"), definition="another")))


def any_text_can_be_a_name(make_store: MakeStore) -> None:
    store = make_store()
    for number, name in enumerate(ODD_NAMES):
        store.create(new_job(str(number), name))
    for number, name in enumerate(ODD_NAMES):
        found = store.find(name)
        assert found is not None, name
        assert (found.id, found.name) == (str(number), name)
    assert len(store.jobs()) == len(ODD_NAMES)


def the_longest_name(make_store: MakeStore) -> None:
    store = make_store()
    longest = "ß" * NAME_CHARACTERS_MAX
    store.create(new_job("a", longest))
    found = store.find(longest)
    assert found is not None
    assert found.name == longest
    raised(InvalidSetting, lambda: store.create(new_job("b", longest + "x")))
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
    raised(UnknownJob, lambda: store.wish_end("a", wish_drop, reads_nothing))
    raised(UnknownJob, lambda: store.wish_end("a", wish_drop, reads_nothing, cascade=True))
    error = raised(UnknownTable, lambda: store.unregister("a", reads_nothing))
    assert "a" in error.fact


def jobs_come_by_name(make_store: MakeStore) -> None:
    store = make_store()
    for job_id, name in (("1", "b"), ("2", "C"), ("3", "a"), ("4", "ä"), ("5", "B2")):
        store.create(new_job(job_id, name))
    assert [job.name for job in store.jobs()] == ["a", "b", "B2", "C", "ä"]


def change_applies_and_returns(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a"))
    store.create(new_job("b"))
    after = store.change("a", wish_pause(Pause.FILL))
    assert (after.pause, after.wish_number) == (Pause.FILL, 1)
    assert store.job("a") == after
    assert store.change("a", wish_resume).wish_number == 2, "the next change sees the one before"
    assert store.job("b") == new_job("b"), "the other row is as it was"


def change_each_applies_to_those_that_are_there(make_store: MakeStore) -> None:
    store = make_store()
    for number in "123":
        store.create(new_job(number))
    store.change_each(["3", "9", "1"], lambda job: replace(job, waiting="for rain"))
    assert [job.waiting for job in store.jobs()] == ["for rain", "", "for rain"]


def change_each_is_a_change_of_all_or_none(make_store: MakeStore) -> None:
    store = make_store()
    for number in "12":
        store.create(new_job(number))

    def refuse_the_second(job: Job) -> Job:
        if job.id == "2":
            raise WrongState("no")
        return replace(job, waiting="for rain")

    raised(WrongState, lambda: store.change_each(["1", "2"], refuse_the_second))
    assert [job.waiting for job in store.jobs()] == ["", ""]


def a_change_that_raises_changes_nothing(make_store: MakeStore) -> None:
    store = make_store()
    before = store.create(new_job("a"))

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
    before = store.create(new_job("a"))
    assert store.change("a", lambda job: job) == before
    assert store.change("a", lambda job: replace(job)) == before
    assert store.job("a") == before


def a_lease_is_taken_renewed_and_over(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a"))
    assert store.change("a", acquire("one", 100.0, 60.0)).lease == Lease("one", 1, 160.0)
    assert store.change("a", acquire("two", 110.0, 60.0)).lease == Lease("one", 1, 160.0), "it is held"
    assert store.change("a", acquire("one", 150.0, 60.0)).lease == Lease("one", 1, 210.0), "renewing keeps the fence"
    assert store.change("a", acquire("two", 210.0, 60.0)).lease == Lease("two", 2, 270.0), "it was over"
    store.change("a", release_lease)
    assert store.change("a", acquire("one", 211.0, 60.0)).lease == Lease("one", 3, 271.0), "it was let go"


def a_runner_that_is_fenced_changes_nothing(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a"))
    old = store.change("a", acquire("one", 0.0, 60.0)).lease.fence
    new = store.change("a", acquire("two", 60.0, 60.0)).lease.fence
    before = store.job("a")
    raised(Fenced, lambda: store.change("a", fenced(old, intend(SLOT))))
    assert store.job("a") == before
    assert store.change("a", fenced(new, intend(SLOT))).resources == (SLOT,)


def a_dropped_job_frees_its_name(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a", "x"))
    dropped = store.change("a", with_life(Life.DROPPED))
    assert store.find("x") is None
    assert store.job("a") == dropped, "the row stays until it is deleted"
    anew = store.create(replace(new_job("b", "X"), definition="another"))
    assert store.find("x") == anew
    assert sorted(job.id for job in store.jobs()) == ["a", "b"]
    store.change("a", forget(SLOT))
    store.delete("a")
    assert list(store.jobs()) == [anew]


def a_job_that_is_being_dropped_keeps_its_name(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a", "x"))
    for life in Life:
        if life is not Life.DROPPED:
            held = store.change("a", with_life(life))
            assert store.find("x") == held
            raised(NameTaken, lambda: store.create(replace(new_job("b", "x"), definition="another")))


def delete_takes_the_events_along(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a"))
    store.create(new_job("b"))
    store.add_event("a", 1.0, "of a")
    store.add_event("b", 2.0, "of b")
    store.delete("a")
    store.delete("a")
    assert store.job("a") is None
    assert list(store.events("a")) == []
    assert list(store.events("b")) == [(2.0, "of b")]
    store.create(new_job("a"))
    assert list(store.events("a")) == [], "what comes anew has no past"


def events_come_in_the_order_written(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a"))
    written = [(5.5, "later"), (1.25, "a clock went back"), (1.25, "at once"), (1.7e9, "日本 🌊 'quoted'\n"), (0.0, "")]
    for at_s, text in written:
        store.add_event("a", at_s, text)
    assert list(store.events("a")) == written


def only_the_newest_events_are_kept(make_store: MakeStore) -> None:
    with patch.object(ports, "EVENTS_MAX", 5):
        store = make_store()
        for job in ("a", "b"):
            store.create(new_job(job))
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


def _full_job() -> Job:
    """A row in which no field has its default."""
    return Job(
        id="0b5c",
        name="Orders'",
        definition='{"query": "SELECT \\"x\\" FROM t WHERE a = \'ü🌊\'"}',
        life=Life.FAILED,
        settings=Settings(
            parallelism=7, rate_limit=0, chunk_rows=12, target_lag_s=0.1, verify=False, steps_only=True, vacuum=False
        ),
        generation=3,
        generation_uuid="6f",
        source="0b5d-2",
        published=2,
        learned='[["changes", 7, 100, 1.5]]',
        condition='{"violated": 3}',
        pause=Pause.FILL,
        wants_end=True,
        wants_resync=True,
        wants_resume=True,
        wish_number=2**40,
        lease=Lease("host:1", 2**40, 1_700_000_000.123456),
        anchor='{"state": {"form": 1, "text": "\\ud83c\\udf0a"}}',
        released='{"t": {"identity": "é"}}',
        resources=(SLOT, Resource("path", "b c"), Resource("slot", "a'")),
        failure=Failure("BUG", "a fact", 'a "detail"', "a hint\nin two lines"),
        waiting="rate limit",
        waits_for="RATE_LIMIT",
        wanted_definition="{'wanted': 'ü'}",
        shown_definition="{'shown': 'ß'}",
        part_names=("a part", "ß"),
        wants_gone=("ß",),
        parts=(PartReport("a part", "MERGING", 10, 20), PartReport("ß", "", failure="two rows have 'é'")),
        progress=Progress(3, 1 / 3, 10**12, 12345.678, None, 7, 0.5, 1_700_000_000.25),
        doing=Doing("fill", 1_700_000_000.5, 2, 500, '[[null, [["i", 7]]]]', 0.75),
        ended_at_s=0.1 + 0.2,
    )


JOBS: tuple[StoreTest, ...] = (
    create_gives_the_new_job,
    an_equal_definition_attaches,
    another_definition_is_refused,
    names_ignore_case,
    any_text_can_be_a_name,
    the_longest_name,
    what_is_not_there,
    jobs_come_by_name,
    change_applies_and_returns,
    change_each_applies_to_those_that_are_there,
    change_each_is_a_change_of_all_or_none,
    a_change_that_raises_changes_nothing,
    a_change_to_the_same,
    a_lease_is_taken_renewed_and_over,
    a_runner_that_is_fenced_changes_nothing,
    a_dropped_job_frees_its_name,
    a_job_that_is_being_dropped_keeps_its_name,
    delete_takes_the_events_along,
    events_come_in_the_order_written,
    only_the_newest_events_are_kept,
    every_field_comes_back,
)
