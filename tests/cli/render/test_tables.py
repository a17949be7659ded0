"""Results of a query as a table, or as lists where there is no room."""

from datetime import UTC, date, datetime
from decimal import Decimal

from tests.cli.render.examples import looks
from tidefill.cli.render.tables import table


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
