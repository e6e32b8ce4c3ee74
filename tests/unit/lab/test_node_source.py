"""The folder of programs from which a node is upgraded."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from upgrader.lab import built_here
from upgrader.lab import node_source as module
from upgrader.lab.progress_port import Silent


def test_programs_and_their_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The three programs have their usual names and take no space of their own; the variables say what is in them."""
    built = tmp_path / "built" / "v1.37.1-abc"
    built.mkdir(parents=True)
    (built / "kubernetes").write_text("all in one")
    (built / "kubeadm").write_text("kubeadm")
    monkeypatch.setattr(built_here, "kubernetes", lambda version, progress: built)
    monkeypatch.setattr(module, "cache_root", lambda: tmp_path)

    source = module.node_source("v1.37.1", Silent())
    assert source == module.node_source("v1.37.1", Silent())
    assert {path.name for path in source.folder.iterdir()} == {"kubelet", "kubeadm", "kubectl", "SHA256SUMS"}
    assert (source.folder / "kubelet").samefile(built / "kubernetes")
    for name, digest in source.sha256.items():
        assert hashlib.sha256((source.folder / name).read_bytes()).hexdigest() == digest
    assert source.variables() == {
        "node_kubernetes_version": "v1.37.1",
        "node_source": {"kind": "folder", "path": str(source.folder), "sha256": dict(source.sha256)},
    }
