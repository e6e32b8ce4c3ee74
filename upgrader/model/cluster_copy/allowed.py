"""What an allow-list is made of: each rule copies what it knows of a value, and nothing else.

A rule gives `NOTHING` for a value of another form: a mapping where a text should be is not copied as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "NOTHING",
    "Rule",
    "any_of",
    "count",
    "demanding",
    "each",
    "entries",
    "fields",
    "flag",
    "name",
    "number",
    "text",
    "word",
]

NOTHING: Any = object()
"""What is not copied."""
Rule = Callable[[Any], Any]

_WORD = re.compile(r"(?:[A-Za-z0-9*][A-Za-z0-9._:/*%-]{0,316})?")
"""Names, labels and their values, kinds, versions, operators, percentages: what Kubernetes itself restricts to such
characters. 317 are the longest label's key. None is like an option: labels become arguments of kubectl.
"""
_NAME = re.compile(r"[\w$@.:/*-]{1,253}")


def text(value: Any) -> Any:
    """Any text: an expression of a policy, a pattern of a schema."""
    return value if isinstance(value, str) else NOTHING


def word(value: Any) -> Any:
    """A text that is a name, or like one."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else NOTHING


def name(value: Any) -> Any:
    """The name of a field in a schema."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else NOTHING


def flag(value: Any) -> Any:
    """true or false."""
    return value if isinstance(value, bool) else NOTHING


def number(value: Any) -> Any:
    """A number."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else NOTHING


def count(value: Any) -> Any:
    """A number of things."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else NOTHING


def any_of(*rules: Rule) -> Rule:
    """The first rule that copies something."""

    def copy(value: Any) -> Any:
        return next((found for rule in rules if (found := rule(value)) is not NOTHING), NOTHING)

    return copy


def each(rule: Rule) -> Rule:
    """A list; an entry of which nothing is copied is left out."""

    def copy(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return NOTHING
        return [found for item in value if (found := rule(item)) is not NOTHING]

    return copy


def entries(rule: Rule, key: Rule = word) -> Rule:
    """A mapping with any keys of a form, such as labels."""

    def copy(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return NOTHING
        found = {named: rule(item) for named, item in value.items() if key(named) is not NOTHING}
        return {named: item for named, item in found.items() if item is not NOTHING}

    return copy


def fields(**rules: Rule) -> Rule:
    """A mapping with these keys; a dash in a key is written as `__`."""
    named = {key.replace("__", "-"): rule for key, rule in rules.items()}

    def copy(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return NOTHING
        found = {key: rule(value[key]) for key, rule in named.items() if key in value}
        return {key: item for key, item in found.items() if item is not NOTHING}

    return copy


def demanding(rule: Rule, *keys: str) -> Rule:
    """A mapping that has these keys: others are not copied."""

    def copy(value: Any) -> Any:
        found = rule(value)
        return found if found is not NOTHING and all(key in found for key in keys) else NOTHING

    return copy
