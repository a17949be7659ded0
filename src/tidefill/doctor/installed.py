"""What has to be installed: Python, the packages, Java and the jars of Spark."""

from __future__ import annotations

import operator
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from importlib.util import find_spec
from pathlib import Path

from tidefill.doctor.case import Case
from tidefill.doctor.findings import Finding, Verdict
from tidefill.doctor.places import nearest

PACKAGES = {  # and the module that each brings
    "pyspark": "pyspark",
    "delta-spark": "delta",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "sqlglot": "sqlglot",
}
COMPILED = "sqlglotc"  # nothing can be derived from classes of sqlglot where it is installed
JAVA_MIN = 17
JAVA_MODULE = "jdk.incubator.vector"
JAVA_S_MAX = 10  # it answers within a second; a stuck one must not keep the other findings back
INSTALL = "pip install 'tidefill[spark]'"
INSTALL_JAVA = (
    "Install Java 17 or later (Debian: apt-get install default-jre-headless, macOS: brew install openjdk), or set "
    "JAVA_HOME to one."
)
_BOUNDS = {">=": operator.ge, "<": operator.lt}


def check_python(case: Case) -> Iterator[Finding]:
    """Whether this Python is one that Tidefill runs on."""
    release, needed = platform.python_version(), _python_needed()
    if _fits(release, needed):
        yield Finding("python", Verdict.OK, release)
    else:
        yield Finding("python", Verdict.BAD, f"{release}, but it has to be {needed}", "uv venv --python 3.12")


def _python_needed() -> str:
    try:
        return str(metadata("tidefill")["Requires-Python"])
    except PackageNotFoundError:  # run from its sources: nobody says
        return ""


def check_packages(case: Case) -> Iterator[Finding]:
    """Whether each package is there, in a release that is known to work."""
    for package, module in PACKAGES.items():
        yield _package(package, module)
    with suppress(PackageNotFoundError):
        release = version(COMPILED)
        yield Finding(COMPILED, Verdict.BAD, f"{release}; sqlglot has to be in Python", f"pip uninstall {COMPILED}")


def _package(package: str, module: str) -> Finding:
    if not _is_importable(module):
        return Finding(package, Verdict.BAD, "not installed", INSTALL)
    try:
        release = version(package)
    except PackageNotFoundError:  # a platform that brings its own
        return Finding(package, Verdict.OK, "installed, of an unknown release")
    needed = _needed(package)
    if _fits(release, needed):
        return Finding(package, Verdict.OK, release)
    return Finding(package, Verdict.WARNING, f"{release}, but it should be {needed}", INSTALL)


def _is_importable(module: str) -> bool:
    """Asked without importing it. A mere folder of that name, such as a user's own, has no origin."""
    spec = find_spec(module)
    return spec is not None and spec.origin is not None


def _needed(package: str) -> str:
    """The releases that are known to work, as pip writes it: `<4.3,>=4.2`. Empty if nobody says."""
    try:
        lines = requires("tidefill") or []
    except PackageNotFoundError:
        return ""
    found = (re.match(rf"{re.escape(package)}(?:\[.*\])?\s*([^;\w\s-][^;]*)", line) for line in lines)
    return next((match[1].strip() for match in found if match), "")


def _fits(release: str, needed: str) -> bool:
    return all(
        _BOUNDS[bound](_numbers(release), _numbers(limit)) for bound, limit in re.findall(r"(>=|<)\s*([\d.]+)", needed)
    )


def _numbers(release: str) -> tuple[int, ...]:
    """The release without what marks a preview: 4.2.0.dev1 is (4, 2, 0)."""
    leading = re.match(r"\d+(?:\.\d+)*", release)
    return tuple(int(part) for part in leading[0].split(".")) if leading else ()


def check_java(case: Case) -> Iterator[Finding]:
    """Whether there is a Java that Spark runs on."""
    if case.config.remote:
        yield Finding("java", Verdict.OK, "not needed: Spark runs elsewhere")
        return
    home = case.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin") if home else case.environ.get("PATH", os.defpath)
    java = shutil.which("java", path=path)
    if java is None:
        fact = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the PATH"
        yield Finding("java", Verdict.BAD, fact, INSTALL_JAVA)
        return
    try:
        yield _java_found(java, case.environ)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("java", Verdict.BAD, f"{java} does not work: {error}", INSTALL_JAVA)


def _java_found(java: str, environ: Mapping[str, str]) -> Finding:
    told = re.search(r'version "(?:1\.)?(\d+)[^"]*"', _answer(java, "-version", environ))
    if told is None:
        return Finding("java", Verdict.BAD, f"{java} does not tell its version", INSTALL_JAVA)
    release = int(told[1])
    if release < JAVA_MIN:
        return Finding("java", Verdict.BAD, f"{java} is Java {release}, too old for Spark", INSTALL_JAVA)
    if f"{JAVA_MODULE}@" not in _answer(java, "--list-modules", environ):
        return Finding("java", Verdict.BAD, f"{java} is not complete: Spark needs {JAVA_MODULE}", INSTALL_JAVA)
    return Finding("java", Verdict.OK, f"Java {release}: {java}")


def _answer(java: str, question: str, environ: Mapping[str, str]) -> str:
    """Java tells its version on one channel and its modules on the other."""
    done = subprocess.run(
        [java, question],
        env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=JAVA_S_MAX, check=False,
    )  # fmt: skip
    return done.stdout.decode(errors="replace")


def check_jars(case: Case) -> Iterator[Finding]:
    """Only a Spark of our own needs them, and only the two packages say which they are."""
    if case.config.remote or not (_is_importable("pyspark") and _is_importable("delta")):
        return
    from tidefill.spark.jars import JARS_VARIABLE, MOVE_CACHE, looked_for

    folder, missing = looked_for(case.environ)
    if not missing:
        yield Finding("jars", Verdict.OK, str(folder))
    elif case.environ.get(JARS_VARIABLE):
        fact = f"{JARS_VARIABLE}={folder} has no {', '.join(missing)}"
        yield Finding("jars", Verdict.BAD, fact, f"unset {JARS_VARIABLE}, to have them downloaded")
    elif not os.access(near := nearest(folder), os.W_OK | os.X_OK) or not near.is_dir():
        yield Finding("jars", Verdict.BAD, f"not in {folder}, and nothing can be put there", MOVE_CACHE)
    else:
        remedy = f"The first start of Spark downloads them. Without a network: export {JARS_VARIABLE}=FOLDER_OF_JARS"
        yield Finding("jars", Verdict.WARNING, f"not in {folder} yet", remedy)
