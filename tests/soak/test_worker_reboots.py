"""A worker that fails in the middle of a run, which has nothing to do with it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from testkit.command import running
from testkit.lab_cluster import OLD, LabCluster, make_cluster, until
from testkit.pushed_changes import BAD_FLAG
from testkit.waiting import stretched

_WORKER = "worker-1"


@pytest.fixture(scope="module")
def with_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster with one controller and one worker."""
    cluster = make_cluster(f"e2e-worker-{os.getpid()}", tmp_path_factory.mktemp("lab"), "--workers", "1")
    try:
        yield cluster
    finally:
        cluster.down()


@pytest.mark.parametrize(
    ("values", "exit_code"), [({"podAnnotations": {"a": "b"}}, 0), ({"extraArgs": {BAD_FLAG: "true"}}, 4)]
)
def test_worker_loses_power(with_worker: LabCluster, values: dict[str, dict[str, str]], exit_code: int) -> None:
    """Its loss, and its return, neither roll a good change back nor fail the rollback of a bad one."""
    with_worker.restore_files()
    with_worker.change_values("kube-apiserver", values)
    skipping = ("--skip", "trial.refused", "--reason", "a test")
    with running("-C", with_worker.folder, "run", "--to", OLD, "--yes", *skipping) as run:
        until("Helm at work on kube-apiserver", lambda: _pending(with_worker), timeout_seconds=120)
        with_worker.lab("crash", _WORKER)
        with_worker.lab("boot", _WORKER)
        output, _ = run.communicate(timeout=stretched(400))
    assert run.returncode == exit_code, output
    with_worker.wait_healthy(OLD)


def _pending(cluster: LabCluster) -> bool:
    return str(cluster.releases()["kube-apiserver"]["status"]).startswith("pending")
