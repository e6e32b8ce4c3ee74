"""A node whose kubelet, kubeadm and kubectl are Debian packages."""

from __future__ import annotations

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import run

import pytest

from testkit.lab_cluster import OLD, TARGET, LabCluster
from testkit.node_playbooks import NodePlaybooks
from upgrader.lab.node_source import node_source
from upgrader.lab.progress_port import Silent
from upgrader.lab.registry import find

_STATE = "dpkg-query --show --showformat='${Package} ${Version} ${db:Status-Want}\\n' kubelet kubeadm kubectl"


@pytest.fixture
def repository(upgraded_cluster: LabCluster, tmp_path: Path) -> Iterator[str]:
    """The address of an apt repository with the packages of both versions; the cluster is restored afterwards."""
    index = "\n".join(_package(tmp_path, version, name) for version in (OLD, TARGET) for name in _names(version))
    (tmp_path / "Packages").write_text(index)
    placement = find(upgraded_cluster.name)
    assert placement is not None
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer((placement.gateway, 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{placement.gateway}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        upgraded_cluster.restore()


def _names(version: str) -> list[str]:
    return sorted(node_source(version, Silent()).sha256)


def _package(folder: Path, version: str, name: str) -> str:
    """Make a package, and return its paragraph of the index."""
    root = folder / f"{name}-{version}"
    (root / "usr/bin").mkdir(parents=True)
    run(["cp", "--reflink=auto", str(node_source(version, Silent()).folder / name), str(root / "usr/bin")], check=True)
    control = f"Package: {name}\nVersion: {version[1:]}-1.1\nArchitecture: amd64\nMaintainer: t <t@t>\nDescription: t\n"
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(control)
    package = folder / f"{name}_{version[1:]}-1.1_amd64.deb"
    run(["dpkg-deb", "-Znone", "--build", str(root), str(package)], check=True, capture_output=True)
    with package.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return f"{control}Filename: ./{package.name}\nSize: {package.stat().st_size}\nSHA256: {digest}\n"


def test_packages_are_upgraded_pinned_held_and_put_back(upgraded_cluster: LabCluster, repository: str) -> None:
    """The node gets the new packages, held; then it has exactly the old ones again, held as they were."""
    shell = functools.partial(upgraded_cluster.on_controller, "sh", "-c")
    wanted = " ".join(f"{name}={OLD[1:]}-1.1" for name in _names(OLD))
    shell(f"rm -f /etc/apt/sources.list.d/*; echo 'deb [trusted=yes] {repository} ./' > /etc/apt/sources.list")
    shell(
        f"apt-get update -qq && apt-get install -y -qq {wanted} && apt-mark hold kubelet && systemctl restart kubelet"
    )
    before = shell(_STATE)
    assert f"kubelet {OLD[1:]}-1.1 hold" in before and f"kubectl {OLD[1:]}-1.1 install" in before

    node = NodePlaybooks(upgraded_cluster)
    node.variables["node_source"] = {"kind": "packages"}
    node.succeed("upgrade-node")
    assert shell(_STATE) == "".join(f"{name} {TARGET[1:]}-1.1 hold\n" for name in ("kubeadm", "kubectl", "kubelet"))
    assert f"Pin: version {TARGET[1:]}-*" in shell("cat /etc/apt/preferences.d/kubernetes-upgrader")
    assert "changed=0" in node.succeed("upgrade-node")

    node.succeed("restore-node")
    assert shell(_STATE) == before
    assert shell("ls /etc/apt/preferences.d").strip() == ""
    assert "changed=0" in node.succeed("restore-node")
