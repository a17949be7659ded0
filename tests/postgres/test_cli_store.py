"""The command line with its store in a PostgreSQL database: every command works, every trouble is one clear error, and
the password is told nowhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.stores import VIEW, row
from tests.postgres.harness import Postgres
from tidefill.cli import main
from tidefill.jobs.definitions import TableDefinition, table_to_text
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import Registered
from tidefill.jobs.row import Failure
from tidefill.store.sql_store import exists, open_store

PASSWORD = "hunter2"
HEAVY = {"pyspark", "delta", "pandas", "numpy", "pyarrow", "sqlglot", "grpc"}
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    """Of an empty database, as the role that owns it reaches it."""
    postgres.execute(f"CREATE ROLE keeper LOGIN PASSWORD '{PASSWORD}'")
    postgres.execute("CREATE DATABASE kept OWNER keeper")
    yield postgres.server.url("keeper", PASSWORD, "kept")
    postgres.execute("DROP DATABASE kept WITH (FORCE)")
    postgres.execute("DROP ROLE keeper")


@pytest.fixture
def folder(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a project that keeps its store there. One works in a folder below it."""
    (tmp_path / "tidefill.toml").write_text('store = "env:TIDEFILL_STORE_URL"\n', encoding="utf-8")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.setenv("TIDEFILL_STORE_URL", url)
    return tmp_path


def shown(capsys: Captured, *words: str, code: int = 0) -> str:
    """What a command says, which is never the password."""
    assert main(words) == code, (words, capsys.readouterr())
    said = capsys.readouterr()
    assert PASSWORD not in said.out + said.err
    assert "Traceback" not in said.err
    return said.out + said.err


def test_looking_at_a_database_without_a_store_makes_none(folder: Path, url: str, capsys: Captured) -> None:
    assert shown(capsys, "status") == "no jobs\n"
    assert shown(capsys, "watch") == "no jobs\n"
    assert shown(capsys, "events") == "no events\n"
    assert shown(capsys, "tables") == "no tables\n"
    assert f"There is no store in {url.replace(PASSWORD, '***')}." in shown(capsys, "pause", "odd", code=2)
    found = json.loads(shown(capsys, "doctor", "--format", "json"))
    assert "nothing is in it yet" in [each["fact"] for each in found if each["what"] == "store"]
    assert not exists(url)
    assert not (folder / ".tidefill").exists()


def test_every_command_finds_the_jobs(folder: Path, url: str, capsys: Captured) -> None:
    failure = Failure("KEY_NOT_UNIQUE", "several rows have one key", "(3,)", "Mend them.")
    with open_store(url) as store:
        store.register(Registered("events", table_to_text(TableDefinition("/lake/events", ("id",), ("day",)))))
        store.create(row("odd"))
        store.create(row("even", 2, VIEW, life=Life.FAILED, failure=failure))
        store.add_event(f"{1:032x}", 1.0, "created")
    assert f"log: {folder / '.tidefill' / 'tidefill.log'}" in shown(capsys, "status").replace("\n", "")
    assert "created" in shown(capsys, "events", "odd")
    assert "/lake/events" in shown(capsys, "tables")
    assert "asked to pause" in shown(capsys, "pause", "odd")
    assert "asked to resume" in shown(capsys, "resume", "odd")
    shown(capsys, "alter", "odd", "rate_limit=5")
    assert "odd" in shown(capsys, "sql", "SHOW JOBS")
    found = json.loads(shown(capsys, "doctor", "--format", "json", code=1))
    assert {"store", "job even", "job odd"} <= {each["what"] for each in found}
    assert shown(capsys, "cancel", "odd").startswith("odd: asked to cancel")
    with open_store(url) as store:
        assert [job.settings.rate_limit for job in store.jobs()] == [None, 5]
    assert not (folder / "below" / ".tidefill").exists()


