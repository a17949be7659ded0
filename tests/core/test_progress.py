"""What a person is told never goes over 100 % and never back."""

from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.progress import UNFINISHED_MAX, Progress, advance


def test_share_rate_and_time_left() -> None:
    progress = advance(None, 1, 250, 1000, finished=False, rows_per_s=50.0)
    assert progress == Progress(1, 0.25, 250, 50.0, 15.0)


def test_an_estimate_that_was_too_low_does_not_end_early() -> None:
    progress = advance(None, 1, 5000, 1000, finished=False, rows_per_s=50.0)
    assert (progress.share, progress.eta_s) == (UNFINISHED_MAX, 0.0)


def test_an_estimate_that_grows_does_not_go_back() -> None:
    before = advance(None, 1, 500, 1000, finished=False, rows_per_s=1.0)
    after = advance(before, 1, 600, 10_000, finished=False, rows_per_s=1.0)
    assert (after.share, after.rows) == (0.5, 600)


def test_rows_do_not_go_back_with_a_restored_state() -> None:
    before = advance(None, 1, 500, 1000, finished=False, rows_per_s=1.0)
    assert advance(before, 1, 400, 1000, finished=False, rows_per_s=1.0) == before


def test_only_the_end_is_all() -> None:
    assert advance(None, 1, 1000, 1000, finished=False, rows_per_s=1.0).share == UNFINISHED_MAX
    assert advance(None, 1, 10, 1000, finished=True, rows_per_s=1.0).share == 1.0
    assert advance(None, 1, 0, 0, finished=True, rows_per_s=0.0).eta_s == 0.0


def test_a_new_generation_begins_at_nothing() -> None:
    before = advance(None, 1, 1000, 1000, finished=True, rows_per_s=1.0)
    assert advance(before, 2, 0, 1000, finished=False, rows_per_s=0.0) == Progress(2, 0.0, 0, 0.0, None)


REPORTS = st.lists(
    st.tuples(
        st.integers(1, 2),
        st.integers(0, 10**12),
        st.integers(-1, 10**12),
        st.booleans(),
        st.floats(0, 10**9, allow_nan=False),
    ),
    max_size=20,
)


@given(REPORTS)
def test_never_over_one_and_never_back(reports: list[tuple[int, int, int, bool, float]]) -> None:
    before = None
    for generation, rows, estimate, finished, rows_per_s in sorted(reports, key=lambda report: report[0]):
        after = advance(before, generation, rows, estimate, finished=finished, rows_per_s=rows_per_s)
        assert 0.0 <= after.share <= 1.0
        assert after.share == 1.0 or not finished
        assert after.eta_s is None or after.eta_s >= 0.0
        if before is not None and before.generation == generation:
            assert after.share >= before.share
            assert after.rows >= before.rows
        before = after


def test_without_an_estimate_nothing_is_claimed() -> None:
    """A runner that comes after a crash may report before it knows how large the table is."""
    unknown = advance(None, 1, 10, 0, finished=False, rows_per_s=0.0)
    assert (unknown.share, unknown.rows) == (0.0, 10)
    assert advance(unknown, 1, 10, 1000, finished=False, rows_per_s=0.0).share == 0.01
    assert advance(None, 1, 10, 0, finished=True, rows_per_s=0.0).share == 1.0
