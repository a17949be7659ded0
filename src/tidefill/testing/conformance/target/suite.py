"""The contract of `tidefill.ports.Target`, as a suite that any target can run on the real system.

Each test takes a harness: the table of one job, and everybody else who has to do with it. From pytest:

    @pytest.mark.parametrize("test", TARGET_SUITE, ids=lambda test: test.__name__)
    def test_conformance(test: TargetTest) -> None:
        test(MyHarness())
"""

from __future__ import annotations

from tidefill.testing.conformance.target.counts import COUNTS
from tidefill.testing.conformance.target.harness import TargetTest
from tidefill.testing.conformance.target.making import MAKING
from tidefill.testing.conformance.target.once import ONCE
from tidefill.testing.conformance.target.shown import SHOWN
from tidefill.testing.conformance.target.strangers import STRANGERS
from tidefill.testing.conformance.target.writes import WRITES

TARGET_SUITE: tuple[TargetTest, ...] = (*MAKING, *WRITES, *ONCE, *COUNTS, *STRANGERS, *SHOWN)
