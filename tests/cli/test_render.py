"""What a person looks at: calm at any width, and never wider."""

import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.cli.render.cells import WIDTH_MIN, cells, clean, cut, shorten, wrap
from tidefill.cli.render.jobs import footer, jobs_table, no_jobs
from tidefill.cli.render.lines import changes, one_line
from tidefill.cli.render.numbers import count, duration, lag
from tidefill.cli.render.screen import Frame, frame, repaint
from tidefill.cli.render.sheet import RESET
from tidefill.cli.render.tables import table
from tidefill.core.budget import BUDGET, GB
from tidefill.core.reasons import Reason
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.plain_json import as_json
from tidefill.jobs.row import Failure
from tidefill.jobs.status import SplitStatus, Status, status_json

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
LIVE = replace(PLAIN, name="orders", state="live", share=1.0, version=1812, waiting="up to date", published=True)
FAILURE = Failure(
    "KEY_NOT_UNIQUE",
    "two rows have the key (17)",
    hint="Remove the duplicates and resume the job, or drop the view and declare another key.",
)
FAILED = replace(PLAIN, name="customers", state="failed", share=0.139, rows=40_000, failure=FAILURE)
PAUSED = replace(PLAIN, name="clicks", state="paused", share=0.87, waiting="paused", wishes=("resume",))
JOBS = (FILLING, LIVE, FAILED, PAUSED)


def looks(text: str, picture: str) -> bool:
    """Whether the text is the picture, which begins on a line of its own and may be indented."""
    wanted = dedent(picture).strip("\n")
    assert text == wanted, f"\n{text}\n"
    return True


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


def test_long_names_are_cut_in_the_middle() -> None:
    assert shorten("orders_of_the_year_2024", 12) == "orders…_2024"
    assert shorten("订单表二零二四年", 9) == "订单…四年"
    assert shorten("ab" + "e\u0301" * 9, 5) == "ab…e\u0301e\u0301"
    assert shorten("abc", 3) == "abc"


def test_wide_and_combining_characters_are_counted() -> None:
    assert [cells(text) for text in ("abc", "订单", "e\u0301", "ﾊ", "🙂", "")] == [3, 4, 1, 1, 2, 0]


def test_no_text_can_command_the_terminal() -> None:
    assert clean("a\x1b[2Jb\n\tc\u202e\x9b\udc80") == r"a\x1b[2Jb\n\tc\u202e\x9b\udc80"
    assert clean("é…", ascii=True) == r"\xe9\u2026"
    assert "\x1b" not in jobs_table([replace(LIVE, name="a\x1b[2J", waiting="\x1b[H")], 80, colour=False)


def test_words_are_broken_only_where_they_must_and_a_page_is_cut() -> None:
    assert wrap("one two three", 8) == ["one two", "three"]
    assert wrap("abcdefgh ij", 5) == ["abcde", "fgh", "ij"]
    assert wrap("x " * 100, 9) == ["x x x x x"] * 4 + ["x x x x …"]
    assert wrap("", 9) == [""]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (7, "7"), (0.45, "0.4"), (999, "999"), (999.9, "999"), (1000, "1k"), (12_345, "12.3k"),
     (999_999, "999k"), (1_234_567, "1.2M"), (5.5e9, "5.5G"), (10**13, "10T"), (2 * 10**15, "2P"),
     (float("nan"), "?"), (float("inf"), "?")],
)  # fmt: skip
def test_counts(value: float, shown: str) -> None:
    assert count(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-3, "0 s"), (0.4, "0 s"), (4, "4 s"), (60, "1 min"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (3601, "1 h"),
     (273_600, "3 d 4 h"), (float("inf"), "?")],
)  # fmt: skip
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_lag() -> None:
    assert lag(2, 4.0) == "lag 2 versions, 4 s"
    assert (lag(1, None), lag(None, 61.0)) == ("lag 1 version", "lag 1 min 1 s")
    assert (lag(0, 0.0), lag(None, None)) == ("no lag", "")


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
    assert one_line(replace(PLAIN, pause="fill", waiting="fill paused")).endswith("rows, fill paused")
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


# Watching.


class Terminal:
    """A small terminal: enough of one to see what a repaint leaves behind."""

    def __init__(self, width: int) -> None:
        self.width, self.row, self.column = width, 0, 0
        self.lines: list[str] = [""]

    def write(self, text: str) -> None:
        for token in re.findall(r"\x1b\[\??\d*[A-Za-z]|[^\x1b]", text):
            self._do(token)

    def _do(self, token: str) -> None:
        match re.fullmatch(r"\x1b\[(\??\d*)([A-Za-z])", token):
            case None:
                self._put(token)
            case found if found[2] == "A":
                self.row -= int(found[1])
                assert self.row >= 0
            case found if found[2] == "H":
                self.row = self.column = 0
            case found if found[2] == "K":
                self.lines[self.row] = self.lines[self.row][: self.column]
            case found if found[2] == "J":
                self.lines = [""] if found[1] == "2" else [*self.lines[: self.row], self.lines[self.row][: self.column]]

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row, self.column = self.row + 1, 0
            self.lines += [""] * (self.row + 1 - len(self.lines))
        elif self.column < self.width:
            line = self.lines[self.row]
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1


