"""What is wrong here, and what to type about it.

Looking changes nothing: no store, folder or schema is made, nothing is downloaded, and Spark is not started. A check
that breaks is a finding like any other, so that one trouble never hides the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidefill.config import Config, masked
from tidefill.doctor.case import Case, Check
from tidefill.doctor.findings import Finding, Verdict, remedy_for, with_detail
from tidefill.doctor.installed import check_jars, check_java, check_packages, check_python
from tidefill.doctor.jobs import check_jobs
from tidefill.doctor.orphans import check_orphans
from tidefill.doctor.places import check_store, check_warehouse
from tidefill.doctor.servers import check_connections, check_servers
from tidefill.errors import TidefillError

CHECKS: tuple[tuple[str, Check], ...] = (
    ("python", check_python),
    ("packages", check_packages),
    ("java", check_java),
    ("jars", check_jars),
    ("store", check_store),
    ("warehouse", check_warehouse),
    ("connections", check_connections),
    ("servers", check_servers),
    ("jobs", check_jobs),
    ("orphans", check_orphans),
)


def examine(config: Config, environ: Mapping[str, str], now_s: float) -> list[Finding]:
    """All findings, in the order of CHECKS. Never raises."""
    case = Case(config, environ, now_s)
    return [finding for what, check in CHECKS for finding in _findings(what, check, case)]


def _findings(what: str, check: Check, case: Case) -> Iterator[Finding]:
    """What the check finds, until it breaks."""
    try:
        yield from check(case)
    except TidefillError as error:
        yield _broke(what, with_detail(error.fact, error.detail), error.hint or remedy_for(error))
    except OSError as error:
        yield _broke(what, str(error), "Check that you may read and write there: ls -ld FOLDER; id")
    except Exception as error:
        yield _broke(what, f"the check broke: {type(error).__name__}: {error}", "Please report it, with this line.")


def _broke(what: str, fact: str, remedy: str) -> Finding:
    """Errors of others may name what is secret."""
    return Finding(what, Verdict.BAD, masked(fact), remedy)
