"""What a notebook shows of jobs, without Spark."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stores import made, row
from tests.web.stores import ODD, filling, live
from tidefill.engine.connect import connect
from tidefill.engine.engine import Engine
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Failure


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    failed = row("broken", 3, life=Life.FAILED, failure=Failure("HISTORY_GONE", "it is gone"))
    made(tmp_path, filling("big", 1, 0.4, 0.0), live(ODD, 2, 0.0), failed).close()
    with connect(store=tmp_path / ".tidefill") as opened:
        yield opened


def test_jobs_are_bars(engine: Engine) -> None:
    shown = engine.jobs()._repr_html_()
    assert "width:40.0%" in shown
    assert "it is gone [HISTORY_GONE]" in shown
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "width:40.0%" in engine.job("big")._repr_html_()
    assert [job.name for job in engine.jobs()] == [ODD, "big", "broken"]


def test_watching_elsewhere_prints_what_is_new(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    engine.job("broken").watch()
    assert capsys.readouterr().out == "broken: failed, 0%, it is gone [HISTORY_GONE]\n"


def test_watching_in_a_notebook_updates_in_place(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = list[str]()

    class Handle:
        def update(self, what: Any) -> None:
            shown.append(f"updated: {what._repr_html_()}")

    def display(what: Any, *, display_id: bool) -> Handle:
        shown.append(what._repr_html_())
        engine._store.change(f"{1:032x}", lambda job: replace(live("big", 1, 0.0), name="big"))
        return Handle()

    notebook: Any = types.ModuleType("IPython")
    notebook.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    notebook.display = types.SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    engine.job("big").watch(every_s=0.0)
    assert len(shown) == 2
    assert "backfilling" in shown[0]
    assert shown[1].startswith("updated: ")
    assert "live" in shown[1]
