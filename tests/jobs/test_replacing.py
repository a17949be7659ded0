"""Another query for a view: what its readers would miss, and how its row goes from generation to generation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.stores import row
from tests.jobs.test_definitions import FULL, JOIN, ORDERS
from tidefill.errors import NameTaken, StoreUnreadable, UnsupportedQuery, WrongState
from tidefill.jobs import generations
from tidefill.jobs import row as jobs
from tidefill.jobs.agreement import stands
from tidefill.jobs.definitions import JobDefinition, ReplicaDefinition, RowViewDefinition, job_to_text
from tidefill.jobs.graph import names_needed, names_read, newest_definition_of, published_definition_of
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import Replacement, attached, check_replaced, readers_of
from tidefill.jobs.replacing import Shown, missed
from tidefill.jobs.row import Job, Settings
from tidefill.jobs.status import status_of
from tidefill.run.catch_up import stands_still

BEFORE = Shown({"Id": "int", "total": "bigint", "day": "date"}, ("Id",))
ROWS = RowViewDefinition(
    "v", "SELECT total FROM v", ("Id",), ("k",), ("Id",), "the key", columns=(("total", "total"),),
    reads=("Id", "total"),
)  # fmt: skip
COPY = ReplicaDefinition("v", ("Id",), ("Id",), "the key")
PLANNED = replace(
    JOIN, parts=(replace(JOIN.parts[0], table="V", columns=(("id", "int"), ("total", "bigint")), key=("Id",), walk=()),)
)
WHOLE = replace(FULL, parts=(replace(FULL.parts[0], table="v", columns=(("total", "bigint"),)),))


@pytest.mark.parametrize("reader", [ROWS, COPY, PLANNED, WHOLE], ids=["rows", "copy", "planned", "full"])
def test_what_a_reader_reads_has_to_stay(reader: JobDefinition) -> None:
    assert missed(reader, "v", BEFORE, BEFORE) == ""
    more = Shown({"new": "string", **BEFORE.columns}, BEFORE.key)
    assert missed(reader, "v", BEFORE, more) == "", "a column may come"
    capitals = Shown({"ID": "int", "TOTAL": "bigint", "DAY": "date"}, ("ID",))
    assert missed(reader, "v", BEFORE, capitals) == "", "names do not differ by case"
    without = Shown({"Id": "int", "day": "date"}, ("Id",))
    assert missed(reader, "v", BEFORE, without) == "the column total"
    wider = Shown({**BEFORE.columns, "total": "decimal(38,0)"}, ("Id",))
    assert missed(reader, "v", BEFORE, wider) == "the column total as bigint: it becomes decimal(38,0)"
    unread = Shown({"Id": "int", "total": "bigint"}, ("Id",))
    assert bool(missed(reader, "v", BEFORE, unread)) is (reader is COPY), "only a copy reads every column"


@pytest.mark.parametrize("reader", [ROWS, COPY, PLANNED], ids=["rows", "copy", "planned"])
def test_a_reader_that_follows_rows_needs_their_key(reader: JobDefinition) -> None:
    by_day, keyless = Shown(BEFORE.columns, ("day",)), Shown(BEFORE.columns, ())
    assert missed(reader, "v", BEFORE, by_day) == "the key (Id): it becomes (day)"
    assert missed(reader, "v", BEFORE, keyless) == "a key"
    assert missed(WHOLE, "v", BEFORE, by_day) == missed(WHOLE, "v", BEFORE, keyless) == ""


def test_what_reads_something_else_misses_nothing() -> None:
    for reader in (ORDERS, replace(PLANNED, parts=(replace(PLANNED.parts[0], table="w"),))):
        assert missed(reader, "v", BEFORE, Shown({}, ("Id",))) == ""


OLD, NEW, NEWER = (job_to_text(replace(ROWS, sql=f"SELECT {number} FROM v")) for number in range(3))
LIVE = Job("1", "view", OLD, life=Life.LIVE, published=1, generation_uuid="one", source="0-1", learned="learned")


def keep(settings: Settings) -> Settings:
    return settings


def begun(job: Job, definition: str) -> Job:
    """With the next generation, by that definition."""
    return generations.next_generation("next", "0-2")(jobs.wish_replace(definition, keep)(job))


def live(job: Job) -> Job:
    verifying = replace(job, life=Life.VERIFYING)
    return generations.went_live(verifying)(verifying)


def test_the_definition_changes_with_the_generation() -> None:
    wished = jobs.wish_replace(NEW, lambda settings: replace(settings, rate_limit=7))(LIVE)
    assert (wished.definition, wished.generation, wished.settings.rate_limit) == (OLD, 1, 7)
    assert wished.wish_number == LIVE.wish_number + 1
    new = generations.next_generation("next", "0-2")(wished)
    assert (new.definition, new.generation, new.generation_uuid, new.wanted_definition) == (NEW, 2, "next", "")
    assert (new.published, new.published_definition) == (1, OLD), "readers see the old rows by the old definition"
    assert (new.source, new.learned, new.anchor) == ("", "", ""), "what it reads, and what it costs, is not known yet"
    after = live(new)
    assert (after.published, after.published_definition, after.shown_definition) == (2, NEW, "")


def test_a_resync_keeps_definition_and_source() -> None:
    again = generations.next_generation("next", "0-2")(jobs.wish_resync(LIVE))
    assert (again.definition, again.shown_definition, again.source, again.learned) == (OLD, "", "0-2", "learned")
    resynced = generations.next_generation("third", "0-2")(begun(LIVE, NEW))
    assert (resynced.definition, resynced.published_definition) == (NEW, OLD), "a RESYNC of what is not live yet"


def test_a_resync_of_what_was_never_built_still_waits_for_what_it_reads() -> None:
    waiting = replace(begun(LIVE, NEW), wants_resync=True)
    assert waiting.source == ""
    assert generations.next_generation("third", "0-2")(waiting).source == "", "0-2 may be what is being replaced"


def test_the_last_of_two_wishes_counts() -> None:
    wished = jobs.wish_replace(NEWER, keep)(jobs.wish_replace(NEW, keep)(LIVE))
    assert wished.newest_definition == NEWER
    twice = begun(begun(LIVE, NEW), NEWER)
    assert (twice.definition, twice.published_definition, twice.generation) == (NEWER, OLD, 3)
    back = jobs.wish_replace(NEW, keep)(jobs.wish_replace(NEWER, keep)(begun(LIVE, NEW)))
    assert (back.wanted_definition, back.wants_generation) == ("", False), "it is being made already"


def test_back_to_what_readers_see_is_a_generation_too() -> None:
    back = begun(begun(LIVE, NEW), OLD)
    assert (back.definition, back.generation, back.published) == (OLD, 3, 1)
    assert not back.is_being_replaced


def test_what_was_never_live_shows_nothing() -> None:
    filling = begun(replace(LIVE, life=Life.BACKFILLING, published=None), NEW)
    assert (filling.definition, filling.shown_definition, filling.published) == (NEW, "", None)
    assert jobs.wish_cancel(filling).wants_end


@pytest.mark.parametrize("life", sorted(set(Life) - {Life.CANCELLING, Life.DROPPED}, key=str))
def test_any_job_that_stays_takes_another_query(life: Life) -> None:
    new = begun(replace(LIVE, life=life), NEW)
    assert (new.life, new.definition, new.failure) == (Life.BACKFILLING, NEW, None)


def test_what_ends_takes_no_query_and_what_is_replaced_is_not_cancelled() -> None:
    for life in (Life.CANCELLING, Life.DROPPED):
        with pytest.raises(WrongState, match="being dropped"):
            jobs.wish_replace(NEW, keep)(replace(LIVE, life=life))
    with pytest.raises(StoreUnreadable, match="settings"):
        jobs.wish_replace(NEW, keep)(replace(LIVE, unread_settings="{}"))
    for job in (jobs.wish_replace(NEW, keep)(LIVE), begun(LIVE, NEW)):
        with pytest.raises(WrongState, match="with the query that it had before") as refused:
            jobs.wish_cancel(job)
        assert "CREATE OR REPLACE" in refused.value.hint
        assert jobs.wish_drop(job).wants_end


def test_a_wish_is_seen_by_all_who_wait() -> None:
    wished = jobs.wish_replace(NEW, keep)(LIVE)
    assert stands(LIVE) == ""
    assert stands(wished) == "live", "jobs in step do not wait for it"
    assert not stands_still(replace(wished, life=Life.FAILED))
    assert status_of(wished, 0.0).wishes == ("replace",)
    assert status_of(begun(LIVE, NEW), 0.0).wishes == ()


ELSEWHERE = job_to_text(replace(ROWS, input="w"))


def test_what_the_new_query_reads_is_needed_before_it_is_read() -> None:
    wished = jobs.wish_replace(ELSEWHERE, keep)(LIVE)
    assert (names_read(wished), names_needed(wished)) == (("v",), ("v", "w"))
    new = generations.next_generation("next")(wished)
    assert (names_read(new), names_needed(new)) == (("w",), ("w",))
    assert newest_definition_of(wished) == definition_of_text(ELSEWHERE)
    assert published_definition_of(new) == definition_of_text(OLD)


def definition_of_text(text: str) -> JobDefinition:
    return newest_definition_of(Job("2", "any", text))


def test_the_same_create_attaches_to_what_was_asked_for_last() -> None:
    wished = jobs.wish_replace(NEW, keep)(LIVE)
    assert attached(Job("2", "view", NEW), wished) is wished
    with pytest.raises(NameTaken, match="already the name of another job"):
        attached(Job("2", "view", OLD), wished)


def test_no_view_reads_itself() -> None:
    base, middle, top = row("v", 1), row("m", 2, replace(ROWS, input="V")), row("t", 3, replace(ROWS, input="m"))
    rows = [middle, top]
    for below, path in (("v", "v reads v"), ("m", "v reads m reads v"), ("T", "v reads t reads m reads v")):
        wished = jobs.wish_replace(job_to_text(replace(ROWS, input=below)), keep)(base)
        with pytest.raises(UnsupportedQuery, match="would read itself") as refused:
            check_replaced(wished, rows, Replacement((), names_needed, readers_of(wished, rows, names_needed)))
        assert refused.value.detail == f"{path}."
    both = jobs.wish_replace(job_to_text(replace(ROWS, input="other")), keep)(base)
    other = jobs.wish_replace(job_to_text(replace(ROWS, input="v")), keep)(row("other", 4))
    with pytest.raises(UnsupportedQuery, match="would read itself"):  # by two wishes that nobody has acted on
        check_replaced(both, [other], Replacement((), names_needed, readers_of(both, [other], names_needed)))


def test_readers_that_were_not_checked_are_noticed() -> None:
    base, reader = row("v", 1), row("r", 2, replace(ROWS, input="v"))
    wished = jobs.wish_replace(NEW.replace('"input": "v"', '"input": "w"'), keep)(base)
    checked = readers_of(base, [reader], names_needed)
    check_replaced(wished, [reader], Replacement((), names_needed, checked))
    check_replaced(wished, [], Replacement((), names_needed, checked))
    changed = jobs.wish_replace(job_to_text(replace(ROWS, sql="SELECT Id FROM v")), keep)(reader)
    for rows in ([changed], [reader, row("new", 3, replace(ROWS, input="v"))]):
        with pytest.raises(WrongState, match="meanwhile"):
            check_replaced(wished, rows, Replacement((), names_needed, checked))
    ending = jobs.wish_drop(row("new", 3, replace(ROWS, input="v")))
    check_replaced(wished, [reader, ending], Replacement((), names_needed, checked))
