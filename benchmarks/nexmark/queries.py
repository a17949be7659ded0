"""The queries of Nexmark, as views over tables.

The published ones are for streams, in several dialects (Apache Beam, nexmark-flink, RisingWave). Each text here has
their meaning over tables, in Spark's words and ours. A table has what a stream has not: a bid has a key, auctions and
people can be changed and deleted, and every row is there as long as nobody deletes it. No window is ever closed: a view
has the windows of all bids that there are.

`QUERIES` has each as one text over the tables. `CHAINS` has those that are natural as views on views. They share what
they are made of: `winning_bids`, for example, is what both the fourth and the sixth query begin with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidefill.views.relations.lowered import TableColumns

TABLES: Mapping[str, TableColumns] = {
    "person": TableColumns(
        "person",
        (
            ("id", "bigint"), ("name", "string"), ("email_address", "string"), ("credit_card", "string"),
            ("city", "string"), ("state", "string"), ("date_time", "timestamp"), ("extra", "string"),
        ),
        ("id",),
    ),
    "auction": TableColumns(
        "auction",
        (
            ("id", "bigint"), ("item_name", "string"), ("description", "string"), ("initial_bid", "bigint"),
            ("reserve", "bigint"), ("date_time", "timestamp"), ("expires", "timestamp"), ("seller", "bigint"),
            ("category", "bigint"), ("extra", "string"),
        ),
        ("id",),
    ),
    "bid": TableColumns(
        "bid",
        (
            ("id", "bigint"), ("auction", "bigint"), ("bidder", "bigint"), ("price", "bigint"), ("channel", "string"),
            ("url", "string"), ("date_time", "timestamp"), ("extra", "string"),
        ),
        ("id",),
    ),
    "side_input": TableColumns("side_input", (("key", "bigint"), ("value", "string")), ("key",)),
}  # fmt: skip
SIDE_ROWS = 10_000  # bids meet them by their auction, modulo this


@dataclass(frozen=True, slots=True)
class Query:
    """`says`: what it computes. `differs`: where that is not what the published one says, and why."""

    sql: str
    says: str
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Chain:
    """A view over other views. `means`: the query that it is."""

    sql: str
    means: int


_OPEN = "b.auction = a.id AND b.date_time BETWEEN a.date_time AND a.expires"

_WINNING = f"""
SELECT id, item_name, description, initial_bid, reserve, date_time, expires, seller, category, extra,
  auction, bidder, price, bid_date_time, bid_extra
FROM (
  SELECT a.*, b.auction, b.bidder, b.price, b.date_time AS bid_date_time, b.extra AS bid_extra,
    row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.id) AS place
  FROM auction AS a JOIN bid AS b ON {_OPEN}
) AS ranked WHERE place = 1"""

_COUNTS = """
SELECT auction, w.start AS starttime, w.end AS endtime, count(*) AS num
FROM (SELECT auction, window(date_time, '10 seconds', '2 seconds') AS w FROM bid) AS hopping
GROUP BY auction, w.start, w.end"""

_PRICES = """
SELECT w.start AS starttime, w.end AS endtime, max(price) AS maxprice
FROM (SELECT price, window(date_time, '10 seconds') AS w FROM bid) AS tumbling GROUP BY w.start, w.end"""

_HOTTEST = """
SELECT c.auction, c.num FROM {counts} AS c
JOIN (SELECT starttime, endtime, max(num) AS maxn FROM {counts} AS d GROUP BY starttime, endtime) AS m
  ON c.starttime = m.starttime AND c.endtime = m.endtime AND c.num >= m.maxn"""

_HIGHEST = """
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra FROM bid AS b
JOIN {prices} AS m ON b.price = m.maxprice AND b.date_time BETWEEN m.starttime AND m.endtime"""

_RANKS = """count(*) AS total_bids,
  count(*) FILTER (WHERE price < 10000) AS rank1_bids,
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  count(*) FILTER (WHERE price >= 1000000) AS rank3_bids"""


def _distinct(column: str, name: str) -> str:
    return f"""count(DISTINCT {column}) AS total_{name},
  count(DISTINCT {column}) FILTER (WHERE price < 10000) AS rank1_{name},
  count(DISTINCT {column}) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_{name},
  count(DISTINCT {column}) FILTER (WHERE price >= 1000000) AS rank3_{name}"""


_DAY = "date_format(date_time, 'yyyy-MM-dd')"
_CHANNEL_ID = r"regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
_TIES = "Of equal rows the one with the least key comes first, where the published query leaves that open."

QUERIES: Mapping[int, Query] = {
    0: Query("SELECT auction, bidder, price, date_time, extra FROM bid", "every bid, as it is"),
    1: Query(
        "SELECT auction, bidder, 0.908 * price AS price, date_time, extra FROM bid", "every bid, its price in euros"
    ),
    2: Query("SELECT auction, price FROM bid WHERE auction % 123 = 0", "the bids for some auctions"),
    3: Query(
        """
