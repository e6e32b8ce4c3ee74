"""The step that upgrades one Helm release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.helm import FakeHelm
from upgrader.errors import HelmError, StepFailed, WorkloadFailed
from upgrader.model.outcome import Verdict, broken, holds, pending
from upgrader.model.release import ReleaseSpec, RestorePoint, Revision
from upgrader.steps.release.helm_release import ChartStep

OLD, NEW = "tag: v1\n", "tag: v2\n"


class Watch:
    """A watcher with scripted verdicts."""

    def __init__(self, *last: Verdict, error: StepFailed | None = None) -> None:
        self.last = last
        self._error = error

    def __call__(self) -> None:
        if self._error:
            raise self._error


def quiet(text: str) -> None:
    """Take no notes."""


@pytest.fixture
def helm() -> FakeHelm:
    """A Helm with one deployed revision of release `app`."""
    helm = FakeHelm()
    helm.install("app", OLD)
    return helm


def step(helm: FakeHelm, watch: Watch | None = None) -> ChartStep:
    """The upgrade of `app` to NEW."""
    spec = ReleaseSpec("app", "kube-system", Path("/charts/app"), {"tag": "v2"})
    return ChartStep(spec, "v1 → v2", helm, 60.0, lambda: watch or Watch())


def test_upgrade_and_undo(helm: FakeHelm) -> None:
    """Undo restores what was deployed before, as a new revision. Helm's history tells who made it, and how."""
    upgrade = step(helm)
    point = upgrade.capture()
    upgrade.apply(quiet)
    assert helm.manifest("app", "kube-system") == NEW
    assert helm.history("app", "kube-system")[-1].description == "upgrader: v1 → v2"
    upgrade.undo(point, quiet)
    assert helm.manifest("app", "kube-system") == OLD


def test_way_back_is_the_last_revision_that_worked(helm: FakeHelm) -> None:
    """A failed revision on top is never rolled back to, however recent."""
    helm.install("app", "tag: broken\n", "failed")
    assert step(helm).capture().revision == 1


def test_undo_is_watched_and_helped(helm: FakeHelm) -> None:
    """While Helm rolls back, both are called: what watches over the API, and what helps, which has its notes."""
    point = step(helm).capture()
    step(helm).apply(quiet)
    seen: list[str] = []
    watched = replace(step(helm), undo_help=lambda note: lambda: note("helped")).undo_watched(lambda: seen.append("up"))
    watched.undo(point, seen.append)
    assert seen[-2:] == ["up", "helped"]


def test_undo_after_helms_own_rollback_changes_nothing(helm: FakeHelm) -> None:
    """Where Helm has already rolled back by itself, undo detects that and changes nothing."""
    helm.fail_upgrade["app"] = HelmError("timed out")
    upgrade = step(helm)
    point = upgrade.capture()
    with pytest.raises(StepFailed):
        upgrade.apply(quiet)
    before = len(helm.history("app", "kube-system"))
    upgrade.undo(point, quiet)
    assert len(helm.history("app", "kube-system")) == before


def test_undo_completes_the_rollback_of_a_helm_that_was_killed(helm: FakeHelm) -> None:
    """The right manifest on top is no proof where Helm left it pending: nobody has applied all of it."""
    upgrade = step(helm)
    point = upgrade.capture()
    helm.install("app", NEW, "failed")
    helm.install("app", OLD, "pending-rollback")
    upgrade.undo(point, quiet)
    assert helm.calls == ["rollback app 1"]


def test_undo_of_an_install_uninstalls() -> None:
    """A release that wasn't installed before the run isn't installed after its undo, even when undone twice."""
    helm = FakeHelm()
    upgrade = step(helm)
    point = upgrade.capture()
    assert point == RestorePoint("app", "kube-system", None)
    upgrade.apply(quiet)
    upgrade.undo(point, quiet)
    upgrade.undo(point, quiet)
    assert helm.history("app", "kube-system") == ()


def test_message_holds_the_cause_not_helms_timeout(helm: FakeHelm) -> None:
    """When Helm reports only a timeout, the message has what the workloads showed."""
    helm.fail_upgrade["app"] = HelmError("context deadline exceeded")
    watch = Watch(holds("fine"), broken("container app exits with 1", "unknown flag: --nonsense"))
    with pytest.raises(WorkloadFailed) as caught:
        step(helm, watch).apply(quiet)
    assert caught.value.message.startswith("container app exits with 1\n  unknown flag: --nonsense")
    assert "fine" not in caught.value.message


