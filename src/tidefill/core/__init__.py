"""The algorithm, pure: no I/O, no clock, no randomness. Read `walk`, then `step`, then `confirm`."""
