"""What cannot become an input or an output of a job, refused with the reason and a way on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from tidefill.errors import BadInput, RetryLater, TidefillError, UnsupportedQuery, UpstreamUnfit
from tidefill.spark.faults import translated
from tidefill.spark.storable import refuse_unstorable

NOT_IN_DELTA = re.compile(r"[ ,;{}()\n\t=]")


@contextmanager
def as_input(fact: str, kind: type[TidefillError] = UpstreamUnfit) -> Iterator[None]:
    """What Spark refuses while something is being created is a mistake in what was asked for."""
    try:
        with translated():
            yield
    except (RetryLater, BadInput):
        raise
    except TidefillError as error:
        raise kind(fact, detail=error.detail) from error


def refuse_names(table: str, schema: StructType, hint: str) -> None:
    """UpstreamUnfit if a copy of the table would have columns that Delta cannot name."""
    names = [field.name for field in schema if NOT_IN_DELTA.search(field.name)]
    if names:
        raise UpstreamUnfit(
            f"{table} has columns that a replica cannot have",
            detail=f"Delta takes no blanks and none of ,;{{}}()= in a name: {', '.join(map(repr, names))}.",
            hint=hint,
        )


def refuse_columns(schema: StructType) -> None:
    seen: set[str] = set()
    for field in schema:
        if NOT_IN_DELTA.search(field.name):
            raise UnsupportedQuery(
                f"a column cannot be named {field.name!r}", hint="Give the expression a name: ... AS total."
            )
        if field.name.casefold() in seen:
            raise UnsupportedQuery(f"two columns are named {field.name}", hint="Rename one of them with AS.")
        seen.add(field.name.casefold())
    refuse_unstorable(schema)


def refuse_incomparable(schema: StructType) -> None:
    """Outputs that cannot be told apart from others."""
    for field in schema:
        if _incomparable(field.dataType):
            hint = "Turn it into text: to_json(...)."
            raise UnsupportedQuery(
                f"column {field.name} cannot be compared: {field.dataType.simpleString()}", hint=hint
            )


def refuse_maps(schema: StructType, reads: Sequence[str]) -> None:
    """Spark cannot tell whether two maps, or two variants, are equal: changes of rows with them cannot be netted."""
    for name in reads:
        if kind := _incomparable(schema[name].dataType):
            raise UpstreamUnfit(
                f"column {name} holds a {kind}, which cannot be compared yet",
                hint="Leave the column out: a view of the other columns can be made.",
            )


def _incomparable(kind: DataType) -> str:
    """What in the type cannot be compared; empty if all of it can."""
    match kind:
        case MapType() | VariantType():
            return kind.typeName()
        case StructType():
            return next(filter(None, (_incomparable(field.dataType) for field in kind)), "")
        case ArrayType():
            return _incomparable(kind.elementType)
    return ""
