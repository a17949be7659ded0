"""A run of new seeds says which ones they were, so that anybody can repeat it."""

from __future__ import annotations

import re

import pytest

from tidefill.cli import main


def test_the_seeds_of_a_run_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "3", "--first", "7"]) == 0
    assert "seeds 7 to 9" in capsys.readouterr().out


def test_the_seeds_of_a_run_with_a_limit_of_time_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--minutes", "0.005", "--first", "1790000000000"]) == 0
    told = capsys.readouterr().out
    (histories,) = re.findall(r"^(\d+) histories, no violation", told)
    assert f"seeds 1790000000000 to {1790000000000 + int(histories) - 1}" in told
