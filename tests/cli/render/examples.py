"""Jobs in every state, and how a text is compared with its picture."""

import re
from dataclasses import replace
from textwrap import dedent

from tidefill.jobs.row import Failure
from tidefill.jobs.status import SplitStatus, Status

FILLING = Status(
    name="revenue_by_day",
    kind="view",
    state="backfilling",
    share=0.42,
    rows=12_345_678,
    rows_per_s=1_234_567.0,
    eta_s=200.0,
    version=7,
    waiting="",
    runs=True,
    failure=None,
    splits=(
        SplitStatus(".. 1000000", "up to 800000", None),
        SplitStatus("1000000 .. 2000000", "up to 1400000", 0.4),
        SplitStatus("2000000 .. 3000000", "not started", 0.0),
        SplitStatus("3000000 ..", "done", 1.0),
    ),
    lag_versions=2,
    lag_s=4.0,
)

PLAIN = replace(FILLING, splits=(), lag_versions=None, lag_s=None, rows_per_s=0.0, eta_s=None)
LIVE = replace(
    PLAIN, name="orders", state="live", share=1.0, version=1812, waiting="up to date", published=True, waits_for="IDLE"
)

FAILURE = Failure(
    "KEY_NOT_UNIQUE",
    "two rows have the key (17)",
    hint="Remove the duplicates and resume the job, or drop the view and declare another key.",
)

FAILED = replace(PLAIN, name="customers", state="failed", share=0.139, rows=40_000, failure=FAILURE)
PAUSED = replace(
    PLAIN, name="clicks", state="paused", share=0.87, waiting="paused", wishes=("resume",), waits_for="PAUSED"
)
JOBS = (FILLING, LIVE, FAILED, PAUSED)


def looks(text: str, picture: str) -> bool:
    """Whether the text is the picture, which begins on a line of its own and may be indented."""
    wanted = dedent(picture).strip("\n")
    assert text == wanted, f"\n{text}\n"
    return True


def without_colour(text: str) -> str:
    return re.sub(r"\x1b\[\d+m", "", text)
