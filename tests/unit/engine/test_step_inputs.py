"""What `resume` compares: all that a step reads, wherever links lead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan import Plan, changed_inputs, step_inputs
from upgrader.steps.playbook.plan import PlannedPlaybook

TO = KubernetesVersion.parse("v1.37.1")


def inputs(playbook: Path) -> tuple[str, ...]:
    """The digest of a pipeline of this playbook alone."""
    return tuple(item.digest for item in step_inputs(Plan(TO, TO, (PlannedPlaybook(playbook),))))


@pytest.mark.parametrize(
    "name", ["roles/web/tasks/main.yml", "filter_plugins/x.py", "templates/web.conf.j2", "play.yml"]
)
def test_what_ansible_reads_beside_a_playbook_counts(tmp_path: Path, name: str) -> None:
    """A change of it between a run and its resume is noticed; other files there belong to other steps."""
    playbook = tmp_path / "play.yml"
    playbook.write_text("[]\n")
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    before = inputs(playbook)
    (tmp_path / "other.yml").write_text("[]\n")
    assert inputs(playbook) == before
    (tmp_path / name).write_text("changed\n")
    assert inputs(playbook) != before


def test_linked_role_counts(tmp_path: Path) -> None:
    """Ansible follows the link, and so must the comparison."""
    role, folder = tmp_path / "shared-role", tmp_path / "cluster"
    role.mkdir()
    (folder / "roles").mkdir(parents=True)
    (folder / "roles" / "web").symlink_to(role)
    (folder / "play.yml").write_text("[]\n")
    before = inputs(folder / "play.yml")
    (role / "main.yml").write_text("- command: reboot\n")
    assert inputs(folder / "play.yml") != before


def test_same_files_elsewhere_are_no_change(tmp_path: Path) -> None:
    """A run may be resumed on another machine, where the folder has another path."""
    for name in ("here", "there"):
        (tmp_path / name / "roles").mkdir(parents=True)
        (tmp_path / name / "play.yml").write_text("[]\n")
        (tmp_path / name / "roles" / "main.yml").write_text("[]\n")
    found = [step_inputs(Plan(TO, TO, (PlannedPlaybook(tmp_path / name / "play.yml"),))) for name in ("here", "there")]
    assert changed_inputs(*found) == ()


def test_pipe_among_the_inputs_is_refused(tmp_path: Path) -> None:
    """Reading it would wait for ever."""
    (tmp_path / "roles").mkdir()
    (tmp_path / "play.yml").write_text("[]\n")
    os.mkfifo(tmp_path / "roles" / "x")
    with pytest.raises(UsageError, match="is a pipe"):
        inputs(tmp_path / "play.yml")