SELECT p.name, p.city, p.state, a.id FROM auction AS a JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA')""",
        "who sells things of a category in three states",
    ),
    4: Query(
        f"""
SELECT category, avg(final) AS final FROM (
  SELECT a.id, a.category, max(b.price) AS final FROM auction AS a JOIN bid AS b ON {_OPEN} GROUP BY a.id, a.category
) AS q GROUP BY category""",
        "the average of the highest bids of the auctions of each category",
    ),
    5: Query(
        _HOTTEST.format(counts=f"({_COUNTS})"),
        "the auctions with the most bids in each window of 10 seconds, one every 2 seconds",
    ),
    6: Query(
        f"""
SELECT seller, avg(price) OVER (PARTITION BY seller ORDER BY date_time, id
  ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS average
FROM (
  SELECT a.id, a.seller, b.price, b.date_time,
    row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.id) AS place
  FROM auction AS a JOIN bid AS b ON {_OPEN}
) AS ranked WHERE place = 1""",
        "of each seller the average of an auction's highest bid and of the ten before it",
        f"Flink does not take it, as a highest bid may be replaced by a higher one. {_TIES}",
    ),
    7: Query(_HIGHEST.format(prices=f"({_PRICES})"), "the bids with the highest price of each window of 10 seconds"),
    8: Query(
        """
SELECT p.id, p.name, p.starttime
FROM (SELECT id, name, w.start AS starttime, w.end AS endtime
  FROM (SELECT id, name, window(date_time, '10 seconds') AS w FROM person) AS t
  GROUP BY id, name, w.start, w.end) AS p
JOIN (SELECT seller, w.start AS starttime, w.end AS endtime
  FROM (SELECT seller, window(date_time, '10 seconds') AS w FROM auction) AS t
  GROUP BY seller, w.start, w.end) AS a
  ON p.id = a.seller AND p.starttime = a.starttime AND p.endtime = a.endtime""",
        "who sells something in the 10 seconds in which they registered",
    ),
    9: Query(_WINNING, "the highest bid of each auction", _TIES),
    10: Query(
        f"""
SELECT auction, bidder, price, date_time, extra, {_DAY} AS day, date_format(date_time, 'HH:mm') AS minute FROM bid""",
        "every bid with its day and minute",
        "The published one writes files in a folder for each day and minute. A view is a Delta table.",
    ),
    11: Query(
        """
SELECT bidder, count(*) AS bid_count, min(date_time) AS starttime,
  max(date_time) + INTERVAL '10' SECOND AS endtime
FROM (
  SELECT bidder, date_time, sum(begins) OVER (PARTITION BY bidder ORDER BY date_time, id) AS session FROM (
    SELECT id, bidder, date_time, CASE WHEN date_time <= lag(date_time)
      OVER (PARTITION BY bidder ORDER BY date_time, id) + INTERVAL '10' SECOND THEN 0 ELSE 1 END AS begins FROM bid
  ) AS b
) AS s GROUP BY bidder, session""",
        "the bids of each bidder by sessions, which end where 10 seconds pass without a bid",
        "By windows of the bids of a bidder; session_window says the same in fewer words.",
    ),
    12: Query(
        """
SELECT bidder, count(*) AS bid_count, w.start AS starttime, w.end AS endtime
FROM (SELECT bidder, window(date_time, '10 seconds') AS w FROM bid) AS tumbling GROUP BY bidder, w.start, w.end""",
        "the bids of each bidder in windows of 10 seconds",
        "The published windows are of the time at which a bid is processed, which no query over tables can know. "
        "Here they are of the time of the bid.",
    ),
    13: Query(
        f"""
SELECT b.auction, b.bidder, b.price, b.date_time, s.value FROM bid AS b JOIN side_input AS s
  ON b.auction % {SIDE_ROWS} = s.key""",
        "every bid with what a small table has for it",
        "The published one takes the small table as it is when a bid is processed, and never looks again. "
        "Here the view follows the changes of the small table, too.",
    ),
    14: Query(
        """
SELECT auction, bidder, 0.908 * price AS price,
  CASE WHEN hour(date_time) >= 8 AND hour(date_time) <= 18 THEN 'dayTime'
    WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time_type,
  date_time, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
        "bids of some prices, with the time of day and a count of letters",
        "The published one counts the letters by a function of its own.",
    ),
    15: Query(
        f"""
SELECT {_DAY} AS day, {_RANKS},
  {_distinct("bidder", "bidders")},
  {_distinct("auction", "auctions")}
FROM bid GROUP BY {_DAY}""",
        "bids, bidders and auctions of each day, by rank of price",
    ),
    16: Query(
        f"""
SELECT channel, {_DAY} AS day, max(date_format(date_time, 'HH:mm')) AS minute, {_RANKS},
  {_distinct("bidder", "bidders")},
  {_distinct("auction", "auctions")}
FROM bid GROUP BY channel, {_DAY}""",
        "the same by channel, with the last minute",
    ),
    17: Query(
        f"""
SELECT auction, {_DAY} AS day, {_RANKS},
  min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM bid GROUP BY auction, {_DAY}""",
        "the prices of each auction by day",
    ),
    18: Query(
        """
SELECT auction, bidder, price, channel, url, date_time, extra FROM (
  SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, id) AS place FROM bid
) AS ranked WHERE place <= 1""",
        "the last bid of each bidder for each auction",
        _TIES,
    ),
    19: Query(
        """
