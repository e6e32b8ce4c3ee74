"""Programs are sent to nodes by a real ansible-playbook, with this machine as two nodes."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from testkit.command import REPOSITORY
from testkit.waiting import stretched
from upgrader.adapters.playbooks import AnsiblePlaybooks
from upgrader.errors import PlaybookError
from upgrader.ports import PlaybookResult

PROGRAM = b"\x7fELF kubelet" * 400_000

_PATCH = """
import shutil, time, zlib
from types import SimpleNamespace
real = zlib.compressobj
def compressobj(*given):
    if given[2:] == (31,):
        with open({log!r}, "a") as file:
            file.write("compressed\\n")
        time.sleep({seconds})
    return real(*given)
zlib.compressobj = compressobj
shutil.disk_usage = lambda _: SimpleNamespace(free={free})
"""
"""For the Python that runs Ansible: counts how often a program is compressed."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a staged program belongs to root")


class Staging:
    """A program, and two nodes to which it is sent."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.local, self.remote, self.nodes = folder / "local", folder / "remote", folder / "nodes"
        self._folder, self._source, self._log = folder, folder / "source", folder / "log"
        for each in (self.local, self.remote, self._source, self.nodes / "one", self.nodes / "two"):
            each.mkdir(parents=True)
        self._log.touch()
        (self._source / "kubelet").write_bytes(PROGRAM)
        monkeypatch.setenv("PYTHONPATH", str(folder))
        monkeypatch.setattr(tempfile, "tempdir", str(self.local))
        monkeypatch.setenv("ANSIBLE_REMOTE_TEMP", str(self.remote))
        monkeypatch.setenv("ANSIBLE_ROLES_PATH", str(REPOSITORY / "playbooks/roles"))

    def compressed(self) -> int:
        """How often it was, or has begun to be."""
        return len(self._log.read_text().splitlines())

    def left(self) -> list[str]:
        """What is still there of what was compressed."""
        return [path.name for folder in (self.local, self.remote) for path in folder.rglob("*program*")]

    def run(
        self, free: int = 1 << 40, seconds: int = 0, cancelled: Callable[[], bool] = lambda: False
    ) -> PlaybookResult:
        """Send it, with so many free bytes on the machine that runs Ansible, and seconds for the compression."""
        patch = _PATCH.format(log=str(self._log), free=free, seconds=seconds)
        (self._folder / "sitecustomize.py").write_text(patch)
        host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        inventory, play = self._folder / "hosts.yml", self._folder / "play.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": {"one": host, "two": host}}}))
        include = {"import_role": {"name": "node", "tasks_from": "stage_from_folder"}}
        play.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [include]}]))
        variables = {
            "node_from": {"path": str(self._source), "sha256": {"kubelet": hashlib.sha256(PROGRAM).hexdigest()}},
            "node_to_get": ["kubelet"],
            "node_staged": f"{self.nodes}/{{{{ inventory_hostname }}}}",
        }
        return AnsiblePlaybooks().run(
            play, inventory=inventory, variables=variables, timeout_seconds=stretched(120), cancelled=cancelled
        )


@pytest.fixture
def staging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Staging:
    """With folders of its own for what Ansible has meanwhile."""
    return Staging(tmp_path, monkeypatch)


@pytest.mark.parametrize(("free", "times"), [(1 << 40, 1), (1 << 20, 0)])
def test_programs_are_sent_to_all_nodes(staging: Staging, free: int, times: int) -> None:
    """A program is compressed once for both nodes, or not at all where the disk is full; nothing but it is left."""
    assert dict(staging.run(free).changed) == {"one": 1, "two": 1}
    for node in ("one", "two"):
        (staged,) = (staging.nodes / node).iterdir()
        assert (staged.read_bytes(), staged.stat().st_mode & 0o7777) == (PROGRAM, 0o700)
    assert staging.compressed() == times
    assert staging.left() == []


def test_playbook_that_is_terminated_leaves_nothing_compressed(staging: Staging) -> None:
    """A run that is ended, or takes too long, takes no room on the machine that runs Ansible."""
    with pytest.raises(PlaybookError, match="was terminated"):
        staging.run(seconds=3600, cancelled=lambda: staging.compressed() > 0 and staging.left() != [])
    assert staging.left() == [] and not any(staging.nodes.rglob("kubelet"))
