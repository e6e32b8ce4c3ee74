"""What a plan says of the hosts that its playbooks would change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.app.test_saved_plans import Place, place
from tests.unit.engine.killing import TO
from upgrader.app.front_end import FrontEnd
from upgrader.app.upgrade import check_upgrade, plan_upgrade, propose_upgrade
from upgrader.cli.ui.plan_markdown import plan_markdown
from upgrader.errors import PlaybookError
from upgrader.steps.step_document import HostChange, HostChanges

__all__ = ["place"]


def hosts(place: Place) -> list[HostChanges | None]:
    """Of each step of the plan."""
    return [step.hosts for step in plan_upgrade(place.folder, TO).document.steps]


def test_plan_asks_ansibles_check_mode(place: Place) -> None:
    """Each host with the tasks that would change it; nothing is asked of a release."""
    place.world.playbooks.tasks = {"controller-1": ("Install kubelet", "Restart kubelet")}
    changes = HostChanges((HostChange("controller-1", ("Install kubelet", "Restart kubelet")),))
    assert hosts(place) == [None, changes]
    assert place.world.playbooks.ran == [("smoke.yml", {}, "", True)]
    shown = plan_markdown(plan_upgrade(place.folder, TO).document)
    assert "would change `controller-1: Install kubelet, Restart kubelet`" in shown


def test_playbook_that_changes_nothing(place: Place) -> None:
    """It says so, and how far that can be trusted."""
    found = hosts(place)[1]
    assert found == HostChanges() and "according to Ansible's check mode" in str(found)


def test_playbook_that_cannot_be_asked(place: Place) -> None:
    """Many work only as a whole: the plan says why it doesn't know, and blocks nothing."""
    place.world.playbooks.errors["smoke.yml"] = PlaybookError("controller-1: task 'Read it': no such file")
    assert str(hosts(place)[1]) == "unknown: controller-1: task 'Read it': no such file"


@pytest.mark.parametrize("command", ["check", "run"])
def test_only_a_plan_asks(place: Place, tmp_path: Path, command: str) -> None:
    """A check is for the cluster, and a run does it in earnest: neither waits for this."""
    if command == "check":
        check_upgrade(place.folder, TO)
    else:
        with propose_upgrade(place.folder, TO, FrontEnd(), take_over=False) as proposed:
            assert proposed.execute().state.outcome == "succeeded"
    assert not any(check for _, _, _, check in place.world.playbooks.ran)
