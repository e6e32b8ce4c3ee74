"""`upgrader recover` where the API answers, and is wrong: nobody ran `upgrader`, and Helm can't roll it back."""

from __future__ import annotations

from testkit.lab_cluster import LabCluster
from testkit.recovery import recover_wrong_api


def test_wrong_api_is_replaced(cluster: LabCluster) -> None:
    """An API that is ready, and refuses what a rollback needs, is replaced over SSH; its release is rolled back."""
    recover_wrong_api(cluster, "no apps/v1")
