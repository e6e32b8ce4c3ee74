"""The watcher ends Helm's wait for what Helm itself broke, and for nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_daemonset, add_deployment, add_pod, crashed, running
from upgrader.errors import ApiError, ApiLost, WorkloadFailed
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.gates.manifest_workloads import workloads_in
from upgrader.gates.workload_watcher import WorkloadWatcher, watch_workloads
from upgrader.model.outcome import VerdictKind
from upgrader.model.workload import WorkloadRef
from upgrader.ports import Kind

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
"""


def watcher(kube: FakeKube, manifest: str = MANIFEST, clock: FakeClock | None = None) -> WorkloadWatcher:
    """A watcher of the manifest's workloads as they are now, for which the API is lost after five seconds."""
    clock = clock or FakeClock()
    absence = ApiAbsence(kube, clock, 5.0)
    return watch_workloads(kube, manifest, clock=clock, namespace="kube-system", absence=absence)


def break_new_revision(kube: FakeKube, generation: int = 2) -> None:
    """What Helm's change leads to: a new revision whose pod crash-loops."""
    add_deployment(kube, generation=generation, revision=generation, updatedReplicas=1, availableReplicas=1)
    pod = add_pod(kube, "web", crashed(1), revision=generation)
    kube.log_texts[pod, "main", False] = "Error: unknown flag: --nonsense\n"


