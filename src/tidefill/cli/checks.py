"""`doctor` and `config`: what is wrong here, and which settings hold."""

from __future__ import annotations

import argparse
import os
import time

from tidefill import config as settings
from tidefill.cli import terminal
from tidefill.cli.project import ascii, colour, project
from tidefill.cli.render.findings import finding
from tidefill.cli.render.tables import table
from tidefill.jobs.plain_json import as_json

CODE_BAD = 1


def doctor(arguments: argparse.Namespace) -> int:
    """All findings; the exit code is 1 if something is in the way."""
    from tidefill.doctor.examine import examine
    from tidefill.doctor.findings import Verdict

    where = project(arguments)
    findings = examine(where.config, os.environ, time.time())
    if where.json:
        terminal.say(as_json(findings))
    else:
        for each in findings:
            terminal.show(finding(each, terminal.width(), colour(), ascii=ascii()))
    return CODE_BAD if any(each.verdict is Verdict.BAD for each in findings) else 0


def config(arguments: argparse.Namespace) -> int:
    """The settings, without what is secret."""
    where = project(arguments)
    rows = [*settings.shown(where.config), ("file", str(where.config.path or "none"), "")]
    if where.json:
        terminal.say(as_json([{"setting": name, "value": value, "from": by} for name, value, by in rows]))
    else:
        terminal.show(table(("setting", "value", "from"), rows, terminal.width(), ascii=ascii()))
    return 0
