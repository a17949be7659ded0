"""A job's row: wishes, leases, and what the runner may do to it."""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.look import Phase
from tidefill.core.progress import Progress
from tidefill.errors import Fenced, HistoryGone, InvalidSetting, LogGivenUp, StoreUnreadable, WrongState
from tidefill.jobs import generations
from tidefill.jobs import row as jobs
from tidefill.jobs.lifecycle import Event, Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import (
    NAME_CHARACTERS_MAX,
    RATE_LIMIT_MAX,
    Failure,
    Job,
    Lease,
    Pause,
    Settings,
    name_key,
)
from tidefill.jobs.row_json import job_from_json, job_to_json

JOB = Job("1", "orders", "{}")
SLOT, PATH = Resource("slot", "a"), Resource("path", "1")
LIVE = replace(JOB, life=Life.LIVE, published=1)
ENDED = (Life.CANCELLING, Life.DROPPED)
WISHES: tuple[Callable[[Job], Job], ...] = (
    jobs.wish_pause(Pause.ALL),
    jobs.wish_pause(Pause.FILL),
    jobs.wish_resume,
    jobs.wish_settings(Settings(parallelism=3)),
    jobs.wish_resync,
    jobs.wish_replace("another", lambda settings: settings),
    jobs.wish_drop,
)


@st.composite
def rows(draw: st.DrawFn) -> Job:
    """Any row."""
    text, number, seconds = st.text(max_size=5), st.integers(0, 10**6), st.floats(0, 2e9)
    return Job(
        id=draw(text),
        name=draw(st.text(min_size=1, max_size=8).filter(str.strip)),
        definition=draw(text),
        life=draw(st.sampled_from(Life)),
        settings=Settings(
            parallelism=draw(st.integers(1, 256)),
            rate_limit=draw(st.one_of(st.none(), number)),
            chunk_rows=draw(st.one_of(st.none(), st.integers(1, 10**6))),
            target_lag_s=draw(seconds),
            wal_budget=draw(st.none() | st.integers(1, 1 << 50)),
            wal_limit=draw(st.none() | st.integers(1, 1 << 50)),
        ),
        generation=draw(st.integers(1, 4)),
        generation_uuid=draw(text),
        published=draw(st.one_of(st.none(), st.integers(1, 4))),
        pause=draw(st.sampled_from(Pause)),
        wants_end=draw(st.booleans()),
        wants_resync=draw(st.booleans()),
        wants_resume=draw(st.booleans()),
        wish_number=draw(number),
        lease=Lease(draw(text), draw(number), draw(seconds)),
        anchor=draw(text),
        released=draw(text),
        wanted_definition=draw(text),
        shown_definition=draw(text),
        resources=tuple(draw(st.lists(st.builds(Resource, st.sampled_from(("slot", "path")), text), max_size=3))),
        failure=draw(st.one_of(st.none(), st.builds(Failure, text, text, text, text))),
        waiting=draw(text),
        progress=draw(st.one_of(st.none(), st.builds(Progress, number, seconds, number, seconds, st.none()))),
        ended_at_s=draw(seconds),
    )


# Names and settings


@pytest.mark.parametrize("name", ["", "   ", "x" * (NAME_CHARACTERS_MAX + 1)])
def test_a_name_is_there_and_not_too_long(name: str) -> None:
    with pytest.raises(InvalidSetting):
        replace(JOB, name=name)
    assert replace(JOB, name="x" * NAME_CHARACTERS_MAX)


def test_names_ignore_case() -> None:
    assert name_key("Straße") == name_key("STRASSE")
    assert name_key("orders") != name_key("orders ")


