"""A node whose kubelet, kubeadm, kubectl and containerd are Debian packages."""

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
from upgrader.lab.debian import node_root
from upgrader.lab.existing_labs import find
from upgrader.lab.node_source import node_source
from upgrader.lab.progress_port import Silent

_STATE = (
    "dpkg-query --show --showformat='${Package} ${Version} ${db:Status-Want}\\n' kubelet kubeadm kubectl containerd"
)
_NEWER = "1.6.20~ds1-99"
"""A version of containerd's package, with the same containerd in it."""


@pytest.fixture
def repository(upgraded_cluster: LabCluster, tmp_path: Path) -> Iterator[str]:
    """The address of an apt repository with the packages of both versions; the cluster is restored afterwards."""
    index = [_package(tmp_path, version, name) for version in (OLD, TARGET) for name in _names(version)]
    installed = upgraded_cluster.on_controller("dpkg-query", "--show", "--showformat=${Version}", "containerd").strip()
    files = upgraded_cluster.on_controller("dpkg-query", "--listfiles", "containerd").split()
    index += [_containerd(tmp_path, version, files) for version in (installed, _NEWER)]
    (tmp_path / "Packages").write_text("\n".join(index))
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
    return _built(folder, root, name, f"{version[1:]}-1.1")


def _containerd(folder: Path, version: str, files: list[str]) -> str:
    """The same of the package that a lab's nodes have, under that version."""
    root = folder / f"containerd-{version}"
    for path in files:
        source, target = Path(f"{node_root(Silent())}{path}"), Path(f"{root}{path}")
        if source.is_file() and not path.startswith("/etc/"):  # its configuration is the lab's own
            target.parent.mkdir(parents=True, exist_ok=True)
            run(["cp", "--reflink=auto", str(source), str(target)], check=True)
    return _built(folder, root, "containerd", version)


def _built(folder: Path, root: Path, name: str, version: str) -> str:
    control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: t <t@t>\nDescription: t\n"
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(control)
    package = folder / f"{name}_{version}_amd64.deb"
    run(["dpkg-deb", "-Znone", "--build", str(root), str(package)], check=True, capture_output=True)
    with package.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return f"{control}Filename: ./{package.name}\nSize: {package.stat().st_size}\nSHA256: {digest}\n"


def test_packages_are_upgraded_pinned_held_and_put_back(upgraded_cluster: LabCluster, repository: str) -> None:
    """The node gets the new packages, held; then it has exactly the old ones again, held as they were; and containers
    run on meanwhile."""
    shell = functools.partial(upgraded_cluster.on_controller, "sh", "-c")
    wanted = " ".join(f"{name}={OLD[1:]}-1.1" for name in _names(OLD))
    shell(f"rm -f /etc/apt/sources.list.d/*; echo 'deb [trusted=yes] {repository} ./' > /etc/apt/sources.list")
    shell(
        f"apt-get update -qq && apt-get install -y -qq {wanted} && apt-mark hold kubelet && systemctl restart kubelet"
    )
    before = shell(_STATE)
    assert f"kubelet {OLD[1:]}-1.1 hold" in before and f"kubectl {OLD[1:]}-1.1 install" in before

    node = NodePlaybooks(upgraded_cluster)
    etcd = shell("pidof etcd")
    node.variables["node_source"] = {"kind": "packages"}
    node.variables["node_container_runtime"] = {"version": _NEWER, "source": {"kind": "packages"}}
    node.succeed("upgrade-node")
    upgraded = "".join(f"{name} {TARGET[1:]}-1.1 hold\n" for name in ("kubeadm", "kubectl", "kubelet"))
    assert shell(_STATE) == f"containerd {_NEWER} hold\n{upgraded}"
    assert f"Pin: version {TARGET[1:]}-*" in shell("cat /etc/apt/preferences.d/kubernetes-upgrader")
    assert "changed=0" in node.succeed("upgrade-node")

    node.succeed("restore-node")
    assert (shell(_STATE), shell("pidof etcd")) == (before, etcd)
    assert shell("ls /etc/apt/preferences.d").strip() == ""
    assert "changed=0" in node.succeed("restore-node")
