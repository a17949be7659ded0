"""`doctor` and `config` on the command line."""

import json
from pathlib import Path

import pytest

from tidefill.cli import main
from tidefill.cli.render.cells import cells
from tidefill.cli.render.findings import finding
from tidefill.doctor import examine
from tidefill.doctor.findings import Finding, Verdict


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("verdict", "code"), [(Verdict.OK, 0), (Verdict.WARNING, 0), (Verdict.BAD, 1)])
def test_what_is_in_the_way_is_an_exit_code(
    verdict: Verdict, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(examine, "examine", lambda *_: [Finding("java", verdict, "so", "Do it.")])
    assert main(["doctor"]) == code
    assert capsys.readouterr().out == f"{verdict.value:7}  java: so\n         Do it.\n"
    assert main(["doctor", "--format", "json"]) == code
    assert json.loads(capsys.readouterr().out) == [
        {"what": "java", "verdict": verdict.value, "fact": "so", "remedy": "Do it."}
    ]


def test_looking_makes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    assert main(["config"]) == 0
    assert str(folder / ".tidefill") in capsys.readouterr().out
    assert list(folder.iterdir()) == []


def test_settings_are_shown_without_what_is_secret(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tidefill.toml").write_text('[connections.shop]\nurl = "postgresql://ada:hunter2@host/shop"\n')
    assert main(["config", "--format", "json"]) == 0
    told = capsys.readouterr().out
    assert "hunter2" not in told
    assert {"setting": "file", "value": str(folder / "tidefill.toml"), "from": ""} in json.loads(told)


@pytest.mark.parametrize("width", [40, 60, 160])
def test_a_finding_fits_the_width(width: int) -> None:
    found = Finding("warehouse", Verdict.BAD, "you may not read and write in /some/where " * 4, "chmod u+rwx " * 9)
    lines = finding(found, width, colour=False).split("\n")
    assert max(map(cells, lines)) <= width
