"""`upgrader recover` after another client CA: a right and a wrong instance of kube-apiserver answer side by side."""

from __future__ import annotations

from testkit.lab_cluster import LabCluster
from testkit.recovery import recover_wrong_api


def test_replaced_client_ca_is_recovered(cluster: LabCluster) -> None:
    """The kubelet is refused by the new instance, so that the old one may not end: the wrong one is found and replaced
    whether it is alone or not, and its release is rolled back.
    """
    recover_wrong_api(cluster, "client CA")
