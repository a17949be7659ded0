"""Tests of ticks: compare-and-set from the one that was seen, and forgotten when nobody keeps them."""

from __future__ import annotations

from tidefill.testing.conformance.store.rows import MakeStore, StoreTest


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


TICKS: tuple[StoreTest, ...] = (
    a_tick_moves_from_the_one_that_was_seen,
    ticks_that_are_not_kept_are_forgotten,
)
