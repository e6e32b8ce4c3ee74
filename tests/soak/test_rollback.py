"""Rollback of a whole run, as people and as programs see it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from testkit.command import REPOSITORY, upgrader
from testkit.lab_cluster import OLD, TARGET, LabCluster

_SCHEMA = REPOSITORY / "docs/reference/events.schema.json"


def test_gate_that_never_holds_rolls_back_every_step(cluster: LabCluster, tmp_path: Path) -> None:
    """If a gate of the second step fails, both steps are undone, the second one first, and the cluster is as before.
    With `-o json`, each line is an event of the published schema, the last one says how it ended, and they replay."""
    before = cluster.manifests()
    cluster.change_values("pod-checkpointer", {"logLevel": "debug"})  # so that the first step has something to undo
    never = {"deployment": "default/never", "deadline": "5s"}
    pipeline = [
        {"release": "pod-checkpointer"},
        {"release": "kube-apiserver", "gates": [never]},
        {"release": "kubernetes"},
    ]
    cluster.change_settings({"pipeline": pipeline})

    ended = cluster.upgrader("run", "--to", TARGET, "--yes", "-o", "json")

    assert ended.exit_code == 4, ended
    assert "default/never" in ended.stderr, ended
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    schema = jsonschema.Draft202012Validator(json.loads(_SCHEMA.read_text()))
    assert [error.message for event in events for error in schema.iter_errors(event)] == []
    last = events[-1]
    assert last["type"] == "CommandEnded" and last["data"]["exit_code"] == 4, last
    assert "default/never" in json.dumps(last["data"]["error"]) and last["data"]["outcome"] == "rolled-back", last
    (tmp_path / "events.jsonl").write_text(ended.stdout)
    replayed = upgrader("replay", tmp_path / "events.jsonl")
    assert replayed.exit_code == 0 and "default/never" in replayed.stdout + replayed.stderr, replayed

    report = cluster.report()
    assert report["outcome"] == "rolled-back"
    assert [(step["name"], step["outcome"]) for step in report["steps"]] == [
        ("images", "passed"),
        ("trial", "passed"),
        ("pod-checkpointer", "undone"),
        ("kube-apiserver", "undone"),
    ]
    undone = [record["data"]["step"] for record in cluster.journal() if record["type"] == "UndoStarted"]
    assert undone == ["kube-apiserver", "pod-checkpointer"]
    cluster.wait_healthy(OLD)
    assert cluster.manifests() == before