def noted_lists(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with each list from now on: what of."""
    lists: list[str] = []
    every = kube.list

    def noted(kind: Kind, *more: Any, **some: Any) -> Any:
        lists.append(kind.plural)
        return every(kind, *more, **some)

    monkeypatch.setattr(kube, "list", noted)
    return lists


def test_broken_new_revision_ends_the_wait(kube: FakeKube) -> None:
    """Two looks in a row at a crash loop are certain; the error holds the cause and the log."""
    add_deployment(kube)
    look = watcher(kube)
    break_new_revision(kube)
    look()
    with pytest.raises(WorkloadFailed) as caught:
        look()
    assert "unknown flag: --nonsense" in caught.value.message.splitlines()[0]
    assert "  log of main: Error: unknown flag: --nonsense" in caught.value.message.splitlines()
    assert look.last[0].kind is VerdictKind.BROKEN


def test_one_look_is_not_enough(kube: FakeKube) -> None:
    """A glimpse of a crash loop that is over at the next look ends nothing, nor does the next glimpse."""
    add_deployment(kube)
    look = watcher(kube)
    for _ in range(3):
        break_new_revision(kube)
        look()
        add_pod(kube, "web", running(ready=False), revision=2)
        look()


def test_workload_that_helm_has_not_changed_is_not_judged(kube: FakeKube) -> None:
    """An old revision that crash-loops already is what the upgrade may be meant to cure."""
    break_new_revision(kube, generation=1)
    look = watcher(kube)
    for _ in range(5):
        look()
    assert look.last == ()


def test_broken_before_is_judged_once_changed(kube: FakeKube) -> None:
    """On a retry, what was broken already counts as soon as Helm has changed it."""
    break_new_revision(kube, generation=1)
    look = watcher(kube)
    break_new_revision(kube, generation=2)
    look()
    with pytest.raises(WorkloadFailed):
        look()


def test_new_workload_is_judged(kube: FakeKube) -> None:
    """A workload that did not exist when Helm began is Helm's."""
    look = watcher(kube)
    look()
    break_new_revision(kube, generation=1)
    look()
    with pytest.raises(WorkloadFailed):
        look()


def test_unseen_spec_is_not_judged(kube: FakeKube) -> None:
    """Until the controller has seen the new spec, the newest pods are still the old ones."""
    add_deployment(kube)
    look = watcher(kube)
    add_deployment(kube, generation=2, observed=1)
    add_pod(kube, "web", crashed(1), revision=1)
    for _ in range(3):
        look()
    assert look.last[0].kind is VerdictKind.PENDING


def test_api_away_is_remembered_and_passed_over(kube: FakeKube) -> None:
    """While kube-apiserver is replaced it may not answer: that is unknown, and starts the count anew."""
    add_deployment(kube)
    look = watcher(kube)
    break_new_revision(kube)
    look()
    kube.unavailable = True
    look()
    assert look.last[0].kind is VerdictKind.UNKNOWN
    kube.unavailable = False
    look()
    with pytest.raises(WorkloadFailed):
        look()


def test_api_away_at_the_start_makes_it_careful(kube: FakeKube) -> None:
    """What could not be read at the start counts as it is first seen, so that nothing old is blamed on Helm."""
    break_new_revision(kube, generation=1)
    kube.unavailable = True
    look = watcher(kube)
    kube.unavailable = False
    for _ in range(3):
        look()
    assert look.last == ()


def test_last_diagnosis_is_kept_for_when_helm_gives_up(kube: FakeKube) -> None:
    """A pod that never gets Ready isn't broken; when Helm's timeout ends the wait, the cause is at hand."""
    add_deployment(kube)
    look = watcher(kube)
    add_deployment(kube, generation=2, revision=2, readyReplicas=0)
    add_pod(kube, "web", running(ready=False), revision=2)
    look()
    assert "is running but not ready" in look.last[0].reason


def test_manifest_names_workloads() -> None:
    """Deployments and DaemonSets in order, in the release's namespace unless they say another; hooks are left out."""
    manifest = """
kind: Deployment
metadata: {name: a}
---
kind: Service
metadata: {name: b}
---
---
kind: DaemonSet
metadata: {name: c, namespace: other}
---
kind: Deployment
metadata: {name: d, annotations: {helm.sh/hook: pre-upgrade}}
"""
    assert workloads_in(manifest, "ns") == (
        WorkloadRef("Deployment", "ns", "a"),
        WorkloadRef("DaemonSet", "other", "c"),
    )


def test_api_that_is_lost_ends_the_wait(kube: FakeKube) -> None:
    """Helm would go on asking an API that is away until its own timeout; past the limit that is in vain, and ends."""
    add_deployment(kube)
    clock = FakeClock()
    look = watcher(kube, clock=clock)
    kube.unavailable = True
    for _ in range(5):
        look()
        clock.sleep(1)
    with pytest.raises(ApiLost, match="has not been ready for 5 s"):
        look()


def test_large_workload_is_read_less_often(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 pods each second would load the API in the middle of its own roll: every ten seconds is enough."""
    clock = FakeClock()
    add_daemonset(kube, "web", desired=2000, numberReady=1999)
    look = watcher(kube, MANIFEST.replace("Deployment", "DaemonSet"), clock)
    add_daemonset(kube, "web", desired=2000, generation=2, revision=2, numberReady=1999)
    pod = add_pod(kube, "web", crashed(1), revision=2, daemon=True)
    kube.log_texts[pod, "main", False] = "Error: unknown flag: --nonsense\n"
    lists = noted_lists(kube, monkeypatch)
    for _ in range(10):
        look()
        clock.sleep(1)
    assert lists.count("pods") == 1 and look.last[0].kind is VerdictKind.BROKEN
    with pytest.raises(WorkloadFailed, match="unknown flag"):
        look()


def test_complete_rollout_is_read_again_once_its_status_changes(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Helm waits for the slowest workload; the others' pods are not listed each second meanwhile. One that breaks
    afterwards ends the wait all the same.
    """
    add_deployment(kube)
    look = watcher(kube)
    add_deployment(kube, generation=2, revision=2)
    add_pod(kube, "web", running(), revision=2)
    lists = noted_lists(kube, monkeypatch)
    for _ in range(10):
        look()
    assert lists.count("pods") == 1 and look.last[0].kind is VerdictKind.HOLDS
    break_new_revision(kube)
    look()
    with pytest.raises(WorkloadFailed, match="unknown flag"):
        look()


def test_status_that_nobody_writes_is_not_believed_for_long(kube: FakeKube) -> None:
    """A kube-controller-manager that was Ready and crashes can't say so in its own Deployment: its pod does."""
    clock = FakeClock()
    add_deployment(kube)
    look = watcher(kube, clock=clock)
    add_deployment(kube, generation=2, revision=2)
    add_pod(kube, "web", running(), revision=2)
    look()
    pod = add_pod(kube, "web", crashed(1), revision=2)
    kube.log_texts[pod, "main", False] = "Error: unknown flag: --nonsense\n"

    def wait() -> None:
        for _ in range(15):
            clock.sleep(1)
            look()

    with pytest.raises(WorkloadFailed, match="unknown flag"):
        wait()


def test_api_that_lost_the_group_of_its_workloads_ends_the_wait(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `apps/v1` a Deployment is merely not found, and Helm waits for it until its timeout: the wait ends once
    the API server has refused time after time what a rollback needs. A Deployment that is gone alone ends nothing.
    """
    kube.raw_answers["/readyz"] = "ok"
    add_deployment(kube)
    clock = FakeClock()
    look = watcher(kube, clock=clock)
    kube.delete(WORKLOADS["Deployment"], "web", "kube-system")
    for _ in range(20):
        look()
        clock.sleep(1)
    assert look.last[0].kind is VerdictKind.UNKNOWN and "existed before" in look.last[0].reason

    def refuse(*_: object, **__: object) -> object:
        error = ApiError("refused 'list deployments kube-system': HTTP 404 404 page not found")
        error.status = 404
        raise error

    monkeypatch.setattr(kube, "list", refuse)
    looks: list[None] = []

    def keep_looking() -> None:
        while len(looks) < 30:
            looks.append(None)
            look()
            clock.sleep(1)

    with pytest.raises(ApiLost, match="HTTP 404"):
        keep_looking()
    assert 5 <= len(looks) < 12, "after three refusals in a row, some seconds apart"


def test_large_cluster_is_asked_less_often(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two checks nothing is asked, however often Helm's wait looks; a fault is found all the same."""
    clock = FakeClock()
    add_deployment(kube, generation=1, revision=1)
    watch = watch_workloads(
        kube, MANIFEST, clock=clock, namespace="kube-system", absence=ApiAbsence(kube, clock, 60.0), every_seconds=3.0
    )
    break_new_revision(kube)
    asked = noted_lists(kube, monkeypatch)
    watch()
    first = len(asked)
    assert first
    for _ in range(2):
        clock.sleep(1.0)
        watch()
    assert len(asked) == first
    clock.sleep(1.0)
    with pytest.raises(WorkloadFailed, match="unknown flag"):
        watch()