@pytest.mark.parametrize(
    "settings",
    [
        {"parallelism": 0},
        {"parallelism": 257},
        {"rate_limit": -1},
        {"rate_limit": RATE_LIMIT_MAX + 1},
        {"chunk_rows": 0},
        {"target_lag_s": -0.1},
        {"target_lag_s": float("nan")},
        {"wal_budget": 0},
        {"log_limit": 0},
        {"wal_limit": -1},
    ],
    ids=repr,
)
def test_settings_have_bounds(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Settings(**settings)
    assert caught.value.hint


# Wishes


@pytest.mark.parametrize("life", Life)
@pytest.mark.parametrize("wish", WISHES)
def test_every_wish_is_numbered(wish: Callable[[Job], Job], life: Life) -> None:
    job = replace(JOB, life=life, wish_number=4)
    if life not in ENDED:
        assert wish(job).wish_number == 5
        assert wish(job).life is life, "a wish is recorded; the runner fulfils it"
    elif wish is jobs.wish_drop:
        assert wish(job) == job, "asking twice is no mistake"
    else:
        with pytest.raises(WrongState):
            wish(job)


def test_pause_and_resume() -> None:
    paused = jobs.wish_pause(Pause.ALL)(JOB)
    assert paused.pause is Pause.ALL
    resumed = jobs.wish_resume(paused)
    assert (resumed.pause, resumed.wants_resume) == (Pause.NOTHING, False)


@pytest.mark.parametrize("life", [Life.PAUSED, Life.BACKFILLING, Life.LIVE])
def test_a_job_that_gave_its_log_up_has_failed(life: Life) -> None:
    row = jobs.gave_up(LogGivenUp("given up", detail="d", hint="h"))(replace(JOB, life=life, pause=Pause.ALL))
    assert row.pause is Pause.NOTHING, "or a new generation would stand still too"
    assert (row.life, row.failure) == (Life.FAILED, Failure("LOG_GIVEN_UP", "given up", "d", "h"))


def test_a_job_that_had_failed_before_keeps_that_reason() -> None:
    give_up = jobs.gave_up(LogGivenUp("given up", detail="d.", hint="h"))
    row = replace(JOB, life=Life.FAILED, failure=Failure("QUERY_FAILED", "x is no number"), wants_resume=True)
    after = give_up(row)
    why = "d. It had failed before: x is no number [QUERY_FAILED]"
    assert (after.failure, after.wants_resume) == (Failure("LOG_GIVEN_UP", "given up", why, "h"), False)
    assert give_up(after) == after, "asked twice after a crash"


def test_resume_after_a_failure_is_a_wish_of_its_own() -> None:
    failed = jobs.failed(HistoryGone("gone", detail="d", hint="h"))(replace(JOB, life=Life.BACKFILLING))
    assert (failed.life, failed.failure) == (Life.FAILED, Failure("HISTORY_GONE", "gone", "d", "h"))
    wished = jobs.wish_resume(failed)
    assert wished.wants_resume
    resumed = jobs.resumed(wished)
    assert (resumed.life, resumed.failure, resumed.wants_resume) == (Life.BACKFILLING, None, False)


def test_a_live_job_resumes_live() -> None:
    assert jobs.resumed(replace(LIVE, life=Life.PAUSED)).life is Life.LIVE
    assert jobs.resumed(replace(LIVE, life=Life.PAUSED, generation=2)).life is Life.BACKFILLING


def test_cancel_is_for_what_is_not_live_yet() -> None:
    assert jobs.wish_cancel(replace(JOB, life=Life.BACKFILLING)).wants_end
    for life in (Life.LIVE, Life.PAUSED, Life.FAILED):
        with pytest.raises(WrongState, match="DROP"):
            jobs.wish_cancel(replace(LIVE, life=life))
    with pytest.raises(WrongState):
        jobs.wish_cancel(replace(LIVE, life=Life.BACKFILLING, generation=2))
    assert jobs.wish_drop(LIVE).wants_end


def test_going_live_overlooks_no_wish() -> None:
    verifying = replace(JOB, life=Life.VERIFYING, wish_number=3)
    go_live = generations.went_live(replace(JOB, wish_number=3))
    assert go_live(verifying).life is Life.LIVE
    wished = jobs.wish_pause(Pause.ALL)(verifying)
    assert go_live(wished) == wished


def test_what_a_job_waits_for_ends_with_its_state() -> None:
    waiting = replace(JOB, life=Life.BACKFILLING, waiting="rate limit")
    assert jobs.happened(Event.FILLED)(waiting).waiting == ""
    assert jobs.happened(Event.PAUSE, waiting="paused")(waiting).waiting == "paused"


# Generations and resources


def test_the_first_generation_has_one_uuid_whoever_begins_it() -> None:
    job = jobs.begin_generation("one")(JOB)
    assert jobs.begin_generation("two")(job).generation_uuid == "one"


def test_a_new_generation_has_nothing_of_the_old_one_but_what_is_published() -> None:
    old = replace(LIVE, anchor="a", released="r", wants_resync=True, wants_resume=True, resources=(PATH,))
    new = generations.next_generation("two")(old)
    assert (new.generation, new.generation_uuid, new.published, new.life) == (2, "two", 1, Life.BACKFILLING)
    assert (new.anchor, new.released, new.wants_resync, new.wants_resume) == ("", "", False, False)
    assert new.resources == (PATH,), "what the old one made is still to be removed"


def test_things_are_listed_once_until_they_are_gone() -> None:
    job = jobs.intend(SLOT)(jobs.intend(PATH)(jobs.intend(SLOT)(JOB)))
    assert job.resources == (SLOT, PATH)
    assert jobs.forget(SLOT)(job).resources == (PATH,)
    assert jobs.forget(Resource("slot", "another"))(job) == job


def test_what_the_planner_is_told() -> None:
    assert replace(JOB, life=Life.BACKFILLING).phase() is Phase.FILLING
    assert replace(JOB, life=Life.VERIFYING).phase() is Phase.VERIFYING
    assert LIVE.phase() is Phase.LIVE
    assert replace(LIVE, life=Life.BACKFILLING, generation=2).phase() is Phase.FILLING
    knobs = replace(JOB, life=Life.PAUSED, pause=Pause.ALL, settings=Settings(parallelism=3, target_lag_s=9)).knobs()
    assert (knobs.parallelism, knobs.paused, knobs.fill_paused, knobs.target_lag_s) == (3, True, False, 9)
    assert replace(JOB, pause=Pause.FILL).knobs().fill_paused


# Leases


def test_a_lease_is_held_renewed_and_taken_over() -> None:
    held = jobs.acquire("a", 100.0, 60.0)(JOB)
    assert held.lease == Lease("a", 1, 160.0)
    assert jobs.acquire("b", 159.9, 60.0)(held) == held
    assert jobs.acquire("a", 110.0, 60.0)(held) == held, "renewed only when half of it is used: each write costs"
    assert jobs.acquire("a", 140.0, 60.0)(held).lease == Lease("a", 1, 200.0)
    assert jobs.acquire("b", 160.0, 60.0)(held).lease == Lease("b", 2, 220.0)
    assert jobs.acquire("b", 110.0, 60.0, {"a"}.__contains__)(held).lease == Lease("b", 2, 170.0), "a is gone"
    assert jobs.acquire("b", 110.0, 60.0, {"c"}.__contains__)(held) == held
    assert jobs.acquire("a", 160.0, 60.0)(held).lease == Lease("a", 1, 220.0), "nobody had it in between"
    assert jobs.acquire("b", 101.0, 60.0)(jobs.release_lease(held)).lease == Lease("b", 2, 161.0)


def test_an_old_fence_opens_nothing() -> None:
    held = replace(JOB, lease=Lease("b", 2, 160.0))
    assert jobs.fenced(2, jobs.intend(SLOT))(held).resources == (SLOT,)
    for fence in (0, 1, 3):
        with pytest.raises(Fenced):
            jobs.fenced(fence, jobs.intend(SLOT))(held)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(-20, 80), st.booleans()), max_size=30))
