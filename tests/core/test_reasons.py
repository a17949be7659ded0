"""The codes of what jobs wait for: programs compare them, so each is documented; texts of old rows give the same."""

from pathlib import Path

from tidefill.core.reasons import Reason, code_of, reason_of

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "operating.md"


def test_every_code_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [reason.code for reason in Reason if f"`{reason.code}`" not in text] == []


def test_a_text_of_an_older_row_gives_the_code() -> None:
    for reason in Reason:
        assert code_of(reason.value) == reason.code
        assert reason_of(reason.value) is reason
    assert code_of("the lake is away") == ""
    assert reason_of("the lake is away") is Reason.TROUBLE
