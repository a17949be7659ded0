"""The condition of a unique index on a Delta table is exact after every step, whatever was written."""

from __future__ import annotations

from random import Random

import pytest

from tests.engine.shop import Shop
from tidefill.delta import touched_keys

STEPS = 12
VIOLATED = """
SELECT count(*) FROM (SELECT name, v FROM SOURCE WHERE name IS NOT NULL AND v IS NOT NULL AND w > 0
GROUP BY name, v HAVING count(*) > 1)
"""


def statement(random: Random, number: int) -> str:
    """Keys come, go, and move to others, to NULL and out of the condition; or nothing of the index changes. `number`:
    of the statement."""
    some = ", ".join(str(random.randrange(60)) for _ in range(random.randrange(1, 8)))
    return random.choice(
        [
            f"UPDATE SOURCE SET name = concat('n', id % {random.randrange(1, 9)}) WHERE id IN ({some})",
            f"UPDATE SOURCE SET v = {random.randrange(3)} WHERE id IN ({some})",
            f"UPDATE SOURCE SET name = NULL WHERE id IN ({some})",
            f"UPDATE SOURCE SET w = -w WHERE id IN ({some})",
            f"UPDATE SOURCE SET other = {number} WHERE id IN ({some})",
            f"DELETE FROM SOURCE WHERE id IN ({some})",
            f"INSERT INTO SOURCE SELECT id + {1000 * number}, name, v, w, 0 FROM SOURCE WHERE id IN ({some})",
        ]
    )


@pytest.mark.full
@pytest.mark.parametrize("keys_max", [10_000, 3], ids=["named", "too many to name"])
def test_the_condition_is_exact_after_every_step(shop: Shop, monkeypatch: pytest.MonkeyPatch, keys_max: int) -> None:
    monkeypatch.setattr(touched_keys, "KEYS_MAX", keys_max)
    random = Random(keys_max)
    shop.make(60, "id, concat('n', id % 30) AS name, CAST(id % 3 AS INT) AS v, CAST(1 AS INT) AS w, 0 AS other")
    shop.engine.register("events", location=shop.source, key="id")
    job = shop.engine.create_index(
        "ix", "events", ["name", "v"], unique=True, where="w > 0", refresh="incremental"
    ).wait(300)  # fmt: skip
    for step in range(1, STEPS + 1):
        for number in range(2 * step, 2 * step + random.randrange(1, 3)):
            shop.sql(statement(random, number))
        shop.engine.run_once()
        (wanted,) = shop.spark.sql(VIOLATED.replace("SOURCE", f"delta.`{shop.source}`")).collect()[0]
        assert job.status().violated == wanted
        assert len(job.violations()) == wanted
    shop.expect("ix", "SELECT name, v, id FROM SOURCE WHERE w > 0")
