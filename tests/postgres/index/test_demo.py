"""`tidefill demo --index` ends well, says what happened, and leaves nothing."""

from __future__ import annotations

import json

import pytest

from tidefill.cli import main


def test_the_demo_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--index", "--rows", "20000"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for words in ("kill -9", "3 keys [DUPLICATE_KEYS]", "violates global unique index", "20,000 entries equal"):
        assert words in told


@pytest.mark.full
def test_the_demo_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--index", "--rows", "20000", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["equal"] is True
