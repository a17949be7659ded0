"""What the documents show is what happens.

In every Markdown file, from top to bottom, in one empty folder per file:
- a ```python block is executed; the blocks of a file share their names;
- in a ```console block each line that starts with `$ ` is run and must exit with 0, or with n under ```console exit=n.
  Lines below it, if any, are its output, where `...` stands for anything. `make x` is only checked for the target.
Anything else (```text, ```sql, ```sh) is only shown.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.quick_spark import QUICK
from tidefill.spark.start import local_session

REPO = Path(__file__).parents[2]
DOCUMENTS = sorted([*REPO.glob("*.md"), *REPO.glob("docs/**/*.md")])
COMMAND_SECONDS_MAX = 60

FENCE = re.compile(r"^```(?P<info>\w[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    info: str
    body: str
    line: int  # of the first line of the body, counted from 1


@dataclass(frozen=True)
class Command:
    line: str
    output: str


@pytest.fixture(scope="session")
def quick_spark() -> None:
    """The Spark of this process, which `tidefill.connect()` then takes."""
    local_session(extra_conf=QUICK)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPO)))
def test_a_document_does_what_it_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    text = path.read_text(encoding="utf-8")
    if "tidefill.connect(" in text:
        request.getfixturevalue("quick_spark")
    monkeypatch.chdir(tmp_path)
    run_document(text, str(path))


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx = 1\n```\nand\n```python\nassert x == 1\n```\n",
        "```console\n$ echo one; echo two\no...\n$ true\n```\n",
        "```console\n$ echo one \\\n    two\none two\n```\n",
        "```console exit=3\n$ exit 3\n```\n",
        "```console\n$ make test\n$ make\n```\n",
        "```console\n$ python -c 'import tidefill'\n```\n",
        "```text\nnothing to run\n```\n",
    ],
)
def test_a_true_document_passes(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_document(text, "made-up.md")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\nassert False, 'no'\n```\n", "no"),
        ("```console\n$ false\n```\n", "exited with 1"),
        ("```console exit=3\n$ true\n```\n", "exited with 0"),
        ("```console\n$ echo one\ntwo\n```\n", "shows"),
        ("```console\n$ make coffee\n```\n", "no target coffee"),
        ("```console\ntidefill simulate\n```\n", r"no `\$ ` line"),
    ],
)
def test_a_false_document_fails(text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match=message):
        run_document(text, "made-up.md")


def run_document(text: str, name: str) -> None:
    names: dict[str, Any] = {"__name__": name}
    for block in blocks(text):
        match block.info.split():
            case ["python"]:
                # The empty lines in front make a traceback show the document's own line numbers.
                exec(compile("\n" * (block.line - 1) + block.body, name, "exec"), names)
            case ["console", *options]:
                for command in commands(block):
                    check(command, expected_exit(options), f"{name}:{block.line}")


def blocks(text: str) -> Iterator[Block]:
    for fence in FENCE.finditer(text):
        yield Block(fence["info"], fence["body"], line=text.count("\n", 0, fence.start("body")) + 1)


def commands(block: Block) -> list[Command]:
    head, *parts = re.split(r"^\$ ", block.body, flags=re.MULTILINE)
    assert parts, f"line {block.line}: a console block with no `$ ` line"
    assert not head, f"line {block.line}: a console block starts with a `$ ` line"
    return [Command(*split_command(part)) for part in parts]


def split_command(part: str) -> tuple[str, str]:
    """A command, which a backslash continues on the next line, and the output below it."""
    match = re.match(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", part, re.DOTALL)
    assert match
    return match[1], match[2]


def expected_exit(options: list[str]) -> int:
    match options:
        case []:
            return 0
        case [option] if found := re.fullmatch(r"exit=(\d+)", option):
            return int(found[1])
    raise AssertionError(f"unknown options of a console block: {options}")


def check(command: Command, exit_code: int, place: str) -> None:
    words = shlex.split(command.line)
    if words[0] == "make":
        unknown = set(words[1:]) - set(TARGET.findall((REPO / "Makefile").read_text(encoding="utf-8")))
        assert not unknown, f"{place}: the Makefile has no target {', '.join(sorted(unknown))}"
        return
    done = subprocess.run(
        ["bash", "-c", command.line],
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
    )
    assert done.returncode == exit_code, f"{place}: `{command.line}` exited with {done.returncode}:\n{done.stdout}"
    if command.output:
        as_shown = doctest.OutputChecker().check_output(command.output, done.stdout, doctest.ELLIPSIS)
        assert as_shown, f"{place}: `{command.line}` printed\n{done.stdout}\nbut the document shows\n{command.output}"
