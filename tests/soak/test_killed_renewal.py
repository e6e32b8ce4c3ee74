"""A renewal of certificates that is killed, or whose controller loses its power, and is begun again."""

from __future__ import annotations

import json

import pytest

from testkit.api_load import ApiLoad
from testkit.kills import kill_at
from testkit.lab_cluster import OLD, LabCluster


@pytest.mark.parametrize("words", ["certificates controller-1: started", "files replaced", "restart: started"])
def test_killed_then_begun_again(cluster: LabCluster, words: str) -> None:
    """What a killed one has begun is completed by the next, with no failed request; nothing stays half done."""
    cluster.wait_until_settled(OLD)
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        kill_at(cluster, words, "certs", "renew", "--yes")
        ended = cluster.upgrader("certs", "renew", "--yes", "--take-over")
        seen = load.stop()
    assert ended.exit_code == 0, ended
    assert (seen.failed, seen.lost_writes) == (0, 0), seen
    _all_in_use(cluster)


def test_power_cut(cluster: LabCluster) -> None:
    """The only controller comes back by itself, whatever it had written, and the next renewal goes through."""
    cluster.wait_until_settled(OLD)
    kill_at(cluster, "certificates controller-1: started", "certs", "renew", "--yes")
    cluster.cut_power()
    cluster.wait_until_settled(OLD)
    ended = cluster.upgrader("certs", "renew", "--yes", "--take-over")
    assert ended.exit_code == 0, ended
    _all_in_use(cluster)


def _all_in_use(cluster: LabCluster) -> None:
    cluster.wait_until_settled(OLD)
    findings = json.loads(cluster.upgrader("check", "--to", OLD, "-o", "json").stdout)["findings"]
    assert not [item["id"] for item in findings if item["id"].startswith("certificates.")]
    again = cluster.upgrader("certs", "renew", "--within", "30d", "--yes")
    assert again.exit_code == 0 and "Nothing to renew" in again.stderr, again
