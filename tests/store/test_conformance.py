"""The store on SQLite and the one in memory keep the contract of stores."""

import pytest

from tidefill.ports.store import Store
from tidefill.store.sql_store import SqlStore
from tidefill.testing.conformance.store.rows import StoreTest
from tidefill.testing.conformance.store.suite import STORE_SUITE
from tidefill.testing.memory.store import MemoryStore


@pytest.mark.parametrize("test", STORE_SUITE, ids=lambda test: test.__name__)
def test_sqlite_keeps_the_contract(test: StoreTest, store: SqlStore) -> None:
    test(lambda: store)


@pytest.mark.parametrize("test", STORE_SUITE, ids=lambda test: test.__name__)
def test_memory_keeps_the_contract(test: StoreTest) -> None:
    test(MemoryStore)


def test_it_is_a_store(store: SqlStore) -> None:
    as_port: Store = store
    assert list(as_port.jobs()) == []