SELECT * FROM (
  SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, id) AS place FROM bid
) AS ranked WHERE place <= 10""",
        "the ten highest bids of each auction",
        _TIES,
    ),
    20: Query(
        """
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time AS bid_date_time, b.extra AS bid_extra,
  a.item_name, a.description, a.initial_bid, a.reserve, a.date_time, a.expires, a.seller, a.category, a.extra
FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE a.category = 10""",
        "the bids for auctions of a category, with their auctions",
    ),
    21: Query(
        f"""
SELECT auction, bidder, price, channel,
  CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
    WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
    ELSE {_CHANNEL_ID} END AS channel_id
FROM bid WHERE {_CHANNEL_ID} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
        "the bids of channels that have an id",
        "Where nothing matches, Spark's `regexp_extract` gives an empty text, the published one NULL.",
    ),
    22: Query(
        """
SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
  split_part(url, '/', 6) AS dir3 FROM bid""",
        "every bid with the folders of its address",
        "Of an address with fewer folders Spark's `split_part` gives an empty text, the published one NULL.",
    ),
}

SHARED: Mapping[str, Query] = {
    "winning_bids": Query(_WINNING, "the highest bid of each auction"),
    "auction_counts": Query(_COUNTS, "how many bids each auction has in each window of 10 seconds"),
    "window_prices": Query(_PRICES, "the highest price of each window of 10 seconds"),
}
"""Views that other views read."""

CHAINS: Mapping[str, Chain] = {
    "q4_of_winning_bids": Chain("SELECT category, avg(price) AS final FROM winning_bids GROUP BY category", 4),
    "q5_of_auction_counts": Chain(_HOTTEST.format(counts="auction_counts"), 5),
    "q6_of_winning_bids": Chain(
        """
SELECT seller, avg(price) OVER (PARTITION BY seller ORDER BY bid_date_time, id
  ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS average FROM winning_bids""",
        6,
    ),
    "q7_of_window_prices": Chain(_HIGHEST.format(prices="window_prices"), 7),
}


def reads(sql: str) -> list[str]:
    """The tables and shared views that a text names, in the order of their definitions."""
    return [name for name in (*TABLES, *SHARED) if re.search(rf"\b(FROM|JOIN) {name}\b", sql)]
