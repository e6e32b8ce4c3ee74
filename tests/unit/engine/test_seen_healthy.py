"""A revision that Helm didn't wait for is one to go back to only once a run has seen it healthy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.helm import FakeHelm
from upgrader.engine.history.seen_healthy import HelmAsSeen, seen_healthy
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.model.outcome import StepPhase
from upgrader.model.release import UNWAITED, ReleaseSpec, RestorePoint, last_good

RELEASE, NAMESPACE = "kubernetes", "kube-system"
DESCRIPTION = f"{UNWAITED}v1 → v2"


def ended(phase: StepPhase, revision: int | None = 1, release: str = RELEASE) -> RunState:
    """A run whose step of a release got that far."""
    return RunState(
        run="r", steps=(StepState(release, phase, restore_point=RestorePoint(release, NAMESPACE, revision)),)
    )


def after(*runs: RunState) -> HelmAsSeen:
    """Helm behind these runs, with a revision 2 that it didn't wait for, beside one that worked."""
    helm = FakeHelm()
    helm.install(RELEASE, "v: 1\n")
    helm.install(RELEASE, "v: 2\n", description=DESCRIPTION)
    return HelmAsSeen(helm, lambda: runs)


def goes_back_to(helm: HelmAsSeen) -> int:
    """The revision that a new run goes back to; 0: none."""
    good = last_good(helm.history(RELEASE, NAMESPACE))
    return good.number if good is not None else 0


@pytest.mark.parametrize("phase", ["applying", "gating", "failed", "undoing", "undo-failed"])
def test_revision_of_a_step_that_was_killed_or_failed_is_none_to_go_back_to(phase: StepPhase) -> None:
    """The one before is, which the journal has as the step's restore point; also where a later run got no further."""
    assert goes_back_to(after(ended(phase))) == 1
    assert goes_back_to(after(ended("passed"), ended(phase))) == 1
    assert goes_back_to(after(ended(phase), ended("passed", release="kube-apiserver"))) == 1


@pytest.mark.parametrize("phase", ["passed", "undone"])
def test_revision_that_a_run_saw_healthy_is_one_to_go_back_to(phase: StepPhase) -> None:
    """Also where an earlier run had left the release as nobody knows how."""
    assert goes_back_to(after(ended(phase))) == 2
    assert goes_back_to(after(ended("applying"), ended(phase))) == 2


def test_revision_of_which_no_journal_tells_is_good() -> None:
    """Most were healthy: a lost journal must not send a run back by one more version."""
    assert goes_back_to(after()) == 2
    assert goes_back_to(after(RunState(run="r", steps=(StepState(RELEASE, "failed"),)))) == 2


def test_revision_that_others_wrote_since_is_theirs() -> None:
    """Helm has waited for it, or whoever wrote it knows; the step's own one behind it counts as little as before."""
    helm = after(ended("undo-failed"))
    assert isinstance(helm.helm, FakeHelm)
    helm.helm.install(RELEASE, "v: 1\n", description="Rollback to 1")
    assert goes_back_to(helm) == 3
    helm.helm.install(RELEASE, "v: 4\n", "failed")
    assert goes_back_to(helm) == 3


def test_failed_rollback_leaves_the_revision_before_the_step() -> None:
    """Helm calls the one that failed superseded then, and so good."""
    helm = after(ended("undo-failed"))
    assert isinstance(helm.helm, FakeHelm)
    first, second = helm.helm.releases[RELEASE]
    helm.helm.releases[RELEASE] = [first, replace(second, status="superseded")]
    helm.helm.install(RELEASE, "v: 1\n", "failed")
    assert goes_back_to(helm) == 1


def test_release_that_was_not_installed_before_has_none() -> None:
    """What the step installed is all that there is."""
    helm = FakeHelm()
    helm.install(RELEASE, "v: 1\n", description=DESCRIPTION)
    assert goes_back_to(HelmAsSeen(helm, lambda: (ended("applying", None),))) == 0
    assert seen_healthy([ended("applying", None)], RELEASE, NAMESPACE) == 0


def test_journals_are_read_only_where_they_decide() -> None:
    """Fifty of them, in two places."""

    def none() -> Iterator[RunState]:
        raise AssertionError("read")

    helm = FakeHelm()
    assert HelmAsSeen(helm, none).history(RELEASE, NAMESPACE) == ()
    helm.install(RELEASE, "v: 1\n", description=DESCRIPTION)
    helm.install(RELEASE, "v: 2\n", description="upgrader: v1 → v2")
    assert goes_back_to(HelmAsSeen(helm, none)) == 2


def test_everything_else_is_helms() -> None:
    """It passes through."""
    fake = FakeHelm()
    fake.processes[RELEASE] = 7
    helm = HelmAsSeen(fake, tuple)
    spec = ReleaseSpec(RELEASE, NAMESPACE, Path("/c"), {"v": 1})
    helm.upgrade(spec, timeout_seconds=1.0, watch=lambda: None, description="why", wait=False)
    helm.rollback(RELEASE, NAMESPACE, 1, timeout_seconds=1.0, wait=False)
    assert helm.history(RELEASE, NAMESPACE)[0].description == "why"
    assert (helm.version(), helm.at_work(RELEASE, NAMESPACE)) == (fake.version(), 7)
    assert helm.manifest(RELEASE, NAMESPACE) == helm.render(spec) == "v: 1\n"
    helm.uninstall(RELEASE, NAMESPACE, timeout_seconds=1.0)
    assert fake.calls == [
        f"upgrade {RELEASE} without waiting",
        f"rollback {RELEASE} 1 without waiting",
        f"uninstall {RELEASE}",
    ]
