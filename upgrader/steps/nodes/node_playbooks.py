"""The built-in playbooks that change the programs of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from upgrader.errors import PlaybookError, StepFailed
from upgrader.model.node_configuration import NO_CONFIGURATION, NodeConfiguration
from upgrader.model.node_settings import NodeSource
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Playbooks

__all__ = ["RESTORE", "STAGE", "UPGRADE", "NodePlaybooks"]

STAGE, UPGRADE, RESTORE = "stage-node.yml", "upgrade-node.yml", "restore-node.yml"

_RESTORE_FOLDER = "/var/lib/upgrader/node-restore"
"""Where a node keeps what it had before."""
_SECONDS = 900.0
"""For one node: a download of 200 MB over a slow line, or packages."""
_FORKS = 5
"""On how many nodes Ansible works at once, unless an ansible.cfg says more."""


@dataclass(frozen=True)
class NodePlaybooks:
    """Each may be repeated from any state."""

    playbooks: Playbooks
    folder: Path
    inventory: Path
    source: NodeSource
    target: KubernetesVersion
    configuration: NodeConfiguration = NO_CONFIGURATION
    fingerprint: str = ""
    """That of the configuration; of an earlier run's, where that is undone."""

    def stage(self, nodes: Sequence[str]) -> None:
        """Bring the new programs to the nodes and verify them; what runs stays. Raises StepFailed."""
        try:
            self._run(STAGE, nodes, self._wanted)
        except PlaybookError as error:
            raise StepFailed(
                f"the new binaries can't be copied to all nodes; nothing was changed: {error.message}",
                remedy=error.remedy or "Check `nodes.source` in upgrader.yaml, and that Ansible can reach the nodes.",
            ) from error

    def upgrade(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """Swap the programs. Returns the nodes on which that failed, with why."""
        return self._problems(UPGRADE, nodes, self._wanted)

    def restore(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """Restore the programs from before the upgrade. Returns the nodes on which that failed, and why."""
        return self._problems(RESTORE, nodes, self._known)

    @property
    def _known(self) -> Mapping[str, Any]:
        known = {"node_kubernetes_version": str(self.target), "node_restore_folder": _RESTORE_FOLDER}
        # Of two upgrades to one version, only the one that is meant is undone.
        return {**known, "node_upgrade_name": f"{self.target}+{self.fingerprint}"} if self.fingerprint else known

    @property
    def _wanted(self) -> Mapping[str, Any]:
        return {**self._known, "node_source": self.source.at(self.target), **self.configuration.variables}

    def _problems(self, playbook: str, nodes: Sequence[str], variables: Mapping[str, Any]) -> Mapping[str, str]:
        try:
            self._run(playbook, nodes, variables)
        except PlaybookError as error:
            # A playbook that was not run at all has failed on each of them.
            told = {name: f"playbook {playbook}: {why}" for name, why in error.hosts.items() if name in nodes}
            return told or dict.fromkeys(nodes, error.message)
        return {}

    def _run(self, playbook: str, nodes: Sequence[str], variables: Mapping[str, Any]) -> None:
        if nodes:
            self.playbooks.run(
                self.folder / playbook,
                inventory=self.inventory,
                variables=variables,
                limit=",".join(nodes),
                timeout_seconds=_SECONDS * ceil(len(nodes) / _FORKS),
            )
