"""Packages of a node: each repository is asked once for an upgrade, before the node is drained."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.node_role import complaint, task, tasks, template

NAMES = ["kubelet", "kubeadm", "kubectl"]
MADISON = "\n".join(
    f"{name:>10} | {version} | https://pkgs.k8s.io/core:/stable:/v1.37/deb  Packages"
    for name in NAMES
    for version in ("1.37.10-1.1", "1.37.1-1.2", "1.37.1-1.1", "1.36.3-1.1")
)
FACTS: dict[str, Any] = {
    "node_kubernetes_version": "v1.37.1",
    "node_source": {"kind": "packages"},
    "node_machine": {"stdout": "x86_64"},
    "node_to_swap": NAMES,
    "node_installed": dict.fromkeys(NAMES, "1.36.3-1.1"),
    "node_madison": {"stdout": MADISON},
    "node_keep": [{"key": name, "value": "1.36.3-1.1"} for name in NAMES],
    "ansible_check_mode": False,
}
_APT = """#!/bin/sh
echo "apt-get $*" >> "$LOG"
case "$*" in *--download-only*) test ! -e "$LOG.locked" && echo cni > kubernetes-cni_1.8.0-1.1_amd64.deb; exit ;; esac
case $1 in download|install) ;; *) exit 0 ;; esac
test ! -e "$LOG.stale" || { rm "$LOG.stale"; exit 100; }
test "$1" = download || exit 0
for each; do
  case $each in *::*) ;; *=*) echo "$each" > "${each%%=*}_${each#*=}_amd64.deb" ;; esac
