"""The rate limit, on a clock that is moved by hand."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.throttle import Bucket, chunks_allowed, refill, spend, wait_s

BEGIN_S = 1_700_000_000.0


@dataclass
class Filler:
    """A runner that does nothing but fill, one chunk a time."""

    rate: int | None
    chunk: int
    fill_s: float = 0.0
    surplus: int = 0
    now_s: float = BEGIN_S
    rows: int = 0

    def run(self, until_s: float) -> None:
        """Fill until then. It begins with an empty bucket: whoever is killed and started again does so again."""
        bucket = Bucket(0.0, self.now_s)
        while self.now_s < until_s:
            bucket = refill(bucket, self.now_s, self.rate, self.chunk)
            if chunks_allowed(bucket, self.rate, self.chunk, 1):
                self.rows += self.chunk + self.surplus
                bucket = spend(bucket, self.chunk + self.surplus)
                self.now_s += max(self.fill_s, 0.01)
            else:
                before_s, pause_s = self.now_s, wait_s(bucket, self.rate, self.chunk)
                self.now_s += 1.0 if pause_s is None else pause_s
                assert self.now_s > before_s, "a wait that the clock does not notice would be planned for ever"


def test_the_bucket_starts_empty_and_is_waited_for() -> None:
    bucket = Bucket(0.0, BEGIN_S)
    assert chunks_allowed(bucket, 100, 50, 4) == 0
    assert wait_s(bucket, 100, 50) == 0.5
    bucket = refill(bucket, BEGIN_S + 0.5, 100, 200)
    assert chunks_allowed(bucket, 100, 50, 4) == 1
    assert wait_s(bucket, 100, 50) == 0.0


def test_several_chunks_are_paid_for_one_by_one() -> None:
    bucket = refill(Bucket(0.0, 0.0), 1.75, 100, 200)
    assert chunks_allowed(bucket, 100, 50, 4) == 3
    assert chunks_allowed(bucket, 100, 50, 2) == 2


def test_a_chunk_larger_than_estimated_is_a_debt() -> None:
    bucket = spend(Bucket(50.0, 0.0), 250)
    assert chunks_allowed(bucket, 100, 50, 1) == 0
    assert wait_s(bucket, 100, 50) == 2.5


def test_no_limit_is_no_wait() -> None:
    bucket = refill(Bucket(-500.0, 0.0), 1.0, None, 50)
    assert bucket == Bucket(0.0, 1.0)
    assert chunks_allowed(bucket, None, 50, 4) == 4
    assert wait_s(bucket, None, 50) == 0.0


def test_a_limit_of_zero_holds_at_once() -> None:
    saved = Bucket(1000.0, 0.0)
    assert chunks_allowed(refill(saved, 1.0, 0, 1000), 0, 50, 4) == 0
    assert wait_s(saved, 0, 50) is None


def test_waiting_saves_up_no_more_than_one_step() -> None:
    bucket = refill(Bucket(0.0, 0.0), 86_400.0, 100, 250)
    assert bucket.tokens == 250
    assert refill(Bucket(0.0, 0.0), 86_400.0, 1000, 250).tokens == 1000, "or than one second's worth"


def test_a_clock_that_goes_back_adds_nothing_and_takes_nothing() -> None:
    bucket = refill(Bucket(10.0, 1000.0), 400.0, 100, 250)
    assert bucket == Bucket(10.0, 400.0)
    assert refill(bucket, 401.0, 100, 250).tokens == 110, "and from there on it counts"


# R10
def test_a_limited_fill_has_its_rate() -> None:
    filler = Filler(rate=1000, chunk=5000, fill_s=1.0)
    filler.run(BEGIN_S + 600)
    assert 0.98 * 600_000 <= filler.rows <= 600_000


# R10
@given(st.integers(1, 10**6), st.floats(0.1, 20.0), st.floats(0.0, 0.9), st.integers(30, 300))
def test_never_above_the_rate_and_close_to_it(rate: int, chunk_s: float, share: float, seconds: int) -> None:
    """`chunk_s`: so many seconds a chunk has to be saved for; `share`: so much of them its fill takes."""
    filler = Filler(rate, chunk=max(1, int(rate * chunk_s)), fill_s=chunk_s * share)
    filler.run(BEGIN_S + seconds)
    passed_s = filler.now_s - BEGIN_S
    assert filler.rows <= rate * passed_s + 1
    assert filler.rows >= 0.98 * rate * passed_s - 2 * filler.chunk


# R10
@given(st.integers(1, 10**4), st.floats(0.1, 20.0), st.integers(0, 10**5))
def test_larger_chunks_than_estimated_cost_one_chunk_at_most(rate: int, chunk_s: float, surplus: int) -> None:
    filler = Filler(rate, chunk=max(1, int(rate * chunk_s)), surplus=surplus)
    filler.run(BEGIN_S + 100)
    assert filler.rows <= rate * (filler.now_s - BEGIN_S) + filler.chunk + surplus


# R10
@given(st.lists(st.floats(0.0, 30.0), min_size=1, max_size=20), st.integers(1, 5000))
def test_a_crash_loop_gets_no_free_chunk(lives_s: list[float], chunk: int) -> None:
    filler = Filler(rate=100, chunk=chunk)
    for life_s in lives_s:
        filler.run(filler.now_s + life_s)
    assert filler.rows <= 100 * (filler.now_s - BEGIN_S) + 1


@given(st.integers(1, 10**9), st.integers(1, 10**6), st.floats(-(10.0**6), 10.0**6))
def test_waiting_as_told_is_enough(rate: int, rows: int, tokens: float) -> None:
    """Once more at most, for the rounding of the clock: a wait that ends nothing would be planned for ever."""
    bucket = Bucket(tokens, BEGIN_S)
    for _ in range(2):
        pause_s = wait_s(bucket, rate, rows)
        assert pause_s is not None
        bucket = refill(bucket, bucket.at_s + pause_s, rate, rows)
    assert chunks_allowed(bucket, rate, rows, 1) == 1


@given(st.lists(st.floats(-100.0, 100.0), max_size=30), st.integers(0, 1000), st.integers(1, 5000))
def test_no_clock_makes_more_than_its_steps_forward(steps_s: list[float], rate: int, room: int) -> None:
    bucket, now_s = Bucket(0.0, BEGIN_S), BEGIN_S
    for step_s in steps_s:
        now_s += step_s
        bucket = refill(bucket, now_s, rate, room)
        assert 0.0 <= bucket.tokens <= max(room, rate)
    assert bucket.tokens <= rate * sum(step_s for step_s in steps_s if step_s > 0) + 0.01


@pytest.mark.parametrize("rate", [None, 0, 5])
def test_spending_is_counted(rate: int | None) -> None:
    assert spend(refill(Bucket(3.0, 0.0), 0.0, rate, 5), 2).tokens == (-2.0 if rate is None else 1.0)
