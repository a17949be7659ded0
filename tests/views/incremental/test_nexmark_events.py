"""The generated events have the published proportions, and each is a function of the seed and its number."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from benchmarks.nexmark.events import (
    CATEGORIES,
    EPOCH,
    FIRST_CATEGORY,
    HOT_CHANNELS,
    PUBLISHED,
    STATES,
    Events,
    Shape,
    event,
    events,
)

EPOCHS = 400


@pytest.fixture(scope="module")
def made() -> Events:
    return events(7, range(EPOCHS * EPOCH))


def test_of_fifty_events_one_is_a_person_and_three_are_auctions(made: Events) -> None:
    assert (len(made.people), len(made.auctions), len(made.bids)) == (EPOCHS, 3 * EPOCHS, 46 * EPOCHS)
    part = events(7, range(3 * EPOCH, 4 * EPOCH))
    assert (len(part.people), len(part.auctions), len(part.bids)) == (1, 3, 46)


def test_keys_are_counted_and_times_never_go_back(made: Events) -> None:
    for rows, first in ((made.people, 1000), (made.auctions, 1000), (made.bids, 0)):
        assert [row.id for row in rows] == list(range(first, first + len(rows)))
        assert [row.date_time for row in rows] == sorted(row.date_time for row in rows)
    took = made.bids[-1].date_time - PUBLISHED.start
    assert took == timedelta(milliseconds=(EPOCHS * EPOCH - 1) // 10)


def test_an_event_is_a_function_of_the_seed_and_its_number(made: Events) -> None:
    assert made.bids[100] == event(7, 2 * EPOCH + 12)
    assert event(7, 123_456) == event(7, 123_456)
    assert event(8, 2 * EPOCH + 12) != event(7, 2 * EPOCH + 12)


def test_half_of_the_bids_are_for_the_hot_auction_and_three_of_four_by_the_hot_bidder(made: Events) -> None:
    late = [bid for bid in made.bids if bid.id >= 300 * 46]
    hot = {1000 + batch * 100 for batch in range(13)}
    assert 0.48 < sum(bid.auction in hot for bid in late) / len(late) < 0.53
    assert 0.73 < sum(bid.bidder % 100 == 1 for bid in late) / len(late) < 0.77
    assert 0.70 < sum(auction.seller % 100 == 0 for auction in made.auctions) / len(made.auctions) < 0.80


def test_keys_meet_but_for_those_that_are_still_to_come(made: Events) -> None:
    people, auctions = {person.id for person in made.people}, {auction.id for auction in made.auctions}
    assert sum(auction.seller in people for auction in made.auctions) / len(made.auctions) > 0.9
    assert sum(bid.auction in auctions and bid.bidder in people for bid in made.bids) / len(made.bids) > 0.9
    assert max(bid.auction for bid in made.bids) <= max(auctions) + PUBLISHED.lead


def test_prices_are_spread_evenly_over_six_powers_of_ten(made: Events) -> None:
    powers = Counter(min(7, len(str(bid.price)) - 1) for bid in made.bids)
    assert set(powers) == {2, 3, 4, 5, 6, 7}
    assert all(0.15 < count / len(made.bids) < 0.185 for count in powers.values())


def test_an_auction_ends_when_as_many_have_begun_as_are_open_at_once(made: Events) -> None:
    lengths = [(auction.expires - auction.date_time).total_seconds() for auction in made.auctions]
    horizon_s = PUBLISHED.open_auctions * EPOCH / 3 / PUBLISHED.events_per_s
    assert min(lengths) > 0
    assert max(lengths) <= 2 * horizon_s + 0.001
    assert 0.9 * horizon_s < sum(lengths) / len(lengths) < 1.1 * horizon_s


def test_states_categories_and_channels_are_the_published_ones(made: Events) -> None:
    assert {person.state for person in made.people} == set(STATES)
    categories = {auction.category for auction in made.auctions}
    assert categories == set(range(FIRST_CATEGORY, FIRST_CATEGORY + CATEGORIES))
    hot = [bid for bid in made.bids if bid.channel in HOT_CHANNELS]
    assert 0.48 < len(hot) / len(made.bids) < 0.52
    assert {bid.url for bid in hot} == {bid.url for bid in hot[:200]}
    assert len({bid.url for bid in hot}) == len(HOT_CHANNELS)
    others = [bid for bid in made.bids if bid.channel not in HOT_CHANNELS]
    assert 0.88 < sum("channel_id=" in bid.url for bid in others) / len(others) < 0.92
    assert not any("channel_id=" in bid.url for bid in hot)


def test_sizes_are_the_published_ones_on_average(made: Events) -> None:
    def size(row: tuple[object, ...]) -> int:
        return sum(len(value) if isinstance(value, str) else 8 for value in row)

    for rows, bytes_ in ((made.people, 200), (made.auctions, 500)):
        assert 0.9 * bytes_ < sum(map(size, rows)) / len(rows) < 1.1 * bytes_


def test_a_smaller_shape_has_smaller_batches_and_a_slower_clock() -> None:
    small = Shape(events_per_s=5, hot_batch=4, open_auctions=6, active_people=4, lead=1, first_auction=1107)
    made = events(1, range(4 * EPOCH), small)
    assert made.auctions[0].id == 1107
    assert (made.bids[-1].date_time - small.start).total_seconds() == pytest.approx(4 * EPOCH / 5, abs=0.3)
    assert max(bid.auction for bid in made.bids) <= 1107 + 12
