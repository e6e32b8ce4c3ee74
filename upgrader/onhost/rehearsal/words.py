"""A server's words about an object, without the object's content: names and reasons may leave the host, values not."""

from __future__ import annotations

import re
from typing import Any

_MOST = 300
_LEFT_OUT = "…"
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'[^']*'|`[^`]*`")
_VALUE = re.compile(r"\b((?:Invalid|Unsupported|Duplicate) value): .*?: ")
_INDEX = re.compile(r"\[(?!\d+\]|…\])[^\]]*\]?")
_BRACES = re.compile(r"\{.*\}?")
_TOKEN = re.compile(r"[^\s:;,()…]*[^\s:;,.()…]")
_SHORTEST = 3
_NAMES = frozenset({"apiVersion", "kind"})
_NAMES_OF_METADATA = frozenset({"name", "namespace"})
_CAUSES = 3


def reason(answer: dict[str, Any], about: dict[str, Any] | None) -> str:
    """Why a server refused, by its Status; `about` is the object that it may have quoted."""
    details = answer.get("details") or {}
    causes = details.get("causes") or []
    if answer.get("reason") == "Invalid" and causes:
        said = [
            f"{without_values(each.get('field') or '', None)}: {stripped(each.get('message') or '', about)}"
            for each in causes[:_CAUSES]
        ]
        return "; ".join(said)[:_MOST]
    return stripped(str(answer.get("message") or answer.get("reason") or "no reason"), about)


def stripped(text: str, about: dict[str, Any] | None = None) -> str:
    """The text without what is quoted, without values, and without any word of the object."""
    short = without_values(text.replace("\n", " "), about)
    return re.sub(r"\s+", " ", re.sub(r"…(?:[\s,]*…)+", _LEFT_OUT, short)).strip()[:_MOST]


def without_values(text: str, about: dict[str, Any] | None) -> str:
    """As `stripped`, at full length."""
    text = _QUOTED.sub(_LEFT_OUT, text)
    text = _BRACES.sub(_LEFT_OUT, text)
    text = _INDEX.sub(f"[{_LEFT_OUT}]", text)
    text = _VALUE.sub(rf"\1: {_LEFT_OUT}: ", text)
    if about is None:
        return text
    content = "\n".join(_leaves(about)).lower()
    return _TOKEN.sub(lambda found: _unless_in(found.group(), content), text)


def _unless_in(word: str, content: str) -> str:
    known = len(word) >= _SHORTEST or word.isdigit()
    return _LEFT_OUT if known and word.lower() in content else word


def _leaves(item: Any, outer: str = "") -> Any:
    """The values of an object, and the keys of its maps that a user chooses."""
    if isinstance(item, dict):
        for key, value in item.items():
            if (not outer and key in _NAMES) or (outer == "metadata" and key in _NAMES_OF_METADATA):
                continue
            if outer in ("data", "stringData", "binaryData", "annotations", "labels"):
                yield str(key)
            yield from _leaves(value, key)
    elif isinstance(item, list):
        for each in item:
            yield from _leaves(each, outer)
    elif item is not None and not isinstance(item, bool):
        yield str(item)
