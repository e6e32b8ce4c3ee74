"""Inventories that run code: programs and configurations of plugins, refused without `cluster.dynamicInventory`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from upgrader.config.yaml_document import root_keys, shown
from upgrader.errors import ConfigError

__all__ = ["ALLOW", "check_static"]

ALLOW = "If you trust its authors, set `cluster.dynamicInventory: true` in upgrader.yaml."
"""What to do where an inventory runs code."""


def check_static(inventory: Path) -> None:
    """Refuse an inventory that Ansible would execute, or load a plugin for. Raises ConfigError."""
    for path in _sources(inventory):
        if os.access(path, os.X_OK):
            raise ConfigError(
                f"{shown(path)}: the inventory is executable, so Ansible would run it as a program",
                remedy=f"If it isn't one: chmod -x {shown(path)}. {ALLOW}",
            )
        if path.suffix in (".yml", ".yaml", ".json") and _names_plugin(path):
            raise ConfigError(
                f"{shown(path)}: the inventory is the configuration of a plugin, which can run code", remedy=ALLOW
            )


def _sources(inventory: Path) -> Iterator[Path]:
    """The files that Ansible would read: those of a folder but for the variables'."""
    if not inventory.is_dir():
        yield inventory
        return
    for path in sorted(inventory.iterdir()):
        if path.is_dir() and path.name not in ("group_vars", "host_vars"):
            yield from _sources(path)
        elif path.is_file():
            yield path


def _names_plugin(path: Path) -> bool:
    """As Ansible reads it: JSON, or else YAML. Raises ConfigError for anything else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return "plugin" in root_keys(path)
    return isinstance(found, dict) and "plugin" in found
