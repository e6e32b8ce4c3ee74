"""One line of a journal: how an event is encoded, and how a line is checked.

A line is `{"schema": 3, "seq": N, "time": "…Z", "type": "StepStarted", "data": {…}, "checksum": "…"}`, without the
spaces. `seq` counts from 0 without gaps. `checksum` is the SHA-256, in hexadecimal, of the checksum of the line
before (nothing, for the first line) and of this line's bytes with `,"checksum":"…"` cut out: so a line that was
changed is detected, and so is one that was lost, duplicated, moved or taken from another journal.

Lines of schema 2 are still read (`read_schema_2.py`); a run that began with them continues in lines of schema 3.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from upgrader.engine.journal import read_schema_2
from upgrader.engine.journal.decode import EVENTS, UnknownEvent, event_from
from upgrader.engine.journal.older_names import with_new_names
from upgrader.model.event import Event
from upgrader.model.redaction.printable import mask_secrets
from upgrader.model.version import KubernetesVersion

__all__ = ["SCHEMA", "TEXT_CHARACTERS", "Record", "checked", "encode", "fields_of", "plain", "time_of"]

SCHEMA = 3
"""The number goes up when a reader of the old format would misunderstand the new one; new types and fields don't."""

TEXT_CHARACTERS = 8192
"""Limit of one text in a record: more than any path or reason, less than a runaway error message."""

_NAMES = frozenset(
    [
        "run",
        "kind",
        "folder",
        "step",
        "node",
        "steps",
        "gate",
        "to",
        "id",
        "code",
        "name",
        "digest",
        "changes",
        "plan",
        "release",
        "namespace",
        "playbook",
        "configuration",
        "webhook",
        "campaign",
        "hub",
        "cluster",
        "stage",
        "request",
        "before",
        "upgrader",
        "charts",
        "program",
        "emulated",
        "acquired",
        "renewed",
        # What a restore point has.
        "configured",
        "deployment",
        "at",
        "kubelet",
        "surge",
        "image",
        "version",
        # What a resumed run compares.
        "workers",
        "unready",
        "secret_digest",
        "servers",
        "server",
        "start",
        "verb",
        "groups",
        "api_services",
        "api_service",
        "templates",
        "leases",
        "cluster_ip",
        "service_ranges",
        "level",
        "conversions",
        "RefusedShare.what",
        # What a soak restarts.
        "component",
        "pod",
        "uid",
    ]
)
"""Fields that a resumed run, or a campaign, acts by, and `CLASS.FIELD` where another class has a text of that name:
they come from its files, or name objects, and must stay as they are, whatever a password is. Values of enumerations
always do.
"""

_FIRST_YEAR, _LAST_YEAR = 1970, 9000
"""Of a machine without a clock of its own, and far from where a later moment, or another zone's, would have no date."""

_CONTROL = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters that JSON doesn't escape."""

_CHECKSUM = re.compile(rb',"checksum":"([0-9a-f]{64})"\}')
_CHECKSUM_BYTES = len(',"checksum":""}') + 64


@dataclass(frozen=True)
class Record:
    """One line of a journal, checked and decoded."""

    seq: int
    time: datetime
    event: Event | UnknownEvent


def encode(seq: int, time: datetime, event: object, previous: str) -> tuple[bytes, str]:
    """The line of an event, a dataclass, with its end of line, and its checksum.

    `previous` is the checksum of the line before, or "".
    """
    fields = {
        "schema": SCHEMA,
        "seq": seq,
        "time": time.isoformat().replace("+00:00", "Z"),
        "type": type(event).__name__,
        "data": plain(event),
    }
    # A path may hold bytes that are not UTF-8: Python's surrogates for them become JSON escapes.
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    # A terminal would obey these, too: `cat` of a journal must be safe.
    text = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    body = text.encode(errors="backslashreplace")
    checksum = _sum(previous, body)
    return body[:-1] + f',"checksum":"{checksum}"}}\n'.encode(), checksum


def checked(line: bytes, seq: int, previous: str, events: Mapping[str, type[Any]] = EVENTS) -> tuple[Record, str]:
    """The record of a line without its end, and its checksum; `events` are the types of events that it may have.

    Raises ValueError with what is wrong: not JSON, another schema, not the expected record, changed.
    """
    fields = fields_of(line)
    schema = fields.get("schema")
    if schema not in (read_schema_2.SCHEMA, SCHEMA):
        raise ValueError(
            f"it has schema {schema}, but this version of upgrader reads {read_schema_2.SCHEMA} and {SCHEMA}"
        )
    if fields.get("seq") != seq:
        raise ValueError(f"it is record {fields.get('seq')} where record {seq} should be: lines were lost or moved")
    found = _CHECKSUM.fullmatch(line, max(0, len(line) - _CHECKSUM_BYTES))
    if found is None:
        raise ValueError("it has no checksum at its end")
    checksum = found[1].decode()
    if checksum != _sum(previous, line[: found.start()] + b"}"):
        raise ValueError("its checksum is wrong: this line, or one before it, was changed")
    time, name = fields.get("time"), fields.get("type")
    if not isinstance(time, str) or not isinstance(name, str):
        raise ValueError("it has no time or no type")
    data = fields.get("data")
    if schema == read_schema_2.SCHEMA:
        name, data = read_schema_2.upgraded(name, data)
    return Record(seq, time_of(time), event_from(name, with_new_names(data), events)), checksum


def time_of(text: str) -> datetime:
    """When a line was written. Raises ValueError for no time with a zone, and for one that can't be reckoned with."""
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError("its time has no zone")
    if not _FIRST_YEAR <= when.year < _LAST_YEAR:
        raise ValueError(f"its time is in the year {when.year}")
    return when


def fields_of(line: bytes) -> dict[str, Any]:
    """The JSON object of a line. Raises ValueError for what is none."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise ValueError("it is not a JSON object")
    return fields


def _sum(previous: str, body: bytes) -> str:
    return hashlib.sha256(previous.encode() + body).hexdigest()


def plain(value: Any, *, free: bool = True) -> Any:
    """An event, or a part of one, as JSON values; secrets in `free` text masked."""
    if isinstance(value, KubernetesVersion):
        return str(value)
    if dataclasses.is_dataclass(value):
        texts = _texts(type(value))  # type: ignore[arg-type]  # mypy takes no class for hashable here
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: plain(each, free=name in texts) for name, each in fields.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, free=free) for item in value]
    if isinstance(value, str) and free:
        # Errors of Helm and the API quote their input, and a journal is copied to other machines.
        value = mask_secrets(value)
        if len(value) > TEXT_CHARACTERS:
            return f"{value[:TEXT_CHARACTERS]}… ({len(value) - TEXT_CHARACTERS} more characters)"
    return value


@cache
def _texts(kind: type[Any]) -> frozenset[str]:
    """The fields of an event, or of a part of one, with free text: those of others' words."""
    return frozenset(
        name
        for name, hint in get_type_hints(kind).items()
        if _is_text(hint) and name not in _NAMES and f"{kind.__name__}.{name}" not in _NAMES
    )


def _is_text(hint: Any) -> bool:
    """Whether it is a text, several, or one that may be missing; a Literal has its values where these have types."""
    return hint is str or (get_origin(hint) is not Literal and any(map(_is_text, get_args(hint))))