def test_a_fence_has_one_holder(attempts: list[tuple[str, float, bool]]) -> None:
    """Whatever the clocks do: each number belongs to one owner, and numbers only rise."""
    job, holders, now_s = JOB, dict[int, str](), 1000.0
    for owner, step_s, lets_go in attempts:
        now_s += step_s
        before, job = job, jobs.acquire(owner, now_s, 60.0)(job)
        assert job.lease.fence - before.lease.fence in (0, 1)
        assert job.lease.fence == before.lease.fence or job.lease.owner == owner
        assert holders.setdefault(job.lease.fence, job.lease.owner) == job.lease.owner
        if lets_go and job.lease.owner == owner:
            job = jobs.release_lease(job)
            holders[job.lease.fence] = ""


# JSON


@given(rows())
def test_every_row_comes_back(job: Job) -> None:
    assert job_from_json(json.loads(json.dumps(job_to_json(job)))) == job


def test_the_document_has_every_field() -> None:
    assert set(job_to_json(JOB)) == {field.name for field in fields(Job)} - {"unread_settings"}


@pytest.mark.parametrize("data", [None, [], 5, "job", {}], ids=repr)
def test_what_is_no_row_is_named(data: Any) -> None:
    with pytest.raises(StoreUnreadable):
        job_from_json(data)


