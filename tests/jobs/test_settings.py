"""What a user may set of which job: how it takes changes in, and what is of indexes alone."""

from __future__ import annotations

import pytest

from tests.jobs.test_definitions import FULL, INDEX, JOIN, ORDERS, REPLICA, VIEW
from tidefill.errors import InvalidSetting
from tidefill.jobs.definitions import IndexesDefinition
from tidefill.jobs.row import Settings
from tidefill.jobs.settings import (
    OF_INDEX,
    OF_INDEX_ALONE,
    OF_SERVER_LOG,
    changed_settings,
    check_altered,
    check_use,
    is_full,
    settings_of_view,
)


@pytest.mark.parametrize(("refresh", "steps_only"), [("auto", False), ("incremental", True), ("INCREMENTAL", True)])
def test_steps_alone_or_the_cheaper_way(refresh: str, steps_only: bool) -> None:
    assert changed_settings(Settings(), {"refresh": refresh}).steps_only is steps_only
    assert not is_full(refresh)
    asked = settings_of_view(refresh, {"chunk_rows": 7})
    assert changed_settings(Settings(), asked) == Settings(chunk_rows=7, steps_only=steps_only)


def test_it_can_be_taken_back() -> None:
    assert changed_settings(Settings(steps_only=True), {"refresh": "auto"}) == Settings()


def test_a_view_does_not_become_one_that_is_computed_from_nothing() -> None:
    assert is_full("full")
    assert settings_of_view("full", {"verify": True}) == {"verify": True}
    with pytest.raises(InvalidSetting, match="refresh cannot become full"):
        changed_settings(Settings(), {"refresh": "full"})


def test_another_word_is_refused() -> None:
    for ask in (lambda: is_full("sometimes"), lambda: changed_settings(Settings(), {"refresh": "sometimes"})):
        with pytest.raises(InvalidSetting, match="refresh is 'sometimes'") as refused:
            ask()
        assert refused.value.hint == "Set it to auto, incremental or full."


def test_what_is_set_of_an_index() -> None:
    check_use(INDEX, OF_INDEX)
    for name in (*OF_SERVER_LOG, "target_lag"):
        with pytest.raises(InvalidSetting, match=f"{name} cannot be set of an index"):
            check_use(INDEX, (name,))
    for other in (REPLICA, ORDERS, VIEW, JOIN, FULL):
        for name in OF_INDEX_ALONE:
            with pytest.raises(InvalidSetting, match="is for indexes"):
                check_use(other, (name,))


@pytest.mark.parametrize(("given", "sort"), [("spark", "spark"), ("SERVER", "server"), (None, "none")])
def test_who_sorts_an_index(given: object, sort: str) -> None:
    assert changed_settings(Settings(), {"sort": given}).sort == sort


def test_what_cannot_be_changed_of_an_index() -> None:
    with pytest.raises(InvalidSetting, match="sort is"):
        changed_settings(Settings(), {"sort": "quick"})
    with pytest.raises(InvalidSetting, match="when an index is created"):
        check_altered(INDEX, Settings(sort="spark"), {"sort": "server"})
    for sort in ("spark", "server"):
        check_altered(INDEX, Settings(sort=sort), {"parallelism": 2})
    several = IndexesDefinition("t", "shop", ("a", "b"), (INDEX, INDEX))
    with pytest.raises(InvalidSetting, match="parallelism is for a job with one index"):
        check_altered(several, Settings(sort="server"), {"parallelism": 2})


@pytest.mark.parametrize(("given", "limit"), [("1 GB", 1 << 30), (4096, 4096), (None, None)])
def test_the_limit_of_a_log(given: object, limit: int | None) -> None:
    assert changed_settings(Settings(), {"log_limit": given}).log_limit == limit
