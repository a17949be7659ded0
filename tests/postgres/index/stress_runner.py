"""A runner in a process of its own, for tests that kill it: `python -m tests.postgres.index.stress_runner <json>`.

It ends with 0 when users can read the index; with 3 if another runner has taken it over, or its session was ended."""

from __future__ import annotations

import json
import sys

from tests.postgres.index.harness import Indexed
from tidefill.errors import Fenced, NotYet, Unavailable
from tidefill.indexes import next_action
from tidefill.indexes.shape import shape_from_text
from tidefill.indexes.states import Method
from tidefill.jobs.row import Settings
from tidefill.postgres.index import machine

LOST = 3


def main(words: str) -> int:
    """Take turns until the index is public."""
    told = json.loads(words)
    next_action.LOCK_TRIES, machine.LOG_ROWS_MAX = told["lock_tries"], told["log_rows_max"]
    shape = shape_from_text(told["shape"])
    try:
        settings = Settings(chunk_rows=told["chunk_rows"], parallelism=2)
        index = Indexed.taken_over(told["url"], shape, told["fence"], Method(told["method"]), settings)
        print("begun", flush=True)
        return build(index)
    except (Fenced, Unavailable) as error:
        print(error, flush=True)
        return LOST


def build(index: Indexed) -> int:
    """Take turns; a writer that is in the way is met again later."""
    while not (index.truth.control and index.truth.control.is_public):
        try:
            index.turn()
        except NotYet:
            continue
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
