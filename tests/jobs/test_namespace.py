"""Registered tables, and who may have, need and take away a name."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.errors import InUse, InvalidSetting, NameTaken, StoreUnreadable, UnknownTable, WrongState
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import (
    USERS_NAMED_MAX,
    Registered,
    attached,
    check_needed,
    check_unused,
    ending,
    ends,
    table_from_json,
    table_to_json,
)
from tidefill.jobs.row import NAME_CHARACTERS_MAX, Job

TABLE = Registered("events", '{"location": "lake/events"}')
JOB = Job("1", "events", TABLE.definition)


@pytest.mark.parametrize("name", ["", "   ", "x" * (NAME_CHARACTERS_MAX + 1)])
def test_a_name_is_there_and_not_too_long(name: str) -> None:
    with pytest.raises(InvalidSetting):
        replace(TABLE, name=name)
    assert replace(TABLE, name="x" * NAME_CHARACTERS_MAX)


def test_what_is_equal_attaches() -> None:
    assert attached(TABLE, None) is None
    assert attached(JOB, None) is None
    assert attached(replace(TABLE, name="EVENTS"), TABLE) is TABLE
    live = replace(JOB, life=Life.LIVE)
    assert attached(replace(JOB, id="2"), live) is live


def test_who_has_the_name_is_told() -> None:
    with pytest.raises(NameTaken, match="the name of another table") as table_and_table:
        attached(replace(TABLE, definition="another"), TABLE)
    assert "unregister events" in table_and_table.value.hint
    with pytest.raises(NameTaken, match="the name of another job") as job_and_job:
        attached(replace(JOB, definition="another"), JOB)
    assert "which is created" in job_and_job.value.detail
    assert "drop events" in job_and_job.value.hint


def test_a_job_and_a_table_are_never_equal() -> None:
    with pytest.raises(NameTaken, match="the name of a job"):
        attached(TABLE, JOB)
    with pytest.raises(NameTaken, match="the name of a table"):
        attached(JOB, TABLE)


def test_what_is_needed_is_there_and_stays() -> None:
    check_needed("events", TABLE)
    for life in set(Life) - {Life.CANCELLING, Life.DROPPED}:
        check_needed("events", replace(JOB, life=life))
        with pytest.raises(WrongState, match="being dropped"):
            check_needed("events", replace(JOB, life=life, wants_end=True))
    with pytest.raises(WrongState, match="being dropped"):
        check_needed("events", replace(JOB, life=Life.CANCELLING))
    with pytest.raises(UnknownTable, match="no table events"):
        check_needed("events", None)


def test_users_are_named_up_to_a_bound() -> None:
    jobs = [Job(str(number), f"job {number:02}", "{}") for number in reversed(range(USERS_NAMED_MAX + 2))]
    check_unused("events", jobs, lambda job: ["others"])
    with pytest.raises(InUse) as few:
        check_unused("events", jobs, lambda job: ["a", "EVENTS"] if job.id in "12" else [])
    assert few.value.detail == "Read by job 01, job 02."
    with pytest.raises(InUse) as many:
        check_unused("events", jobs, lambda job: ["events"])
    assert many.value.detail.endswith("job 09 and 2 more.")


@given(
    st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda pair: pair[0] < pair[1])), st.integers(0, 6)
)
def test_what_ends_is_all_from_where_reading_leads_to_it(pairs: set[tuple[int, int]], first: int) -> None:
    """Against the definition: the smallest set with the job in it that has every reader of what it has."""
    jobs = [Job(str(number), f"job {number}", "{}") for number in range(7)]
    found = ending(
        jobs[first], jobs, lambda job: [f"JOB {low}" for low, high in pairs if str(high) == job.id], cascade=True
    )
    wanted = {first}
    for high in range(first + 1, 7):
        wanted |= {high} if any((low, high) in pairs for low in wanted) else set()
    assert [job.id for job in found] == [str(first), *(str(number) for number in sorted(wanted - {first}))]


def test_who_reads_it_keeps_it_unless_he_ends_too() -> None:
    reader = Job("2", "reader", "{}")
    with pytest.raises(InUse, match="CASCADE"):
        ending(JOB, [JOB, reader], lambda job: ["events"], cascade=False)
    going = replace(reader, wants_end=True)
    assert ends(going)
    assert ending(JOB, [JOB, going], lambda job: ["events"], cascade=False) == (JOB,)


@given(st.text(min_size=1, max_size=NAME_CHARACTERS_MAX).filter(str.strip), st.text())
def test_json_and_back(name: str, definition: str) -> None:
    table = Registered(name, definition)
    assert table_from_json(table_to_json(table)) == table


@pytest.mark.parametrize("data", [None, 7, "text", [], {}, {"name": "x"}, {"name": 7, "definition": ""}])
def test_what_is_no_table_cannot_be_read(data: object) -> None:
    with pytest.raises(StoreUnreadable, match="a table in the store"):
        table_from_json(data)