@given(st.lists(st.tuples(st.lists(st.text("abc", max_size=30), min_size=1), st.sampled_from([20, 25])), min_size=1))
def test_a_repaint_leaves_nothing_of_the_frame_before(shown: list[tuple[list[str], int]]) -> None:
    terminal, before = Terminal(20), None
    for lines, width in shown:
        terminal.width = width
        now = frame("\n".join(lines), width, 10)
        terminal.write(repaint(before, now))
        before = now
        assert terminal.lines == [*(line[:width] for line in now.lines), ""]


def test_a_frame_is_never_taller_than_the_terminal() -> None:
    assert frame("a\nb\nc", 80, 4).lines == ("a", "b", "c")
    assert frame("a\nb\nc\nd", 80, 4).lines == ("a", "b", "... and 2 more lines")
    assert frame("a\nb", 80, 0).lines == ("... and 2 more lines",)


def test_a_resized_terminal_is_cleared() -> None:
    before, now = Frame(("a",), 80, 24), Frame(("a",), 79, 24)
    assert "\x1b[2J" in repaint(before, now)
    assert "\x1b[2J" not in repaint(before, before) + repaint(None, now)


def test_where_nothing_can_be_repainted_only_changes_are_told() -> None:
    assert changes([], [LIVE]) == ["orders: live 100 %, version 1812, up to date"]
    assert changes([PLAIN, LIVE], [replace(PLAIN, share=0.4299, rows_per_s=9.0), LIVE]) == []
    assert changes([PLAIN, LIVE], [replace(PLAIN, share=0.43)]) == [
        "revenue_by_day: backfilling 43 %, 12.3M rows",
        "orders: gone",
    ]
    assert changes([PLAIN], [FAILED])[0].startswith(
        "customers: failed 13 %, two rows have the key (17) [KEY_NOT_UNIQUE]"
    )


# Tables.


def test_a_table_of_results() -> None:
    rows = [
        (date(2024, 1, 1), Decimal("12.50"), True, "plain"),
        (None, 3, None, "two\nlines, and then much more than there is room for"),
        (datetime(2024, 1, 2, 3, 4, tzinfo=UTC), float("nan"), False, b"\x00\xff"),
        ("订单", None, True, ["a", {"b": None}]),
    ]
    assert looks(
        table(["day", "revenue", "paid", "note"], rows, 60),
        """
        day                    revenue  paid   note
        ─────────────────────  ───────  ─────  ─────────────────────
        2024-01-01               12.50  true   plain
        NULL                         3  NULL   two\\nlines, and then…
        2024-01-02 03:04:00+…      NaN  false  0x00ff
        订单                      NULL  true   ["a", {"b": null}]
        """,
    )


def test_more_columns_than_have_room_become_lists() -> None:
    headers = [f"column_{number}" for number in range(7)]
    assert looks(
        table(headers, [["long text"] * 7, [None] * 7], 40),
        """
        column_0  long text
        column_1  long text
        column_2  long text
        column_3  long text
        column_4  long text
        column_5  long text
        column_6  long text
        ────────
        column_0  NULL
        column_1  NULL
        column_2  NULL
        column_3  NULL
        column_4  NULL
        column_5  NULL
        column_6  NULL
        """,
    )
    assert table(headers, [], 40).splitlines() == headers


def test_a_table_without_rows_shows_its_columns() -> None:
    assert table(["a", "bb"], [], 40) == "a  bb\n─  ──"
    assert table(["a", "bb"], [], 40, ascii=True) == "a  bb\n-  --"


# JSON.


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: object
    a: object = None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Point((1, 2.5)), '{"a": null, "x": [1, 2.5]}'),
        (Decimal("1.50"), '"1.50"'),
        (date(2024, 1, 2), '"2024-01-02"'),
        (datetime(2024, 1, 2, 3, tzinfo=UTC), '"2024-01-02T03:00:00+00:00"'),
        (b"\x00\xff", '"AP8="'),
        ([float("nan"), float("inf"), float("-inf")], '["NaN", "Infinity", "-Infinity"]'),
        ({2: True, "1": None}, '{"1": null, "2": true}'),
        ({"b", "a"}, '["a", "b"]'),
        (Colour.RED, '"red"'),
        ("é", '"\\u00e9"'),
        (Life, "\"<enum 'Life'>\""),
    ],
)
def test_json(value: object, text: str) -> None:
    assert as_json(value) == text


