"""Which fields of a journal's events are masked: others' texts, and never a journal's own words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from upgrader.engine.journal import record
from upgrader.engine.journal.decode import EVENTS as OF_A_RUN
from upgrader.engine.journal.record import checked, encode
from upgrader.fleet.events import EVENTS as OF_A_CAMPAIGN
from upgrader.model.version import KubernetesVersion

EVENTS = {**OF_A_RUN, **OF_A_CAMPAIGN}
TEXTS = {
    "by",
    "holder",
    "reason",
    "why",
    "remedy",
    "cause",
    "text",
    "found",
    "diagnosis",
    "details",
    "summary",
    "goal",
    "mixed",
    "failures",
    "raw_failures",
    "NotCompared.what",
}
"""Fields with others' words; every other one is a name that a reader acts by."""
WHEN = datetime(2026, 12, 1, tzinfo=UTC)
MASKED = "[masked]"


def example(hint: Any) -> Any:
    """A value of a type, with something in each of its parts."""
    if get_origin(hint) is Literal:
        return get_args(hint)[-1]
    if get_origin(hint) is tuple:
        return (example(get_args(hint)[0]),)
    if get_args(hint):  # X | None
        return example(next(each for each in get_args(hint) if each is not type(None)))
    if hint is KubernetesVersion:
        return KubernetesVersion(1, 37, 1)
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type)
        return hint(**{name: example(each) for name, each in get_type_hints(hint).items()})
    if issubclass(hint, Enum):
        return next(iter(hint))
    return hint("unreachable") if hint is str else hint(1)


def masked(value: Any) -> Iterator[str]:
    """The fields of an event, and of its parts, that are masked."""
    if isinstance(value, tuple):
        for each in value:
            yield from masked(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if inner in (MASKED, (MASKED,)):
                plain, full = field.name, f"{type(value).__name__}.{field.name}"
                yield full if full in TEXTS else plain
            yield from masked(inner)


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS)
def test_structure_survives_any_secret(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """If every word of a journal were a secret, its line could be read, with each name and each value of an
    enumeration as it was written; only others' texts are masked.
    """
    monkeypatch.setattr(record, "mask_secrets", lambda _: MASKED)
    event = example(kind)
    line, _ = encode(0, WHEN, event, "")
    found = checked(line[:-1], 0, "", EVENTS)[0].event
    assert set(masked(found)) <= TEXTS
    monkeypatch.setattr(record, "mask_secrets", lambda text: text)
    assert checked(encode(0, WHEN, event, "")[0][:-1], 0, "", EVENTS)[0].event == event


def test_texts_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text of the list is masked in some event, so that none of them is a name by mistake."""
    monkeypatch.setattr(record, "mask_secrets", lambda _: MASKED)
    lines = (encode(0, WHEN, example(kind), "")[0] for kind in EVENTS.values())
    assert {name for line in lines for name in masked(checked(line[:-1], 0, "", EVENTS)[0].event)} == TEXTS
