"""Static pods of others among the kubelet's manifests, such as kubeadm's.

Where one has the name of a workload, it takes that workload's place on this node: a standby pod beside it would compete
for its port, and for the API's data with an older version.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from upgrader.contract.checkpoints import MANIFEST_PREFIX
from upgrader.onhost.node.disk_layout import is_foreign
from upgrader.onhost.node.workload_policy import Workload

_Stamp = tuple[int, int, int]


@dataclass
class StaticManifests:
    """Reads the folder; a file is read again only after it was touched."""

    folder: Path
    _read: dict[Path, tuple[_Stamp, Workload | None]] = field(default_factory=dict)

    def workloads(self) -> frozenset[Workload]:
        """The pods that others have put there, by namespace and name. One that can't be read is none: it doesn't run
        either.
        """
        found: dict[Path, tuple[_Stamp, Workload | None]] = {}
        try:
            paths = [path for path in self.folder.iterdir() if not path.name.startswith(".")]
        except OSError:
            paths = []
        for path in paths:
            try:
                status = path.stat()
                stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
                known = self._read.get(path)
                found[path] = known if known is not None and known[0] == stamp else (stamp, _pod(path))
            except OSError:
                continue
        self._read = found
        return frozenset(workload for _, workload in found.values() if workload is not None)


def _pod(path: Path) -> Workload | None:
    content = path.read_bytes()
    try:
        if path.name.startswith(MANIFEST_PREFIX) and not is_foreign(content):
            return None
        pod = json.loads(content) if content.lstrip().startswith(b"{") else yaml.safe_load(content)
        if pod["kind"] != "Pod":
            return None
        return Workload(str(pod["metadata"].get("namespace") or "default"), str(pod["metadata"]["name"]))
    except (ValueError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        return None
