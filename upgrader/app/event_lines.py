"""The lines of `-o json`: a run's events, and how the command ended. `make docs` writes their schema to
`docs/reference/events.schema.json`.

A line is `{"format_version": "1.0", "time": "…Z", "type": "StepStarted", "data": {…}}`. Types and data are those of the
journal, with the journal's masking, and without what a terminal or a CI system would obey.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from upgrader.engine.journal.decode import EVENTS, UnknownEvent, event_from
from upgrader.engine.journal.record import fields_of, plain, time_of
from upgrader.errors import ConfigError, UpgraderError, error_name
from upgrader.model.event import Event
from upgrader.model.json_schema import schema_of
from upgrader.model.outcome import RunOutcome
from upgrader.model.redaction.printable import without_commands

__all__ = ["FORMAT_VERSION", "OUTCOME", "CommandEnded", "ErrorForm", "error_form", "line_of", "read_line", "render"]

FORMAT_VERSION = "1.0"
"""The second number goes up when types or fields are added, the first when a reader would misunderstand new ones."""

OUTCOME = "CommandEnded"
"""The type of the last line."""

_PLACE = re.compile(r"\A(\S+:\d+): ")


@dataclass(frozen=True)
class ErrorForm:
    """An error, in the one form that all of them have."""

    code: str
    """What `upgrader explain` takes."""
    what: str
    """What happened, and to which object."""
    where: str
    """The step and its run, the line of a file, or else the cluster folder."""
    why: str
    """The cause, line by line: what others said, the last lines of a log. "" where `what` says it all."""
    what_to_do: str
    """"" where there is nothing but to read `upgrader explain CODE`."""


@dataclass(frozen=True)
class CommandEnded:
    """The last line: the command's exit code, and its run, if it began one."""

    exit_code: int
    run: str = ""
    """The run's name; "" where none was begun."""
    folder: str = ""
    """Where the run's journal and reports are."""
    outcome: RunOutcome | None = None
    """How the run ended; null where none was begun."""
    error: ErrorForm | None = None
    """Null for the exit codes 0 and 7."""


def error_form(error: BaseException, where: str) -> ErrorForm:
    """The form of an error; `where` is the place for one that doesn't name its own."""
    if not isinstance(error, UpgraderError):
        text = str(getattr(error, "message", "") or error) or type(error).__name__
        return ErrorForm(type(error).__name__, text, where, "", "")
    what, _, why = error.message.partition("\n")
    place = _PLACE.match(what) if isinstance(error, ConfigError) else None
    return ErrorForm(error_name(error), what, place[1] if place else where, why, error.remedy)


def line_of(item: Event | CommandEnded, time: datetime) -> str:
    """One line, with its end. Everything beyond ASCII is escaped: a line is a line for every reader."""
    fields = {
        "format_version": FORMAT_VERSION,
        "time": time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "type": type(item).__name__,
        "data": _harmless(plain(item)),
    }
    return json.dumps(fields, separators=(",", ":")) + "\n"


def read_line(line: bytes) -> tuple[datetime, Event | UnknownEvent | None]:
    """When a line was written, and its event; None for the last line of a command.

    Raises ValueError with what is wrong: not JSON, another format, not as the schema has it.
    """
    fields = fields_of(line)
    version, time, name = (fields.get(key) for key in ("format_version", "time", "type"))
    if not isinstance(version, str) or version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        raise ValueError(f"its format_version is {str(version)[:60]!r}, but this version of upgrader reads 1")
    if not isinstance(time, str) or not isinstance(name, str):
        raise ValueError("it has no time or no type")
    return time_of(time), None if name == OUTCOME else event_from(name, fields.get("data"))


def _harmless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _harmless(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_harmless(each) for each in value]
    return without_commands(value) if isinstance(value, str) else value


def render() -> str:
    """The schema (JSON Schema 2020-12) as text."""
    kinds = {**EVENTS, OUTCOME: CommandEnded}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of a command's `-o json` output",
        "description": "Generated from upgrader/model/event.py and upgrader/app/event_lines.py. The second number of "
        "format_version increases when types or fields are added, and the first number when older "
        "readers would misunderstand the new ones.",
        "type": "object",
        "properties": {
            "format_version": {"const": FORMAT_VERSION},
            "time": {"type": "string", "format": "date-time", "description": "When it was written, in UTC."},
            "type": {"enum": list(kinds)},
            "data": {"type": "object"},
        },
        "required": ["format_version", "time", "type", "data"],
        "oneOf": [{"properties": {"type": {"const": name}, "data": schema_of(kind)}} for name, kind in kinds.items()],
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
