"""Sets values in a YAML file that a person wrote: comments, order and everything else stay as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from upgrader.config.yaml_document import read_mapping, shown
from upgrader.errors import ConfigError

__all__ = ["with_values"]


def with_values(path: Path, section: str, values: Mapping[str, str]) -> str:
    """The file's text with `section: {KEY: VALUE}` of each value; a file that doesn't exist is empty.

    Raises ConfigError for a file that can't be read, where the section is no mapping that is written out there, and for
    a file that would then say anything else: `{}`, say, has no line to write below.
    """
    if not path.exists():
        return _block(section, values)
    read_mapping(path)  # says in which line it is wrong
    text = path.read_text(encoding="utf-8")
    edited = _edited(path, text, section, values)
    if edited is None:
        raise ConfigError(
            f"{shown(path)}: `{section}` can't be set in place, as the file is written",
            remedy=f"Write `{section}: {{{', '.join(values)}}}` into it by hand, in one line, or the file as lines of "
            "`key: value` that begin at the margin; then try again.",
        )
    return edited


def _edited(path: Path, text: str, section: str, values: Mapping[str, str]) -> str | None:
    """The text with the values; None where that isn't what YAML reads from it."""
    was = yaml.safe_load(text) or {}
    try:
        if _mapping(path, text, section) is None:
            text = f"{text.rstrip()}\n{_block(section, values)}".lstrip("\n")
        else:
            for key, value in values.items():
                text = _set(path, text, _mapping(path, text, section), key, json.dumps(value))
        read = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    return text if read == {**was, section: {**(was.get(section) or {}), **values}} else None


def _block(section: str, values: Mapping[str, str]) -> str:
    return f"{section}:\n" + "".join(f"  {key}: {json.dumps(value)}\n" for key, value in values.items())


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
                remedy=f"Write `{section}:` with at least one line of its own below it, or remove it; then try again.",
            )
    return None


def _set(path: Path, text: str, mapping: yaml.MappingNode | None, key: str, value: str) -> str:
    assert mapping is not None, "it was found before"
    for name, node in mapping.value:
        if name.value == key:
            begin = node.start_mark.index
            if begin < name.end_mark.index or text.startswith("&", begin):  # an alias has its anchor's position
                raise ConfigError(
                    f"{shown(path)}:{name.start_mark.line + 1}: `{key}` is an alias or an anchor of YAML",
                    remedy=f"Write the value of `{key}` itself there, and where else it is used; then try again.",
                )
            # An empty value (`key:`) begins and ends right behind the colon.
            space = "" if node.end_mark.index > begin else " "
            return f"{text[:begin]}{space}{value}{text[node.end_mark.index :]}"
    first = mapping.value[0][0].start_mark
    between = ", " if mapping.flow_style else "\n" + " " * first.column
    return f"{text[: first.index]}{key}: {value}{between}{text[first.index :]}"
