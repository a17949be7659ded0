"""The events of an auction house, as the Nexmark benchmark has them: people register, sell things by auction, and bid.

Of 50 events in a row 1 is a person, 3 are auctions and 46 are bids. Half of all bids are for the hot auction, three of
four bids are by the hot bidder, three of four auctions are of the hot seller; who is hot changes every `hot_batch`
people or auctions. Prices are spread evenly over six powers of ten. On average an auction ends after as many events as
begin the auctions that are open at one time. Shares, ratios and sizes are those of the published generator (Apache
Beam, nexmark-flink); texts and random numbers are our own.

Everything is a function of the seed and of the number of the event: any part of the stream can be made anew, by itself.

    event(7, 0)        # Person(id=1000, name='Luke Walton', ...)
    event(7, 4).price  # the first bid's
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeAlias

PEOPLE, AUCTIONS, BIDS = 1, 3, 46
EPOCH = PEOPLE + AUCTIONS + BIDS
HOT_AUCTION, HOT_BIDDER, HOT_SELLER, HOT_CHANNEL = 1 / 2, 3 / 4, 3 / 4, 1 / 2  # shares of what is hot
FIRST_CATEGORY, CATEGORIES = 10, 5
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Dieter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS = 10_000
WITH_CHANNEL_ID = 0.9  # of the other channels
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100  # on average, filled up by `extra`
_LETTERS = string.ascii_lowercase
_FILLER = "".join(random.Random(0).choices(_LETTERS, k=1 << 16))
_STRIDE = 1 << 40  # more than the events of any stream, so that no two seeds share an event


class Person(NamedTuple):
    """Somebody who registered."""

    id: int
    name: str
    email_address: str
    credit_card: str
    city: str
    state: str
    date_time: datetime
    extra: str


class Auction(NamedTuple):
    """Something that a person has put up for auction."""

    id: int
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    date_time: datetime
    expires: datetime
    seller: int
    category: int
    extra: str


class Bid(NamedTuple):
    """A bid. The published one has no key; here it has its number among all bids."""

    id: int
    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: datetime
    extra: str


Event: TypeAlias = Person | Auction | Bid


@dataclass(frozen=True, slots=True)
class Shape:
    """What depends on how many events there are. The defaults are the published ones; a test of a hundred events takes
    less of everything, so that its keys meet."""

    events_per_s: float = 10_000
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    open_auctions: int = 100
    active_people: int = 1000
    hot_batch: int = 100
    lead: int = 10  # ids that are named before they are there, as if two events had changed places
    first_person: int = 1000
    first_auction: int = 1000


PUBLISHED = Shape()


@dataclass(slots=True)
class Events:
    """Some events, by their kinds, in order."""

    people: list[Person] = field(default_factory=list)
    auctions: list[Auction] = field(default_factory=list)
    bids: list[Bid] = field(default_factory=list)


def events(seed: int, numbers: Iterable[int], shape: Shape = PUBLISHED) -> Events:
    """Those of the stream that have these numbers."""
    made = Events()
    for number in numbers:
        match event(seed, number, shape):
            case Person() as person:
                made.people.append(person)
            case Auction() as auction:
                made.auctions.append(auction)
            case Bid() as bid:
                made.bids.append(bid)
    return made


def event(seed: int, number: int, shape: Shape = PUBLISHED) -> Event:
    """The event of the stream that has this number; the first one has 0."""
    chance = random.Random(seed * _STRIDE + number)
    epoch, place = divmod(number, EPOCH)
    people = epoch * PEOPLE + min(place, PEOPLE - 1)  # the last person that there is, counted from 0
    if place < PEOPLE:
        return _person(people, chance, _time(number, shape), shape)
    auctions = epoch * AUCTIONS + min(place - PEOPLE, AUCTIONS - 1)
    if place < PEOPLE + AUCTIONS:
        return _auction(auctions, people, chance, number, shape)
    bid = epoch * BIDS + place - PEOPLE - AUCTIONS
    return _bid(bid, auctions, people, chance, _time(number, shape), shape)


def _time(number: int, shape: Shape) -> datetime:
    """In whole milliseconds."""
    return shape.start + timedelta(milliseconds=int(number * 1000 / shape.events_per_s))


def _person(number: int, chance: random.Random, time: datetime, shape: Shape) -> Person:
    name = f"{chance.choice(FIRST_NAMES)} {chance.choice(LAST_NAMES)}"
    email = f"{_word(chance, 7)}@{_word(chance, 5)}.com"
    card = " ".join(f"{chance.randrange(10_000):04d}" for _ in range(4))
    city, state = chance.choice(CITIES), chance.choice(STATES)
    extra = _extra(chance, PERSON_BYTES - 8 - len(name) - len(email) - len(card) - len(city) - len(state))
    return Person(shape.first_person + number, name, email, card, city, state, time, extra)


def _auction(number: int, people: int, chance: random.Random, event_number: int, shape: Shape) -> Auction:
    time = _time(event_number, shape)
    horizon_ms = shape.open_auctions * EPOCH / AUCTIONS * 1000 / shape.events_per_s
    expires = time + timedelta(milliseconds=1 + chance.randrange(max(1, int(2 * horizon_ms))))
    seller = _hot(people, shape) if chance.random() < HOT_SELLER else _active(people, chance, shape)
    first_bid = _price(chance)
    name, description = _word(chance, 20), _word(chance, 100)
    return Auction(
        shape.first_auction + number, name, description, first_bid, first_bid + _price(chance), time, expires,
        shape.first_person + seller, FIRST_CATEGORY + chance.randrange(CATEGORIES),
        _extra(chance, AUCTION_BYTES - 48 - len(name) - len(description)),
    )  # fmt: skip


def _bid(number: int, auctions: int, people: int, chance: random.Random, time: datetime, shape: Shape) -> Bid:
    auction = _hot(auctions, shape)
    if chance.random() >= HOT_AUCTION:
        auction = chance.randint(max(0, auctions - shape.open_auctions), auctions + shape.lead)
    # The hot bidder stands beside the hot seller, so that they are two people.
    bidder = _hot(people, shape) + 1 if chance.random() < HOT_BIDDER else _active(people, chance, shape)
    channel, url = _channel(chance)
    return Bid(
        number, shape.first_auction + auction, shape.first_person + bidder, _price(chance), channel, url, time,
        _extra(chance, BID_BYTES - 32),
    )  # fmt: skip


def _hot(last: int, shape: Shape) -> int:
    """The first one of the batch that the last one is in."""
    return last // shape.hot_batch * shape.hot_batch


def _active(last: int, chance: random.Random, shape: Shape) -> int:
    """One of the last people, or of those to come."""
    return chance.randint(max(0, last + 1 - shape.active_people), last + shape.lead)


def _price(chance: random.Random) -> int:
    return round(10 ** (chance.random() * 6) * 100)


def _channel(chance: random.Random) -> tuple[str, str]:
    """A channel and its address: each channel has one."""
    if chance.random() < HOT_CHANNEL:
        place = chance.randrange(len(HOT_CHANNELS))
        return HOT_CHANNELS[place], _address(random.Random(-1 - place))
    number = chance.randrange(CHANNELS)
    own = random.Random(number)
    known = f"&channel_id={own.getrandbits(31)}" if own.random() < WITH_CHANNEL_ID else ""
    return f"channel-{number}", _address(own) + known


def _address(chance: random.Random) -> str:
    words = ("".join(chance.choices(_LETTERS, k=chance.randint(3, 5))) for _ in range(3))
    return f"https://www.nexmark.com/{'/'.join(words)}/item.htm?query=1"


def _word(chance: random.Random, letters_max: int) -> str:
    return _letters(chance, chance.randint(3, letters_max))


def _extra(chance: random.Random, letters: int) -> str:
    """About so many letters, give or take a fifth."""
    return _letters(chance, round(max(0, letters) * chance.uniform(0.8, 1.2)))


def _letters(chance: random.Random, count: int) -> str:
    first = chance.randrange(len(_FILLER) - count)
    return _FILLER[first : first + count]
