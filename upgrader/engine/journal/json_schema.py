"""The JSON Schema of a journal's lines; `make docs` writes it to `docs/reference/journal.schema.json`."""

from __future__ import annotations

import json
import sys
from typing import Any

from upgrader.engine.journal.decode import EVENTS
from upgrader.engine.journal.record import SCHEMA
from upgrader.model.json_schema import schema_of

__all__ = ["render"]


def render() -> str:
    """The schema (JSON Schema 2020-12) as text."""
    return json.dumps(_schema(), indent=2, ensure_ascii=False) + "\n"


def _schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of an upgrader journal",
        "description": "Generated from upgrader/model/event.py. Within one schema number, types and fields may be "
        "added.",
        "type": "object",
        "properties": {
            "schema": {"const": SCHEMA},
            "seq": {"type": "integer", "minimum": 0, "description": "Counts the lines from 0, without gaps."},
            "time": {"type": "string", "format": "date-time", "description": "Time of writing, in UTC."},
            "type": {"enum": list(EVENTS)},
            "data": {"type": "object"},
            "checksum": {
                "type": "string",
                "pattern": "^[0-9a-f]{64}$",
                "description": "SHA-256 of the checksum of the line before (nothing for the first) and of this line's "
                'bytes with ,"checksum":"…" cut out.',
            },
        },
        "required": ["schema", "seq", "time", "type", "data", "checksum"],
        "additionalProperties": False,
        "oneOf": [{"properties": {"type": {"const": name}, "data": schema_of(kind)}} for name, kind in EVENTS.items()],
    }


if __name__ == "__main__":
    sys.stdout.write(render())
