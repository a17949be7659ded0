"""The dashboard in the docs asks for metrics and labels that there are."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from tests.web.stores import filling
from tidefill.metrics.of_store import StoreMetrics
from tidefill.store.sql_store import open_store

DOCS = Path(__file__).parents[2] / "docs"


def test_every_name_is_one_of_ours(tmp_path: Path) -> None:
    dashboard = json.loads((DOCS / "grafana.json").read_text(encoding="utf-8"))
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    with open_store(tmp_path / "jobs.db") as store:
        store.create(filling("x", 1, 0.5, time.time()))
        families = list(StoreMetrics(store).collect())
    names = {family.name + "_total" * (family.type == "counter") for family in families}
    assert set(re.findall(r"tidefill_\w+", asked)) <= names
    page = (DOCS / "guide" / "watching.md").read_text(encoding="utf-8")
    assert {name for name in names if name not in page} == {f"tidefill_job_{name}" for name in SHORT}
    assert all(f"`_{name}`" in page for name in SHORT)


SHORT = ("rows_filled", "rows_per_second")
"""Told in one row with another metric that begins like it."""
