"""How the key of a message becomes the key of a row: columns, and the SQL that decodes them strictly.

| `key_format` | the key of a message |
|---|---|
| `text`, of a key with one column | its value as a text: `17`, `user-17`, `2026-11-18` |
| `json` | a JSON object that has the columns: `{"id": 17}` |

A key that is NULL, that cannot be read, or that has no value for a column makes the message a bad one. So does a value
that has the column and says something else.
"""

from __future__ import annotations

import re

from tidefill.errors import InvalidSetting
from tidefill.jobs.definitions import Names, Pairs
from tidefill.jobs.sql_names import quoted
from tidefill.kafka.messages import JSON, PARSED, TEXT, Field, field_of, json_error, literal

TEXTS = "text"
PAYLOAD = "payload"
UPSERT_HINT = "Write mode = 'upsert', key = 'id' for a row of the newest message of each key."

_WHOLE = re.compile(r"(BIGINT|LONG|INT|INTEGER|SMALLINT|SHORT|TINYINT|BYTE)", re.IGNORECASE)
_TEXT = re.compile(r"(STRING|(VAR)?CHAR\s*\([0-9 ]+\))", re.IGNORECASE)


def key_columns(text: str, columns: Pairs) -> Names:
    """The columns that a user names, as `columns` has them. Raises InvalidSetting."""
    known = {name.lower(): name for name, _ in columns}
    names = [part.strip().strip("`") for part in text.split(",") if part.strip()]
    if not names:
        raise InvalidSetting("a replica of the newest messages needs a key", hint=UPSERT_HINT)
    missing = next((name for name in names if name.lower() not in known), None)
    if missing is not None:
        raise InvalidSetting(f"the key names {missing}, which is none of the columns", hint=UPSERT_HINT)
    if len(set(map(str.lower, names))) < len(names):
        raise InvalidSetting("the key names a column twice", hint="Leave one of them out.")
    return tuple(known[name.lower()] for name in names)


def checked_key_format(text: str, key: Names, columns: Pairs) -> str:
    """The format: what is said, or what the key can be. Raises InvalidSetting."""
    chosen = text.lower() or (TEXTS if len(key) == 1 else JSON)
    if chosen not in (TEXTS, JSON):
        raise InvalidSetting(f"key_format is {text!r}", hint=f"There is: {TEXTS}, {JSON}.")
    if chosen == TEXTS and len(key) > 1:
        raise InvalidSetting("a key of several columns is no text", hint=f"Set key_format to {JSON}.")
    if chosen == TEXTS:
        _from_text(field_of(key[0], dict(columns)[key[0]]))
    return chosen


def refuse_payload(key: tuple[str, ...]) -> None:
    """A column of the key cannot have the name of what stands around it."""
    if PAYLOAD in (name.lower() for name in key):
        raise InvalidSetting(f"a column of the key is called {PAYLOAD}", hint="Debezium's own envelope has that name.")


def key_fields(key: Names, columns: Pairs) -> list[Field]:
    """The columns that come from the key."""
    kinds = dict(columns)
    return [field_of(name, kinds[name]) for name in key]


def parsed_text(fields: list[Field]) -> str:
    """SQL for what a text is parsed as: a struct, as of a JSON object."""
    (field,) = fields
    return f"struct({_from_text(field)} AS {quoted(field.name)})"


def _from_text(field: Field) -> str:
    """Of the type as which a JSON reader would parse the field."""
    if _TEXT.fullmatch(field.wire):
        return TEXT
    if _WHOLE.fullmatch(field.wire):
        return f"IF({TEXT} RLIKE '^-?[0-9]+$', try_cast({TEXT} AS {field.wire}), NULL)"
    if field.wire.upper() == "BOOLEAN":
        return f"CASE {TEXT} WHEN 'true' THEN true WHEN 'false' THEN false END"
    raise InvalidSetting(
        f"the column {field.name} of type {field.becomes} cannot be read from a text",
        hint=f"Set key_format to {JSON} if the keys are JSON objects.",
    )


def key_error(fields: list[Field], key_format: str) -> str:
    """SQL for what is wrong with the key of a message; NULL if nothing is."""
    missing = "".join(
        f" WHEN ({each.value}) IS NULL THEN {literal(f'its key has no {each.name} that is a {each.becomes}')}"
        for each in fields
    )
    begins = f"CASE WHEN key IS NULL THEN 'it has no key' WHEN NOT is_valid_utf8({TEXT}) THEN 'its key is not UTF-8'"
    if key_format == TEXTS:
        return f"{begins}{missing} END"
    wrong = json_error(fields, "key")
    return f"{begins} WHEN ({wrong}) IS NOT NULL THEN concat('of its key: ', {wrong}){missing} END"


def differs(fields: list[Field]) -> str:
    """SQL for whether a value that was parsed has a column of the key, and says something else."""
    return " OR ".join(f"coalesce(({each.value}) <> {key_column(number)}, false)" for number, each in enumerate(fields))


def key_column(number: int) -> str:
    """The column that holds a column of the key before it has its name."""
    return f"{PARSED}_key{number}"
