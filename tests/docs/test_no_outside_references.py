"""The repository stands by itself: no file points outside it, at one machine, or at a particular package registry."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
OUTSIDE = re.compile(r"\.\./shared|[/]work/|[/]root/|pypi\.org|pythonhosted\.org")
LINK = re.compile(r"\]\((?!\w+:|#)(?P<path>[^)#\s]+)")
EXEMPT = {"uv.lock"}


@cache
def texts() -> dict[Path, str]:
    """Every text file that is tracked or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = {REPO / name for name in listed.stdout.split("\0") if name and name not in EXEMPT}
    return {path: path.read_text(encoding="utf-8") for path in sorted(paths) if path.is_file() and not is_binary(path)}


def is_binary(path: Path) -> bool:
    return b"\0" in path.read_bytes()[:8192]


def test_no_file_refers_outside() -> None:
    found = [
        f"{path.relative_to(REPO)}:{number}: {match[0]}"
        for path, text in texts().items()
        for number, line in enumerate(text.splitlines(), start=1)
        for match in OUTSIDE.finditer(line)
    ]
    assert found == []


def test_links_lead_to_files_of_the_repository() -> None:
    broken = [
        f"{path.relative_to(REPO)}: {link['path']}"
        for path, text in texts().items()
        if path.suffix == ".md"
        for link in LINK.finditer(text)
        if not leads_inside(path.parent / link["path"])
    ]
    assert broken == []


def leads_inside(path: Path) -> bool:
    return path.exists() and path.resolve().is_relative_to(REPO.resolve())


@pytest.mark.parametrize("text", ["see /" + "work/x", "../" + "shared/a.md", "https://pypi" + ".org/simple"])
def test_an_outside_reference_is_seen(text: str) -> None:
    assert OUTSIDE.search(text)
