"""Changes that can't work: the run goes back, the API answers all the while, and the message names the true cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from testkit.api_load import ApiLoad
from testkit.lab_cluster import OLD, LabCluster

CHANGES = {
    "unknown flag": ("kube-apiserver", {"extraArgs": {"no-such-flag": "1"}}, ["no-such-flag", "unknown flag"]),
    "dies at start": (
        "kube-apiserver",
        {"extraArgs": {"audit-policy-file": "/etc/kubernetes/none.yaml"}},
        ["/etc/kubernetes/none.yaml", "no such file"],
    ),
    "no such image": ("kube-apiserver", {"image": {"tag": "v1.37.1-none"}}, ["v1.37.1-none", "ImagePull"]),
    "checkpointer never ready": (
        "pod-checkpointer",
        {"image": {"repository": "upgrader.lab/tools", "tag": "1"}},  # it lacks the checkpointer's program
        ["pod-checkpointer", "executable file not found"],
    ),
}


@pytest.mark.parametrize(("release", "values", "causes"), CHANGES.values(), ids=CHANGES)
def test_bad_change_is_rolled_back(
    cluster: LabCluster, release: str, values: Mapping[str, Any], causes: list[str]
) -> None:
    """Exit 4 in bounded time: the old revision, a healthy cluster, no failed request, and the cause in the message.

    No check before the run reads values, images or flags, so all of them get as far as their step.
    """
    before = cluster.manifests()
    cluster.change_values(release, values)
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        ended = cluster.run()
        seen = load.stop()

    assert ended.exit_code == 4, ended
    assert [cause for cause in causes if cause not in ended.stderr] == [], ended
    assert ended.seconds < 240
    assert seen.failed == 0, seen
    cluster.wait_healthy(OLD)
    assert cluster.manifests() == before
    assert cluster.report()["outcome"] == "rolled-back"