def test_the_settings_are_shown_without_the_password(
    folder: Path, url: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = json.loads(shown(capsys, "config", "--format", "json"))
    assert rows[0] == {"setting": "store", "value": "env:TIDEFILL_STORE_URL", "from": "tidefill.toml"}
    (folder / "tidefill.toml").write_text(f'store = "{url}"\n', encoding="utf-8")
    rows = json.loads(shown(capsys, "config", "--format", "json"))
    assert rows[0] == {"setting": "store", "value": url.replace(PASSWORD, "***"), "from": "tidefill.toml"}
    assert "no jobs" in shown(capsys, "status")
    found = json.loads(shown(capsys, "doctor", "--format", "json"))
    assert f"its password is in {folder / 'tidefill.toml'}" in [each["fact"] for each in found]
    monkeypatch.setenv("TIDEFILL_STORE", url)
    assert json.loads(shown(capsys, "config", "--format", "json"))[0]["from"] == "TIDEFILL_STORE"
    assert "no jobs" in shown(capsys, "status")


@pytest.mark.parametrize(
    ("address", "code", "told"),
    [
        ("", 2, "the store needs the environment variable TIDEFILL_STORE_URL, which is not set [INVALID_SETTING]"),
        ("mysql://ada:hunter2@host/db", 2, "TIDEFILL_STORE_URL holds no URL of PostgreSQL for the store"),
        ("postgresql://ada:hunter2@host:port/db", 2, "the URL of the store cannot be read [BAD_INPUT]"),
        ("postgresql://ada:hunter2/db", 2, "the URL of the store cannot be read [BAD_INPUT]"),
        ("postgresql://ada:a@hunter2@host/db", 2, "the URL of the store cannot be read [BAD_INPUT]"),
        ("postgresql://127.0.0.1:1/db?password=hunter2", 1, "127.0.0.1:1/db cannot be reached [UNAVAILABLE]"),
        ("postgresql://ada:hunter2@127.0.0.1:1/db", 1, "ada:***@127.0.0.1:1/db cannot be reached [UNAVAILABLE]"),
        ("postgresql://ada:hunter2@{server}/kept", 1, 'password authentication failed for user "ada"'),
        ("postgresql://keeper:hunter2@{server}/nowhere", 1, 'database "nowhere" does not exist'),
        ("postgresql://keeper:hunter2@{server}/kept?sslmod=x", 1, "Hint: Check the URL"),
    ],
)
def test_a_store_that_cannot_be_opened_is_one_error(
    folder: Path,
    postgres: Postgres,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    code: int,
    told: str,
) -> None:
    monkeypatch.setenv("TIDEFILL_STORE_URL", address.format(server=f"127.0.0.1:{postgres.server.port}"))
    for words in (["status"], ["pause", "odd"], ["run", "--once"], ["sql", "SHOW JOBS"], ["drop", "odd", "--wait"]):
        said = shown(capsys, *words, code=code)
        assert told in said
        assert said.count(" [") == 1, "one code"
    assert "env:TIDEFILL_STORE_URL" in shown(capsys, "config")
    found = json.loads(shown(capsys, "doctor", "--format", "json", code=1))
    assert [each["verdict"] for each in found if each["what"] == "store"] == ["bad"]


def test_a_role_that_may_not_look_is_told_so(
    folder: Path, url: str, postgres: Postgres, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(url).close()
    postgres.execute("CREATE ROLE stranger LOGIN PASSWORD 'hunter2'")
    monkeypatch.setenv("TIDEFILL_STORE_URL", postgres.server.url("stranger", PASSWORD, "kept"))
    try:
        for words in (["status"], ["sql", "SHOW JOBS"]):
            assert "the role may not use the schema tidefill of the store [BAD_INPUT]" in shown(capsys, *words, code=2)
    finally:
        postgres.execute("DROP ROLE stranger")


def test_looking_imports_nothing_heavy(folder: Path, url: str) -> None:
    with open_store(url) as store:
        store.create(row("odd"))
    program = (
        "import sys; from tidefill.cli import main; main(['status']);"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ, timeout=60
    )
    assert done.stdout.startswith("odd")
    modules = set(done.stdout.splitlines()[-1].split())
    assert (HEAVY & modules, "psycopg" in modules) == (set(), True)


@pytest.mark.full
def test_a_job_from_its_creation_to_its_end(spark: SparkSession, folder: Path, capsys: Captured) -> None:
    source = folder / "source"
    spark.range(100).write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(source))
    create = f"REGISTER TABLE events LOCATION '{source}' KEY (id); CREATE REPLICA copy FROM events"
    assert "no runner" in shown(capsys, "sql", create)
    shown(capsys, "run", "--once")
    assert "live" in shown(capsys, "status")
    spark.sql(f"DELETE FROM delta.`{source}` WHERE id < 10")
    shown(capsys, "run", "--once")
    assert "90 rows" in shown(capsys, "verify", "copy")
    assert "copy: dropped" in shown(capsys, "drop", "copy", "--wait")
    assert list((folder / "lake").iterdir()) == []
    logs = [file.read_text(encoding="utf-8") for file in (folder / ".tidefill").iterdir()]
    assert logs
    assert not [text for text in logs if PASSWORD in text]
