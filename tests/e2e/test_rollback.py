"""Rollback of a whole run."""

from __future__ import annotations

from testkit.lab_cluster import OLD, LabCluster


def test_gate_that_never_holds_rolls_back_every_step(cluster: LabCluster) -> None:
    """If a gate of the second step fails, both steps are undone, the second one first, and the cluster is as before."""
    before = cluster.manifests()
    cluster.change_values("pod-checkpointer", {"logLevel": "debug"})  # so that the first step has something to undo
    never = {"deployment": "default/never", "deadline": "5s"}
    pipeline = [
        {"release": "pod-checkpointer"},
        {"release": "kube-apiserver", "gates": [never]},
        {"release": "kubernetes"},
    ]
    cluster.change_settings({"pipeline": pipeline})

    ended = cluster.run()

    assert ended.exit_code == 4, ended
    assert "default/never" in ended.stderr, ended
    report = cluster.report()
    assert report["outcome"] == "rolled-back"
    assert [(step["name"], step["outcome"]) for step in report["steps"]] == [
        ("images", "passed"),
        ("flags and files", "passed"),
        ("pod-checkpointer", "undone"),
        ("kube-apiserver", "undone"),
    ]
    undone = [record["data"]["step"] for record in cluster.journal() if record["type"] == "UndoStarted"]
    assert undone == ["kube-apiserver", "pod-checkpointer"]
    cluster.wait_healthy(OLD)
    assert cluster.manifests() == before
