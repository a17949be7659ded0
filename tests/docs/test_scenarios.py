"""docs/scenarios.md says for each scenario which test covers it, or that it is open."""

import textwrap
from pathlib import Path

import pytest

from tests.docs.scenarios import DOC, REPO, Misnamed, coverage_of, named_in, scenario_ids, with_coverage

TABLE = "| id | scenario | must | covered by |\n|---|---|---|---|\n| R1 | a | b | open |\n| R2 | c | d | `old` |\n"


def test_the_list_agrees_with_the_tests() -> None:
    doc = DOC.read_text(encoding="utf-8")
    right = with_coverage(doc, coverage_of(REPO / "tests"))
    assert doc == right, "run `.venv/bin/python -m tests.docs.scenarios --write` and commit docs/scenarios.md"


def test_ids_are_unique_and_without_gaps() -> None:
    ids = scenario_ids(DOC.read_text(encoding="utf-8"))
    for letter in "RCY":
        numbers = [int(id[1:]) for id in ids if id[0] == letter]
        assert numbers == list(range(1, len(numbers) + 1))


def test_the_column_is_filled_and_emptied() -> None:
    filled = with_coverage(TABLE, {"R1": ["test_a.py::test_x", "test_b.py::test_y"]})
    assert "| R1 | a | b | `test_a.py::test_x`<br>`test_b.py::test_y` |" in filled
    assert "| R2 | c | d | open |" in filled
    assert with_coverage(filled, {}) == with_coverage(TABLE, {})


def test_an_unknown_id_is_an_error() -> None:
    with pytest.raises(Misnamed, match="R9 in test_a"):
        with_coverage(TABLE, {"R9": ["test_a.py::test_x"]})


def test_where_a_comment_counts() -> None:
    source = """
        # R1
        @decorated
        def test_above(): ...

        def test_beside():  # R2, R3
            pass

        class Suite:
            def test_inside(self):
                x = "# R9"
                # R4: with a reason
                return x
        """
    assert list(named_in(textwrap.dedent(source), "f.py")) == [
        ("R1", "f.py::test_above"),
        ("R2", "f.py::test_beside"),
        ("R3", "f.py::test_beside"),
        ("R4", "f.py::test_inside"),
    ]


@pytest.mark.parametrize("source", ["# R1\n\ndef helper(): ...\n", "def test_x():\n    pass  # R1 and R2\n"])
def test_a_stray_comment_is_an_error(source: str) -> None:
    with pytest.raises(Misnamed, match=r"tests/f\.py:\d+"):
        list(named_in(source, "f.py"))


def test_files_are_named_relative_to_the_tests(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "test_a.py").write_text("def test_x():\n    pass  # Y1\n", encoding="utf-8")
    assert coverage_of(tmp_path) == {"Y1": ["core/test_a.py::test_x"]}