@pytest.mark.parametrize(
    "damage",
    [
        {"name": ""},
        {"name": 5},
        {"life": "asleep"},
        {"life": []},
        {"pause": None},
        {"settings": None},
        {"lease": None},
        {"lease": []},
        {"failure": {}},
        {"failure": "HISTORY_GONE"},
        {"progress": 0.5},
        {"resources": None},
    ],
    ids=repr,
)
def test_a_damaged_row_is_named(damage: dict[str, Any]) -> None:
    with pytest.raises(StoreUnreadable):
        job_from_json({**job_to_json(JOB), **damage})


@pytest.mark.parametrize("settings", [{"parallelism": "two"}, {"parallelism": 0}, {"colour": "blue"}], ids=repr)
def test_settings_that_cannot_be_read_are_kept_as_they_are(settings: dict[str, Any]) -> None:
    data = {**job_to_json(JOB), "settings": settings}
    job = job_from_json(data)
    assert (job.name, job_to_json(job)) == (JOB.name, data)
    with pytest.raises(StoreUnreadable, match="settings"):
        jobs.wish_settings(Settings())(job)


def test_a_row_of_an_earlier_release_is_read() -> None:
    data = job_to_json(replace(JOB, progress=Progress(1, 0.5, 10, 1.0, None)))
    del (
        data["source"],
        data["doing"],
        data["waits_for"],
        data["settings"]["verify"],
        data["progress"]["at_s"],
    )
    assert job_from_json(data) == replace(JOB, progress=Progress(1, 0.5, 10, 1.0, None))
    for waiting, code in (("rate limit", "RATE_LIMIT"), ("up to date", "IDLE"), ("the lake is away", "")):
        assert job_from_json({**data, "waiting": waiting}).waits_for == code


LATER = {
    "source", "doing", "waits_for", "part_names", "wants_gone", "parts", "learned", "condition", "wanted_definition",
    "shown_definition",
}  # fmt: skip
"""What rows of earlier releases do not have."""


@pytest.mark.parametrize(
    "name",
    sorted(set(job_to_json(JOB)) - LATER),
)
def test_a_missing_field_is_named(name: str) -> None:
    data = job_to_json(JOB)
    del data[name]
    with pytest.raises(StoreUnreadable, match=name):
        job_from_json(data)


def test_a_heartbeat_and_a_clean_stop_touch_only_a_lease_of_their_own() -> None:
    held = replace(Job("j", "n", "{}"), lease=Lease("a", 3, 100.0))
    assert jobs.renew("a", 90.0, 60.0)(held).lease == Lease("a", 3, 150.0)
    assert jobs.release_own("a")(held).lease == Lease("", 3, 0.0)
    assert jobs.renew("b", 90.0, 60.0)(held) is held
    assert jobs.renew("a", 54.0, 60.0)(held) is held, "a quarter of its time is not over: each write costs"
    assert jobs.renew("a", 55.0, 60.0)(held).lease.until_s == 115.0
    assert jobs.renew("a", 30.0, 60.0)(held).lease.until_s == 90.0, "a clock that went back"
    assert jobs.release_own("b")(held) is held
