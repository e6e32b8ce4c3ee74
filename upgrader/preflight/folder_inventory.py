"""Offline: the inventory exists, runs nothing without leave, and has controllers, as far as YAML alone tells."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.config.dynamic_inventory import check_static
from upgrader.config.inventory import CONTROLLER_GROUPS, check_exists, no_controllers
from upgrader.config.inventory_text import YAML_SUFFIXES, is_vault, written_names
from upgrader.config.yaml_document import shown
from upgrader.errors import ConfigError
from upgrader.model.finding import Finding
from upgrader.preflight.folder_context import FolderContext, NotAsked
from upgrader.preflight.folder_files import as_finding

__all__ = ["check_inventory"]


def check_inventory(context: FolderContext) -> Iterator[Finding | NotAsked]:
    """Ansible is not started: it would load plugins, render variables and open vaults."""
    settings = context.reading.settings
    if settings is None or not context.reading.inventory_named:
        yield NotAsked("inventory", "upgrader.yaml doesn't give its path")
        return
    path = settings.inventory
    name = shown(path)
    try:
        context.guard.check_tree(path)
        check_exists(path)
        if settings.dynamic_inventory:
            yield NotAsked(
                "inventory", f"{name}: `cluster.dynamicInventory` lets it run code, and offline, no code is run"
            )
            return
        check_static(path)
        if path.is_file() and is_vault(path):
            yield NotAsked("inventory", f"{name}: it is encrypted with Ansible Vault, which isn't opened offline")
        elif path.suffix not in YAML_SUFFIXES:
            yield NotAsked("inventory", f"{name}: it is not a YAML file, so only Ansible can read it")
        elif not written_names(path).groups.intersection(CONTROLLER_GROUPS):
            yield as_finding(no_controllers(path))
        else:
            yield NotAsked("inventory", f"{name}: its variables are not rendered, and no vault is opened")
    except ConfigError as error:
        yield as_finding(error)
