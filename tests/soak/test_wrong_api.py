"""An API server that is Ready, answers and is wrong: the run finds it, and goes back.

Other ways to be wrong are tried by `python -m bench.wrong_api`.
"""

from __future__ import annotations

from testkit.lab_cluster import OLD, LabCluster
from testkit.waiting import stretched
from testkit.wrong_api import WRONG, seconds_until_healthy


def test_wrong_api_is_rolled_back(cluster: LabCluster) -> None:
    """Exit 4 in bounded time, on a cluster that is as it was; the message names the flag."""
    wrong = WRONG["issuer"]
    before = cluster.manifests()
    wrong.prepare(cluster)
    cluster.change_values("kube-apiserver", wrong.values)
    ended = cluster.run(OLD)

    assert ended.exit_code == 4, ended
    assert any(text in ended.stderr for text in wrong.names), ended
    assert "uninstall" not in ended.stderr
    assert seconds_until_healthy(cluster) <= stretched(wrong.seconds), ended
    cluster.wait_healthy(OLD)
    assert cluster.manifests() == before
    report = cluster.report()
    assert report["outcome"] == "rolled-back"
    assert report["continuity"]["compared"]["new_workload"]
    assert report["continuity"]["not_compared"] == {}
