"""Jobs at any width, with and without colour and Unicode."""

from dataclasses import replace

import pytest

from tests.cli.render.examples import FILLING, JOBS, LIVE, PAUSED, PLAIN, looks, without_colour
from tidefill.cli.render.jobs import footer, jobs_table, no_jobs
from tidefill.cli.render.lines import one_line
from tidefill.cli.render.sheet import RESET
from tidefill.jobs.amounts import GB
from tidefill.jobs.row import PartReport
from tidefill.jobs.status import SplitStatus


def test_jobs_at_80_columns() -> None:
    assert looks(
        jobs_table(JOBS, 80, colour=False),
        """
        revenue_by_day  backfilling   42 %  ██████████████████▍·························
          1.2M rows/s · 12.3M rows · 3 min 20 s left · lag 2 versions, 4 s
          .. 1000000                        ╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍  up to 800000
          1000000 .. 2000000                ━━━━━━━━━━━──────────────────  up to 1400000
          2000000 .. 3000000                ─────────────────────────────  not started

        orders          live         100 %  ████████████████████████████████████████████
          version 1812 · up to date

        customers       failed        13 %  ██████······································
          two rows have the key (17) [KEY_NOT_UNIQUE]
          Hint: Remove the duplicates and resume the job, or drop the view and declare
          another key.
          40k rows · version 7

        clicks          paused        87 %  ██████████████████████████████████████▎·····
          12.3M rows · version 7 · asked to resume
        """,
    )


@pytest.mark.parametrize(("log_bytes", "told"), [(None, False), (2 * GB, False), (2 * GB + 1, True)])
def test_much_log_that_a_server_keeps_is_told(log_bytes: int | None, told: bool) -> None:
    # R25
    text = jobs_table([replace(PAUSED, log_bytes=log_bytes)], 80, colour=False)
    assert ("2 GB of log kept" in text) is told


def test_parts_that_failed_are_named() -> None:
    parts = (PartReport("by_email", "LIVE"), PartReport("by_phone", "ABSENT", failure="3 keys [DUPLICATE_KEYS]"))
    assert "failed: by_phone" in jobs_table([replace(LIVE, parts=parts)], 80, colour=False)


def test_jobs_at_60_columns() -> None:
    assert looks(
        jobs_table(JOBS, 60, colour=False),
        """
        revenue_by_day  backfilling   42 %  ██████████··············
          1.2M rows/s · 12.3M rows · 3 min 20 s left
          lag 2 versions, 4 s
          .. 1000000          ╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍  up to 800000
          1000000 .. 2000000  ━━━━━━━━━──────────────  up to 1400000
          2000000 .. 3000000  ───────────────────────  not started

        orders          live         100 %  ████████████████████████
          version 1812 · up to date

        customers       failed        13 %  ███▎····················
          two rows have the key (17) [KEY_NOT_UNIQUE]
          Hint: Remove the duplicates and resume the job, or drop
          the view and declare another key.
          40k rows · version 7

        clicks          paused        87 %  ████████████████████▉···
          12.3M rows · version 7 · asked to resume
        """,
    )


def test_jobs_at_160_columns() -> None:
    assert looks(
        jobs_table(JOBS, 160, colour=False),
        """
        revenue_by_day  backfilling   42 %  ████████████████▊·······················  1.2M rows/s · 12.3M rows · 3 min 20 s left · lag 2 versions, 4 s
          .. 1000000                        ╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍╍  up to 800000
          1000000 .. 2000000                ━━━━━━━━━━━━━━━━────────────────────────  up to 1400000
          2000000 .. 3000000                ────────────────────────────────────────  not started

        orders          live         100 %  ████████████████████████████████████████  version 1812 · up to date

        customers       failed        13 %  █████▌··································  two rows have the key (17) [KEY_NOT_UNIQUE]
                                                                                      Hint: Remove the duplicates and resume the job, or drop the view and declare
                                                                                      another key.
                                                                                      40k rows · version 7

        clicks          paused        87 %  ██████████████████████████████████▊·····  12.3M rows · version 7 · asked to resume
        """,  # noqa: E501
    )


def test_jobs_without_unicode() -> None:
    job = replace(FILLING, name="umsätze")
    assert looks(
        jobs_table([job], 60, colour=False, ascii=True),
        """
        ums\\xe4tze  backfilling   42 %  ###########.................
          1.2M rows/s, 12.3M rows, 3 min 20 s left
          lag 2 versions, 4 s
          .. 1000000                    ~~~~~~~~~~~~~  up to 800000
          1000000 .. 2000000            =====--------  up to 1400000
          2000000 .. 3000000            -------------  not started
        """,
    )


def test_colour_adds_colours_and_nothing_else() -> None:
    coloured = jobs_table(JOBS, 80, colour=True)
    assert f"\x1b[32mlive{RESET}" in coloured
    assert without_colour(coloured) == jobs_table(JOBS, 80, colour=False)
    assert "\x1b" not in jobs_table(JOBS, 80, colour=False)


def test_a_hundred_percent_is_kept_for_the_end() -> None:
    nearly = jobs_table([replace(FILLING, share=0.99999)], 80, colour=False)
    assert " 99 %" in nearly
    assert nearly.splitlines()[0].endswith("▉")
    assert " 100 %" in jobs_table([replace(FILLING, share=1.0, state="verifying")], 80, colour=False)


def test_without_a_runner_nothing_is_promised() -> None:
    told = jobs_table([replace(FILLING, runs=False)], 80, colour=False)
    assert "12.3M rows" in told
    assert "rows/s" not in told
    assert "left" not in told


def test_what_it_waits_for_and_what_was_asked_of_it() -> None:
    told = one_line(replace(PLAIN, waiting="rate limit", wishes=("resync", "pause"), generation=2))
    assert told == (
        "revenue_by_day: backfilling 42 %, 12.3M rows, generation 2, waiting: rate limit, asked to resync and pause"
    )
    assert one_line(replace(PLAIN, pause="fill")).endswith("rows, fill paused")
    assert one_line(replace(PLAIN, pause="fill", waiting="fill paused", waits_for="FILL_PAUSED")).endswith(
        "rows, fill paused"
    )
    assert one_line(PAUSED) == "clicks: paused 87 %, 12.3M rows, version 7, asked to resume"


def test_at_most_eight_splits() -> None:
    splits = tuple(SplitStatus(f"{number} .. {number + 1}", "not started", 0.0) for number in range(11))
    lines = jobs_table([replace(PLAIN, splits=splits)], 80, colour=False).splitlines()
    assert [line.strip() for line in lines[-2:]] == [lines[-2].strip(), "... and 3 more"]
    assert sum("not started" in line for line in lines) == 8


def test_one_split_alone_has_no_bar_of_its_own() -> None:
    assert "━" not in jobs_table([replace(FILLING, splits=FILLING.splits[2:])], 80, colour=False)


def test_jobs_of_one_line_each_stand_together() -> None:
    assert len(jobs_table([LIVE, LIVE], 160, colour=False).splitlines()) == 2


def test_no_jobs() -> None:
    assert no_jobs() == jobs_table([], 80, colour=False) == "no jobs"


def test_the_footer_tells_that_nobody_runs_the_jobs() -> None:
    ages_s = (200.0, None, 4000.0, None)
    idle = [replace(job, runs=False, seen_s=age_s) for job, age_s in zip(JOBS, ages_s, strict=True)]
    assert footer(idle) == "no runner: start `tidefill run`\nfigures are 3 min old"
    assert footer(idle[1:2]) == "no runner: start `tidefill run`"
    assert footer([*idle, LIVE]) == footer([]) == ""
