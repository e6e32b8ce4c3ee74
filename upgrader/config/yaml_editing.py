"""Sets values in a YAML file that a person wrote: comments, order and everything else stay as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from upgrader.config.yaml_document import read_mapping, shown
from upgrader.errors import ConfigError

__all__ = ["with_changes", "with_values"]


def with_values(path: Path, section: str, values: Mapping[str, str]) -> str:
    """The file's text with `section: {KEY: VALUE}` of each value. As `with_changes`."""
    return with_changes(path, {section: values})


def with_changes(path: Path, changes: Mapping[str, Any]) -> str:
    """The file's text with `KEY: VALUE` of each change, or `KEY: {INNER: VALUE}` where a change is a mapping; a file
    that doesn't exist is empty.

    Raises ConfigError for a file that can't be read, where the section is no mapping that is written out there, and for
    a file that would then say anything else: `{}`, say, has no line to write below.
    """
    exists = path.exists()
    if exists:
        read_mapping(path)  # says in which line it is wrong
    text = path.read_text(encoding="utf-8") if exists else ""
    for key, value in changes.items():
        edited = _edited(path, text, key, value)
        if edited is None:
            inner = f"{{{', '.join(value)}}}" if isinstance(value, Mapping) else json.dumps(value)
            raise ConfigError(
                f"{shown(path)}: `{key}` can't be set in place, because of how the file is written",
                remedy=f"Write `{key}: {inner}` into it manually, in one line, or use block style (unindented `key: "
                "value` lines) in the file; then try again.",
            )
        text = edited
    return text


def _edited(path: Path, text: str, key: str, value: Any) -> str | None:
    """The text with the change; None if YAML reads something else from it."""
    was = yaml.safe_load(text) or {}
    nested = isinstance(value, Mapping)
    try:
        if not nested and key in was:
            root = yaml.compose(text)
            assert isinstance(root, yaml.MappingNode), "it has the key"
            text = _set(path, text, root, key, value)
        elif not nested or _mapping(path, text, key) is None:
            text = f"{text.rstrip()}\n{_block(key, value)}".lstrip("\n")
        else:
            for inner, each in value.items():
                text = _set(path, text, _mapping(path, text, key), inner, each)
        read = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    return text if read == {**was, key: {**(was.get(key) or {}), **value} if nested else value} else None


def _block(key: str, value: Any) -> str:
    if not isinstance(value, Mapping):
        return f"{key}: {json.dumps(value)}\n"
    return f"{key}:\n" + "".join(f"  {inner}: {json.dumps(each)}\n" for inner, each in value.items())


def _mapping(path: Path, text: str, section: str) -> yaml.MappingNode | None:
    """The section's node, None if the file has no such key."""
    root = yaml.compose(text)
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == section:
            # An alias has the position of its anchor, which is before its key.
            if isinstance(value, yaml.MappingNode) and value.start_mark.index > key.end_mark.index and value.value:
                return value
            raise ConfigError(
                f"{shown(path)}:{key.start_mark.line + 1}: `{section}` isn't a list of `key: value` lines",
                remedy=f"Write `{section}:` with at least one indented line below it, or remove it; then try again.",
            )
    return None


def _set(path: Path, text: str, mapping: yaml.MappingNode | None, key: str, value: Any) -> str:
    assert mapping is not None, "it was found before"
    words = json.dumps(value)
    for name, node in mapping.value:
        if name.value == key:
            begin, end = node.start_mark.index, node.end_mark.index
            if begin < name.end_mark.index or text.startswith("&", begin):  # an alias has its anchor's position
                raise ConfigError(
                    f"{shown(path)}:{name.start_mark.line + 1}: `{key}` is a YAML alias or anchor, which `upgrader` "
                    "can't edit",
                    remedy=f"Write the value of `{key}` there instead, and wherever the anchor is used; then try "
                    "again.",
                )
            if isinstance(node, yaml.SequenceNode) and not node.flow_style:
                # Items on lines of their own: what replaces them stands behind the colon. A block "ends" only where the
                # next key begins, behind the line break and comments that aren't its own.
                begin, end = text.index(":", name.end_mark.index) + 1, node.value[-1].end_mark.index
                return f"{text[:begin]} {words}{text[end:]}"
            # An empty value (`key:`) begins and ends right behind the colon.
            space = "" if end > begin else " "
            return f"{text[:begin]}{space}{words}{text[end:]}"
    first = mapping.value[0][0].start_mark
    between = ", " if mapping.flow_style else "\n" + " " * first.column
    return f"{text[: first.index]}{key}: {words}{between}{text[first.index :]}"
