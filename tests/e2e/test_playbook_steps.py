"""A pipeline with a playbook on a real machine: planned, approved, refused when it is another one, and undone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.lab_cluster import OLD, LabCluster

MADE = "/etc/upgrader-e2e.conf"


@pytest.fixture
def plays(cluster: LabCluster) -> Iterator[Path]:
    """A pipeline whose last step makes a file on the controllers, then fails; and its undo."""
    folder = cluster.folder / "plays"
    folder.mkdir()
    make = {"name": "Make the file", "ansible.builtin.copy": {"dest": MADE, "content": "made\n", "mode": "0644"}}
    fail = {"name": "Go wrong", "ansible.builtin.command": "false"}
    _write(folder / "make.yml", make, fail)
    _write(folder / "unmake.yml", {"name": "Remove it", "ansible.builtin.file": {"path": MADE, "state": "absent"}})
    step = {"playbook": "plays/make.yml", "undo": "plays/unmake.yml"}
    cluster.change_settings({"pipeline": [{"release": "kubernetes"}, step]})
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
        cluster.restore_files()


def _write(path: Path, *tasks: dict[str, Any]) -> None:
    play = {"name": path.stem, "hosts": "controllers", "gather_facts": False, "tasks": list(tasks)}
    path.write_text(yaml.safe_dump([play], sort_keys=False))


def test_playbook_is_planned_approved_and_undone(cluster: LabCluster, plays: Path) -> None:
    """The plan names the task that would change the controller; another playbook than the approved one isn't run; the
    approved one fails, and its undo leaves the controller as it was.
    """
    planned = cluster.upgrader("plan", "--to", OLD, "-o", "json", "--out", str(plays.parent / "plan.json"))
    assert planned.exit_code == 0, planned
    step = next(item for item in json.loads(planned.stdout)["steps"] if item["name"] == "make")
    assert step["hosts"]["hosts"] == [{"host": "controller-1", "tasks": ["Make the file"]}]
    assert step["undo"]["playbook"] == "unmake.yml"

    approved = (plays / "make.yml").read_text()
    (plays / "make.yml").write_text(approved.replace("command: 'false'", "command: reboot").replace("false", "reboot"))
    refused = cluster.upgrader("run", "--plan", str(plays.parent / "plan.json"), "--yes")
    assert refused.exit_code == 3 and "plays/make.yml changed" in refused.stderr, refused
    assert not _there(cluster)

    (plays / "make.yml").write_text(approved)
    failed = cluster.upgrader("run", "--plan", str(plays.parent / "plan.json"), "--yes")
    assert failed.exit_code == 4 and "Go wrong" in failed.stderr, failed
    undone = [line["data"] for line in cluster.journal() if line["type"] == "UndoEnded"]
    assert [item["step"] for item in undone if item["succeeded"]] == ["make"]
    assert not _there(cluster)


def _there(cluster: LabCluster) -> bool:
    return cluster.on_controller("sh", "-c", f"test -e {MADE} && echo yes || echo no").strip() == "yes"