done
"""
_DPKG = """#!/bin/sh
echo "dpkg-deb $*" >> "$LOG"
name=$(echo "${2%%_*}" | sed 's/[.]io$//')
mkdir -p "$3/usr/bin" && echo "program of $2" > "$3/usr/bin/$name"
"""


class Node:
    """A folder of staged programs, with an apt that notes how it is run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, programs = folder / "staged", folder / "log", folder / "bin"
        self.restore = folder / "restore"
        for each in (self.folder, programs, self.restore):
            each.mkdir()
        for name, text in (("apt-get", _APT), ("dpkg-deb", _DPKG)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self._environment = {"PATH": f"{programs}:{os.environ['PATH']}", "LOG": str(self.log)}

    def run(self, file: str, name: str, **facts: Any) -> int:
        """The exit code of a task's shell."""
        folders = {"node_stage_folder": str(self.folder), "node_restore_folder": str(self.restore)}
        shell, known = task(file, name)["ansible.builtin.shell"], {**FACTS, **folders, **facts}
        place = self.restore if shell.get("chdir") == "{{ node_restore_folder }}" else self.folder
        text = template(shell["cmd"], **known)
        return subprocess.run(["/bin/sh", "-c", text], cwd=place, env=self._environment, check=False).returncode

    def said(self) -> list[str]:
        """How apt was run since this was last asked."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines

    def download(self) -> int:
        """As `stage-node.yml`."""
        return self.run("download_packages", "Download the packages, and extract the programs")

    def staged(self, **facts: Any) -> bool:
        """What `upgrade-node.yml` finds."""
        return self.run("stage_from_packages", "Check whether the packages are staged", **facts) == 0


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """With nothing staged."""
    return Node(tmp_path)


def test_all_packages_are_downloaded_at_once(node: Node) -> None:
    """One process of apt, with the newest revision of the version: 1.37.10 is another one."""
    (node.folder / "kubelet_1.37.1-1.0_amd64.deb").touch()  # an earlier revision, which must not be installed beside it
    assert node.download() == 0
    wanted = " ".join(f"{name}=1.37.1-1.2" for name in NAMES)
    first, *others, last = node.log.read_text().splitlines()
    assert first == f"apt-get download --quiet -o APT::Sandbox::User=root {wanted}"
    assert len(others) == 3 and all(line.startswith("dpkg-deb --extract") for line in others)
    assert last.startswith("apt-get install") and "--download-only" in last
    packages = {f"{name}_1.37.1-1.2_amd64.deb" for name in NAMES} | {"kubernetes-cni_1.8.0-1.1_amd64.deb"}
    assert {path.name for path in node.folder.iterdir()} == {*NAMES, *packages, "packages.sha256"}
    assert (node.folder / "kubelet").read_text() == "program of kubelet_1.37.1-1.2_amd64.deb\n"


def test_staged_packages_are_not_downloaded_again(node: Node) -> None:
    """By the time of the upgrade the node is drained: nothing waits for a repository."""
    assert not node.staged()
    node.download()
    assert node.staged() and node.staged(node_to_swap=["kubelet"])
    condition = task("stage_from_packages", "Get the packages")["when"]
    asked = [
        template("{{ " + condition + " }}", **FACTS, node_packages_staged=found) for found in ({"rc": 0}, {"rc": 1})
    ]
    assert asked == [False, True]
    assert template("{{ " + condition + " }}", **FACTS, node_packages_staged={"skipped": True}), "check mode"


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5])


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: _cut(folder / "kubeadm_1.37.1-1.2_amd64.deb"),
        lambda folder: (folder / "kubectl").unlink(),
        lambda folder: (folder / "packages.sha256").write_text(""),
        lambda folder: (folder / "packages.sha256").unlink(),
    ],
)
def test_what_was_interrupted_is_downloaded_again(node: Node, damage: Callable[[Path], object]) -> None:
    """A node that lost power may have a part of a file, or empty files, or none."""
    node.download()
    damage(node.folder)
    assert not node.staged()
    assert node.download() == 0 and node.staged()


@pytest.mark.parametrize("facts", [{"node_to_swap": [*NAMES, "cri-tools"]}, {"node_kubernetes_version": "v1.37.10"}])
def test_other_packages_are_not_staged(node: Node, facts: dict[str, Any]) -> None:
    """One more than was staged; and another version whose name begins like this one's."""
    node.download()
    assert not node.staged(**facts)


def test_download_that_fails_stages_nothing(node: Node) -> None:
    """The repository is away."""
    Path(f"{node.log}.stale").touch()
    assert node.download() != 0
    assert not node.staged()


def test_dependencies_that_apt_cannot_resolve_now_are_left_to_the_installation(node: Node) -> None:
    """Another process has apt's lock, or an interrupted run has left dpkg in the middle, which only the swap ends."""
    Path(f"{node.log}.locked").touch()
    assert node.download() == 0 and node.staged()


def test_installed_packages_are_downloaded_once_before_the_drain(node: Node) -> None:
    """By `stage-node.yml`; the swap copies them to the restore point. Only lists that are too old are updated."""
    staged = "stage_installed_packages", "Download the packages that are installed now"
    packages = " ".join(f"{each}=1.36.3-1.1" for each in NAMES)
    download = f"apt-get download --quiet -o APT::Sandbox::User=root {packages}"
    assert node.run(*staged) == 0 and node.said() == [download]
    before: dict[str, Any] = {"node_before": {"point": {}}}
    assert node.run(*staged) == 0
    assert node.run("keep_packages", "Keep the packages that are installed now", **before) == 0
    assert node.said() == [], "while the node is drained, apt isn't asked"
    kept = {path.name for path in (node.restore / "packages").iterdir()}
    assert kept == {f"{name}_1.36.3-1.1_amd64.deb" for name in NAMES}
    next((node.folder / "installed").glob("kubelet_*")).write_text("")  # by a power cut
    Path(f"{node.log}.stale").touch()
    assert node.run(*staged) == 0
    assert node.said() == [download, "apt-get update --quiet -o Acquire::Retries=3", download]


@pytest.mark.parametrize(("state", "stays"), [("done", False), ("swapping", True)])
def test_packages_of_an_interrupted_swap_stay(node: Node, state: str, stays: bool) -> None:
    """Its rollback needs them, while those of an earlier upgrade are removed."""
    node.run("stage_installed_packages", "Download the packages that are installed now")
    (node.restore / "packages").mkdir()
    (node.restore / "packages/kubelet_1.35.9-1.1_amd64.deb").touch()
    before = {"node_before": {"point": {"state": state}}}
    assert node.run("keep_packages", "Keep the packages that are installed now", **before) == 0
    assert (node.restore / "packages/kubelet_1.35.9-1.1_amd64.deb").exists() is stays


@pytest.mark.parametrize("name", ["stage", "swap"])
def test_packages_are_staged_where_they_are_needed(name: str) -> None:
    """The playbook before the drain does all that downloads; that of the swap repeats it where it is not there."""
    includes = [each.get("ansible.builtin.include_tasks") for each in tasks(name)]
    installed = "stage_installed_packages.yml" if name == "stage" else "keep_packages.yml"
    assert {"stage_programs.yml", "runtime_stage.yml", installed} <= set(includes)


@pytest.mark.parametrize(
    ("item", "installed", "complains"),
    [("kubelet", "1.36.3-1.1", False), ("kubelet", "1.36.2-1.1", True), ("cri-tools", "1.36.3-1.1", True)],
)
def test_both_versions_have_to_be_there(item: str, installed: str, complains: bool) -> None:
    """Of this package: another one's version is none of it."""
    said = complaint(
        "download_packages",
        "Check that the repositories have the new and the installed version",
        **{**FACTS, "item": item, "node_installed": {item: installed}},
    )
    assert (f"apt lacks the package {item} 1.37.1-*" in said) == complains


@pytest.mark.parametrize(("found", "updates"), [({"rc": 0}, False), ({"skipped": True}, True), (None, True)])
def test_lists_of_packages_are_updated_once_in_a_playbook(found: dict[str, Any] | None, updates: bool) -> None:
    """For the kubelet's packages and containerd's."""
    condition = task("runtime_download_package", "Update the lists of packages")["when"]
    facts = {**FACTS, **({"node_lists": found} if found else {})}
    assert template("{{ " + condition + " }}", **facts) is updates


@pytest.mark.parametrize(("version", "installed"), [("1.37.1-1", "1.36.3-0"), ("1.37.1-1.1", "1.36.3-1.1")])
def test_short_version_is_found(node: Node, version: str, installed: str) -> None:
    """`apt-cache madison` pads versions to ten characters, such as those of a mirror that builds its own packages."""
    rows = (f"{name:>10} | {each:>10} | https://mirror  Packages" for name in NAMES for each in (version, installed))
    facts = {"node_madison": {"stdout": "\n".join(rows)}, "node_installed": dict.fromkeys(NAMES, installed)}
    check = "Check that the repositories have the new and the installed version"
    assert all(complaint("download_packages", check, **{**FACTS, **facts, "item": name}) == "" for name in NAMES)
    assert node.run("download_packages", "Download the packages, and extract the programs", **facts) == 0
    assert node.log.read_text().splitlines()[0].endswith(" ".join(f"{name}={version}" for name in NAMES))


CONTAINERD: dict[str, Any] = {
    "node_containerd_package": "containerd.io",
    "node_containerd_installed": {"containerd.io": "1.7.27-1"},
    "node_container_runtime": {"version": "1.7.28", "source": {"kind": "packages"}},
    "node_containerd_madison": {
        "stdout": "containerd.io |   1.7.28-1 | https://mirror  Packages\n"
        "containerd.io |   1.7.27-1 | https://mirror  Packages"
    },
}


def test_short_version_of_containerd_is_found() -> None:
    """As `containerd.io` of Docker's repository has one."""
    check = "Check that the repositories have the new and the installed version"
    assert complaint("runtime_download_package", check, **{**FACTS, **CONTAINERD}) == ""
    download = template(
        task("runtime_download_package", "Download the new package")["ansible.builtin.shell"]["cmd"],
        **{**FACTS, **CONTAINERD},
    )
    assert "containerd.io=1.7.28-1 " in " ".join(download.split()) + " "


def test_package_of_containerd_is_downloaded_once_before_the_drain(node: Node) -> None:
    """Of exactly the version that is installed; what was interrupted, or is of another version, is downloaded again."""
    check = "runtime_stage_packages", "Check whether containerd's package is staged"
    download = "runtime_download_package", "Download the new package"
    assert node.run(*check, **CONTAINERD) != 0
    assert node.run(*download, **CONTAINERD) == 0
    first, _, last = node.said()
    assert first == "apt-get download --quiet -o APT::Sandbox::User=root containerd.io=1.7.28-1"
    assert last.startswith("apt-get install") and "--download-only" in last and "--no-remove" in last
    assert node.run(*check, **CONTAINERD) == 0
    condition = task("runtime_stage_packages", "Get the package")["when"]
    asked = [
        template("{{ " + condition + " }}", **FACTS, node_containerd_package_staged=found)
        for found in ({"rc": 0}, {"rc": 1}, {"skipped": True})
    ]
    assert asked == [False, True, True]
    assert node.run(*check, **{**CONTAINERD, "node_container_runtime": {"version": "1.7.2"}}) != 0
    (node.folder / "bin/containerd").write_text("")
    assert node.run(*check, **CONTAINERD) != 0
    assert node.run(*download, **CONTAINERD) == 0 and node.run(*check, **CONTAINERD) == 0


@pytest.mark.parametrize(
    ("file", "name", "facts"),
    [
        ("put_packages", "Install the packages", {}),
        ("runtime_put_package", "Install containerd's package", CONTAINERD),
    ],
)
def test_installation_takes_packages_from_where_they_are_staged(
    node: Node, file: str, name: str, facts: dict[str, Any]
) -> None:
    """apt downloads the package of a file again that a repository has too, unless it is in apt's folder of archives."""
    assert node.run(file, name, **facts) == 0
    (install,) = node.said()
    assert install.startswith("apt-get install") and f"-o Dir::Cache::archives={node.folder} " in install


def test_installation_updates_lists_that_are_too_old_for_a_dependency(node: Node) -> None:
    """What the new packages depend on isn't staged, and an upgrade no longer updates the lists before it."""
    name, update = "Install the packages", "apt-get update --quiet -o Acquire::Retries=3"
    node.download()
    node.log.unlink()
    assert node.run("put_packages", name) == 0
    (install,) = node.log.read_text().splitlines()
    assert install.startswith("apt-get install") and "./kubelet_1.37.1-1.2_amd64.deb" in install
    Path(f"{node.log}.stale").touch()
    assert node.run("put_packages", name) == 0
    assert node.log.read_text().splitlines()[1:] == [install, update, install]


def test_simulated_installation_updates_nothing(node: Node) -> None:
    """Check mode changes nothing, so that the lists stay as they are."""
    Path(f"{node.log}.stale").touch()
    assert node.run("put_packages", "Install the packages", ansible_check_mode=True) != 0
    (install,) = node.log.read_text().splitlines()
    assert install.endswith("--simulate") and "kubelet=1.37.1-*" in install
