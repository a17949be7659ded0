"""The rate limit: a bucket of tokens, one token a row.

It starts empty, so that a runner which is killed again and again does not get a full bucket each time. A chunk may turn
out larger than its estimate: then the bucket goes below zero and the debt is waited for.
"""

from __future__ import annotations

from dataclasses import dataclass

WAIT_MIN_S = 0.001  # a shorter wait could vanish in the rounding of the clock, and be planned for ever


@dataclass(frozen=True, slots=True)
class Bucket:
    """So many tokens at that time."""

    tokens: float
    at_s: float


def refill(bucket: Bucket, now_s: float, rate_limit: int | None, room: int) -> Bucket:
    """The bucket at `now_s`; it holds no more than `room`, or one second's worth. A clock that went back adds none."""
    if rate_limit is None:
        return Bucket(0.0, now_s)
    grown = bucket.tokens + rate_limit * max(0.0, now_s - bucket.at_s)
    return Bucket(min(grown, float(max(room, rate_limit))), now_s)


def spend(bucket: Bucket, rows: int) -> Bucket:
    """The bucket after so many rows were filled."""
    return Bucket(bucket.tokens - rows, bucket.at_s)


def chunks_allowed(bucket: Bucket, rate_limit: int | None, rows: int, wanted: int) -> int:
    """How many chunks of `rows` the bucket pays for, at most `wanted`. A limit of 0 holds at once, whatever was saved
    up before."""
    if rate_limit is None:
        return wanted
    return max(0, min(wanted, int(bucket.tokens // rows))) if rate_limit else 0


def wait_s(bucket: Bucket, rate_limit: int | None, rows: int) -> float | None:
    """How long until the bucket pays for one chunk; None if it never will."""
    if rate_limit == 0:
        return None
    if rate_limit is None or bucket.tokens >= rows:
        return 0.0
    return max(WAIT_MIN_S, (rows - bucket.tokens) / rate_limit)
