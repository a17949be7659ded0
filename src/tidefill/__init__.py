"""Online backfill: derived tables over live data, exact at every commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidefill.engine.connect import connect as connect


def __getattr__(name: str) -> Any:
    """`connect` and `__version__`, imported only when asked for, so that importing the package stays cheap."""
    if name == "connect":
        from tidefill.engine.connect import connect as connect

        return connect
    if name == "__version__":
        from importlib.metadata import version

        return version("tidefill")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
