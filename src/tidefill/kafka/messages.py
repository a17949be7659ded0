"""How a message becomes a row: the columns that a user asks for, and the SQL that decodes them strictly.

Spark's own JSON reader takes a number for a time in seconds, and gives NULL for a field that does not fit. Here a
number is a time only in a column that says its unit, and what does not fit makes the message a bad one, never a NULL.

| column | JSON | becomes |
|---|---|---|
| `TIMESTAMP SECONDS`, `MILLIS`, `MICROS` | a whole number | that time |
| `TIMESTAMP`, `TIMESTAMP_NTZ` | a text, `2026-11-18T10:00:00Z` | that time |
| `DATE DAYS` | a whole number, of days since 1970 | that day |
| `DATE` | a text, `2026-11-18` | that day |
| `DECIMAL(p, s)` | a number or a text, with at most s digits behind the point | that number |
| any other type | as Spark reads it, if it fits | |

A field that is not there, or null, is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidefill.errors import InvalidSetting
from tidefill.jobs.definitions import Names, Pairs, TopicReplicaDefinition
from tidefill.jobs.sql_names import HIDDEN, quoted

JSON, DEBEZIUM, RAW = "json", "debezium", "raw"
FORMATS = (JSON, DEBEZIUM, RAW)
STOP, KEEP = "stop", "keep"
PREFIX = "kafka_"
PLACE: Pairs = (("kafka_partition", "int"), ("kafka_offset", "bigint"), ("kafka_timestamp", "timestamp"))
INCLUDED = {
    "key": ("kafka_key", "binary"),
    "headers": ("kafka_headers", "array<struct<key:string,value:binary>>"),
}
VALUE = ("kafka_value", "binary")
ERROR = ("kafka_error", "string")
TEXT, PARSED, BAD = f"{HIDDEN}text", f"{HIDDEN}json", f"{HIDDEN}bad"
COLUMNS_HINT = "Write columns = 'id BIGINT, at TIMESTAMP MILLIS, page STRING'."

_UNIT = re.compile(r"(TIMESTAMP|DATE)\s+(SECONDS|MILLIS|MICROS|DAYS)", re.IGNORECASE)
_TIME = re.compile(r"(TIMESTAMP|TIMESTAMP_NTZ|TIMESTAMP_LTZ|DATE)", re.IGNORECASE)
_DECIMAL = re.compile(r"(?:DECIMAL|DEC|NUMERIC)\s*(?:\(\s*[0-9]+\s*(?:,\s*([0-9]+)\s*)?\))?", re.IGNORECASE)
_NESTED_TIME = re.compile(r"\b(TIMESTAMP|DATE)", re.IGNORECASE)
_NAME = re.compile(r"\s*(?:`([^`]+)`|([A-Za-z_][A-Za-z0-9_]*))\s+(\S.*)", re.DOTALL)
# From the year 1 to 9999, in seconds: times outside of it have no text that every part agrees on.
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
_PER_SECOND = {"SECONDS": 1, "MILLIS": 1_000, "MICROS": 1_000_000}
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Field:
    """A column that comes from a field of the message. `wire`: the type as which Spark parses the field. `value`: SQL
    that makes the column of what was parsed, NULL if that does not fit. `becomes`: the type of the column."""

    name: str
    wire: str
    value: str
    becomes: str

    @property
    def parsed(self) -> str:
        """What was parsed, in SQL."""
        return f"{PARSED}.{quoted(self.name)}"


def columns_of(text: str) -> Pairs:
    """Names and types of columns as a user writes them, `id BIGINT, at TIMESTAMP MILLIS`. Raises InvalidSetting."""
    found: list[tuple[str, str]] = []
    for part in _cut(text):
        match = _NAME.fullmatch(part)
        if match is None:
            raise InvalidSetting(f"columns has {part.strip()!r}, which is no name and type", hint=COLUMNS_HINT)
        name, kind = match[1] or match[2], " ".join(match[3].split())
        _check_column(name, kind)
        found.append((name, kind))
    names = [name.lower() for name, _ in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidSetting(f"columns names {twice} twice", hint="Leave one of them out.")
    return tuple(found)


def _cut(text: str) -> Iterator[str]:
    """At the commas that are in no parentheses."""
    depth, begin = 0, 0
    for place, sign in enumerate(text):
        depth += (sign in "(<") - (sign in ")>")
        if sign == "," and depth == 0:
            yield text[begin:place]
            begin = place + 1
    if text.strip():
        yield text[begin:]


def _check_column(name: str, kind: str) -> None:
    if name.lower().startswith((PREFIX, HIDDEN)):
        raise InvalidSetting(f"the column {name} cannot have that name", hint=f"{PREFIX} begins names of our own.")
    if not _TIME.fullmatch(kind) and not _UNIT.fullmatch(kind) and _NESTED_TIME.search(kind):
        raise InvalidSetting(
            f"the column {name} has a time inside of another type",
            hint="Nobody says how it is written there. Make it a STRING, or leave it out.",
        )
    if unit := _UNIT.fullmatch(kind):
        fits = unit[2].upper() in _PER_SECOND if unit[1].upper() == "TIMESTAMP" else unit[2].upper() == "DAYS"
        if not fits:
            hint = "There is: TIMESTAMP SECONDS, TIMESTAMP MILLIS, TIMESTAMP MICROS, DATE DAYS."
            raise InvalidSetting(f"the column {name} has no such unit: {kind}", hint=hint)


def field_of(name: str, kind: str) -> Field:
    """How the field of that name becomes a column of that type."""
    parsed = f"{PARSED}.{quoted(name)}"
    if unit := _UNIT.fullmatch(kind):
        word = unit[2].lower()
        if word == "days":
            inside = f"{parsed} BETWEEN {_FIRST_S // _DAY_S} AND {_LAST_S // _DAY_S}"
            return Field(name, "INT", f"IF({inside}, date_from_unix_date({parsed}), NULL)", "date")
        per_s = _PER_SECOND[unit[2].upper()]
        inside = f"{parsed} BETWEEN {_FIRST_S * per_s}L AND {(_LAST_S + 1) * per_s - 1}L"
        return Field(name, "BIGINT", f"IF({inside}, timestamp_{word}({parsed}), NULL)", "timestamp")
    if _TIME.fullmatch(kind):
        ends = "$" if kind.upper() == "DATE" else "[T ]"
        looks_right = f"{parsed} RLIKE '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{ends}'"
        return Field(name, "STRING", f"IF({looks_right}, try_cast({parsed} AS {kind}), NULL)", kind.lower())
    if decimal := _DECIMAL.fullmatch(kind):
        digits = int(decimal[1] or 0)
        looks_right = f"{parsed} RLIKE '^-?[0-9]+([.][0-9]{{0,{digits}}}0*)?$'"
        return Field(name, "STRING", f"IF({looks_right}, try_cast({parsed} AS {kind}), NULL)", kind.lower())
    return Field(name, kind, parsed, kind.lower())


def fields_of(definition: TopicReplicaDefinition) -> list[Field]:
    """The columns that come from the fields of a message."""
    return [field_of(name, kind) for name, kind in definition.columns]


def output_columns(definition: TopicReplicaDefinition) -> Pairs:
    """Name and type of each column of the replica."""
    more = tuple(INCLUDED[name] for name in definition.include)
    fields = tuple((each.name, each.becomes) for each in fields_of(definition))
    whole = (VALUE,) if definition.format == RAW else ()
    kept = (VALUE, ERROR) if definition.on_bad_message == KEEP else ()
    return (*PLACE, *more, *fields, *whole, *kept)


def json_schema(fields: list[Field]) -> str:
    """What Spark parses, and a last column for a text in which something did not fit."""
    return ", ".join([*(f"{quoted(each.name)} {each.wire}" for each in fields), f"{BAD} STRING"])


JSON_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD, "allowSingleQuotes": "false"}


def json_error(fields: list[Field], source: str = "value") -> str:
    """SQL for what is wrong with a message whose text and parsed value are there; NULL if nothing is. A text with
    something behind the object is no element of an array by itself. `source`: what the text is of."""
    misfits = "".join(
        f" WHEN {each.parsed} IS NOT NULL AND {each.value} IS NULL THEN {literal(_misfit(each))}"
        for each in fields
        if each.value != each.parsed
    )
    return (
        f"CASE WHEN {source} IS NULL THEN 'it has no {source}'"
        f" WHEN NOT is_valid_utf8({TEXT}) THEN 'it is not UTF-8'"
        f" WHEN NOT {TEXT} RLIKE '^[ \t\r\n]*[{{]' OR NOT (json_array_length(concat('[', {TEXT}, ']')) <=> 1)"
        f" THEN 'it is no JSON object'"
        f" WHEN {PARSED} IS NULL OR {PARSED}.{BAD} IS NOT NULL THEN 'a field does not fit the type of its column'"
        f"{misfits} END"
    )


def _misfit(field: Field) -> str:
    return f"the field {field.name} is no {field.becomes} as the column wants it"


def literal(text: str) -> str:
    """A constant in SQL. A backslash or a quote cannot be in it."""
    return "'" + re.sub(r"['\\]", "?", text) + "'"


def checked_format(text: str) -> str:
    """The format, or InvalidSetting."""
    if text.lower() not in FORMATS:
        fact = f"format is {text!r}" if text else "a replica of a topic needs a format"
        raise InvalidSetting(fact, hint=f"There is: {', '.join(FORMATS)}. {COLUMNS_HINT}")
    return text.lower()


def included(text: str) -> Names:
    """What else of a message becomes a column: `key, headers`."""
    names = tuple(dict.fromkeys(part.strip().lower() for part in text.split(",") if part.strip()))
    unknown = next((name for name in names if name not in INCLUDED), None)
    if unknown is not None:
        raise InvalidSetting(f"include names {unknown}", hint=f"There is: {', '.join(INCLUDED)}.")
    return names
