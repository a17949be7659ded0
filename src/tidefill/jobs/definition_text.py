"""The JSON object that the text of a definition is."""

from __future__ import annotations

import json
from typing import Any

from tidefill.errors import StoreUnreadable

FACT = "a definition in the store cannot be read"
HINT = "Restore the store from a backup, or drop what was defined and define it again."


def parsed(text: str, newest_form: int) -> dict[str, Any]:
    """The object; StoreUnreadable if it is none, or of a newer form."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise StoreUnreadable(FACT, detail=str(error), hint=HINT) from error
    if not isinstance(data, dict) or not isinstance(data.get("form"), int):
        raise StoreUnreadable(FACT, detail=text[:200], hint=HINT)
    if data["form"] > newest_form:
        raise StoreUnreadable(
            f"a definition in the store has form {data['form']}, this release knows {newest_form}",
            hint="A newer release of Tidefill wrote it: use that release.",
        )
    return data
