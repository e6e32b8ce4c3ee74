"""A rehearsal on a host of the inventory's group `rehearsal`, which is a lab's worker here, and what is left of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
import yaml

from testkit.command import running
from testkit.lab_cluster import TARGET, LabCluster, make_cluster, until
from testkit.waiting import stretched
from upgrader.lab.lifecycle import Lab

_HOST = "worker-1"
_REHEARSE = ("rehearse", "--to", TARGET, "--on", _HOST)
_PLACE = "/var/lib/upgrader-rehearsal"
_COPIES = f"find {_PLACE} /var/lib/etcd/upgrader -type f 2>/dev/null || true"
_UNITS = "systemctl list-units --all --no-legend 'upgrader-rehearsal-*'"
_PROCESSES = "grep -l upgrader-rehearsal- /proc/[0-9]*/cgroup 2>/dev/null || true"
_ROUTES = f"for each in $({_PROCESSES}); do tail -q -n +2 ${{each%cgroup}}net/route; done 2>/dev/null || true"
_MOUNTS = "grep -lE 'upgrader-rehearsal/|etcd/upgrader/' /proc/[0-9]*/mountinfo 2>/dev/null || true"


@pytest.fixture(scope="module")
def with_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster with one controller, and a worker that is in the group."""
    cluster = make_cluster(f"e2e-elsewhere-{os.getpid()}", tmp_path_factory.mktemp("lab"), "--workers", "1")
    try:
        file = cluster.folder / "hosts.yml"
        inventory = yaml.safe_load(file.read_text())
        inventory["all"]["children"]["rehearsal"] = {"hosts": {_HOST: None}}
        file.write_text(yaml.safe_dump(inventory, sort_keys=False))
        yield cluster
    finally:
        cluster.down()


def _on(cluster: LabCluster, node: str, script: str) -> list[str]:
    return Lab.find(cluster.name).run(node, script).split()


def _left(cluster: LabCluster) -> list[str]:
    """Units, processes, mounts and files of a rehearsal, on both machines."""
    return [
        f"{node}: {found}"
        for node in ("controller-1", _HOST)
        for script in (_UNITS, _PROCESSES, _MOUNTS, _COPIES)
        for found in _on(cluster, node, script)
    ]


def test_both_versions_are_compared_on_the_host(with_host: LabCluster) -> None:
    """With the data of the controller; neither machine keeps anything of it."""
    ended = with_host.upgrader(*_REHEARSE, "-o", "json")
    assert ended.exit_code == 0, ended
    found = json.loads(ended.stdout)
    assert (found["controller"], found["rehearsal_host"]) == ("controller-1", _HOST)
    assert found["counts"]["objects"] > 100 and found["counts"]["created"] > 50, found
    assert not _left(with_host)
    assert not _on(with_host, _HOST, f"ls -d {_PLACE} 2>/dev/null || true")


def test_a_killed_command_leaves_nothing(with_host: LabCluster) -> None:
    """Killed while the host compares: the unit ends, and removes the copies; the controller's is gone already. systemd
    has given it a network without routes.
    """
    with running("-C", with_host.folder, *_REHEARSE) as command:
        until("the comparison", lambda: _compares(with_host), timeout_seconds=300)
        assert _on(with_host, _HOST, _PROCESSES) and not _on(with_host, _HOST, _ROUTES)
        command.kill()
        command.wait(timeout=stretched(30))
    until("nothing to be left", lambda: not _left(with_host), timeout_seconds=150)


def test_the_next_command_removes_what_a_power_cut_leaves(with_host: LabCluster) -> None:
    """The copies are on the host's disk after the cut, and after another rehearsal they aren't."""
    with running("-C", with_host.folder, *_REHEARSE) as command:
        until("the comparison", lambda: _compares(with_host), timeout_seconds=300)
        with_host.lab("crash", _HOST)
        command.wait(timeout=stretched(600))
    assert command.returncode == 3, "a host that fails is no finding, and changes nothing"
    with_host.lab("boot", _HOST)
    assert _on(with_host, _HOST, _COPIES), "this test proves nothing"
    ended = with_host.upgrader(*_REHEARSE)
    assert ended.exit_code == 0, ended
    assert not _left(with_host)


def _compares(cluster: LabCluster) -> bool:
    """Whether the target's kube-apiserver was started there."""
    return bool(_on(cluster, _HOST, f"ls {_PLACE}/*/kube-apiserver-target.log 2>/dev/null || true"))
