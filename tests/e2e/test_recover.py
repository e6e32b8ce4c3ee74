"""`upgrader recover`: bad changes pushed past `upgrader`, and what brings the cluster back from them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.command import start
from bench.pushed import BAD_FLAG, edit, install_old_style, upgrade, upgrade_old_style
from tests.labs import OLD, LabCluster, until
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError

COPY = "checkpoint-kube-system.kube-apiserver.json"


@dataclass
class Stopwatch:
    """Since when the API answers; seconds from the start."""

    begun: float = field(default_factory=time.monotonic)
    answered: float | None = None


def test_healthy_cluster_needs_no_recovery(cluster: LabCluster) -> None:
    """On a healthy cluster `recover` says so, changes nothing, and leaves no run behind."""
    before = cluster.releases(), cluster.runs()
    for flags in ([], ["--dry-run"], ["--host", "controller-1"]):
        ended = cluster.upgrader("recover", "--yes", *flags)
        assert ended.exit_code == 0, ended
        assert "Nothing to recover" in ended.stderr, ended
    assert (cluster.releases(), cluster.runs()) == before


def test_controller_that_is_not_there(cluster: LabCluster) -> None:
    """A name that the inventory doesn't know is refused, with those that it does."""
    ended = cluster.upgrader("recover", "--host", "controller-9")
    assert ended.exit_code == 2, ended
    assert "controller-1" in ended.stderr


def test_plain_helm_upgrade_and_a_power_cut(cluster: LabCluster) -> None:
    """A revision that Helm calls deployed crashes, and the power goes: a recovery that is killed half-way, and run
    again, ends with the release at its good revision and the copy gone.
    """
    good = cluster.manifests()
    upgrade(cluster)
    until("the new pod to crash", lambda: bool(cluster.unready()), timeout_seconds=60)
    cut_and_boot(cluster)
    with watching(cluster) as watch:
        dry = cluster.upgrader("recover", "--dry-run")
        assert dry.exit_code == 0, dry
        kill_after(cluster, "helm rollback")
        ended = cluster.upgrader("recover", "--yes")
        report("helm upgrade", watch)
    assert ended.exit_code == 0, ended
    assert_recovered(cluster, good)


def test_edited_by_hand(cluster: LabCluster) -> None:
    """What `kubectl edit` has changed and added is taken out, while the API answers, at the same content as before."""
    good = cluster.manifests()
    edit(cluster)
    until("the new pod to crash", lambda: bool(cluster.unready()), timeout_seconds=60)
    dry = cluster.upgrader("recover", "--dry-run")
    assert dry.exit_code == 0, dry
    assert BAD_FLAG in dry.stderr, dry
    ended = cluster.upgrader("recover", "--yes")
    assert ended.exit_code == 0, ended
    assert "ADDED_BY_HAND" in ended.stderr, ended
    assert_recovered(cluster, good)


def test_old_style_daemonset_and_a_power_cut(cluster: LabCluster, tmp_path: Path) -> None:
    """Where the update itself takes the only kube-apiserver away, and the power goes too, the DaemonSet comes back."""
    try:
        install_old_style(cluster, tmp_path / "values.yaml")
        good = cluster.manifests()
        upgrade_old_style(cluster)
        cut_and_boot(cluster)
        with watching(cluster) as watch:
            ended = cluster.upgrader("recover", "--yes")
            report("old-style DaemonSet", watch)
        assert ended.exit_code == 0, ended
        assert_recovered(cluster, good)
    finally:
        cluster.restore()


def cut_and_boot(cluster: LabCluster) -> None:
    """The controller answers SSH again when this returns."""
    cluster.lab("crash", "controller-1")
    cluster.lab("boot", "controller-1")


def kill_after(cluster: LabCluster, words: str) -> None:
    """Begin a recovery, and kill it as soon as it says that it is about to do this."""
    run = start("-C", cluster.folder, "recover", "--yes")
    try:
        assert run.stdout is not None
        said = []
        for line in run.stdout:
            said.append(line)
            if words in line:
                return
        pytest.fail(f"the recovery ended without '{words}':\n{''.join(said)}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            run.kill()
        run.wait()
        if run.stdout:
            run.stdout.close()


def assert_recovered(cluster: LabCluster, good: object) -> None:
    """The releases are what they were before the bad change, nothing stands in, and all is healthy."""
    cluster.wait_healthy(OLD)
    assert cluster.manifests() == good
    assert BAD_FLAG not in str(cluster.manifests())
    assert COPY not in cluster.on_controller("ls", "/etc/kubernetes/manifests")
    assert cluster.report()["outcome"] == "succeeded"


@contextlib.contextmanager
def watching(cluster: LabCluster) -> Iterator[Stopwatch]:
    """Note when the API answers for the first time."""
    watch, over = Stopwatch(), threading.Event()
    kube = KubeAdapter(cluster.folder / "kubeconfig", timeout_seconds=2.0)

    def ask() -> None:
        while watch.answered is None and not over.wait(0.2):
            with contextlib.suppress(ApiError):
                kube.raw("/readyz")
                watch.answered = time.monotonic() - watch.begun

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()
        kube.close()


def report(what: str, watch: Stopwatch) -> None:
    """Print the times, from the controller's first answer over SSH."""
    done = time.monotonic() - watch.begun
    print(f"{what}: API after {watch.answered or float('nan'):.1f} s, all done after {done:.0f} s")  # noqa: T201
