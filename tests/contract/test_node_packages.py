"""The role `node` with a real apt and a repository on this machine: what it downloads, and when."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.http_server import Handler, HttpServer, http_server
from tests.unit.playbooks.node_role import task, template

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("apt-get", "dpkg-deb"))), reason="this system has no apt, and its nodes no such packages"
)

OLD, NEW = "1.36.3-1.1", "1.37.1-1.2"
RUNTIME_OLD, RUNTIME_NEW = "1.7.27-1", "1.7.28-1"
DEPENDENCIES = {"kubelet": "kubernetes-cni", "containerd.io": "runc-of-test"}
FACTS: dict[str, Any] = {
    "node_kubernetes_version": "v1.37.1",
    "node_source": {"kind": "packages"},
    "node_machine": {"stdout": "x86_64"},
    "node_to_swap": ["kubelet"],
    "node_installed": {"kubelet": OLD},
    "node_madison": {"stdout": f"kubelet | {NEW} | http://mirror  Packages"},
    "node_keep": [{"key": "kubelet", "value": OLD}, {"key": "containerd.io", "value": RUNTIME_OLD}],
    "node_containerd_package": "containerd.io",
    "node_containerd_installed": {"containerd.io": RUNTIME_OLD},
    "node_container_runtime": {"version": "1.7.28", "source": {"kind": "packages"}},
    "node_containerd_madison": {"stdout": f"containerd.io | {RUNTIME_NEW} | http://mirror  Packages"},
    "node_before": {"point": {}},
    "ansible_check_mode": False,
}
STAGE = (
    ("download_packages", "Download the packages, and extract the programs", "staged"),
    ("runtime_download_package", "Download the new package", "runtime"),
    ("stage_installed_packages", "Download the packages that are installed now", "staged"),
)
SWAP = (
    ("stage_from_packages", "Check whether the packages are staged", "staged"),
    ("runtime_stage_packages", "Check whether containerd's package is staged", "runtime"),
    ("stage_installed_packages", "Download the packages that are installed now", "staged"),
    ("keep_packages", "Keep the packages that are installed now", "restore"),
    ("runtime_put_package", "Install containerd's package", "runtime"),
    ("put_packages", "Install the packages", "staged"),
)
"""Tasks in the order of the role, and the folder of each."""
FOLDERS = ("staged", "runtime", "restore", "stage")


class Node:
    """An apt whose files and installed packages are in a folder of its own."""

    def __init__(self, folder: Path, repository: HttpServer) -> None:
        self._folder = folder
        for each in (*FOLDERS, "lists/partial", "cache/archives/partial", "dpkg/info", "dpkg/updates", "root", "none"):
            (folder / each).mkdir(parents=True)
        for each in ("status", "available"):
            (folder / "dpkg" / each).touch()
        (folder / "sources.list").write_text(f"deb [trusted=yes] {repository.url}/ ./\n")
        settings = {
            "Dir::State": folder,
            "Dir::State::status": folder / "dpkg/status",
            "Dir::State::lists": folder / "lists",
            "Dir::Cache": folder / "cache",
            "Dir::Etc::sourcelist": folder / "sources.list",
            **{f"Dir::Etc::{parts}": folder / "none" for parts in ("parts", "sourceparts", "preferencesparts")},
            "Dir::Log": folder,
            "Acquire::http::Proxy": "DIRECT",
            "APT::Architecture": "amd64",
        }
        lines = [f'{key} "{value}";' for key, value in settings.items()]
        options = (f"--admindir={folder}/dpkg", f"--instdir={folder}/root", "--force-not-root", "--log=/dev/null")
        lines += [f'DPkg::Options:: "{option}";' for option in options]
        (folder / "apt.conf").write_text("\n".join(lines))
        self._environment = {**os.environ, "APT_CONFIG": str(folder / "apt.conf"), "DEBIAN_FRONTEND": "noninteractive"}
        self.call(["apt-get", "update"], folder)

    def run(self, tasks: tuple[tuple[str, str, str], ...]) -> None:
        """The shells of tasks, each of which has to succeed."""
        known = {
            **FACTS,
            "node_stage_folder": str(self._folder / "stage"),
            "node_restore_folder": str(self._folder / "restore"),
        }
        for file, name, place in tasks:
            text = template(task(file, name)["ansible.builtin.shell"]["cmd"], **known)
            self.call(["/bin/sh", "-c", text], self._folder / place)

    def call(self, command: list[str], folder: Path) -> None:
        """Run a program as the node would."""
        ended = subprocess.run(command, cwd=folder, env=self._environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"

    def installed(self) -> dict[str, str]:
        """Package → version."""
        shown = ["dpkg-query", f"--admindir={self._folder}/dpkg", "--show"]
        return dict(line.split("\t") for line in subprocess.check_output(shown, text=True).splitlines())


def _built(folder: Path, name: str, version: str) -> str:
    """A package with one program; returns its paragraph of the repository's list."""
    tree = folder / "tree" / f"{name}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin" / name.removesuffix(".io")).write_text(version)
    depends = f"Depends: {DEPENDENCIES[name]}\n" if name in DEPENDENCIES and version in (NEW, RUNTIME_NEW) else ""
    control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: tests\n{depends}Description: it\n"
    (tree / "DEBIAN/control").write_text(control)
    package = folder / f"{name}_{version}_amd64.deb"
    subprocess.run(["dpkg-deb", "--build", str(tree), str(package)], check=True, capture_output=True)
    content = package.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return f"{control}Filename: ./{package.name}\nSize: {len(content)}\nSHA256: {digest}\n"


