"""Offline: playbooks are lists of plays, as far as YAML alone tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from upgrader.config.dynamic_inventory import check_static
from upgrader.config.inventory_text import YAML_SUFFIXES, WrittenNames, is_vault, written_names
from upgrader.config.yaml_document import read_any, shown
from upgrader.errors import ConfigError
from upgrader.model.finding import Finding
from upgrader.model.settings import PlaybookSettings, Settings
from upgrader.preflight.folder_context import FolderContext, NotAsked
from upgrader.preflight.folder_files import as_finding
from upgrader.preflight.playbooks import idle_plays

__all__ = ["check_playbooks"]

_PLAYS = ("hosts", "import_playbook", "ansible.builtin.import_playbook", "ansible.legacy.import_playbook")


def check_playbooks(context: FolderContext) -> Iterator[Finding | NotAsked]:
    """Each playbook of the pipeline, what undoes it, and those of surges; roles and files that these include are not
    looked for.
    """
    names = _names(context)
    found = dict(_named(context.reading.settings)) if context.reading.settings else {}
    for path, of_a_step in found.items():
        try:
            if is_vault(path):
                yield NotAsked(
                    "playbooks", f"{shown(path)}: it is encrypted with Ansible Vault, which isn't opened offline"
                )
            else:
                plays = _plays(path, read_any(path))
                if names is not None and of_a_step:
                    idle = [pattern for pattern in map(_pattern, plays) if pattern and names.nobody(pattern)]
                    yield from idle_plays(path, idle, len(plays))
        except ConfigError as error:
            yield as_finding(error)
    if found:
        yield NotAsked("playbooks", "their tasks, roles and included files: Ansible is not started")


def _named(settings: Settings) -> Iterator[tuple[Path, bool]]:
    """Each with whether it is a step's: a surge's may be for machines that it makes itself."""
    for pool in settings.nodes.pools if settings.nodes else ():
        if pool.surge is not None:
            yield from ((pool.surge.add, False), (pool.surge.remove, False))
    for step in settings.pipeline:
        if isinstance(step, PlaybookSettings):
            yield from ((path, True) for path in (step.playbook, step.undo) if path is not None)


def _plays(path: Path, found: Any) -> list[Mapping[str, Any]]:
    if not isinstance(found, list) or not found:
        raise ConfigError(f"{shown(path)}:1: a playbook must be a list of plays")
    for number, play in enumerate(found, 1):
        if not isinstance(play, Mapping) or not any(key in play for key in _PLAYS):
            raise ConfigError(f"{shown(path)}: play {number} has no key 'hosts' or 'import_playbook'")
    return found


def _pattern(play: Mapping[str, Any]) -> str:
    """The hosts of a play; "" if another playbook sets them."""
    hosts = play.get("hosts")
    return ",".join(map(str, hosts)) if isinstance(hosts, list) else str(hosts or "")


def _names(context: FolderContext) -> WrittenNames | None:
    """The hosts of the inventory; None if YAML alone doesn't show them. Its problems are separate findings."""
    settings = context.reading.settings
    if settings is None or not context.reading.inventory_named or settings.dynamic_inventory:
        return None
    path = settings.inventory
    try:
        context.guard.check_tree(path)
        check_static(path)
        plain = path.suffix in YAML_SUFFIXES and path.is_file() and not is_vault(path)
        names = written_names(path) if plain else None
    except ConfigError:
        return None
    return names if names is not None and "controllers" in names.groups else None
