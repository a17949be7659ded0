"""How much of a server's log is too much."""

from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.budget import (
    ATTEMPTS_MAX,
    BUDGET,
    Kept,
    gives_up,
    holds_back,
    presses,
)

GB = 1 << 30
BYTES = st.integers(0, 1 << 44)
LIMITS = st.none() | st.integers(1, 1 << 44)


@st.composite
def kept(draw: st.DrawFn) -> Kept:
    """Ours is a part of all that is kept."""
    total = draw(BYTES)
    return Kept(total, draw(st.integers(0, total)), draw(st.none() | BYTES))


def test_above_half_of_the_budget_changes_go_first() -> None:
    assert not presses(Kept(GB, GB), 2 * GB)
    assert presses(Kept(GB + 1, GB + 1), 2 * GB)
    assert not presses(Kept(9 * GB, GB), 2 * GB), "what others keep is not let go by taking it in"
    assert not presses(Kept(9 * GB, 9 * GB), None)


def test_a_server_that_will_throw_it_away_presses_whatever_the_budget() -> None:
    assert presses(Kept(6, 0, left=5), None)
    assert not presses(Kept(5, 0, left=5), None)


def test_above_the_budget_nothing_is_filled() -> None:
    assert not holds_back(Kept(BUDGET, BUDGET), BUDGET)
    assert holds_back(Kept(BUDGET + 1, 0), BUDGET)
    assert not holds_back(Kept(BUDGET + 1, BUDGET + 1), None)


def test_only_a_job_that_does_not_move_gives_up() -> None:
    much = Kept(11 * GB, 11 * GB)
    assert gives_up(much, 10 * GB, stands=True, failed=0)
    assert gives_up(much, 10 * GB, stands=False, failed=ATTEMPTS_MAX)
    assert not gives_up(much, 10 * GB, stands=False, failed=ATTEMPTS_MAX - 1)
    assert not gives_up(much, 11 * GB, stands=True, failed=0)


@given(kept(), st.booleans(), st.integers(0, 99))
def test_without_a_limit_nothing_is_ever_given_up(kept: Kept, stands: bool, failed: int) -> None:
    assert not gives_up(kept, None, stands=stands, failed=failed)


@given(kept(), LIMITS)
def test_a_job_that_moves_never_gives_up(kept: Kept, limit: int | None) -> None:
    assert not gives_up(kept, limit, stands=False, failed=0)


@given(BYTES, LIMITS, st.booleans(), st.integers(0, 99))
def test_what_others_keep_is_never_a_reason_to_give_up(
    total: int, limit: int | None, stands: bool, failed: int
) -> None:
    assert not gives_up(Kept(total, 0), limit, stands=stands, failed=failed)


@given(kept(), st.integers(1, 1 << 44), st.integers(1, 1 << 44))
def test_a_larger_limit_never_gives_up_what_a_smaller_one_keeps(kept: Kept, one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert gives_up(kept, small, stands=True, failed=0) or not gives_up(kept, large, stands=True, failed=0)