@pytest.fixture
def asked() -> list[str]:
    """The packages that the repository was asked for."""
    return []


@pytest.fixture
def repository(tmp_path: Path, asked: list[str]) -> Iterator[HttpServer]:
    """The old and the new kubelet and containerd, and what only the new ones depend on."""
    folder = tmp_path / "repository"
    folder.mkdir()
    versions = (("kubelet", OLD), ("kubelet", NEW), ("containerd.io", RUNTIME_OLD), ("containerd.io", RUNTIME_NEW))
    packages = [*versions, *((name, "1.0") for name in DEPENDENCIES.values())]
    (folder / "Packages").write_text("\n".join(_built(folder, *each) for each in packages))

    def answer(handler: Handler) -> None:
        path = folder / handler.path.rpartition("/")[2]
        if path.suffix == ".deb":
            asked.append(path.name)
        handler.reply(*((200, path.read_bytes()) if path.is_file() else (404,)))

    with http_server(answer) as server:
        yield server


def test_drained_node_downloads_nothing(tmp_path: Path, repository: HttpServer, asked: list[str]) -> None:
    """Not the new packages, not what they depend on, and not those that are kept for a rollback: before the drain each
    was downloaded once, in exactly the version that is then installed.
    """
    node = Node(tmp_path / "node", repository)
    node.run(STAGE)
    staged = {f"kubelet_{NEW}", f"kubelet_{OLD}", f"containerd.io_{RUNTIME_NEW}", f"containerd.io_{RUNTIME_OLD}"}
    expected = staged | {f"{name}_1.0" for name in DEPENDENCIES.values()}
    assert sorted(asked) == sorted(f"{each}_amd64.deb" for each in expected)
    asked.clear()
    node.run(SWAP)
    assert asked == []
    assert node.installed() == {
        "kubelet": NEW,
        "containerd.io": RUNTIME_NEW,
        **dict.fromkeys(DEPENDENCIES.values(), "1.0"),
    }
    kept = {path.name for path in (tmp_path / "node/restore/packages").iterdir()}
    assert kept == {f"kubelet_{OLD}_amd64.deb", f"containerd.io_{RUNTIME_OLD}_amd64.deb"}
