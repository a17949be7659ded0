"""One profile for all property tests: the same examples in every run, and no verdict that depends on a slow machine."""

from hypothesis import settings

settings.register_profile("tidefill", max_examples=60, deadline=None, derandomize=True, database=None)
settings.load_profile("tidefill")
