"""Tests of release: an upstream lets go of history that nobody needs, and of no other."""

from __future__ import annotations

from tidefill.core import walk
from tidefill.testing.conformance.upstream.checks import assert_changes, first_version, open_newest
from tidefill.testing.conformance.upstream.harness import F, UpstreamHarness, UpstreamTest
from tidefill.testing.conformance.upstream.rows import NINE, ORDINARY


def release_keeps_what_is_still_needed(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    old = first_version(harness)
    harness.write([(NINE[0], None)])
    middle = first_version(harness)
    harness.write([(NINE[1], None)])
    with open_newest(harness) as (upstream, head):
        for version in (middle, middle, old):
            upstream.release(version)
        upstream.check(middle)
        assert_changes(harness, upstream.read_changes(middle, head, walk.whole()), NINE[1:], NINE[2:], walk.whole())
        upstream.release(head)
        upstream.release(head)
        upstream.check(head)


def an_idle_release_outlives_a_restart(harness: UpstreamHarness[F]) -> None:
    """An idle job lets go of history without a commit of its target, whose version then is an old one."""
    harness.create(ORDINARY, NINE)
    old = first_version(harness)
    harness.stir()
    with open_newest(harness) as (upstream, idle):
        upstream.release(idle)
        upstream.check(old)
    harness.write([(NINE[0], None)])
    again = harness.upstream()
    again.prepare(idle)
    again.check(old)
    with again.open_head(first=False) as head:
        assert_changes(harness, again.read_changes(old, head, walk.whole()), NINE, NINE[1:], walk.whole())


RELEASE: tuple[UpstreamTest, ...] = (
    release_keeps_what_is_still_needed,
    an_idle_release_outlives_a_restart,
)
