"""An index is built while hostile writers work and its runner is restarted or killed: entries and base never differ, no
duplicate is accepted, no legal write refused. The oracle is in `stress.py`; it shares nothing with our validation."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.postgres.harness import Postgres
from tests.postgres.index import stress_runner
from tests.postgres.index.harness import PATIENCE_S, Indexed
from tests.postgres.index.stress import KINDS, Writers, remove, setup
from tidefill.errors import NotYet, Unavailable
from tidefill.indexes.shape import shape_to_text
from tidefill.indexes.states import Method

Make = Callable[..., Indexed]
ROOT = Path(__file__).parents[3]
CASES = [
    ("bulk", "plain", 1),
    ("initput", "partial", 2),
    ("drained", "partial", 3),
    ("bulk", "equal keys", 4),
    ("drained", "plain", 5),
    ("initput", "plain", 6),
    ("bulk", "partial", 7),
    ("drained", "equal keys", 8),
    ("initput", "equal keys", 9),
    ("bulk", "plain", 10),
    ("bulk", "equal nulls", 11),
    ("initput", "equal nulls", 12),
    ("drained", "equal nulls", 13),
]
COMMITS_AFTER = 40
CRASHES = 4
CHUNK_ROWS = 10


def made(indexed: Make, case: str, kind: str) -> Indexed:
    one, method = KINDS[kind], Method.INITPUT if case == "initput" else Method.BULK
    return indexed(
        [],
        columns=one.columns,
        where=one.where,
        unique=one.unique,
        nulls_not_distinct=one.nulls_not_distinct,
        method=method,
        setup=setup(one),
        chunk_rows=CHUNK_ROWS,
    )


def restarted(indexed: Make, monkeypatch: pytest.MonkeyPatch, case: str, kind: str, seed: int) -> None:
    """One round in which other runners take over at random."""
    print(f"case {case}, kind {kind}, seed {seed}")
    chance = random.Random(seed)
    if case == "drained":
        monkeypatch.setattr("tidefill.indexes.next_action.LOCK_TRIES", 0)
    monkeypatch.setattr("tidefill.postgres.index.machine.LOG_ROWS_MAX", chance.choice((30, 400)))
    index = made(indexed, case, kind)
    try:
        with Writers(index, KINDS[kind], seed) as writers:
            writers.go_on(10)
            until_s = time.monotonic() + 3 * PATIENCE_S
            while not (index.truth.control and index.truth.control.is_public):
                assert time.monotonic() < until_s, f"still {index.state}"
                assert writers.wrong == []
                try:
                    if chance.random() < 0.1:
                        index.restart()
                    writers.go_on(chance.randrange(4))  # so that all of them meet every state
                    index.turn()
                except NotYet:
                    continue
            writers.go_on(COMMITS_AFTER)
        check(index, writers)
    finally:
        remove(index)


def crashed(
    indexed: Make, postgres: Postgres, monkeypatch: pytest.MonkeyPatch, case: str, kind: str, seed: int
) -> None:
    """One round in which the server is restarted as if the power had failed, in the middle of some turns."""
    print(f"crashed: case {case}, kind {kind}, seed {seed}")
    chance, crashes = random.Random(seed), 0
    if case == "drained":
        monkeypatch.setattr("tidefill.indexes.next_action.LOCK_TRIES", 0)
    index = made(indexed, case, kind)

    def crash() -> None:
        time.sleep(chance.uniform(0, 0.05))  # anywhere in the turn
        postgres.server.restart("immediate")

    try:
        with Writers(index, KINDS[kind], seed, may_be_cut=True) as writers:
            writers.go_on(10)
            until_s = time.monotonic() + 6 * PATIENCE_S
            while not (index.truth.control and index.truth.control.is_public):
                assert time.monotonic() < until_s, f"still {index.state}"
                assert writers.wrong == []
                thread = threading.Thread(target=crash)
                is_cut = crashes < CRASHES and chance.random() < 0.2
                if is_cut:
                    crashes += 1
                    thread.start()
                with suppress(NotYet, Unavailable):
                    index.turn()
                if is_cut:
                    thread.join()
                    postgres.reconnect()
                    index.reconnect()
                    index.restart()
                writers.go_on(chance.randrange(4))
            writers.go_on(COMMITS_AFTER)
        assert crashes
        check(index, writers)
    finally:
        remove(index)


def killed(indexed: Make, case: str, kind: str, seed: int, kills: int = 4) -> None:
    """One round in which the process of the runner is killed at random."""
    print(f"killed: case {case}, kind {kind}, seed {seed}")
    chance = random.Random(seed)
    index = made(indexed, case, kind)
    told = {
        "url": index.url, "shape": shape_to_text(index.shape), "method": index.method.value, "chunk_rows": CHUNK_ROWS,
        "lock_tries": 0 if case == "drained" else 30, "log_rows_max": chance.choice((30, 400)),
    }  # fmt: skip
    try:
        with Writers(index, KINDS[kind], seed) as writers:
            for life in range(kills + 1):
                wait_s = chance.uniform(0, 0.6) if life < kills else 3 * PATIENCE_S
                if one_life({**told, "fence": life + 2}, wait_s) == 0:
                    break
            writers.go_on(COMMITS_AFTER)
        check(index, writers)
    finally:
        remove(index)


def one_life(told: dict[str, object], wait_s: float) -> int | None:
    """A runner that works for that long, then is killed; how it ended, None if it was killed."""
    command = [sys.executable, "-m", stress_runner.__name__, json.dumps(told)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        begun = process.stdout.readline()
        try:
            code = process.wait(wait_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return None
    assert code in (0, stress_runner.LOST), f"the runner ended with {code} after {begun!r}"
    return code


def check(index: Indexed, writers: Writers) -> None:
    print(dict(writers.told))
    assert writers.wrong == []
    assert index.sql("SELECT is_public FROM tidefill.indexes") == [(True,)]
    assert index.differences() == []
    assert writers.told["committed"] > COMMITS_AFTER


def test_runners_take_over(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    restarted(indexed, monkeypatch, "drained", "partial", 101)


def test_a_runner_is_killed(indexed: Make) -> None:
    killed(indexed, "bulk", "plain", 102, kills=2)


@pytest.mark.full
@pytest.mark.parametrize(("case", "kind", "seed"), CASES)
def test_many_take_over(indexed: Make, monkeypatch: pytest.MonkeyPatch, case: str, kind: str, seed: int) -> None:
    restarted(indexed, monkeypatch, case, kind, seed)


@pytest.mark.full
@pytest.mark.parametrize(("case", "kind", "seed"), CASES[:4])
def test_the_server_crashes(
    indexed: Make, postgres: Postgres, monkeypatch: pytest.MonkeyPatch, case: str, kind: str, seed: int
) -> None:
    crashed(indexed, postgres, monkeypatch, case, kind, seed)


@pytest.mark.full
@pytest.mark.parametrize(("case", "kind", "seed"), CASES)
def test_many_are_killed(indexed: Make, case: str, kind: str, seed: int) -> None:
    killed(indexed, case, kind, seed)
