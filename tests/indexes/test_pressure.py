"""How long a fill waits for what a server suffers: bounded, doubled while it goes on, none if the log is too long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidefill.indexes.pressure import BLOCKED_MIN_S, LAG_BYTES, WAIT_MAX_S, Brake, Signals, braked, is_due

SUFFERS = Signals(blocked=2, replica="far", lag_bytes=LAG_BYTES + 1, forced=7)


def test_each_signal_is_named() -> None:
    brake = braked(Brake(seen=Signals(forced=6)), SUFFERS, 100.0)
    assert brake.text == (
        "2 sessions waited for the last chunk; the replica far is 512 MB behind; 1 checkpoint was forced"
    )
    assert (brake.until_s, brake.wait_s) == (101.0, 1.0)


def test_nothing_is_waited_for_where_nobody_suffers() -> None:
    calm = Signals(replica="near", lag_bytes=LAG_BYTES, forced=7)
    assert braked(Brake(), calm, 5.0) == Brake(5.0, seen=calm), "checkpoints of before are not ours"
    assert braked(Brake(seen=calm), calm, 5.0).wait_s == 0.0


def test_the_wait_doubles_and_ends() -> None:
    brake, waits = Brake(), list[float]()
    for now_s in range(0, 50, 10):
        brake = braked(brake, Signals(blocked=1), float(now_s))
        waits.append(brake.wait_s)
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0]
    assert braked(brake, Signals(), 60.0).wait_s == 0.0


def test_a_replica_is_waited_for_longer_than_a_writer() -> None:
    brake, waits = Brake(), list[float]()
    for now_s in range(0, 40, 10):
        brake = braked(brake, Signals(replica="far", lag_bytes=LAG_BYTES + 1), float(now_s))
        waits.append(brake.wait_s)
    assert waits == [1.0, 2.0, 4.0, 5.0]
    assert braked(brake, Signals(blocked=1), 60.0).wait_s == 1.0


def test_a_log_that_grows_too_long_ends_it() -> None:
    assert braked(Brake(), Signals(blocked=1, log_share=0.5), 0.0).wait_s == 0.1
    assert braked(Brake(), Signals(blocked=1, log_share=0.51), 0.0).wait_s == 0.0


signals = st.builds(
    Signals, st.integers(0, 3), st.just("r"), st.integers(0, 2 * LAG_BYTES), st.integers(0, 9), st.floats(0, 1)
)


@given(st.lists(st.tuples(signals, st.floats(-1e3, 1e3)), max_size=8))
def test_the_fill_is_never_stopped(looks: list[tuple[Signals, float]]) -> None:
    brake = Brake()
    for seen, now_s in looks:
        brake = braked(brake, seen, now_s)
        assert brake.wait_s == 0.0 or BLOCKED_MIN_S <= brake.wait_s <= WAIT_MAX_S
        assert (brake.wait_s > 0.0) is bool(brake.text)
        assert not is_due(brake, now_s)
        assert is_due(brake, now_s + 1.01)
        assert is_due(brake, now_s - 1.0), "a clock that went back"
