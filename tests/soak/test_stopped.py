"""Runs that a signal or a closed terminal stops, and a playbook that is killed; another machine resumes them."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from testkit.command import REPOSITORY, running
from testkit.kills import ONE, Moment, TwoReleases, stop_now
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.waiting import stretched
from upgrader.cli.ui.as_typed import program
from upgrader.engine.locks.cluster_lock import read_lease
from upgrader.ports import Kind

_NODES = Kind("v1", "nodes", namespaced=False)
_CORDONS = """
- hosts: controllers
  gather_facts: false
  tasks:
    - command: kubectl --kubeconfig /etc/kubernetes/admin.conf cordon controller-1
    - command: sleep 10
    - command: kubectl --kubeconfig /etc/kubernetes/admin.conf uncordon controller-1
"""


@pytest.fixture
def releases(cluster: LabCluster, tmp_path: Path) -> Iterator[TwoReleases]:
    """Two small releases, in place."""
    two = TwoReleases(cluster, tmp_path)
    yield two
    two.remove()


def terminate(process: subprocess.Popen[str]) -> str:
    """Send SIGTERM, as a CI system does; returns the run's output."""
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=stretched(120))[0]


def interrupt_twice(process: subprocess.Popen[str]) -> str:
    """Press Ctrl-C twice."""
    return stop_now(process, signal.SIGINT)


@pytest.mark.parametrize(
    ("stop", "complete"), [(terminate, True), (interrupt_twice, False)], ids=["sigterm", "ctrl-c-twice"]
)
def test_stopped_by_a_signal(
    releases: TwoReleases, stop: Callable[[subprocess.Popen[str]], str], complete: bool
) -> None:
    """SIGTERM lets the running step complete, a second Ctrl-C doesn't; both end with 130, a free lock and true output,
    and another machine completes the run."""
    before, after = releases.change()
    with releases.run_until(Moment("StepStarted", ONE, "pending-upgrade")) as process:
        output = stop(process)
    assert process.returncode == 130 and "nothing was started" not in output, output
    assert f"{program(releases.cluster.folder)} resume" in output, output
    lease = read_lease(releases.cluster.kube)
    assert lease is not None and lease.holder is None
    assert releases.turns[1] == before, "the second step was not begun"
    assert any(line["type"] == "StepEnded" for line in releases.cluster.journal()) == complete
    ended = releases.from_another_machine("resume", "--yes")
    assert ended.exit_code == 0, ended
    assert releases.turns == (after, after) and releases.settled


@contextmanager
def in_a_terminal(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """`upgrader ARGUMENTS` in its own terminal; when the context ends, closes it and waits for the run."""
    ours, theirs = pty.openpty()
    command = ["setsid", "--ctty", sys.executable, "-m", "upgrader", *map(str, arguments)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdin=theirs, stdout=theirs, stderr=theirs, text=True)
    os.close(theirs)
    closed = threading.Event()
    reader = threading.Thread(target=_read, args=(ours, closed))
    reader.start()
    try:
        yield process
    finally:
        closed.set()
        reader.join()
        os.close(ours)
        try:
            process.wait(stretched(120))
        finally:
            process.kill()


def _read(terminal: int, closed: threading.Event) -> None:
    """Read from a terminal, as a full one blocks its writers."""
    while not closed.is_set():
        if select.select([terminal], [], [], 0.1)[0]:
            with suppress(OSError):  # its writers have ended
                os.read(terminal, 65536)


def test_closed_terminal(releases: TwoReleases) -> None:
    """If the terminal closes while Helm runs, the step is completed with its gates, the run ends with 130, and another
    machine completes it."""
    before, after = releases.change()
    with releases.run_until(Moment("StepStarted", ONE, "pending-upgrade"), in_a_terminal) as process:
        pass
    assert process.returncode == 130
    assert releases.turns == (after, before)
    assert [line["data"]["outcome"] for line in releases.cluster.journal() if line["type"] == "StepEnded"] == ["passed"]
    ended = releases.from_another_machine("resume", "--yes")
    assert ended.exit_code == 0, ended
    assert releases.turns == (after, after) and releases.settled


def test_playbook_that_is_cut_off_between_cordon_and_uncordon(cluster: LabCluster, tmp_path: Path) -> None:
    """A rollback names the node that a killed playbook left cordoned, and asks for manual action; a resumed run repeats
    the whole playbook, and leaves the node as it was."""
    playbook = tmp_path / "reboot.yml"
    playbook.write_text(_CORDONS)
    cluster.change_settings(
        {"pipeline": [{"playbook": str(playbook)}], "availability": {"requestsPerSecond": 0}},
    )
    _cut_off(cluster)
    ended = cluster.upgrader("rollback", "--yes")
    assert ended.exit_code == 5, ended
    assert "playbook reboot.yml has no playbook that undoes it" in ended.stderr
    assert "node controller-1 is cordoned" in ended.stderr
    cluster.on_controller("kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", "uncordon", "controller-1")

    _cut_off(cluster)
    ended = cluster.upgrader("resume", "--yes")
    assert ended.exit_code == 0, ended
    assert "running it again" in ended.stderr
    assert not _cordoned(cluster)


def _cut_off(cluster: LabCluster) -> None:
    """Kill a run while its playbook has the node cordoned; Ansible ends with it."""
    with running("-C", cluster.folder, "run", "--to", OLD, "--new", "--yes") as process:
        until("a cordoned node", lambda: _cordoned(cluster), timeout_seconds=120)
        process.kill()
    with pytest.raises(TimeoutError):
        until("a killed playbook to go on", lambda: not _cordoned(cluster), timeout_seconds=15)


def _cordoned(cluster: LabCluster) -> bool:
    return any(node["spec"].get("unschedulable") for node in cluster.kube.list(_NODES))
