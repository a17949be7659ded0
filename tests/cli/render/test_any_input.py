"""Whatever comes: nothing is wider than the terminal, and nothing breaks."""

import json
import re
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.cli.render.examples import PLAIN, without_colour
from tidefill.cli.render.cells import WIDTH_MIN, cells, clean, cut, shorten
from tidefill.cli.render.jobs import footer, jobs_table
from tidefill.cli.render.lines import changes, one_line
from tidefill.cli.render.tables import table
from tidefill.core.reasons import Reason
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.plain_json import as_json
from tidefill.jobs.row import Failure
from tidefill.jobs.status import SplitStatus, Status, status_json

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
    waits_for=TEXTS | st.sampled_from([reason.code for reason in Reason]),
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
