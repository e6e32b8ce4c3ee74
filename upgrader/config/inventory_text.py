"""An Ansible inventory read as YAML alone: no template is rendered, no vault is opened and no plugin is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from upgrader.config.yaml_document import read_any, shown
from upgrader.errors import ConfigError

__all__ = ["group_has_hosts", "is_vault"]

_VAULT = b"$ANSIBLE_VAULT;"


def is_vault(path: Path) -> bool:
    """Whether a file as a whole is encrypted by Ansible."""
    with path.open("rb") as file:
        return file.read(len(_VAULT)) == _VAULT


def group_has_hosts(path: Path, group: str) -> bool:
    """Whether a host is in a group, or in one of its children. Raises ConfigError for what is no YAML inventory."""
    found = read_any(path)
    if not isinstance(found, Mapping):
        raise ConfigError(f"{shown(path)}:1: expected groups of hosts, as `controllers: {{hosts: {{NAME: {{}}}}}}`")
    members: dict[str, list[tuple[Any, tuple[str, ...]]]] = {}
    for name, hosts, children in _members(path, found):
        members.setdefault(name, []).append((hosts, children))
    wanted, waiting = {group}, [group]
    while waiting:
        for hosts, children in members.get(waiting.pop(), ()):
            if hosts:
                return True
            new = set(children) - wanted
            wanted |= new
            waiting += new
    return False


def _members(path: Path, groups: Mapping[str, Any]) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Each group, as often as it is written down, with its hosts and the names of its children."""
    for name, group in groups.items():
        content = {} if group is None else group
        children = (content.get("children") or {}) if isinstance(content, Mapping) else None
        if not isinstance(children, Mapping):
            raise ConfigError(f"{shown(path)}: group '{name}', or its `children`, is no mapping")
        yield str(name), content.get("hosts"), tuple(map(str, children))
        yield from _members(path, children)
