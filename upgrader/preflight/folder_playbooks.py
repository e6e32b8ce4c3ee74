"""Offline: playbooks are lists of plays, as far as YAML alone tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from upgrader.config.inventory_text import is_vault
from upgrader.config.yaml_document import read_any, shown
from upgrader.errors import ConfigError
from upgrader.model.finding import Finding
from upgrader.model.settings import PlaybookSettings, Settings
from upgrader.preflight.folder_context import FolderContext, NotAsked
from upgrader.preflight.folder_files import as_finding

__all__ = ["check_playbooks"]

_PLAYS = ("hosts", "import_playbook", "ansible.builtin.import_playbook", "ansible.legacy.import_playbook")


def check_playbooks(context: FolderContext) -> Iterator[Finding | NotAsked]:
    """Each playbook of the pipeline, what undoes it, and those of surges; roles and files that these include are not
    looked for.
    """
    found = list(dict.fromkeys(_named(context.reading.settings))) if context.reading.settings else []
    for path in found:
        try:
            if is_vault(path):
                yield NotAsked("playbooks", f"{shown(path)}: it is encrypted, and no vault is opened")
            else:
                _check_plays(path, read_any(path))
        except ConfigError as error:
            yield as_finding(error)
    if found:
        yield NotAsked("playbooks", "what their tasks, roles and included files do: Ansible is not started")


def _named(settings: Settings) -> Iterator[Path]:
    for step in settings.pipeline:
        if isinstance(step, PlaybookSettings):
            yield step.playbook
            yield from (step.undo,) if step.undo else ()
    for pool in settings.nodes.pools if settings.nodes else ():
        if pool.surge is not None:
            yield from (pool.surge.add, pool.surge.remove)


def _check_plays(path: Path, found: Any) -> None:
    if not isinstance(found, list):
        raise ConfigError(f"{shown(path)}:1: a playbook is a list of plays")
    for number, play in enumerate(found, 1):
        if not isinstance(play, Mapping) or not any(key in play for key in _PLAYS):
            raise ConfigError(f"{shown(path)}: play {number} of it has no key 'hosts' or 'import_playbook'")
