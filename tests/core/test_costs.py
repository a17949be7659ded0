"""The choice between a step by changes and a recompute: close to the cheaper way over a run of mixed sizes."""

from __future__ import annotations

import random

import pytest

from tidefill.core.costs import (
    SAMPLES_MAX,
    TRY_AFTER,
    Sample,
    Way,
    choose,
    remembered,
    samples_from_text,
    samples_to_text,
)

ROWS = 1_000_000
STEPS = 400


def took(way: Way, written: int, seconds: float) -> Sample:
    return Sample(way, written, ROWS, seconds)


def test_while_nothing_is_known_the_share_decides() -> None:
    assert choose((), 99_999, ROWS).way is Way.CHANGES
    assert choose((), 100_000, ROWS).way is Way.RECOMPUTE
    assert choose((), 5, 0).way is Way.CHANGES, "few rows"
    assert choose((), 5, 0, few_rows=4).way is Way.RECOMPUTE
    assert choose((), 100_000, ROWS).why == "10% of what it reads was written"


def test_the_cheaper_way_is_taken_and_told() -> None:
    known = (took(Way.CHANGES, 1000, 3.0), took(Way.RECOMPUTE, 0, 2.0))
    found = choose(known, 1000, ROWS)
    assert found.way is Way.RECOMPUTE
    assert found.why == "a step was expected to take 3.0 s, a recompute 2.0 s"
    assert choose((took(Way.CHANGES, 1000, 1.0), known[1]), 1200, ROWS).way is Way.CHANGES


def test_one_slow_moment_decides_nothing() -> None:
    slow = took(Way.CHANGES, 1000, 60.0)
    known = [took(Way.CHANGES, 1000, 1.0)] * 3 + [slow, took(Way.RECOMPUTE, 0, 2.0)]
    assert choose(known, 1000, ROWS).way is Way.CHANGES


def test_between_two_sizes_time_lies_between() -> None:
    known = [took(Way.CHANGES, 10, 1.0), took(Way.CHANGES, 100_000, 5.0), took(Way.RECOMPUTE, 0, 3.1)]
    found = choose(known, 1000, ROWS)
    assert found.changes_s == pytest.approx(3.0)
    assert choose(known, 1, ROWS).changes_s == pytest.approx(1 / 3), "small steps are worth a try"
    assert choose(known, 1_000_000, ROWS).changes_s == pytest.approx(5.0 + 5 * 3.1 * 0.9)


def test_a_recompute_grows_with_the_inputs() -> None:
    known = [took(Way.RECOMPUTE, 0, 2.0)]
    assert choose(known, 1, 2 * ROWS).recompute_s == 2.0
    assert choose(known, 1, 10 * ROWS).recompute_s == pytest.approx(20.0)


def test_the_other_way_is_tried_again_if_it_is_not_much_dearer() -> None:
    known = [took(Way.CHANGES, 10, 1.5)] + [took(Way.RECOMPUTE, 0, 1.0)] * TRY_AFTER
    assert choose(known, 10, ROWS).way is Way.CHANGES
    assert choose(known[:-1], 10, ROWS).way is Way.RECOMPUTE
    assert choose([took(Way.CHANGES, 10, 2.5), *known[1:]], 10, ROWS).way is Way.RECOMPUTE


def test_what_is_remembered_is_bounded_and_has_every_way_and_size() -> None:
    rare = (took(Way.RECOMPUTE, 0, 1.0), took(Way.CHANGES, 100_000, 9.0))
    samples: tuple[Sample, ...] = rare
    for number in range(10, 100):
        samples = remembered(samples, took(Way.CHANGES, number, 1.0))
    assert samples[:2] == rare
    assert [sample.written for sample in samples[2:]] == [*range(100 - SAMPLES_MAX + 2, 100)]
    for _ in range(200):
        samples = remembered(samples, took(Way.RECOMPUTE, 0, 1.0))
    assert len(samples) == SAMPLES_MAX
    assert rare[1] in samples


def test_a_row_keeps_them() -> None:
    samples = (took(Way.CHANGES, 7, 1.25), took(Way.RECOMPUTE, 9, 2.0))
    text = samples_to_text(samples)
    assert samples_from_text(text) == samples
    assert samples_from_text(text[:-1] + ', ["sideways", 1, 1, 1.0], 3]') == samples
    assert samples_from_text("damaged") == samples_from_text("") == samples_from_text("{}") == ()
    assert samples_to_text(()) == ""


@pytest.mark.parametrize("seed", range(100))
def test_a_run_of_mixed_sizes_costs_little_more_than_the_cheaper_way_each_time(seed: int) -> None:
    """Whatever both ways really cost, on a noisy machine: a fixed part, a part per row (a changed row costs as much as
    one to fifty rows of a recompute), and a jump where MERGE begins."""
    chance = random.Random(seed)
    recompute = 10 ** chance.uniform(-0.5, 2)
    fixed, jump = chance.uniform(0.2, 5), chance.choice((0.0, 1.0, 5.0))
    per_row = recompute / ROWS * 10 ** chance.uniform(0, 1.7)
    samples: tuple[Sample, ...] = (took(Way.RECOMPUTE, ROWS, recompute * chance.uniform(0.8, 1.5)),)
    spent = best = 0.0
    for _ in range(STEPS):
        written = int(10 ** chance.uniform(0, 6))
        costs = {Way.CHANGES: fixed + per_row * written + jump * (written > 10_000), Way.RECOMPUTE: recompute}
        way = choose(samples, written, ROWS).way
        noise = chance.choice((0.9, 1.0, 1.0, 1.1, 1.3))
        samples = remembered(samples, took(way, written, costs[way] * noise))
        spent += costs[way]
        best += min(costs.values())
    assert spent <= 1.1 * best
