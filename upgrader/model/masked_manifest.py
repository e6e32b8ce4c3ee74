"""Objects of a chart without secret values: for diffs that are shown, and for digests that are stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from upgrader.model.manifest import Manifest, objects_in
from upgrader.model.redaction.patterns import MASK, is_secret_name, mask_patterns

__all__ = ["masked", "masked_text"]


def masked_text(manifest: str) -> str:
    """A whole manifest in a form that is the same for equal content, without secret values: its digest reveals no
    secret.
    """
    objects = {key: _with_texts_as_keys(masked(item, {})) for key, item in objects_in(manifest).items()}
    return json.dumps(objects, sort_keys=True, default=str)


def masked(manifest: Manifest, other: Manifest) -> dict[str, Any]:
    """Show Secrets by key only, because plans are pasted into chats and CI logs. `other` is the object that it
    replaces.

    No length is shown, which is a hint, and the same after many rotations; no digest either, which can be guessed.
    """
    shown = dict(manifest)
    if shown.get("kind") == "Secret":
        for part in {"data", "stringData"} & shown.keys():
            before = other.get(part) or {}
            shown[part] = {key: _shown(value, before.get(key)) for key, value in (shown.get(part) or {}).items()}
    return {key: _without_secrets(item, other.get(key)) for key, item in shown.items()}


def _without_secrets(part: Any, other: Any) -> Any:
    """The same, also without what a name or a form shows to be secret: a container's environment, a key in a text.

    Text by text: what looks like the beginning of a key hides the rest of its own text only.
    """
    if isinstance(part, Mapping):
        there = other if isinstance(other, Mapping) else {}
        name = part.get("name")
        by_name = isinstance(name, str) and is_secret_name(name)
        return {
            key: _shown(item, there.get(key))
            if isinstance(item, str) and ((by_name and key == "value") or is_secret_name(str(key)))
            else _without_secrets(item, there.get(key))
            for key, item in part.items()
        }
    if isinstance(part, list):
        others = other if isinstance(other, list) else []
        return [_without_secrets(item, _counterpart(item, index, others)) for index, item in enumerate(part)]
    return _without_patterns(part, other) if isinstance(part, str) else part


def _without_patterns(text: str, other: Any) -> str:
    shown = mask_patterns(text)
    changed = shown != text and isinstance(other, str) and other != text and mask_patterns(other) == shown
    return f"{shown} (another value)" if changed else shown


def _counterpart(item: Any, index: int, others: list[Any]) -> Any:
    """The same entry of another list: by name, if entries have one."""
    if isinstance(item, Mapping) and "name" in item:
        return next(
            (other for other in others if isinstance(other, Mapping) and other.get("name") == item["name"]), None
        )
    return others[index] if index < len(others) else None


def _shown(value: Any, other: Any) -> str:
    return MASK if other is None or other == value else f"{MASK} (another value)"


def _with_texts_as_keys(part: Any) -> Any:
    """The same in a form that can be sorted: YAML also has numbers and booleans as keys."""
    if isinstance(part, Mapping):
        return {str(key): _with_texts_as_keys(item) for key, item in part.items()}
    return [_with_texts_as_keys(item) for item in part] if isinstance(part, list) else part
