"""How Prometheus gets the figures: as a text, or from a port of a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest, start_http_server
from prometheus_client.registry import Collector

from tidefill.errors import BadInput


def exposition(figures: Collector) -> tuple[bytes, str]:
    """The figures in the text format, and the name of the format."""
    return generate_latest(_registry(figures)), CONTENT_TYPE_LATEST


@contextmanager
def exposed(figures: Collector, host: str, port: int) -> Iterator[int]:
    """Answers on that port while the caller is inside; yields the port. BadInput if it is taken."""
    try:
        server, thread = start_http_server(port, addr=host, registry=_registry(figures))
    except OSError as error:
        hint = "Name another with --metrics, or 0 for any that is free."
        raise BadInput(
            f"cannot listen on {host}, port {port}", detail=f"{error.strerror or error}.", hint=hint
        ) from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _registry(figures: Collector) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(figures)
    return registry
