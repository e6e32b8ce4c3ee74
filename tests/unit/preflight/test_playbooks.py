"""Playbooks that Ansible refuses, or that are for no machine: found before a run begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from testkit.fakes.playbooks import FakePlaybooks
from tests.unit.preflight.conftest import World
from upgrader.model.finding import Finding
from upgrader.ports import Play
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.playbooks import check_plays
from upgrader.steps.playbook.plan import PlannedPlaybook

SMOKE = PlannedPlaybook(Path("/c/smoke.yml"))
REBOOT = PlannedPlaybook(Path("/c/reboot.yml"), undo=Path("/c/undo reboot.yml"))
NOBODY = Play("workers", ())


def found(world: World, playbooks: FakePlaybooks, *steps: PlannedPlaybook) -> dict[str, Finding]:
    """The findings of a run with these playbooks, by id."""
    context = world.context()
    assert context.plan is not None
    context = replace(context, plan=replace(context.plan, steps=steps), playbooks=playbooks)
    findings = run_checks(context, [("playbooks", check_plays)])
    assert len({finding.id for finding in findings}) == len(findings)
    return {finding.id: finding for finding in findings}


def test_right_ones_are_read_in_one_go(world: World) -> None:
    """With what undoes them; a run without playbooks doesn't start Ansible at all."""
    playbooks = FakePlaybooks()
    assert found(world, playbooks) == {} and playbooks.listings == []
    assert found(world, playbooks, SMOKE, REBOOT) == {}
    assert playbooks.listings == [("smoke.yml", "reboot.yml", "undo reboot.yml")] and playbooks.ran == []


def test_refused_one_hides_no_other(world: World) -> None:
    """What Ansible says of it, and how to try again; the others are judged all the same."""
    playbooks = FakePlaybooks(
        refused={"undo reboot.yml": "couldn't resolve module/action 'cop'"}, patterns={"smoke.yml": (NOBODY,)}
    )
    findings = found(world, playbooks, SMOKE, REBOOT)
    assert findings.keys() == {"playbooks.refused", "playbooks.no-machine"}
    refused = findings["playbooks.refused"]
    assert refused.severity == "error" and "'cop'" in refused.diagnosis
    assert "--syntax-check -i /c/hosts.yml '/c/undo reboot.yml'" in refused.remedy
    nowhere = findings["playbooks.no-machine"]
    assert nowhere.severity == "error" and "smoke.yml" in nowhere.title and "workers" in nowhere.diagnosis


def test_ansible_that_does_not_tell(world: World) -> None:
    """On a busy machine, say: the playbooks are neither right nor refused, and that is unknown."""
    (finding,) = found(world, FakePlaybooks(silent=True), SMOKE, REBOOT).values()
    assert (finding.id, finding.severity) == ("playbooks.unknown", "unknown") and "timed out after" in finding.diagnosis


def test_one_play_of_several_has_no_machine(world: World) -> None:
    """A warning: a group may be empty on purpose, and the step passes."""
    playbooks = FakePlaybooks(patterns={"smoke.yml": (NOBODY, Play("all", ("controller-1",)))})
    (finding,) = found(world, playbooks, SMOKE).values()
    assert (finding.id, finding.severity) == ("playbooks.idle-play", "warning") and "workers" in finding.title


def test_hosts_that_an_earlier_play_finds_out(world: World) -> None:
    """`hosts: "{{ hostvars['localhost'].targets }}"` works in a run, and has no value before: that blocks nothing."""
    said = "Error processing keyword 'name': 'hostvars' is undefined\nOrigin: /c/smoke.yml:5:10"
    (finding,) = found(world, FakePlaybooks(refused={"smoke.yml": said}), SMOKE).values()
    assert (finding.id, finding.severity) == ("playbooks.refused", "warning")
    assert "smoke.yml" in finding.title and said in finding.diagnosis
