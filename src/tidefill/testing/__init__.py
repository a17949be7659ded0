"""Shipped for those who build on Tidefill: memory adapters that behave like the real ones at their worst, a simulator
that runs the production planner and runner on them, checkers, planted bugs, and conformance suites for every port."""
