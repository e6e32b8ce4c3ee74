"""An Ansible inventory read as YAML alone: no template is rendered, no vault is opened and no plugin is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upgrader.config.yaml_document import read_any, shown
from upgrader.errors import ConfigError

__all__ = ["YAML_SUFFIXES", "WrittenNames", "is_vault", "written_names"]

YAML_SUFFIXES = (".yml", ".yaml", ".json")
"""Of the inventories that are read here."""

_VAULT = b"$ANSIBLE_VAULT;"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_ALWAYS = frozenset({"localhost", "127.0.0.1", "ungrouped"})
"""Names that are for somebody without being written down, or may be."""


def is_vault(path: Path) -> bool:
    """Whether a file as a whole is encrypted by Ansible."""
    with path.open("rb") as file:
        return file.read(len(_VAULT)) == _VAULT


@dataclass(frozen=True)
class WrittenNames:
    """The machines of an inventory, and those of its groups that have one, in themselves or in a child."""

    machines: frozenset[str]
    groups: frozenset[str]
    counted: bool
    """Whether each machine is written down; a range, such as web[01:50], is for Ansible to count."""

    def nobody(self, pattern: str) -> bool:
        """Whether a play's `hosts` certainly match no machine: plain names, separated by commas, none of which is that
        of a machine or of a group with one. Any other pattern may match.
        """
        return self.counted and all(map(self._unknown, pattern.split(",")))

    def _unknown(self, part: str) -> bool:
        name = part.strip()
        known = (self.machines, self.groups, _ALWAYS)
        return bool(_NAME.fullmatch(name)) and not any(name in each for each in known)


def written_names(path: Path) -> WrittenNames:
    """Read a YAML inventory, once. Raises ConfigError if it isn't one."""
    found = read_any(path)
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"{shown(path)}:1: expected groups of hosts, such as `controllers: {{hosts: {{NAME: {{}}}}}}`"
        )
    machines: set[str] = set()
    parents: dict[str, list[str]] = {}
    waiting: list[str] = []
    for name, hosts, children in _members(path, found):
        for child in children:
            parents.setdefault(child, []).append(name)
        if hosts:
            waiting.append(name)
            machines |= set(map(str, hosts)) if isinstance(hosts, Mapping) else {"["}
    groups = {*waiting, *(["all"] if machines else [])}
    while waiting:
        new = set(parents.get(waiting.pop(), ())) - groups
        groups |= new
        waiting += new
    return WrittenNames(frozenset(machines), frozenset(groups), not any("[" in name for name in machines))


def _members(path: Path, groups: Mapping[str, Any]) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Each group, as often as it is written down, with its hosts and the names of its children."""
    for name, group in groups.items():
        content = {} if group is None else group
        children = (content.get("children") or {}) if isinstance(content, Mapping) else None
        if not isinstance(children, Mapping):
            raise ConfigError(f"{shown(path)}: group '{name}', or its `children`, is not a mapping")
        yield str(name), content.get("hosts"), tuple(map(str, children))
        yield from _members(path, children)
