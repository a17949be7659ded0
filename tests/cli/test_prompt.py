"""The prompt: statements over several lines, mistakes that do not end it, Ctrl-C and Ctrl-D."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidefill.cli import prompt as module
from tidefill.cli.prompt import HELP, prompt
from tidefill.errors import BadInput


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str | type[BaseException]) -> list[str]:
    """Type these lines, then Ctrl-D; the prompts that were shown."""
    shown: list[str] = []
    rest: Iterator[str | type[BaseException]] = iter([*lines, EOFError])

    def read(prompt: str) -> str:
        shown.append(prompt.strip())
        line = next(rest)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", read)
    return shown


def test_a_statement_ends_with_a_semicolon(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = typed(monkeypatch, "SHOW", "  JOBS", ";", "SELECT ';", "' -- ;", ";", "", "a; b;")
    done: list[str] = []
    prompt(done.append, lambda error: None)
    assert done == ["SHOW\n  JOBS\n;", "SELECT ';\n' -- ;\n;", "", "a; b;"]
    assert shown == ["tidefill>", "...>", "...>", "tidefill>", "...>", "...>", *["tidefill>"] * 3]


def test_ctrl_c_forgets_what_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "DROP", KeyboardInterrupt, "SHOW JOBS;")
    done: list[str] = []
    prompt(done.append, lambda error: None)
    assert done == ["SHOW JOBS;"]


@pytest.mark.parametrize("raised", [BadInput("no"), ZeroDivisionError()])
def test_a_mistake_does_not_end_it(raised: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "a;", "b;")
    told: list[Exception] = []
    done: list[str] = []
    prompt(failing_first(raised, done), told.append)
    assert (done, told) == (["a;", "b;"], [raised])


def test_ctrl_c_breaks_off_what_is_executed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "a;", "b;")
    done: list[str] = []
    prompt(failing_first(KeyboardInterrupt(), done), lambda error: None)
    assert done == ["a;", "b;"]
    assert "broken off" in capsys.readouterr().err


def failing_first(raised: BaseException, done: list[str]) -> Callable[[str], None]:
    def execute(text: str) -> None:
        done.append(text)
        if len(done) == 1:
            raise raised

    return execute


@pytest.mark.parametrize("word", ["exit", "QUIT;", "\\q"])
def test_words_that_end_it(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, word, "SHOW JOBS;")
    done: list[str] = []
    prompt(done.append, lambda error: None)
    assert done == []


def test_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    typed(monkeypatch, "help;")
    prompt(lambda text: None, lambda error: None)
    assert HELP in capsys.readouterr().out
    assert max(map(len, HELP.splitlines())) <= 85


def test_a_history_that_cannot_be_kept_is_no_trouble(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    typed(monkeypatch)
    prompt(lambda text: None, lambda error: None)


def test_where_the_history_is() -> None:
    assert module._history_file({"HOME": "/home/ada"}) == Path("/home/ada/.local/state/tidefill/history")
    assert module._history_file({"HOME": "/x", "XDG_STATE_HOME": "/y"}) == Path("/y/tidefill/history")
