"""Keeps the last column of docs/scenarios.md equal to what the tests say.

A test names its scenarios in a comment above it or inside it: `# R7`, `# R7, R9` or `# R7: an empty table`.

    .venv/bin/python -m tests.docs.scenarios --write
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).parents[2]
DOC = REPO / "docs" / "scenarios.md"
OPEN = "open"

ROW = re.compile(r"^\| (?P<id>[RCY]\d+) \|(?P<middle>.*)\|(?P<covered>[^|]*)\|$", re.MULTILINE)
LOOKS_LIKE_IDS = re.compile(r"#\s*[RCY]\d+\b")
IDS = re.compile(r"#\s*(?P<ids>[RCY]\d+(\s*,\s*[RCY]\d+)*)\s*(:.*)?")


class Misnamed(ValueError):
    """A comment that looks like a scenario but cannot be one."""


def scenario_ids(doc: str) -> list[str]:
    return [row["id"] for row in ROW.finditer(doc)]


def with_coverage(doc: str, coverage: dict[str, list[str]]) -> str:
    """The document with its last column filled in from `coverage`."""
    unknown = sorted(coverage.keys() - set(scenario_ids(doc)))
    if unknown:
        places = "; ".join(f"{id} in {', '.join(coverage[id])}" for id in unknown)
        raise Misnamed(f"tests name scenarios that docs/scenarios.md does not have: {places}")

    def row(match: re.Match[str]) -> str:
        covered = "<br>".join(f"`{test}`" for test in coverage.get(match["id"], [])) or OPEN
        return f"| {match['id']} |{match['middle']}| {covered} |"

    return ROW.sub(row, doc)


def coverage_of(tests: Path) -> dict[str, list[str]]:
    """For each scenario id the tests that name it, in the order of files and lines."""
    coverage: dict[str, list[str]] = {}
    for file in sorted(tests.rglob("test_*.py")):
        for id, test in named_in(file.read_text(encoding="utf-8"), file.relative_to(tests).as_posix()):
            if test not in coverage.setdefault(id, []):
                coverage[id].append(test)
    return coverage


def named_in(source: str, file: str) -> Iterator[tuple[str, str]]:
    """Pairs of scenario id and `file::test`."""
    lines = source.splitlines()
    tests = [
        (first_line(node, lines), node.end_lineno or node.lineno, node.name)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    for line, comment in comments(source):
        if not LOOKS_LIKE_IDS.match(comment):
            continue
        names = [name for first, last, name in tests if first <= line <= last]
        ids = IDS.fullmatch(comment)
        if not names or not ids:
            problem = "belongs to no test" if ids else "is not of the form `# R7, R9: why`"
            raise Misnamed(f"tests/{file}:{line}: the scenario comment {comment!r} {problem}")
        yield from ((id.strip(), f"{file}::{name}") for id in ids["ids"].split(",") for name in names)


def first_line(test: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> int:
    """The first of the comment lines right above a test and its decorators."""
    first = min([test.lineno, *(decorator.lineno for decorator in test.decorator_list)])
    while first > 1 and lines[first - 2].lstrip().startswith("#"):
        first -= 1
    return first


def comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def main(arguments: list[str]) -> int:
    doc = DOC.read_text(encoding="utf-8")
    right = with_coverage(doc, coverage_of(REPO / "tests"))
    if arguments == ["--write"]:
        DOC.write_text(right, encoding="utf-8")
        return 0
    return int(doc != right)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
