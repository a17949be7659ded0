"""The contract of `tidefill.ports.Store`, as a suite that any store can run.

Each test takes a function that makes an empty store. From pytest:

    @pytest.mark.parametrize("test", STORE_SUITE, ids=lambda test: test.__name__)
    def test_conformance(test: StoreTest) -> None:
        test(MyStore)
"""

from __future__ import annotations

from tidefill.testing.conformance.store.jobs import JOBS
from tidefill.testing.conformance.store.names import NAMES
from tidefill.testing.conformance.store.readers import READERS
from tidefill.testing.conformance.store.rows import StoreTest
from tidefill.testing.conformance.store.steps import STEPS
from tidefill.testing.conformance.store.tables import TABLES
from tidefill.testing.conformance.store.ticks import TICKS

STORE_SUITE: tuple[StoreTest, ...] = (*JOBS, *TABLES, *NAMES, *READERS, *TICKS, *STEPS)
