"""The paths of checkpoints on a node, and the owner of a static manifest.

::

    <root>/manifests/checkpoint-<namespace>.<name>.json                      the standby pod's manifest, while active
           checkpointer/workloads/<namespace>.<name>/generations/<number>/   see `generation`
                                                     failed.json             generations that didn't stay up
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from upgrader.contract.checkpoints import CHECKPOINT_OF, MANIFEST_PREFIX
from upgrader.onhost.node.workload_policy import Workload

KUBE_APISERVER = Workload("kube-system", "kube-apiserver")
"""The workload whose standby pod restores the API."""


@dataclass(frozen=True)
class Layout:
    """The paths. `root` must be one mount, as files are put in place by renaming them."""

    root: Path = Path("/etc/kubernetes")

    @property
    def folder(self) -> Path:
        """Where everything but the active manifests lies."""
        return self.root / "checkpointer"

    @property
    def manifests(self) -> Path:
        """Where the kubelet reads static pods."""
        return self.root / "manifests"

    @property
    def workloads_folder(self) -> Path:
        """One folder for each workload."""
        return self.folder / "workloads"

    def workloads(self) -> list[Workload]:
        """Those on disk. Raises OSError."""
        folder = self.workloads_folder
        names = sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.exists() else []
        # A namespace has no dots, so the name is unambiguous; a name that starts with one is an unfinished thing.
        return [Workload(*name.split(".", 1)) for name in names if "." in name and not name.startswith(".")]

    def workload_folder(self, workload: Workload) -> Path:
        """Everything of one workload but its active manifest."""
        return self.workloads_folder / f"{workload.namespace}.{workload.name}"

    def generations(self, workload: Workload) -> Path:
        """The folder with one folder for each generation, named by its number."""
        return self.workload_folder(workload) / "generations"

    def generation(self, workload: Workload, number: int) -> Path:
        """The folder of one generation."""
        return self.generations(workload) / str(number)

    def numbers(self, workload: Workload) -> list[int]:
        """The generations on disk, damaged ones too, oldest first. Raises OSError."""
        folder = self.generations(workload)
        return (
            sorted(int(p.name) for p in folder.iterdir() if p.name.isascii() and p.name.isdigit())
            if folder.is_dir()
            else []
        )

    def failed_path(self, workload: Workload) -> Path:
        """The file with the generations that are marked as failed."""
        return self.workload_folder(workload) / "failed.json"

    def manifest_path(self, workload: Workload) -> Path:
        """The one place for a manifest of this workload."""
        return self.manifests / f"{MANIFEST_PREFIX}{workload.namespace}.{workload.name}.json"


def is_foreign(manifest: bytes) -> bool:
    """Whether a file at a standby pod's path isn't ours: it parses and lacks our label.

    One that doesn't parse is ours, damaged. A foreign one is never touched.
    """
    try:
        labels = json.loads(manifest)["metadata"].get("labels") or {}
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return CHECKPOINT_OF not in labels
