"""`tidefill web`: the live page of the jobs."""

from __future__ import annotations

import argparse
import os
import threading

from tidefill.cli import terminal
from tidefill.cli.project import project
from tidefill.cli.work import told_to_stop
from tidefill.errors import BadInput
from tidefill.extras import with_extra
from tidefill.jobs.plain_json import as_json


def web(arguments: argparse.Namespace) -> int:
    """Answer until SIGINT or SIGTERM. The address is printed with its token: who has it may pause and cancel jobs."""
    with with_extra("web"):
        from tidefill.web.guard import token_of
        from tidefill.web.server import is_loopback, serve
    where = project(arguments)
    if not where.has_store():
        raise BadInput(f"there is no store in {where.place} yet", hint="Create a job first, or name another store.")
    token = token_of(where.config.log_folder, os.environ)

    def listening(url: str) -> None:
        terminal.say(as_json({"url": url}) if where.json else f"open {url}")
        if not is_loopback(arguments.host):
            terminal.note("others can reach this address: it is not encrypted, so put a proxy with TLS before it")

    stop = threading.Event()
    with told_to_stop(stop, lambda: None), where.store() as store:
        serve(
            store, token, arguments.host, arguments.port,
            read_only=arguments.read_only, listening=listening, stop=stop,
        )  # fmt: skip
    return 0
