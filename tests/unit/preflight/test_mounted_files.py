"""Files that were replaced under a running component, told by the script on real files of a made-up machine."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.preflight.conftest import World
from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult
from upgrader.preflight.context import PODS
from upgrader.preflight.mounted_files import check_mounted_files

CERTIFICATE = "/etc/kubernetes/pki/apiserver.crt"


class Machine:
    """A controller's disk and its /proc, with one process of the container `c0ffee`, as real files."""

    def __init__(self, world: World, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "proc" / "4711" / "root"
        self._write(folder / "proc" / "4711" / "cgroup", "0::/kubepods/pod1/cri-containerd-c0ffee.scope\n")
        self._write(folder / "proc" / "1" / "cgroup", "0::/init.scope\n")
        world.hosts.commands["sh"] = self._sh

    def mount(self, path: str, inside: str) -> Path:
        """A file of the controller, which the container shows as well: one inode, as a bind mount has it."""
        file, shown = self.folder / path.lstrip("/"), self.root / inside.lstrip("/")
        self._write(file, "old")
        shown.parent.mkdir(parents=True, exist_ok=True)
        shown.hardlink_to(file)
        return file

    def replace(self, file: Path) -> None:
        """As `mv new file` does."""
        new = file.with_suffix(".new")
        new.write_text("new")
        new.replace(file)

    def _write(self, file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def _sh(self, _: Host, command: Sequence[str], __: bytes) -> CommandResult:
        script = command[2].replace("/proc/[0-9]*", f"{self.folder}/proc/[0-9]*")
        words = [f"{self.folder}{word}" if number % 3 == 1 else word for number, word in enumerate(command[4:])]
        done = subprocess.run(["sh", "-c", script, "sh", *words], capture_output=True, text=True, check=True)
        return CommandResult(0, done.stdout, done.stderr)


@pytest.fixture
def machine(world: World, tmp_path: Path) -> Machine:
    """The controller."""
    return Machine(world, tmp_path)


def api_server(world: World, *mounts: dict[str, Any], container: str = "containerd://c0ffee", **volume: Any) -> None:
    """A pod of kube-apiserver that mounts its certificate, and `mounts`."""
    pod = world.pod("kube-apiserver-x", {"app": "kube-apiserver"}, flags=("--v=2",))
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "pki", "mountPath": CERTIFICATE}, *mounts]
    pod["spec"]["volumes"] = [{"name": "pki", "hostPath": {"path": CERTIFICATE, "type": "File", **volume}}]
    pod["status"]["containerStatuses"][0]["containerID"] = container
    world.kube.put(PODS, pod)


def test_files_that_are_still_the_same(world: World, machine: Machine) -> None:
    """Also one that was written into since: kube-apiserver sees that."""
    api_server(world)
    machine.mount(CERTIFICATE, CERTIFICATE).write_text("renewed in place")
    assert world.find(check_mounted_files) == {}


def test_a_file_that_was_replaced(world: World, machine: Machine) -> None:
    """The controller, the pod and the file are named, and what rolls it out."""
    api_server(world)
    machine.replace(machine.mount(CERTIFICATE, CERTIFICATE))
    found = world.find(check_mounted_files)["mounted-files.replaced"]
    assert found.severity == "warning"
    assert found.title.endswith(f"kube-apiserver-x still uses the previous version of {CERTIFICATE}")
    assert "rollout restart deployment kube-apiserver" in found.remedy


def test_a_file_that_was_removed(world: World, machine: Machine) -> None:
    """The container has it; the next one would not start."""
    api_server(world)
    machine.mount(CERTIFICATE, CERTIFICATE).unlink()
    assert "mounted-files.replaced" in world.find(check_mounted_files)


def test_a_file_of_a_folder_by_its_sub_path(world: World, machine: Machine) -> None:
    """It is one file as well, and its path on the controller is named."""
    api_server(world, {"name": "conf", "mountPath": "/conf/policy.yaml", "subPath": "policy.yaml"})
    pod = world.kube.get(PODS, "kube-apiserver-x", "kube-system")
    assert pod is not None
    pod["spec"]["volumes"].append({"name": "conf", "hostPath": {"path": "/srv/conf"}})
    world.kube.put(PODS, pod)
    machine.mount(CERTIFICATE, CERTIFICATE)
    machine.replace(machine.mount("/srv/conf/policy.yaml", "/conf/policy.yaml"))
    assert world.find(check_mounted_files)["mounted-files.replaced"].title.endswith("/srv/conf/policy.yaml")


@pytest.mark.parametrize("kind", ["Directory", "DirectoryOrCreate", ""])
def test_folders_show_what_is_in_them_now(world: World, machine: Machine, kind: str) -> None:
    """A file in a mounted folder may be replaced; a volume without a type may be a folder, too."""
    api_server(world, type=kind)
    (machine.folder / CERTIFICATE.lstrip("/")).mkdir(parents=True)
    assert world.find(check_mounted_files) == {}


def test_a_container_without_a_process(world: World, machine: Machine) -> None:
    """It has just ended, and the next one sees what is there; nothing is claimed."""
    api_server(world, container="containerd://deadbeef")
    machine.replace(machine.mount(CERTIFICATE, CERTIFICATE))
    found = world.find(check_mounted_files)
    assert list(found) == ["mounted-files.unread"] and found["mounted-files.unread"].severity == "info"


def test_a_controller_that_does_not_answer(world: World) -> None:
    """Unknown is not healthy."""
    api_server(world)

    def fails(host: Host, _: Sequence[str], __: bytes) -> CommandResult:
        raise HostError(f"{host.name}: no answer")

    world.hosts.commands["sh"] = fails
    assert world.find(check_mounted_files)["mounted-files.unknown"].blocking


def test_pods_of_which_nothing_is_mounted(world: World) -> None:
    """No controller is asked for nothing."""
    world.pod("kube-apiserver-x", {"app": "kube-apiserver"}, flags=("--v=2",))
    assert world.find(check_mounted_files) == {} and world.hosts.ran == []
