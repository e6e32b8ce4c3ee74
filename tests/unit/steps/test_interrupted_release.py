"""What became of a release whose `upgrader` was killed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from upgrader.errors import ReleaseLocked, StepFailed
from upgrader.model.release import ReleaseSpec, RestorePoint
from upgrader.steps.release.free_release import FreeReleaseStep
from upgrader.steps.release.interrupted_release import ReleaseInspector

TIMEOUT = 300.0
POINT = RestorePoint("app", "default", 1)


def quiet(text: str) -> None:
    """Take no notes."""


@pytest.fixture
def clock() -> FakeClock:
    """The time of this machine."""
    return FakeClock()


@pytest.fixture
def helm(clock: FakeClock) -> FakeHelm:
    """A good revision, and one that an interrupted `helm upgrade` wrote just now."""
    helm = FakeHelm()
    helm.install("app", "tag: good\n")
    helm.install("app", "tag: half\n", "pending-upgrade", updated=clock.now())
    return helm


def inspector(helm: FakeHelm, clock: FakeClock) -> ReleaseInspector:
    """The inspector of release `app`."""
    return ReleaseInspector(ReleaseSpec("app", "default", Path("/charts/app")), helm, clock, TIMEOUT)


def test_helm_that_times_out_is_left_to_roll_back(helm: FakeHelm, clock: FakeClock) -> None:
    """A Helm on another machine begins to roll back at its timeout: only a minute later it is certain to be dead."""
    inspector(helm, clock).await_idle(POINT, quiet)
    assert helm.calls == ["rollback app 1"]
    assert TIMEOUT + 60 <= clock.monotonic() <= TIMEOUT + 65


def test_helm_that_lives_on_this_machine_is_waited_for(helm: FakeHelm, clock: FakeClock) -> None:
    """However old the revision is: a process that works on it is not dead."""
    helm.processes["app"] = 4711
    clock.sleep(3600)
    began, sleep = clock.monotonic(), clock.sleep

    def ends(seconds: float) -> None:
        sleep(seconds)
        if clock.monotonic() - began >= 100:
            helm.processes.clear()

    clock.sleep = ends  # type: ignore[method-assign]
    inspector(helm, clock).await_idle(POINT, quiet)
    assert clock.monotonic() - began >= 100
    assert helm.calls == ["rollback app 1"]


def test_helm_that_never_ends_is_named(helm: FakeHelm, clock: FakeClock) -> None:
    """The wait has an end, and the message names the process."""
    helm.processes["app"] = 4711
    with pytest.raises(StepFailed, match="process 4711 on this machine"):
        inspector(helm, clock).await_idle(POINT, quiet)
    assert helm.calls == []


def test_clock_of_helms_machine_that_is_ahead(helm: FakeHelm, clock: FakeClock) -> None:
    """A revision from the future is given up once we have watched it for long enough by our own clock."""
    helm.install("app", "tag: half\n", "pending-upgrade", updated=clock.now() + timedelta(hours=3))
    inspector(helm, clock).await_idle(POINT, quiet)
    assert helm.calls == ["rollback app 1"]


def test_helm_that_waits_for_hooks_is_left_to_them(helm: FakeHelm, clock: FakeClock) -> None:
    """A migration may take its whole timeout before Helm begins to wait for the workloads."""
    helm.install("app", "tag: half\n", "pending-upgrade", updated=clock.now(), waits=2)
    inspector(helm, clock).await_idle(POINT, quiet)
    assert helm.calls == ["rollback app 1"]
    assert 2 * TIMEOUT + 60 <= clock.monotonic() <= 2 * TIMEOUT + 65


def test_release_is_not_freed_under_a_helm_of_this_machine(helm: FakeHelm, clock: FakeClock) -> None:
    """A new run leaves a release alone that a Helm works on, however old it is."""
    helm.processes["app"] = 4711
    clock.sleep(3600)
    with pytest.raises(ReleaseLocked, match="process 4711"):
        FreeReleaseStep("app", "default", helm, clock, TIMEOUT).apply(quiet)
    assert helm.calls == []
