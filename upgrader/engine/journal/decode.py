"""Decodes a record's JSON into its event, checked field by field.

The shapes are those of the event classes themselves, so that a new event needs no change here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from upgrader.model.event import Event
from upgrader.model.json_values import from_json

__all__ = ["EVENTS", "UnknownEvent", "event_from"]

EVENTS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}
"""Every type of event, by the name that it has in a journal."""


@dataclass(frozen=True)
class UnknownEvent:
    """An event of a type that this version has no class for: a newer version of upgrader wrote it."""

    type: str


def event_from(name: str, data: Any, events: Mapping[str, type[Any]] = EVENTS) -> Any | UnknownEvent:
    """The event of that type with this data, one of `events`: a run's, unless the journal is of something else.

    Unknown fields are ignored: newer versions add some, always with a default for journals that don't have them.
    Raises ValueError that names the field, what it should be and what it is.
    """
    kind = events.get(name)
    return UnknownEvent(name) if kind is None else from_json(kind, data, "data")
