"""Nexmark's queries as views, through real commits: filled while somebody writes, kept fresh through changes of every
table, and equal to the query over the tables at any commit."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from benchmarks.nexmark.events import EPOCH, Shape
from benchmarks.nexmark.queries import CHAINS, QUERIES, SHARED, TABLES, reads
from benchmarks.nexmark.tables import change, load, make_tables, register
from tests.views.incremental.commits import Commit, finished_commits, identity
from tests.views.incremental.meanwhile import compiled_session, rounded, written_meanwhile
from tidefill import connect
from tidefill.engine.engine import Engine
from tidefill.errors import TidefillError

SHAPE = Shape(
    events_per_s=20, start=datetime(2026, 3, 1, 23, 59, 30, tzinfo=UTC), open_auctions=12, active_people=10,
    hot_batch=6, lead=2, first_auction=1107,
)  # fmt: skip
"""Around midnight; the first auction is one that the second query looks for."""
SEED = 5
FIRST_EPOCHS, MORE_EPOCHS = 30, 4
CHUNK_ROWS = 500  # half of the bids that there are at first, or less
CHANGED_ROWS = 3
ROUNDS = 3
COMMITS = 10
SESSIONS = """
SELECT bidder, count(*) AS bid_count, session_window.start AS starttime, session_window.end AS endtime
FROM bid GROUP BY bidder, session_window(date_time, '10 seconds')"""

WHOLE: Mapping[str, str] = {
    **{f"q{number}": query.sql for number, query in QUERIES.items()},
    **{name: shared.sql for name, shared in SHARED.items()},
    **{name: QUERIES[chain.means].sql for name, chain in CHAINS.items()},
}
"""What each view is over the tables alone."""
CREATED: Mapping[str, str] = {**WHOLE, **{name: chain.sql for name, chain in CHAINS.items()}}
PARTS: Mapping[str, Sequence[str]] = {
    "joins and windows": [f"q{number}" for number in range(9)],
    "bids by themselves": [f"q{number}" for number in range(9, 17)],
    "the latest and the highest": [f"q{number}" for number in range(17, 23)],
    "views on views": [*SHARED, *CHAINS],
}


class House:
    """The tables of an auction house, and what happens there."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.chance = spark, folder, random.Random(SEED)
        make_tables(spark, folder, SHAPE.first_auction)
        self._epochs = 0
        self.go_on(FIRST_EPOCHS)
        self.identities = {name: identity(spark, str(folder / name)) for name in TABLES}

    def go_on(self, epochs: int) -> None:
        """Further events."""
        first, self._epochs = self._epochs, self._epochs + epochs
        load(self.spark, self.folder, SEED, range(first * EPOCH, self._epochs * EPOCH), SHAPE)

    def write(self, number: int = 0) -> None:
        """Further events, and changes of every table."""
        self.go_on(MORE_EPOCHS)
        for name in TABLES:
            change(self.spark, self.folder, name, self.chance, CHANGED_ROWS)

    def over(self, bases: Mapping[str, int], sql: str) -> DataFrame:
        """A query over the versions of the tables that these are, by their identities."""
        session = self.spark.newSession()
        for name in reads(sql):
            version = bases[self.identities[name]]
            past = session.read.format("delta").option("versionAsOf", version).load(str(self.folder / name))
            past.createOrReplaceTempView(name)
        return session.sql(sql)


@pytest.fixture
def house(spark: SparkSession, tmp_path: Path) -> House:
    return House(compiled_session(spark), tmp_path)


@pytest.fixture
def engine(spark: SparkSession, house: House) -> Iterator[Engine]:
    with connect(compiled_session(spark), house.folder / "lake", house.folder / "store") as made:
        register(made, house.folder)
        yield made


@pytest.mark.full
def test_every_query_is_kept_by_changes(engine: Engine) -> None:
    refused = dict[str, str]()
    for name, sql in WHOLE.items():
        try:
            engine.explain_view(sql)
        except TidefillError as error:
            refused[name] = error.fact
    assert refused == {}


@pytest.mark.soak
@pytest.mark.parametrize("part", PARTS)
def test_every_query_stays_fresh_from_its_first_row(part: str, engine: Engine, house: House) -> None:
    names = PARTS[part]
    with written_meanwhile(house.write):
        jobs = [
            engine.create_view(name, CREATED[name], verify=False, refresh="incremental", chunk_rows=CHUNK_ROWS)
            for name in names
        ]
        engine.run_once()
    for _ in range(ROUNDS):
        house.write()
        engine.run_once()
    engine.run_once()
    assert {name: told for name in names if (told := difference(engine, name)) is not None} == {}
    assert {job.name: job.verify().differences for job in jobs} == dict.fromkeys(names, ())
    assert {name for name in names if engine.table(name).isEmpty()} == set()
    assert wrong_commits(engine, house, names) == {}
    if "q11" in names:
        assert rows_of(engine.table("q11")) == rows_of(house.spark.sql(at_head(house, SESSIONS)))


def at_head(house: House, sql: str) -> str:
    """The query over the table of bids as it is."""
    return sql.replace("FROM bid ", f"FROM delta.`{house.folder / 'bid'}` ")


def difference(engine: Engine, name: str) -> str | None:
    """In what the view is not its query over the tables."""
    found, wanted = engine.table(name), engine.query(WHOLE[name])
    if found.dtypes != wanted.dtypes:
        return f"{found.dtypes} should be {wanted.dtypes}"
    return rows_differ(rows_of(found), rows_of(wanted))


def wrong_commits(engine: Engine, house: House, names: Sequence[str]) -> dict[str, str]:
    """Of some commits of the views those that are not the query over the versions that they come from."""
    all_: list[tuple[str, str, Commit]] = []
    for name in names:
        location = engine._inputs.live(name).location
        all_ += [(name, location, commit) for commit in finished_commits(house.spark, location)]
    wrong = dict[str, str]()
    for name, location, commit in house.chance.sample(all_, COMMITS):
        past = house.spark.read.format("delta").option("versionAsOf", commit.version).load(location)
        wanted = house.over(commit.bases, WHOLE[name])
        told = rows_differ(rows_of(past.select(wanted.columns)), rows_of(wanted))
        if told is not None:
            wrong[f"{name} at {commit.version}"] = told
    return wrong


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(rounded, frame.collect()), key=str)


def rows_differ(found: list[tuple[object, ...]], wanted: list[tuple[object, ...]]) -> str | None:
    """In words."""
    if found == wanted:
        return None
    surplus, missing = ([row for row in one if row not in other] for one, other in ((found, wanted), (wanted, found)))
    return f"{len(found)} rows should be {len(wanted)}: wrong {surplus[:2]}, missing {missing[:2]}"
