"""Any value as JSON: of a result, a setting or a status."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, time
from enum import Enum
from typing import Any


def as_json(value: object) -> str:
    """One line of JSON for any value of a result or a status; keys are sorted, so that equal values give equal texts.
    What JSON has no form for is text: decimals, NaN and the infinities, times in ISO 8601, bytes in base64."""
    return json.dumps(plain(value), sort_keys=True, allow_nan=False)


def plain(value: object) -> Any:
    """The value as JSON data."""
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else not_finite(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case date() | time():
            return value.isoformat()
        case Mapping():
            return {_key(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case AbstractSet():
            return sorted((plain(item) for item in value), key=as_json)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return str(value)


def not_finite(value: float) -> str:
    """The name that a float without a form in JSON has there."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _key(key: object) -> str:
    return key if isinstance(key, str) else str(plain(key))
