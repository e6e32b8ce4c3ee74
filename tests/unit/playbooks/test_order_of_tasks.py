"""What a killed playbook leaves is found, and can be undone: the order of the tasks that this rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from ansible.module_utils.playbook_processes import VARIABLE

from testkit.command import REPOSITORY

PLAYBOOKS = REPOSITORY / "playbooks"
CHANGES = ("durable_copy", "put_packages.yml", "runtime_swap.yml", "restart.yml")
"""Modules and included files by which the role changes what a node runs."""


def tasks(name: str) -> list[Mapping[str, Any]]:
    """The tasks of a file of the role."""
    found: list[Mapping[str, Any]] = yaml.safe_load((PLAYBOOKS / f"roles/node/tasks/{name}.yml").read_text())
    return found


def words(task: Mapping[str, Any]) -> set[str]:
    """Its module, what that includes, and the state that it records."""
    values = [value for value in task.values() if isinstance(value, str)]
    state = [str(value["state"]) for value in task.values() if isinstance(value, dict) and "state" in value]
    return {*task, *values, *state}


def places(name: str, *wanted: str) -> list[int]:
    """At which places of a file there are tasks with one of these words."""
    return [place for place, task in enumerate(tasks(name)) if words(task) & set(wanted)]


def test_swap_is_recorded_around_all_that_it_changes() -> None:
    """What the node has is kept first; from `swapping` on it can be undone; `done` follows the restart."""
    (kept,), (begun,), (done,) = (places("swap", state) for state in ("kept", "swapping", "done"))
    changes = places("swap", *CHANGES)
    assert kept < begun < min(changes) and max(changes) < done


@pytest.mark.parametrize("name", ["upgrade", "restore", "stage"])
def test_tasks_of_a_killed_run_are_waited_for_first(name: str) -> None:
    """Ansible's task on the node outlives it: before it has ended, nothing is read of the restore point, and nothing is
    staged: two extractions of a package into one folder break each other.
    """
    (waits,) = places(name, "earlier_playbooks")
    assert waits < min(places(name, "node_restore_point", "look.yml", "stage_programs.yml", "runtime_stage.yml"))


@pytest.mark.parametrize("name", ["upgrade-node", "restore-node", "stage-node"])
def test_tasks_are_marked_by_which_a_later_run_finds_them(name: str) -> None:
    """Each play that changes a node sets the variable that the module looks for."""
    plays = yaml.safe_load((PLAYBOOKS / f"{name}.yml").read_text())
    assert [play["environment"] for play in plays] == [{VARIABLE: name}]
