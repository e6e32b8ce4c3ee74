"""The step that frees a release which an interrupted Helm left behind."""

from __future__ import annotations

from datetime import timedelta

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from upgrader.errors import ReleaseLocked
from upgrader.steps.release.free_release import FreeReleaseStep


def quiet(text: str) -> None:
    """Take no notes."""


def free(helm: FakeHelm, clock: FakeClock) -> None:
    """Free release `app`; Helm's timeout is a minute."""
    FreeReleaseStep("app", "kube-system", helm, clock, 60.0).apply(quiet)


def test_old_pending_release_is_rolled_back() -> None:
    """A release left in pending-upgrade for longer than Helm's timeout is rolled back to its last good revision."""
    helm, clock = FakeHelm(), FakeClock()
    helm.install("app", "tag: good\n")
    helm.install("app", "tag: half\n", "pending-upgrade", updated=clock.now() - timedelta(seconds=121))
    free(helm, clock)
    assert helm.calls == ["rollback app 1"]
    assert helm.manifest("app", "kube-system") == "tag: good\n"


def test_fresh_pending_release_is_left_alone() -> None:
    """A release that has just become pending may be in use by another Helm: refuse, and say when to retry."""
    helm, clock = FakeHelm(), FakeClock()
    helm.install("app", "tag: good\n")
    helm.install("app", "tag: half\n", "pending-upgrade", updated=clock.now() - timedelta(seconds=5))
    with pytest.raises(ReleaseLocked) as caught:
        free(helm, clock)
    assert helm.calls == []
    assert "120 s" in caught.value.remedy


def test_pending_install_that_never_worked_is_not_removed() -> None:
    """With no good revision, freeing it would mean uninstalling what may be in use: refused, with the remedy."""
    helm, clock = FakeHelm(), FakeClock()
    helm.install("app", "tag: half\n", "pending-install", updated=clock.now() - timedelta(hours=1))
    with pytest.raises(ReleaseLocked) as caught:
        free(helm, clock)
    assert "helm rollback app" in caught.value.remedy and "helm uninstall" not in caught.value.remedy
    assert helm.calls == []


def test_release_that_is_free_already_is_left_alone() -> None:
    """A step that is run again finds nothing to do."""
    helm = FakeHelm()
    helm.install("app", "tag: good\n")
    free(helm, FakeClock())
    assert helm.calls == []
