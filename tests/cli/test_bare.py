"""`tidefill` alone says what can be typed."""

import pytest

from tidefill.cli import main


def test_without_a_command_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    help_text = capsys.readouterr().out
    assert main([]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (help_text, "")
    lines = {line.split()[0]: line for line in shown.out.splitlines() if line.startswith("    ") and line.split()}
    for command in ("sql", "run", "status", "doctor", "demo"):
        assert len(lines[command].split()) > 1, "each with what it does"


def test_options_alone_are_still_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--format", "json"]) == 2
    assert "COMMAND" in capsys.readouterr().err
