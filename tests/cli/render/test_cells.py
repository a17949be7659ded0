"""Text in cells of a terminal: counted, cut, wrapped and harmless."""

from dataclasses import replace

from tests.cli.render.examples import LIVE
from tidefill.cli.render.cells import cells, clean, shorten, wrap
from tidefill.cli.render.jobs import jobs_table


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
