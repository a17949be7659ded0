"""`tidefill demo`: two views of a Delta table, a replica of a PostgreSQL table and a view on that are filled while both
tables are being written, by one runner, which is killed half way.

Nothing in it is staged: Spark and PostgreSQL run here, the writers and `tidefill run` are processes of their own, the
kill is a SIGKILL, and what is said of views and replica is what a comparison with a recompute found. Every wait has an
end.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from tidefill.cli import terminal
from tidefill.cli.arguments import JSON
from tidefill.cli.demo import shop
from tidefill.cli.demo.home import Home, bounded, home
from tidefill.cli.demo.index_story import IndexStory
from tidefill.cli.demo.kafka_story import KafkaStory
from tidefill.cli.demo.stage import Stage
from tidefill.cli.demo.story import Story
from tidefill.cli.demo.world import start_world
from tidefill.extras import with_extra
from tidefill.jobs.plain_json import as_json


def demo(arguments: argparse.Namespace) -> int:
    """Run the command: 0 only if all that was made was found equal to a recompute."""
    in_json = arguments.format == JSON
    stage = Stage(quiet=in_json)
    if arguments.index:
        return _demo_of_indexes(stage, arguments)
    if arguments.kafka:
        return _demo_of_topics(stage, arguments)
    if arguments.postgres:
        shop.require()
    stage.print(_title(with_shop=arguments.postgres))
    with home(arguments.keep) as place, bounded(), ExitStack() as ends:
        world = start_world(stage, place, ends, with_shop=arguments.postgres)
        outcomes = Story(world, arguments.rows).tell()
    equal = all(each.equal for each in outcomes)
    if in_json:
        terminal.say(as_json({"jobs": outcomes, "seconds": round(stage.elapsed_s, 1)}))
    stage.say(_ending(place, equal=equal))
    return 0 if equal else 1


def _demo_of_indexes(stage: Stage, arguments: argparse.Namespace) -> int:
    shop.require()
    stage.print("Two unique indexes over a partitioned table of PostgreSQL that is being written.")
    with home(arguments.keep) as place, bounded(), ExitStack() as ends:
        equal = IndexStory(stage, place, arguments.rows, ends).tell()
    if arguments.format == JSON:
        terminal.say(as_json({"equal": equal, "seconds": round(stage.elapsed_s, 1)}))
    verdict = "The index is equal to its table." if equal else "The index DIFFERS from its table."
    stage.say(f"{verdict} Everything is dropped, nothing is left.")
    return 0 if equal else 1


def _demo_of_topics(stage: Stage, arguments: argparse.Namespace) -> int:
    with with_extra("kafka"):
        import confluent_kafka  # noqa: F401
    stage.print(
        "A replica of the newest message of each key of a Kafka topic that is being written, and a view over it."
    )
    with home(arguments.keep) as place, bounded(), ExitStack() as ends:
        equal = KafkaStory(stage, place, arguments.rows, arguments.rate, ends).tell()
    if arguments.format == JSON:
        terminal.say(as_json({"equal": equal, "seconds": round(stage.elapsed_s, 1)}))
    verdict = "Replica and view are equal to the topic." if equal else "Something DIFFERS from the topic."
    stage.say(f"{verdict} Everything is dropped, nothing is left.")
    return 0 if equal else 1


def _title(*, with_shop: bool) -> str:
    views = "Two materialized views over a Delta table that is being written"
    return (
        f"{views};\na replica of a PostgreSQL table that is being written, and a view on that."
        if with_shop
        else f"{views}."
    )


def _ending(place: Home, *, equal: bool) -> str:
    verdict = "All are equal to a recompute." if equal else "Something DIFFERS from a recompute."
    if place.kept:
        return f"{verdict} The views of orders are kept: tidefill status --config {place.config}"
    return f"{verdict} Everything is dropped, nothing is left."
