"""The server of the pages: it listens on this machine alone unless another address was named."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable
from contextlib import closing

import uvicorn

from tidefill.errors import BadInput
from tidefill.store.sql_store import SqlStore
from tidefill.web.app import application

BACKLOG = 128
LOOK_S = 0.2
STOP_S = 3
"""How long requests that are under way may take when the server ends."""


def serve(
    store: SqlStore,
    token: str,
    host: str,
    port: int,
    *,
    read_only: bool,
    listening: Callable[[str], None],
    stop: threading.Event,
) -> None:
    """Answer until told to stop. `listening` is told the address to open, with the token. BadInput if the address is
    taken."""
    with closing(bound(host, port)) as opened:
        place = _url(host, opened.getsockname()[1])
        server: uvicorn.Server
        app = application(store, token, read_only=read_only, stopping=lambda: server.should_exit)
        config = uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, date_header=True, proxy_headers=False,
            lifespan="off", ws="none", timeout_graceful_shutdown=STOP_S,
        )  # fmt: skip
        server = uvicorn.Server(config)
        # In a thread of its own: in the main thread uvicorn would take the signals over, and pass them on at its end.
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, name="tidefill-web", daemon=True)
        thread.start()
        listening(f"{place}/?token={token}")
        while thread.is_alive():
            server.should_exit = stop.is_set()
            thread.join(LOOK_S)


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens at that address; port 0: any that is free. BadInput if it is taken."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot_listen(host, port, error) from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)  # so that whoever reads the address finds somebody there
        return made
    except OSError as error:
        made.close()
        raise _cannot_listen(host, port, error) from None


def _cannot_listen(host: str, port: int, error: OSError) -> BadInput:
    hint = "Name another with --port, or 0 for any that is free."
    return BadInput(f"cannot listen on {host}, port {port}", detail=f"{error.strerror or error}.", hint=hint)


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
