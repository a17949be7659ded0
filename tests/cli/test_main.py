"""Whatever is typed ends with one clear error, in text or in JSON, and the right exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.stores import made, row
from tidefill.cli import look, main
from tidefill.cli.arguments import parser


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def process(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidefill.cli", *words],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, env=os.environ | environ, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--format", "text"], 2, "required: COMMAND [BAD_INPUT]"),
        (["staus"], 2, "there is no command staus [BAD_INPUT]\nHint: Did you mean status?"),
        (["status", "--fromat", "json"], 2, "unrecognized arguments: --fromat"),
        (["status", "--format", "xml"], 2, "invalid choice: 'xml'"),
        (["status", "nobody"], 2, "there is no job nobody [UNKNOWN_JOB]"),
        (["watch", "nobody"], 2, "there is no job nobody [UNKNOWN_JOB]"),
        (["events", "nobody"], 2, "there is no job nobody [UNKNOWN_JOB]"),
        (["pause"], 2, "required: JOB"),
        (["pause", "nobody"], 2, "there is no job nobody [UNKNOWN_JOB]"),
        (["resume", "nobody", "--wait"], 2, "there is no job nobody [UNKNOWN_JOB]"),
        (["resume", "x", "--timeout", "soon"], 2, "'soon' is not a number"),
        (["drop", "nobody"], 2, "there is no job nobody [UNKNOWN_JOB]"),
        (["alter", "nobody", "rate_limit=5"], 2, "there is no job nobody [UNKNOWN_JOB]"),
        (["alter", "x", "rate_limit"], 2, "'rate_limit' is no setting [BAD_INPUT]"),
        (["alter", "x", "a=1", "A=2"], 2, "the option a is given twice"),
        (["verify", "nobody"], 2, "there is no job nobody [UNKNOWN_JOB]"),
        (["sql", ""], 2, "there is nothing to execute"),
        (["sql", "SELEC 1"], 2, "no statement begins with SELEC [BAD_SQL]"),
        (["sql", "SHOW JOBS; DROP"], 2, "the DROP statement cannot be read [BAD_SQL]"),
        (["sql", "-f", "nothing.sql"], 2, "nothing.sql cannot be read [BAD_INPUT]"),
        (["sql", "SHOW JOBS", "-f", "x"], 2, "not allowed with"),
        (["explain", "SHOW JOBS"], 2, "the EXPLAIN statement cannot be read"),
        (["--config", "nothing.toml", "status"], 2, "nothing.toml [INVALID_SETTING]"),
        (["simulate", "--plant", "coffee"], 2, "there is no plant 'coffee' [INVALID_SETTING]"),
    ],
)
def test_a_mistake_is_one_error_and_makes_nothing(
    words: list[str], code: int, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert "Traceback" not in err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("words", [["--format", "json", "drop", "x"], ["drop", "x", "--format=json"]])
def test_errors_are_json_if_that_is_asked_for(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    told = json.loads(capsys.readouterr().err)
    assert (told["error"]["code"], told["exit_code"]) == ("UNKNOWN_JOB", 2)


def test_wrong_usage_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["staus", "--format", "json"]) == 2
    assert json.loads(capsys.readouterr().err)["error"]["hint"] == "Did you mean status?"


def test_a_store_that_is_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".tidefill").write_text("mine")
    for words in (["status"], ["run", "--once"], ["pause", "x"], ["sql", "SHOW JOBS"]):
        assert main(words) == 2
        assert "the store" in capsys.readouterr().err
    assert (folder / ".tidefill").read_text() == "mine"


def test_a_store_that_is_damaged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".tidefill").mkdir()
    (folder / ".tidefill" / "jobs.db").write_text("no database, but longer than its header would be " * 9)
    assert main(["status"]) == 3
    assert "[STORE_UNREADABLE]" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.chmod(0o500)
    assert main(["run", "--once"]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_what_nobody_expected_is_one_line_that_names_the_log(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> object:
        raise ZeroDivisionError("oh")

    made(folder, row("odd")).close()
    monkeypatch.setattr(look, "_statuses", broken)
    assert main(["status"]) == 1
    log = folder / ".tidefill" / "tidefill.log"
    told = capsys.readouterr().err
    assert told == f"unexpected ZeroDivisionError: oh [BUG]\nHint: Please report it with {log}\n"
    assert "in broken" in json.loads(log.read_text())["stack"]


def test_help_and_version_end_well(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["--version"], ["sql", "--help"]):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == 0
    assert "STATEMENTS" in capsys.readouterr().out


def test_every_command_takes_a_config_and_a_format() -> None:
    for words in (["status"], ["run"], ["drop", "x"], ["sql", "x"], ["doctor"], ["simulate"]):
        given = parser().parse_args([*words, "--config", "a.toml", "--format", "json"])
        before = parser().parse_args(["--config", "a.toml", "--format", "json", *words])
        assert (given.config, given.format) == (before.config, before.format) == ("a.toml", "json")
        assert parser().parse_args(words).format == "text"


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    with made(folder, *(row(f"job {number}", number) for number in range(500))):
        command = f"'{sys.executable}' -m tidefill.cli status | head -1; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("job 0")


def test_a_terminal_without_unicode_gets_ascii(folder: Path) -> None:
    made(folder, row("größe")).close()
    done = process("status", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("gr\\xf6\\xdfe")


def test_control_commands_import_nothing_heavy(folder: Path) -> None:
    heavy = "{'pyspark', 'sqlglot', 'pandas', 'numpy', 'pyarrow'}"
    made(folder, row("odd")).close()
    for words in (["status"], ["tables"], ["events"], ["pause", "odd"], ["alter", "odd", "rate_limit=5"]):
        program = (
            f"import sys; from tidefill.cli import main; code = main({words!r});"
            f"sys.exit(code or str({heavy} & {{name.partition('.')[0] for name in sys.modules}}))"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert done.stderr.splitlines()[-1] == "set()", words
