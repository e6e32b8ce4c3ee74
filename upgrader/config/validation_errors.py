"""pydantic's findings as one-line messages with file and line."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from upgrader.config.pipeline_gates_yaml import METRIC_TAG, WORKLOAD_TAG
from upgrader.config.upgrader_yaml import PLAYBOOK_TAG, RELEASE_TAG
from upgrader.config.yaml_document import Document, KeyPath, shown
from upgrader.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

__all__ = ["explain"]

_TAGS = (RELEASE_TAG, PLAYBOOK_TAG, WORKLOAD_TAG, METRIC_TAG)

_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def explain(document: Document, error: ValidationError) -> tuple[ConfigError, ...]:
    """All findings, in the order of the file's lines."""
    findings = [_finding(document, details) for details in error.errors(include_url=False)]
    return tuple(ConfigError(f"{shown(document.path)}:{line}: {text}") for line, text in sorted(findings))


def _finding(document: Document, details: ErrorDetails) -> tuple[int, str]:
    where: KeyPath = tuple(part for part in details["loc"] if part not in _TAGS)
    context: dict[str, Any] = details.get("ctx", {})
    name = _name(where)
    match details["type"]:
        case "unknown_key":
            return document.line((*where, context["key"])), _unknown(context["key"], context["allowed"])
        case "missing":
            return document.line(where[:-1]), f"key {name} is missing"
        case "value_error":
            text = str(context["error"])
            return document.line(where), f"{name}: {text}" if where and isinstance(where[-1], str) else text
        case "too_short" | "string_too_short":
            return document.line(where), f"{name} must not be empty"
        case "literal_error":
            given, choices = str(details["input"]), str(context["expected"])
            text = f"{name} must be one of {choices}, not {given!r}"
            near = get_close_matches(given, choices.split("'")[1::2], n=1)
            return document.line(where), text + (f"; did you mean '{near[0]}'?" if near else "")
        case kind if kind in _WANTED:
            return document.line(where), f"{name} must be {_WANTED[kind]}, not {_described(details['input'])}"
        case _:
            message = details["msg"][:1].lower() + details["msg"][1:]
            return document.line(where), f"{name}: {message}, not {_described(details['input'])}"


def _unknown(key: str, allowed: list[str]) -> str:
    by_lower = {name.lower(): name for name in allowed}
    near = get_close_matches(key.lower().replace("_", ""), by_lower, n=1)
    if near:
        return f"unknown key '{key}'; did you mean '{by_lower[near[0]]}'?"
    return f"unknown key '{key}'; expected one of {', '.join(allowed)}"


def _name(where: KeyPath) -> str:
    keys = [part for part in where if isinstance(part, str)]
    item = "an item of " if where and isinstance(where[-1], int) else ""
    return f"{item}'{'.'.join(keys)}'" if keys else "the file"


def _described(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return f"the text {value!r}"
        case _:
            return repr(value)
