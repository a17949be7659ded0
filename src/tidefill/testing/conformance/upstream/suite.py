"""The contract of `tidefill.ports.Upstream`, as a suite that any upstream can run on the real system.

Each test takes a harness, which makes tables, writes them and evaluates frames. From pytest:

    @pytest.mark.parametrize("test", UPSTREAM_SUITE, ids=lambda test: test.__name__)
    def test_conformance(test: UpstreamTest) -> None:
        test(MyHarness())

What the system cannot do is skipped, as `unittest.SkipTest`: by the harness's capabilities, or by the harness that is
asked for columns, or for a write, that the system does not know. What is expected is worked out here from plain rows;
of the core only the order of keys and the coverage rule for one key are used.
"""

from __future__ import annotations

from tidefill.testing.conformance.upstream.changes import CHANGES
from tidefill.testing.conformance.upstream.chunks import CHUNKS
from tidefill.testing.conformance.upstream.growth import GROWTH
from tidefill.testing.conformance.upstream.harness import UpstreamTest
from tidefill.testing.conformance.upstream.order import ORDER
from tidefill.testing.conformance.upstream.refusals import REFUSALS
from tidefill.testing.conformance.upstream.release import RELEASE
from tidefill.testing.conformance.upstream.versions import VERSIONS

UPSTREAM_SUITE: tuple[UpstreamTest, ...] = (
    *VERSIONS, *CHANGES, *GROWTH, *CHUNKS, *REFUSALS, *RELEASE, *ORDER
)  # fmt: skip
