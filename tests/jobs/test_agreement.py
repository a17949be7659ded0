"""Versions that agree, against the naive search through all combinations; and who goes in step with whom."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.version import Number, Version, bases_of, version_from_json, version_to_json
from tidefill.jobs.agreement import agree, bases, blocked_by, in_step, meets, stands, waited_for
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job, Pause

History = list[Version]
DIAMOND = {"v1": {"t": "orders"}, "v2": {"t": "orders"}, "v3": {"a": "v1", "b": "v2"}}
LONG_ARM = {**DIAMOND, "v1": {"t": "w"}, "w": {"t": "orders"}, "top": {"t": "v3"}, "free": {"t": "orders"}}


@st.composite
def histories(draw: st.DrawFn) -> dict[str, History]:
    """Of up to three tables of ours over up to three of others, whose versions never go back."""
    found: dict[str, History] = {}
    for table in draw(st.sampled_from([["a", "b"], ["a", "b", "c"]])):
        over = draw(st.lists(st.sampled_from(["t", "u", "w"]), min_size=1, max_size=2, unique=True))
        at, found[table] = dict.fromkeys(over, 0), []
        for number in range(draw(st.integers(1, 5))):
            at = {base: last + draw(st.integers(0, 2)) for base, last in at.items()}
            found[table].append(Version(table, Number(number), bases=at))
    return found


def before(found: dict[str, History], table: str, base: str, number: int) -> Version | None:
    """By the whole history."""
    return next((one for one in reversed(found[table]) if one.bases[base] <= number), None)


def agreeing(versions: tuple[Version, ...]) -> bool:
    """Whether no base is there twice with two numbers."""
    seen: dict[str, int] = {}
    return all(seen.setdefault(base, at) == at for version in versions for base, at in version.bases.items())


@given(histories())
def test_the_newest_that_agree_are_found(found: dict[str, History]) -> None:
    # R16
    combinations = [choice for choice in product(*found.values()) if agreeing(choice)]
    agreed = agree({table: history[-1] for table, history in found.items()}, lambda *asked: before(found, *asked))
    if not combinations:
        assert agreed is None
        return
    assert agreed is not None
    for choice in combinations:
        assert all(agreed[version.identity].point.number >= version.point.number for version in choice)  # type: ignore[union-attr]
    assert agreeing(tuple(agreed.values()))


def test_a_table_of_others_comes_from_itself() -> None:
    assert bases_of(Version("orders", Number(7))) == {"orders": 7}
    assert bases_of(Version("v1", Number(3), bases={"orders": 7})) == {"orders": 7}


def test_what_it_comes_from_is_recorded() -> None:
    version = Version("v1", Number(3), bases={"orders": 7})
    assert version_from_json(version_to_json(version)).bases == {"orders": 7}


def test_a_table_and_a_view_of_it_agree() -> None:
    heads = {"a": Version("orders", Number(9)), "b": Version("v1", Number(3), bases={"orders": 7})}
    agreed = agree(heads, lambda table, base, number: Version(base, Number(number)))
    assert agreed == {"a": Version("orders", Number(7)), "b": heads["b"]}


def test_those_go_in_step_whose_outputs_meet_again() -> None:
    assert in_step(DIAMOND) == {"orders": {"v1", "v2"}}
    assert in_step(LONG_ARM) == {"orders": {"v1", "w", "v2"}}
    assert in_step({"v1": {"t": "orders"}, "v2": {"t": "items"}, "v3": {"a": "v1", "b": "v2"}}) == {}


def test_a_job_that_reads_no_table_of_ours_is_a_base() -> None:
    reads = {"replica": {}, "v1": {"t": "replica"}, "v2": {"t": "replica"}, "v3": {"a": "v1", "b": "v2"}}
    assert bases("v3", reads) == {"replica"}
    assert meets("v3", reads) == {"replica"}
    assert in_step(reads) == {"replica": {"v1", "v2"}}


def test_one_table_by_two_names_meets_itself() -> None:
    reads = {"v1": {"t": "orders"}, "v3": {"a": "orders", "b": "v1"}}
    assert meets("v3", reads) == {"orders"}
    assert in_step(reads) == {"orders": {"v1"}}


def test_a_tower_of_views_is_looked_through_once() -> None:
    """By two ways at each of its floors; one by one there would be 2 to the power of 60."""
    floors = range(2, 60)
    tower = {f"v{floor}": {"a": f"v{floor - 1}", "b": f"v{floor - 2}"} for floor in floors}
    reads = {"v0": {"t": "orders"}, "v1": {"t": "orders"}, **tower}
    assert bases("v59", reads) == {"orders"}
    assert in_step(reads) == {"orders": {f"v{floor}" for floor in range(59)}}


def job(name: str, life: Life = Life.LIVE, pause: Pause = Pause.NOTHING) -> Job:
    """A row."""
    return Job(name, name, "{}", life=life, pause=pause)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (job("w"), ""),
        (job("w", pause=Pause.FILL), ""),
        (job("w", pause=Pause.ALL), "paused"),
        (job("w", Life.PAUSED, Pause.ALL), "paused"),
        (job("w", Life.FAILED), "failed"),
        (job("w", Life.BACKFILLING), "backfilling"),
    ],
)
def test_nobody_waits_for_one_that_stands_nor_for_what_waits_for_it(row: Job, why: str) -> None:
    # R42
    rows = {"w": row, **{name: job(name) for name in ("v1", "v2", "v3", "top", "free")}}
    assert stands(row) == why
    members = in_step(LONG_ARM)["orders"]
    waited = {one.name for one in waited_for(members, LONG_ARM, rows)}
    assert waited == ({"v2"} if why else {"v1", "w", "v2"})
    assert blocked_by("top", LONG_ARM, rows) == (row if why else None)
    assert blocked_by("v2", LONG_ARM, rows) is None
