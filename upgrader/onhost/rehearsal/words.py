"""A server's words about an object, without the object's content: names and reasons may leave the host, values not.

Only known words pass: those of kube-apiserver's own messages, and the names of fields that it declares. A word of the
object doesn't pass even then.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any

from upgrader.onhost.rehearsal.fields import EVERYWHERE, Fields
from upgrader.onhost.rehearsal.vocabulary import WORDS

__all__ = ["reason", "stripped"]

_MOST = 300
_LEFT_OUT = "…"
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'[^']*'|`[^`]*`")
_VALUE = re.compile(r"\b((?:Invalid|Unsupported|Duplicate) value): .*?: ")
_INDEX = re.compile(r"\[(?!\d{1,3}\]|…\])[^\]]*\]?")
"""A longer number is hardly one of an item: keys of maps, such as a ConfigMap's, may be numbers, too."""
_BRACES = re.compile(r"\{.*\}?")
_TOKEN = re.compile(r"(\(*)(\S*?)([),.:;]*)(?=\s|$)")
_BETWEEN = re.compile(r"\[\d{1,3}\]|[-./]")
_MARKS = frozenset(("", _LEFT_OUT, f"[{_LEFT_OUT}]", "-"))
_WORD = re.compile(r"\w+")
_SHORTEST = 3
_NAME = "['\"]([a-z0-9.-]{1,253})['\"]"
_POLICY = re.compile(
    r"(?:[a-z0-9.]+ \"[^\"]*\" is forbidden: )?"
    rf"((?:Validating|Mutating)AdmissionPolicy|policy) {_NAME}(?: with binding {_NAME})? denied request: "
)
"""What follows is a user's own message, which may have any data in it."""
_NAMES_OF_METADATA = frozenset({"name", "namespace"})
_CAUSES = 3


def reason(answer: dict[str, Any], about: dict[str, Any] | None, fields: Fields | None = None) -> str:
    """Why a server refused, by its Status; `about` is the object that it may have quoted, `fields` are those of its
    resource.
    """
    fields = fields or Fields()
    details = answer.get("details") or {}
    causes = details.get("causes") or []
    if answer.get("reason") == "Invalid" and causes:
        said = [_cause(each, about, fields) for each in causes[:_CAUSES]]
        return "; ".join(said)[:_MOST]
    message = str(answer.get("message") or answer.get("reason") or "no reason")
    return _denied(message) or stripped(message, about, fields.names)


def _cause(cause: dict[str, Any], about: dict[str, Any] | None, fields: Fields) -> str:
    field, message = fields.shown(str(cause.get("field") or "")), str(cause.get("message") or "")
    said = stripped(message, about, fields.names)
    return f"{field}: {said}" if field else _denied(message) or said


def _denied(message: str) -> str:
    """Which policy says so; "" where none does."""
    found = _POLICY.match(message)
    if not found:
        return ""
    kind, policy, binding = found.groups()
    return f"{kind} {policy}{f' with binding {binding}' if binding else ''} denied request: {_LEFT_OUT}"


def stripped(text: str, about: dict[str, Any] | None = None, known: Container[str] = frozenset()) -> str:
    """The text without what is quoted, without values, and without any word that is in the object, or is not a
    server's. `known`: more words that may be said, in exactly this form.
    """
    text = _QUOTED.sub(_LEFT_OUT, text.replace("\n", " "))
    text = _BRACES.sub(_LEFT_OUT, text)
    text = _INDEX.sub(f"[{_LEFT_OUT}]", text)
    text = _VALUE.sub(rf"\1: {_LEFT_OUT}: ", text)
    own = {word for leaf in _leaves(about, known) for word in _WORD.findall(leaf.lower())}
    text = _TOKEN.sub(lambda found: _shown(found, own, known), text)
    return re.sub(r"\s+", " ", re.sub(r"…(?:[\s,]*…)+", _LEFT_OUT, text)).strip()[:_MOST]


def _shown(found: re.Match[str], own: Container[str], known: Container[str]) -> str:
    before, word, after = found.groups()
    if word in _MARKS:
        return f"{before[:1]}{word}{after[:2]}"
    parts = [part for part in _BETWEEN.split(word) if part]
    said = word in known or all(part.lower() in WORDS or part in known for part in parts)
    said = said and not any(len(part) >= _SHORTEST and part.lower() in own for part in parts)
    return f"{before[:1]}{word if parts and said else _LEFT_OUT}{after[:2]}"


def _leaves(item: Any, known: Container[str], path: tuple[str, ...] = ()) -> Iterator[str]:
    """The values of an object, and the keys that no server declares."""
    if isinstance(item, dict):
        for key, value in item.items():
            if (not path and key in ("apiVersion", "kind")) or (path == ("metadata",) and key in _NAMES_OF_METADATA):
                continue
            if key not in known and key not in EVERYWHERE:
                yield str(key)
            yield from _leaves(value, known, (*path, str(key)))
    elif isinstance(item, list):
        for each in item:
            yield from _leaves(each, known, path)
    elif item is not None and not isinstance(item, bool):
        yield str(item)
