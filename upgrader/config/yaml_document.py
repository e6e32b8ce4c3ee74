"""YAML files that know the line of every key, so that an error can point at it."""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from upgrader.config.plain_file import read_plain
from upgrader.errors import ConfigError
from upgrader.model.go_yaml import GoLoader
from upgrader.model.limited_yaml import LOADER, check_limits

__all__ = [
    "Document",
    "KeyPath",
    "all_in_one",
    "check_syntax",
    "read_any",
    "read_first_mapping",
    "read_mapping",
    "read_values",
    "root_keys",
    "shown",
    "typed",
]

KeyPath = tuple[str | int, ...]
"""Where a value sits in a document: keys of mappings and indexes of lists, from the top."""

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(LOADER):  # type: ignore[misc]  # one of two, chosen when it is imported
    """A date stays the text that it is, as for Helm: JSON has none."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's, and never changed
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in LOADER.yaml_implicit_resolvers.items()
    }


class _AnyTag(_Loader):
    """Also for Ansible's tags: what they stand for is left out, and `!vault` stays closed."""


_AnyTag.add_multi_constructor("!", lambda _loader, _suffix, _node: None)


@dataclass(frozen=True)
class Document:
    """A YAML mapping, and the line (1-based) of each of its keys and list items."""

    path: Path
    data: Mapping[str, Any]
    lines: Mapping[KeyPath, int]

    def line(self, where: KeyPath) -> int:
        """The line of a value, or of the nearest enclosing item in the file."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where, 1)

    def error(self, where: KeyPath, message: str, *, remedy: str = "") -> ConfigError:
        """A ConfigError that starts with `FILE:LINE:`."""
        return ConfigError(f"{shown(self.path)}:{self.line(where)}: {message}", remedy=remedy)


def all_in_one(problems: Sequence[ConfigError]) -> ConfigError:
    """One error for all problems, with each remedy once."""
    remedies = dict.fromkeys(problem.remedy for problem in problems if problem.remedy)
    return ConfigError("\n".join(problem.message for problem in problems), remedy="\n".join(remedies))


def shown(path: Path, home: Path | None = None) -> str:
    """A path for messages: relative when it is below the current folder, or below `home`."""
    relative = os.path.relpath(path, home)
    return str(path) if relative.startswith("..") else relative


def typed(path: Path, home: Path | None = None) -> str:
    """The same in a command that can be copied: quoted as a shell needs it."""
    return shlex.quote(shown(path, home))


def read_mapping(path: Path, *, links: bool = True) -> Document:
    """Read a YAML file that holds one mapping (an empty file is an empty mapping); `links` as for `open_plain`.

    Raises ConfigError for a file that can't be read, isn't YAML, contains anything else, or has a key twice.
    """
    return _read_mapping(path, _Loader, links=links)


def read_first_mapping(path: Path, *, links: bool = True) -> Document:
    """As `read_mapping`, the first document of a file that may have more, as kubectl reads a kubeconfig."""
    return _read_mapping(path, _Loader, links=links, only=False)


def read_values(path: Path) -> Document:
    """As `read_mapping`, with each value as Helm reads it."""
    return _read_mapping(path, GoLoader)


def _read_mapping(path: Path, kind: type[Any], *, links: bool = True, only: bool = True) -> Document:
    with _loader(path, kind, links=links) as loader:
        node = _only_node(loader) if only else _next_node(loader)
        if node is None:
            return Document(path, {}, {})
        lines: dict[KeyPath, int] = {(): node.start_mark.line + 1}
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(f"{shown(path)}:{lines[()]}: expected `key: value` lines, not {_kind(node)}")
        _walk(path, node, (), lines, frozenset())
        return Document(path, loader.construct_document(node), lines)


def check_syntax(path: Path) -> None:
    """Raise ConfigError unless the file is YAML; any content and any tags (`!vault`) are allowed."""
    with _loader(path) as loader:
        loader.get_single_node()


def read_any(path: Path) -> Any:
    """The file's one document, whatever it is; what has a tag of its own (`!vault`) is None. Raises ConfigError."""
    with _loader(path, _AnyTag) as loader:
        return loader.get_single_data()


def root_keys(path: Path) -> frozenset[str]:
    """The keys of the file's one mapping, however they are written or merged into it. Raises ConfigError."""
    with _loader(path) as loader:
        node = loader.get_single_node()
        return frozenset(_keys(node)) if node is not None else frozenset()


def _keys(node: yaml.Node) -> Iterator[str]:
    """No anchor contains itself: the limits were checked."""
    if isinstance(node, yaml.SequenceNode):  # of mappings to merge
        for item in node.value:
            yield from _keys(item)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag == _MERGE_TAG:
                yield from _keys(value)
            elif isinstance(key, yaml.ScalarNode):
                yield key.value


@contextmanager
def _loader(path: Path, kind: type[Any] = _Loader, *, links: bool = True) -> Iterator[Any]:
    """A YAML loader of the file; what it raises inside the block becomes ConfigError."""
    try:
        # With the line ends of any system, as a text file has them.
        text = io.TextIOWrapper(io.BytesIO(read_plain(path, links=links)), encoding="utf-8").read()
        check_limits(text)
        yield kind(text)
    except OSError as error:
        raise ConfigError(f"{shown(path)}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown(path)}: is not UTF-8 text: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ConfigError(f"{shown(path)}:{line}: is not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a number of 5000 digits, a month 13
        raise ConfigError(f"{shown(path)}: is not valid YAML: {error}") from error


def _only_node(loader: Any) -> yaml.Node | None:
    """The file's one document; a `---` at its end begins another that says nothing."""
    first = _next_node(loader)
    while loader.check_node():
        node = loader.get_node()
        if not (isinstance(node, yaml.ScalarNode) and node.value == ""):
            raise yaml.composer.ComposerError(
                "expected a single document", None, "but found another document", node.start_mark
            )
    return first


def _next_node(loader: Any) -> yaml.Node | None:
    node: yaml.Node | None = loader.get_node() if loader.check_node() else None
    return node


def _walk(path: Path, node: yaml.Node, where: KeyPath, lines: dict[KeyPath, int], above: frozenset[int]) -> None:
    if id(node) in above:
        raise ConfigError(f"{shown(path)}:{node.start_mark.line + 1}: an anchor contains itself")
    above = above | {id(node)}
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*where, index)] = item.start_mark.line + 1
            _walk(path, item, (*where, index), lines, above)
    elif isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"{shown(path)}:{line}: a key must not be {_kind(key)}")
            if key.value in seen and key.tag != _MERGE_TAG:
                raise ConfigError(f"{shown(path)}:{line}: key '{key.value}' is already on line {seen[key.value]}")
            seen[key.value] = line
            lines[(*where, key.value)] = line
            _walk(path, value, (*where, key.value), lines, above)


_MERGE_TAG = "tag:yaml.org,2002:merge"


def _kind(node: yaml.Node) -> str:
    kinds = ((yaml.SequenceNode, "a list"), (yaml.MappingNode, "a mapping"))
    return next((name for kind, name in kinds if isinstance(node, kind)), "a single value")
