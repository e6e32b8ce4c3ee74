"""Reads YAML as PyYAML's `safe_load` does, by libyaml, and refuses what is harmless to parse and ruinous to walk.

That is YAML which is nested too deeply, or grown by its anchors.

A few hundred bytes of anchors stand for billions of values, and a parser's own recursion ends the process in C. Events
come without either, so they are counted before anything else reads the text. JSON is YAML, too.

A tag may claim a type that the text hasn't (`!!bool maybe`). PyYAML then raises whatever happens, so it is tried here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import yaml

__all__ = ["DEEPEST", "DUMPER", "LOADER", "MOST_VALUES", "check_limits", "load", "load_all", "weight"]

LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where PyYAML was built with it: ten times as fast, and without a limit of its own."""
DUMPER: type[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

DEEPEST = 100
MOST_VALUES = 500_000
"""Values, each counted as often as anchors repeat it."""
_CHARACTERS = 64
"""A longer text counts as several values: what repeats it is as expensive."""

_TAG = "tag:yaml.org,2002:"
_TYPES = ("bool", "int", "float", "timestamp")


def load(text: str | bytes) -> Any:
    """The only document; None where there is none. Raises yaml.YAMLError."""
    check_limits(text)
    return yaml.load(text, Loader=LOADER)  # noqa: S506  # it is a safe one


def load_all(text: str | bytes) -> Iterator[Any]:
    """Each document; None for an empty one. Raises yaml.YAMLError."""
    check_limits(text)
    yield from yaml.load_all(text, Loader=LOADER)


def check_limits(text: str | bytes) -> None:
    """Raises yaml.MarkedYAMLError for YAML beyond the limits, or whose anchor contains itself, or that is none."""
    total = 0
    sizes: dict[str, int] = {}
    around: list[tuple[str | None, int]] = []
    for event in yaml.parse(text, Loader=LOADER):
        match event:
            case yaml.AliasEvent():
                if any(anchor == event.anchor for anchor, _ in around):
                    _refuse("an anchor contains itself", event)
                total += sizes.get(str(event.anchor), 0)
            case yaml.ScalarEvent():
                if event.tag:
                    _check_type(event.tag, event)
                size = weight(event.value)
                total += size
                if event.anchor:
                    sizes[event.anchor] = size
            case yaml.CollectionStartEvent():
                if (kind := str(event.tag).removeprefix(_TAG)) in _TYPES:
                    _refuse(f"a mapping or list has the tag !!{kind}", event)
                around.append((event.anchor, total))
                total += 1
                if len(around) > DEEPEST:
                    _refuse(f"it is nested more than {DEEPEST} levels deep", event)
            case yaml.CollectionEndEvent():
                anchor, before = around.pop()
                if anchor:
                    sizes[anchor] = total - before
        if total > MOST_VALUES:
            _refuse(f"with its anchors written out, it has more than {MOST_VALUES} values", event)


def weight(text: str) -> int:
    """As how many values a text counts."""
    return 1 + len(text) // _CHARACTERS


def _check_type(tag: str, scalar: yaml.ScalarEvent) -> None:
    kind = tag.removeprefix(_TAG)
    if kind in _TYPES:
        try:
            yaml.SafeLoader("").construct_document(yaml.ScalarNode(tag, scalar.value))
        except (yaml.YAMLError, ValueError, LookupError, AttributeError, OverflowError):
            _refuse(f"a value can't be read as its type, {kind}", scalar)  # which may be a secret: it isn't repeated


def _refuse(why: str, event: Any) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=why, problem_mark=event.start_mark)
