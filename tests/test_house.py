"""The sizes and the places that keep the code easy to read: short files, short functions, few files at the top."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 40  # what fits on a screen
AT_THE_TOP = {"__init__.py", "config.py", "errors.py", "extras.py"}

TESTS = Path(__file__).parent
SOURCES = TESTS.parent / "src" / "tidefill"


@pytest.mark.parametrize("folder", [SOURCES, TESTS], ids=["src", "tests"])
def test_no_file_is_long(folder: Path) -> None:
    assert list(long_files(folder)) == []


def test_no_function_of_the_sources_is_long() -> None:
    assert list(long_functions(SOURCES)) == []


def test_the_top_has_few_files() -> None:
    assert {file.name for file in SOURCES.glob("*.py")} <= AT_THE_TOP


def test_what_is_long_is_found(tmp_path: Path) -> None:
    short = "def f():\n" + "    x = 1\n" * (FUNCTION_LINES_MAX - 1)
    inner = "class A:\n    async def g(self):\n" + "        x = 1\n" * FUNCTION_LINES_MAX
    (tmp_path / "functions.py").write_text(short + inner, encoding="utf-8")
    (tmp_path / "file.py").write_text("x = 1\n" * (FILE_LINES_MAX + 1), encoding="utf-8")
    (tmp_path / "last.py").write_text("x = 1\n" * FILE_LINES_MAX, encoding="utf-8")
    assert list(long_files(tmp_path)) == [f"file.py: {FILE_LINES_MAX + 1} lines"]
    assert list(long_functions(tmp_path)) == [f"functions.py: g: {FUNCTION_LINES_MAX + 1} lines"]


def long_files(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*.py")):
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines > FILE_LINES_MAX:
            yield f"{file.relative_to(folder)}: {lines} lines"


def long_functions(folder: Path) -> Iterator[str]:
    """Counted from `def` to the last line."""
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{file.relative_to(folder)}: {node.name}: {lines} lines"
