"""Online backfill: derived tables over live data, exact at every commit."""


def __getattr__(name: str) -> str:
    """Give `__version__` from the package metadata, read only when asked for, so that importing stays cheap."""
    if name == "__version__":
        from importlib.metadata import version

        return version("tidefill")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
