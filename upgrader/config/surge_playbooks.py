"""The playbooks that `nodes.pools[].surge` names are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from upgrader.config.nodes_yaml import NodesSection
from upgrader.config.untrusted_folder import NotOpened, UntrustedFolder
from upgrader.config.yaml_document import Document, KeyPath, shown
from upgrader.errors import ConfigError

__all__ = ["surge_problems"]


def surge_problems(
    section: NodesSection, folder: Path, document: Document, guard: UntrustedFolder | None
) -> Iterator[ConfigError]:
    """The problem of each, with the place that names it. With a `guard`, only files that it allows are checked."""
    for index, pool in enumerate(section.pools):
        for key in ("add", "remove") if pool.surge else ():
            where: KeyPath = ("nodes", "pools", index, "surge", key)
            path = folder / getattr(pool.surge, key)
            try:
                if guard:
                    guard.check(path)
                if not path.is_file():
                    text = f"'nodes.pools.surge.{key}' names no playbook: there is no file {shown(path)}"
                    yield document.error(where, text)
            except NotOpened as error:
                yield error.named_in(f"{shown(document.path)}:{document.line(where)}")
