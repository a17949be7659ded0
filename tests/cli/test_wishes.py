"""Asking something of jobs: what is written to the store, what is said, and that nobody needs Spark for it."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.stores import REPLICA, made, row
from tidefill.cli import answers, main
from tidefill.cli.picture import Picture
from tidefill.cli.wishes import options
from tidefill.engine.engine import STORE_FILE
from tidefill.errors import BadInput
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Failure, Job, Lease, Pause
from tidefill.store.sql_store import open_store


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(answers, "GRACE_S", 0.0)
    return tmp_path


def stored(folder: Path) -> Job:
    with open_store(folder / ".tidefill" / STORE_FILE) as store:
        (only,) = store.jobs()
    return only


@pytest.mark.parametrize(
    ("words", "told", "done"),
    [
        (["pause"], "odd: asked to pause", lambda job: job.pause is Pause.ALL),
        (["pause", "--fill"], "odd: asked to stop filling", lambda job: job.pause is Pause.FILL),
        (["resume"], "odd: asked to resume", lambda job: job.pause is Pause.NOTHING),
        (["resync"], "odd: asked to be built anew", lambda job: job.wants_resync),
        (["cancel"], "odd: asked to cancel", lambda job: job.wants_end),
        (["drop"], "odd: asked to drop", lambda job: job.wants_end),
        (
            ["alter", "rate_limit=5", "target_lag=2 minutes", "verify=off"],
            "odd: asked for rate_limit = 5, target_lag = 2 minutes, verify = False",
            lambda job: (job.settings.rate_limit, job.settings.target_lag_s, job.settings.verify) == (5, 120.0, False),
        ),
    ],
)
def test_a_wish_is_recorded(
    words: list[str], told: str, done: Callable[[Job], bool], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(folder, row("odd", life=Life.BACKFILLING)).close()
    command, *rest = words
    assert main([command, "Odd", *rest]) == 0
    out, err = capsys.readouterr()
    assert out == f"{told}\n"
    assert err.startswith("no runner: start `tidefill run`")
    assert ("--wait" in err) == (command not in ("pause", "alter"))
    assert done(stored(folder))


def test_a_runner_that_is_alive_needs_no_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(folder, row("odd", lease=Lease("someone", 1, time.time() + 30))).close()
    assert main(["pause", "odd"]) == 0
    assert capsys.readouterr() == ("odd: asked to pause\n", "")


def test_a_wish_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(folder, row("odd")).close()
    assert main(["pause", "odd", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "columns": [], "rows": [], "message": "odd: asked to pause", "jobs": ["odd"]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "job", "code", "told"),
    [
        (["cancel", "odd"], row("odd", life=Life.LIVE, published=1), 4, "odd is live [WRONG_STATE]"),
        (["pause", "odd"], row("odd", life=Life.CANCELLING), 4, "odd is being dropped [WRONG_STATE]"),
        (["alter", "odd", "rate_limit=-1"], row("odd"), 2, "rate_limit is -1 [INVALID_SETTING]"),
        (["alter", "odd", "rate_limit=much"], row("odd"), 2, "rate_limit is 'much' [INVALID_SETTING]"),
        (["alter", "odd", "parallelism=none"], row("odd"), 2, "parallelism is None [INVALID_SETTING]"),
        (["alter", "odd", "ratelimit=1"], row("odd"), 2, "no setting ratelimit [INVALID_SETTING]\nHint: Did you mean"),
        (["alter", "odd", "self=1"], row("odd"), 2, "there is no setting self [INVALID_SETTING]"),
        (["alter", "odd", "target_lag=soon"], row("odd"), 2, "target_lag is 'soon' [INVALID_SETTING]"),
    ],
)
def test_what_cannot_be_asked(
    words: list[str], job: Job, code: int, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(folder, job).close()
    assert main(words) == code
    assert told in capsys.readouterr().err
    assert stored(folder) == job


def test_what_is_read_is_not_dropped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(folder, row("events2", 1, REPLICA), row("above", 2, REPLICA_OF_REPLICA)).close()
    assert main(["drop", "events2"]) == 4
    assert "events2 is in use [IN_USE]\nDetail: Read by above.\nHint: Drop what reads it first, or add CASCADE" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("command", ["drop", "cancel"])
def test_what_is_read_ends_with_all_that_reads_it(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(folder, row("events2", 1, REPLICA), row("above", 2, REPLICA_OF_REPLICA), row("beside", 3, REPLICA)).close()
    assert main([command, "events2", "--cascade"]) == 0
    assert capsys.readouterr().out == f"events2: asked to {command}, and with it above\n"
    assert main([command, "events2", "--cascade", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == ["events2", "above"]
    with open_store(folder / ".tidefill" / STORE_FILE) as store:
        assert {job.name: job.wants_end for job in store.jobs()} == {"above": True, "beside": False, "events2": True}


REPLICA_OF_REPLICA = replace(REPLICA, input="events2")


def test_waiting_for_a_job_that_others_run_and_that_fails(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Lease("someone", 1, time.time() + 50)
    failure = Failure("KEY_NOT_UNIQUE", "several rows have one key", "(3,)", "Mend them.")
    made(folder, row("odd", life=Life.PAUSED, pause=Pause.ALL, lease=lease)).close()
    looks = 0

    def look(_: object) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            with open_store(folder / ".tidefill" / STORE_FILE) as store:
                store.change(f"{1:032x}", lambda job: row("odd", life=Life.FAILED, failure=failure, lease=lease))

    monkeypatch.setattr(Picture, "show", lambda self, statuses, remark="": look(statuses))
    assert main(["resume", "odd", "--wait", "--timeout", "60"]) == 3
    assert (
        "odd has failed: several rows have one key [JOB_FAILED]\nDetail: [KEY_NOT_UNIQUE] (3,)\nHint: Mend them."
        in (capsys.readouterr().err)
    )


def test_waiting_too_long(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(folder, row("odd", life=Life.BACKFILLING, lease=Lease("someone", 1, time.time() + 50))).close()
    assert main(["resync", "odd", "--wait", "--timeout", "0.1"]) == 5
    out, err = capsys.readouterr()
    assert out == "odd: asked to be built anew\n"
    assert "odd is not live yet [TIMED_OUT]" in err
    assert "`tidefill watch` shows it" in err


def test_settings_as_they_are_typed() -> None:
    assert options(["a=1", "B = x=y", "c=NONE", "d=-5", "e=on", "f="]) == (
        ("a", 1), ("b", "x=y"), ("c", None), ("d", -5), ("e", True), ("f", "")
    )  # fmt: skip
    with pytest.raises(BadInput):
        options(["=1"])
