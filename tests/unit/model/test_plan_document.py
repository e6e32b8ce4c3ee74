"""A plan as it is shown: how each step is undone, and from where there is no way back."""

from __future__ import annotations

from pathlib import Path

from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan import Plan
from upgrader.steps.plan_document import PlanDocument
from upgrader.steps.planned import PlannedStep
from upgrader.steps.playbook.plan import PlannedPlaybook
from upgrader.steps.release.plan import Action, PlannedRelease
from upgrader.steps.step_document import Undo

ONE_WAY = PlannedPlaybook(Path("/p/migrate.yml"))
TWO_WAYS = PlannedPlaybook(Path("/p/tune.yml"), Path("/p/untune.yml"))


def release(name: str, action: Action, revision: int | None) -> PlannedRelease:
    """A release of that last good revision."""
    return PlannedRelease(ReleaseSpec(name, "shop", Path("/c")), action, "", "", "", (), revision=revision)


WEB, SAME = release("web", "upgrade", 4), release("same", "unchanged", 2)


def document(*steps: PlannedStep) -> PlanDocument:
    """The plan of these steps, each of which took a minute before."""
    version = KubernetesVersion(1, 37, 1)
    return PlanDocument.of(Plan(version, version, steps), (), dict.fromkeys([step.name for step in steps], 60.0))


def test_how_each_step_is_undone() -> None:
    """A release returns to its last good revision, or goes; a playbook needs one that undoes it."""
    shown = document(WEB, release("new", "install", None), SAME, TWO_WAYS, ONE_WAY)
    assert [(step.undo, str(step.undo)) for step in shown.steps] == [
        (Undo("rollback", 4), "rollback to revision 4"),
        (Undo("uninstall"), "uninstall"),
        (Undo("not-needed"), "not needed"),
        (Undo("playbook", playbook="untune.yml"), "playbook untune.yml"),
        (Undo("none"), "none"),
    ]


def test_point_of_no_return() -> None:
    """The first step that nothing undoes; releases, and playbooks with an undo, leave the way back open."""
    assert document(WEB, ONE_WAY, TWO_WAYS).point_of_no_return == "migrate"
    assert document(WEB, TWO_WAYS).point_of_no_return is None


def test_unchanged_step_has_no_time() -> None:
    """What a step took when it changed something says nothing of one that changes nothing."""
    assert [step.usual_seconds for step in document(WEB, SAME, ONE_WAY).steps] == [60.0, None, 60.0]


def test_emulation_is_shown_with_what_it_does_not_cover() -> None:
    """Whether it begins or goes on, what ends it, and which parts run as the new version all the same."""
    old, new = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
    first = PlanDocument.of(Plan(old, new, (WEB,), (1, 36)), (), {}).emulation
    again = PlanDocument.of(Plan(new, new, (WEB,), (1, 36)), (), {}).emulation
    assert first is not None and again is not None
    assert str(first).startswith("the control plane starts to emulate 1.36; `upgrader finalize` ends the emulation")
    assert str(again).startswith("the control plane continues to emulate 1.36;")
    told = "\n".join(first.not_covered)
    assert all(part in told for part in ("Flags", "kube-proxy", "Kubelets", "etcd"))
    assert document(WEB).emulation is None
