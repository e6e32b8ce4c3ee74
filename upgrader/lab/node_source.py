"""What a node's upgrade needs: a folder with kubelet, kubeadm and kubectl of one version, and their SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from upgrader.lab.build_cache import built, cache_root
from upgrader.lab.built_here import BuiltHere
from upgrader.lab.origin import Origin
from upgrader.lab.progress_port import LabProgress

__all__ = ["NodeSource", "node_source"]

_SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class NodeSource:
    """A folder with the programs of a version of Kubernetes; `sha256` by their names."""

    version: str
    folder: Path
    sha256: Mapping[str, str]

    def variables(self) -> dict[str, object]:
        """The variables of playbooks/upgrade-node.yml."""
        source = {"kind": "folder", "path": str(self.folder), "sha256": dict(self.sha256)}
        return {"node_kubernetes_version": self.version, "node_source": source}


def node_source(version: str, progress: LabProgress, origin: Origin | None = None) -> NodeSource:
    """The programs of a version, from `origin` or else built here; the folder takes no extra space."""
    programs = (origin or BuiltHere(progress)).programs(version)

    def build(target: Path) -> None:
        target.mkdir()
        for name, program in programs.files.items():
            (target / name).hardlink_to(program)
        sums = (f"{_sha256(target / name)}  {name}\n" for name in programs.files)
        (target / _SUMS).write_text("".join(sums))

    folder = built(cache_root() / "node-source" / programs.key, build)
    lines = (line.split() for line in (folder / _SUMS).read_text().splitlines())
    return NodeSource(version, folder, {name: digest for digest, name in lines})


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