def test_certain_failure_ends_helms_wait(helm: FakeHelm) -> None:
    """A watcher that is certain ends the upgrade with its own message."""
    watch = Watch(error=WorkloadFailed("ImagePullBackOff"))
    with pytest.raises(WorkloadFailed, match="ImagePullBackOff"):
        step(helm, watch).apply(quiet)


def test_what_fails_is_told_while_helm_waits(helm: FakeHelm) -> None:
    """A container that has crashed may come up yet: until that is certain, the cause isn't kept back. Each is told
    once, and not without end.
    """
    script, notes = Watch(), list[str]()
    upgrade = helm.upgrade

    def waits(*arguments: Any, watch: Callable[[], None], **named: Any) -> Revision:
        for number in range(9):
            script.last = (pending("not Ready yet"), replace(pending(f"web exits with {number}"), failing=True))
            watch()
            watch()
        return upgrade(*arguments, watch=watch, **named)

    helm.upgrade = waits  # type: ignore[method-assign]
    step(helm, script).apply(notes.append)
    assert notes[1:] == [f"while Helm waits: web exits with {number}" for number in range(5)]


def test_release_that_another_helm_works_on_is_left_to_it(helm: FakeHelm) -> None:
    """A pipeline's `helm upgrade` that is at work as the step is due: nothing is written, and nothing to be undone."""
    helm.install("app", "tag: theirs\n", "pending-upgrade")
    with pytest.raises(StepFailed, match=r"another Helm process is changing it \(revision 2 is 'pending-upgrade'\)"):
        step(helm).capture()
    assert helm.calls == []


def test_release_that_was_changed_since_the_plan_is_left_as_it_is(helm: FakeHelm) -> None:
    """What others have deployed meanwhile was in nobody's plan; the same once more is no change."""
    planned = replace(step(helm), before=OLD)
    helm.install("app", OLD)
    assert planned.capture().revision == 2
    helm.install("app", "tag: theirs\n", description="Upgrade complete")
    with pytest.raises(StepFailed, match=r"revision 3 \(deployed: Upgrade complete\) differs from"):
        planned.capture()
    assert helm.calls == []


def test_revision_that_another_helm_has_replaced_is_told(helm: FakeHelm) -> None:
    """Theirs stays in Helm's history, and the remedy says where; the same once more has replaced nothing."""
    upgrade = step(helm)
    revision = upgrade.apply(quiet)
    upgrade.confirm(revision)
    helm.install("app", NEW)
    upgrade.confirm(revision)
    helm.install("app", "tag: theirs\n", description="Upgrade complete")
    with pytest.raises(StepFailed, match=r"wrote revision 2: revision 4 \(deployed: Upgrade complete\)") as caught:
        upgrade.confirm(revision)
    assert "helm get values app -n kube-system --revision 4" in caught.value.remedy


def test_another_helm_that_keeps_fewer_revisions(helm: FakeHelm) -> None:
    """With a small --history-max it has removed the revision that this step wrote, and the one to go back to: the first
    is told as another's change, the second by its number.
    """
    upgrade = step(helm)
    point, revision = upgrade.capture(), upgrade.apply(quiet)
    helm.install("app", "tag: theirs\n", description="Upgrade complete")
    del helm.releases["app"][:-1]
    with pytest.raises(
        StepFailed, match=r"after this step wrote revision 2: revision 3 \(deployed: Upgrade complete\)"
    ):
        upgrade.confirm(revision)
    with pytest.raises(HelmError, match="revision 1 of release 'app' is not in Helm's history"):
        upgrade.undo(point, quiet)
    assert not any(call.startswith("uninstall") for call in helm.calls)


def test_another_helm_at_work_behind_the_step_is_told(helm: FakeHelm) -> None:
    """Before it has completed, too."""
    upgrade = step(helm)
    revision = upgrade.apply(quiet)
    helm.install("app", NEW, "pending-upgrade")
    with pytest.raises(StepFailed, match=r"revision 3 \(pending-upgrade\)"):
        upgrade.confirm(revision)