def test_a_status_as_json() -> None:
    data = status_json(FAILED)
    assert (data["name"], data["percent"], data["failure"]["code"]) == ("customers", 13, "KEY_NOT_UNIQUE")
    settings = {"parallelism": 1, "rate_limit": None, "chunk_rows": None, "target_lag_s": 0.0, "verify": True}
    assert data["settings"] == {**settings, "wal_budget": BUDGET, "wal_limit": None}
    assert data["log_bytes"] is None
    assert json.loads(as_json(status_json(FILLING)))["splits"][1] == {
        "range": "1000000 .. 2000000",
        "reached": "up to 1400000",
        "share": 0.4,
    }


# Whatever comes.

WIDTHS = st.integers(WIDTH_MIN, 200)
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("订e\u0301🙂 \n\x1b…")), max_size=120)
AMOUNTS = st.floats()
SPLITS = st.lists(st.builds(SplitStatus, TEXTS, st.one_of(TEXTS, st.just("done")), st.none() | AMOUNTS), max_size=12)
STATUSES = st.builds(
    Status,
    name=TEXTS,
    kind=TEXTS,
    state=st.sampled_from([life.value for life in Life]) | TEXTS,
    share=AMOUNTS,
    rows=st.integers(-(10**20), 10**20),
    rows_per_s=AMOUNTS,
    eta_s=st.none() | AMOUNTS,
    version=st.none() | st.integers(),
    waiting=TEXTS | st.sampled_from([reason.value for reason in Reason]),
    runs=st.booleans(),
    failure=st.none() | st.builds(Failure, TEXTS, TEXTS, TEXTS, TEXTS),
    splits=SPLITS.map(tuple),
    generation=st.integers(1, 10**9),
    published=st.booleans(),
    pause=st.sampled_from(["nothing", "fill", "all"]),
    wishes=st.lists(st.sampled_from(["pause", "drop", "resync", "resume"])).map(tuple),
    lag_versions=st.none() | st.integers(0, 10**9),
    lag_s=st.none() | AMOUNTS,
    seen_s=st.none() | AMOUNTS,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | AMOUNTS | st.decimals() | TEXTS | st.binary() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


def without_colour(text: str) -> str:
    return re.sub(r"\x1b\[\d+m", "", text)


def widest(text: str) -> int:
    return max(map(cells, without_colour(text).split("\n")))


@given(st.lists(STATUSES, max_size=4), WIDTHS, st.booleans(), st.booleans())
def test_no_job_is_wider_than_the_terminal(statuses: list[Status], width: int, colour: bool, ascii: bool) -> None:
    text = jobs_table(statuses, width, colour, ascii=ascii)
    assert widest(text) <= width
    assert without_colour(text).replace("\n", "").isprintable() or not ascii
    assert text.isascii() or not ascii
    assert "\x1b" not in (without_colour(text) if colour else text)
    assert widest(footer(statuses, width)) <= width


@given(STATUSES, st.lists(STATUSES, max_size=2))
def test_lines_and_json_can_be_made_of_anything(status: Status, before: list[Status]) -> None:
    assert "\n" not in one_line(status)
    assert "\x1b" not in "".join(changes(before, [status]))
    assert 0 <= json.loads(as_json(status_json(status)))["percent"] <= 100


@given(st.floats(max_value=1.0, exclude_max=True), WIDTHS)
def test_no_bar_is_full_and_no_percent_a_hundred_before_the_end(share: float, width: int) -> None:
    line = jobs_table([replace(PLAIN, share=share)], width, colour=False).splitlines()[0]
    shown = re.search(r"(\d+) %  (\S+)", line)
    assert shown is not None
    assert int(shown[1]) <= 99
    assert not shown[2].endswith("█")


@given(st.integers(1, 30), st.data(), WIDTHS, st.booleans())
def test_no_table_is_wider_than_the_terminal(columns: int, data: st.DataObject, width: int, ascii: bool) -> None:
    row = st.lists(VALUES, min_size=columns, max_size=columns)
    headers = data.draw(st.lists(TEXTS, min_size=columns, max_size=columns))
    text = table(headers, data.draw(st.lists(row, max_size=3)), width, ascii=ascii)
    assert widest(text) <= width
    assert "\x1b" not in text
    assert text.isascii() or not ascii


@given(VALUES)
def test_json_of_anything_can_be_read_back(value: object) -> None:
    assert as_json(json.loads(as_json(value))) == as_json(value)


@given(TEXTS, st.integers(0, 60))
def test_shortened_text_fits(text: str, width: int) -> None:
    shown = clean(text)
    assert cells(shorten(shown, width)) <= width
    assert cells(cut(shown, width)) <= width
    assert shorten(shown, cells(shown)) == shown
