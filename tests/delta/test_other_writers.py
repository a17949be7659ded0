"""Tables whose commits come from somebody else than a recent Delta on Spark: delta-rs, and Delta of earlier years."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.shop import Shop

OF_DELTA_RS = Path(__file__).parent.parent / "fixtures/delta-rs/table"
QUERIES = {
    "copied": "SELECT id, v, name FROM events WHERE v <> 2",
    "counted": "SELECT v, count(*) AS n, max(id) AS last FROM events GROUP BY v",
}


def log_of(table: str) -> Path:
    return Path(table) / "_delta_log"


def follow(shop: Shop, commits: Iterator[object]) -> None:
    """Views over the table, before the first commit and after each."""
    shop.engine.register("events", location=shop.source, key="id")
    for name, query in QUERIES.items():
        shop.engine.create_view(name, query)
    shop.engine.run_once()
    for _ in commits:
        shop.engine.run_once()
        for name, query in QUERIES.items():
            shop.expect(name, query.replace("events", "SOURCE"))
    for name in QUERIES:
        assert shop.engine.job(name).verify().differences == ()
        assert shop.engine.job(name).status().generation == 1


@pytest.mark.full
def test_a_table_that_delta_rs_writes(shop: Shop) -> None:
    # R3, R6
    shutil.copytree(OF_DELTA_RS, shop.source)
    hidden = shop.folder / "hidden"
    shutil.move(log_of(shop.source), hidden)
    log_of(shop.source).mkdir()
    first, *later = sorted(path for path in hidden.iterdir() if path.suffix == ".json")
    shutil.copy(first, log_of(shop.source))

    def written() -> Iterator[object]:
        for commit in later:
            shutil.copy(commit, log_of(shop.source))
            for checkpoint in hidden.glob(f"{commit.stem}.checkpoint*"):
                shutil.copy(checkpoint, log_of(shop.source))
                shutil.copy(hidden / "_last_checkpoint", log_of(shop.source))
            yield commit

    assert len(later) == 6
    follow(shop, written())


@pytest.mark.full
def test_a_table_that_an_older_delta_writes(shop: Shop) -> None:
    """Its commits have no transaction id, and no file has the sums of the table."""
    shop.make(rows=40)
    changes = (
        "UPDATE SOURCE SET v = v + 1 WHERE id < 5",
        "DELETE FROM SOURCE WHERE id % 10 = 3",
        "INSERT INTO SOURCE VALUES (100, 3, 'new'), (101, 4, 'new')",
        "INSERT OVERWRITE SOURCE VALUES (1, 1, 'all'), (2, 2, 'of'), (3, 2, 'it')",
    )

    def written() -> Iterator[object]:
        for change in changes:
            shop.sql(change)
            make_older(log_of(shop.source))
            yield change

    make_older(log_of(shop.source))
    follow(shop, written())


def make_older(log: Path) -> None:
    for path in list(log.glob("*.crc")):
        path.unlink()
    for path in log.glob("*.json"):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        if any("txnId" in action.get("commitInfo", {}) for action in actions):
            for action in actions:
                action.get("commitInfo", {}).pop("txnId", None)
            path.write_text("".join(json.dumps(action) + "\n" for action in actions))
