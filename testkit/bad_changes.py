"""Changes that can't work, and the result of a run with each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from testkit.api_load import ApiLoad
from testkit.lab_cluster import OLD, LabCluster
from testkit.waiting import stretched

__all__ = ["BAD_CHANGES", "BadChange", "assert_rolled_back", "rolled_back"]


@dataclass(frozen=True)
class BadChange:
    """Values of a release, and what the message has to name."""

    release: str
    values: Mapping[str, Any]
    causes: tuple[str, ...]
    told: str = ""
    """The finding that ends such a run before it changes anything; "" if no check can find it."""


BAD_CHANGES = {
    "no number": BadChange(
        "kube-apiserver",
        {"extraArgs": {"max-requests-inflight": "many"}},
        ("max-requests-inflight", "invalid argument"),
        told="trial.refused",
    ),
    "dies at start": BadChange(
        "kube-apiserver",
        {"extraArgs": {"audit-policy-file": "/etc/kubernetes/none.yaml"}},
        ("/etc/kubernetes/none.yaml", "no such file"),
        told="trial.refused",
    ),
    "no such image": BadChange("kube-apiserver", {"image": {"tag": "v1.37.1-none"}}, ("v1.37.1-none", "ImagePull")),
    "checkpointer never ready": BadChange(
        "pod-checkpointer",
        {"image": {"repository": "upgrader.lab/tools", "tag": "1"}},  # it lacks the checkpointer's program
        ("pod-checkpointer", "executable file not found"),
    ),
}


@contextmanager
def rolled_back(cluster: LabCluster) -> Iterator[None]:
    """The changes in the block are rolled back: no request fails, and the cluster is healthy and as before."""
    before = cluster.manifests()
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        yield
        seen = load.stop()
    assert seen.failed == 0, seen
    cluster.wait_healthy(OLD)
    assert cluster.manifests() == before
    assert cluster.report()["outcome"] == "rolled-back"


def assert_rolled_back(cluster: LabCluster, change: BadChange) -> None:
    """Exit 4 in bounded time, and the cause in the message. Findings before the run are skipped."""
    with rolled_back(cluster):
        cluster.change_values(change.release, change.values)
        ended = cluster.run(skip=change.told)
    assert ended.exit_code == 4, ended
    assert [cause for cause in change.causes if cause not in ended.stderr] == [], ended
    assert ended.seconds < stretched(240)
