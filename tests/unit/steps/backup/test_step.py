"""The backup before a minor upgrade: when there is one, and what becomes of the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.steps.backup.test_take import Lab
from upgrader.model.own_steps import BACKUP
from upgrader.model.release import ReleaseSpec
from upgrader.model.settings import BackupSettings
from upgrader.model.version import KubernetesVersion
from upgrader.steps.backup.kind import BackupStep, takes_backup
from upgrader.steps.plan import Plan
from upgrader.steps.release.plan import PlannedRelease

OLD, PATCH, NEW = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 36, 4), KubernetesVersion(1, 37, 1)


@pytest.mark.parametrize(("target", "wanted"), [(NEW, True), (PATCH, False)])
def test_a_minor_upgrade_begins_with_a_backup(tmp_path: Path, target: KubernetesVersion, wanted: bool) -> None:
    """A patch release changes no stored version."""
    assert takes_backup(Lab(tmp_path).taker, Plan(OLD, target, ()), None) is wanted


def test_a_mixed_cluster_changes_its_minor_too(tmp_path: Path) -> None:
    """A new run over an interrupted one: kube-apiserver has the new minor already, and another component gets it."""
    image = "kind: DaemonSet\nmetadata: {name: p}\nspec: {template: {spec: {containers: [{name: c, image: %s}]}}}\n"
    before, after = (image % f"registry.k8s.io/kube-proxy:{version}" for version in (OLD, NEW))
    step = PlannedRelease(ReleaseSpec("kubernetes", "kube-system", tmp_path), "upgrade", "", before, after, ())
    assert takes_backup(Lab(tmp_path).taker, Plan(NEW, NEW, (step,)), None)
    assert not takes_backup(Lab(tmp_path).taker, Plan(NEW, NEW, (replace(step, before=after),)), None)


def test_without_recipients_there_is_none(tmp_path: Path) -> None:
    """The check `backup.none` warns then."""
    taker = replace(Lab(tmp_path).taker, settings=BackupSettings())
    assert not takes_backup(taker, Plan(OLD, NEW, ()), None)


def test_a_resumed_run_has_the_steps_that_it_began_with(tmp_path: Path) -> None:
    """Whatever upgrader.yaml says now."""
    taker = Lab(tmp_path).taker
    assert takes_backup(taker, Plan(OLD, NEW, ()), [BACKUP, "kube-apiserver"])
    assert not takes_backup(taker, Plan(OLD, NEW, ()), ["kube-apiserver"])


def test_the_step_takes_it_and_has_nothing_to_undo(tmp_path: Path) -> None:
    """The file is there, and its name is in the run's journal."""
    lab = Lab(tmp_path)
    step = BackupStep(lab.taker)
    step.apply(lab.notes.append)
    assert lab.left()[0] in lab.notes[-1]
    assert str(tmp_path / "backups") in step.summary()
