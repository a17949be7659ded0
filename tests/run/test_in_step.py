"""Whoever goes in step is not stopped by what another's row says."""

from tidefill.core.version import Number, Version
from tidefill.jobs.graph import Graph
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job
from tidefill.run.in_step import Ticking
from tidefill.testing.memory.store import MemoryStore

READS = {"v1": {"t": "orders"}, "v2": {"t": "orders"}, "v3": {"a": "v1", "b": "v2"}}


def test_a_row_that_cannot_be_read_holds_nobody_up() -> None:
    # R42
    store = MemoryStore()
    for name in READS:
        store.rows[name] = Job(name, name, "{}", life=Life.LIVE, anchor="" if name == "v1" else "{")
    group = Ticking(store).group(store.rows["v1"], Graph(store.jobs(), lambda rows: READS))
    assert group.member
    for number in (3, 4):
        newest = {"t": Version("orders", Number(number))}
        assert group.allowed(True, newest, lambda table, version: True) == newest
    assert store.tick("orders") == 4
