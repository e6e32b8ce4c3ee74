"""After a restore, the API has what ran when the backup was taken: when it has what runs now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from testkit.fakes.kube import FakeKube
from tests.unit.recover.controllers import NOW, controller
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.onhost.sending.host_facts import Container
from upgrader.recover.diagnosis.diagnose import Controller, Diagnosis
from upgrader.recover.diagnosis.wrong_api import ApiSeen
from upgrader.steps.backup.reported import unreported

UID, NODE = "u1", "controller-1"


def time(seconds: float) -> str:
    """As the API has it: whole seconds."""
    return datetime.fromtimestamp(int(NOW + seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def runs(state: str = "running", **changes: Any) -> Controller:
    """A controller whose own kube-apiserver has run for ten seconds."""
    container = Container("kube-apiserver-a", "kube-system", "kube-apiserver", state, started=NOW - 10.4, uid=UID)
    return controller(NODE, containers=(replace(container, **changes),))


def pod(kube: FakeKube, name: str, state: Mapping[str, Any], *, uid: str = UID, phase: str = "Running") -> None:
    """A pod on that controller."""
    status = {"phase": phase, "containerStatuses": [{"name": name, "restartCount": 2, "state": state}]}
    spec = {"nodeName": NODE, "containers": [{"name": name}]}
    meta = {"name": f"{name}-a", "namespace": "kube-system", "uid": uid}
    kube.put(PODS, {"metadata": meta, "spec": spec, "status": status}, "kube-system")


def seen(kube: FakeKube, *controllers: Controller) -> str:
    """What is still missing."""
    return unreported(kube, Diagnosis(ApiSeen(True, "ok"), controllers, ()))


@pytest.mark.parametrize(
    ("state", "missing"),
    [
        ({"running": {"startedAt": time(-11)}}, ""),
        ({"running": {"startedAt": time(-4000)}}, "the kubelet has not yet reported pod kube-apiserver-a as running"),
        ({"terminated": {"exitCode": 137, "startedAt": time(-60), "finishedAt": time(-30)}}, "has not yet reported"),
    ],
    ids=["now", "as the backup has it", "as it was stopped"],
)
def test_old_reports_do_not_count(state: Mapping[str, Any], missing: str) -> None:
    """What the API calls running must be the instance that runs, by the controller's own clock."""
    kube = FakeKube()
    pod(kube, "kube-apiserver", state)
    assert missing in seen(kube, runs()) and bool(missing) == bool(seen(kube, runs()))


@pytest.mark.parametrize(
    "state",
    [
        {"terminated": {"exitCode": 137, "startedAt": time(-60), "finishedAt": time(-30)}},
        {"waiting": {"reason": "CrashLoopBackOff"}},
    ],
)
def test_others_that_were_stopped_are_waited_for(state: Mapping[str, Any]) -> None:
    """A kubelet starts each again after a pause that grows with each stop. Jobs' pods that have ended don't count."""
    kube = FakeKube()
    pod(kube, "kube-apiserver", {"running": {"startedAt": time(-10)}})
    pod(kube, "kube-scheduler", state, uid="u2")
    pod(kube, "job", state, uid="u3", phase="Failed")
    assert seen(kube, runs()) == (
        "controller-1: container kube-scheduler of pod kube-scheduler-a was stopped; waiting for "
        "the kubelet to start it again"
    )
    pod(kube, "kube-scheduler", {"running": {"startedAt": time(-5)}}, uid="u2")
    assert seen(kube, runs()) == ""


@pytest.mark.parametrize("found", [runs("exited"), runs(standby=True), controller(NODE)])
def test_its_own_instance_has_to_run(found: Controller) -> None:
    """A standby pod serves meanwhile; that is no end."""
    kube = FakeKube()
    pod(kube, "kube-apiserver", {"running": {"startedAt": time(-10)}})
    assert seen(kube, found) == "controller-1: the kubelet has not started the kube-apiserver pod yet"


def test_controller_that_can_not_be_examined_is_unknown() -> None:
    """What nobody knows isn't taken as reported."""
    assert seen(FakeKube(), replace(controller(NODE), facts=None)) == "controller-1: its running pods are unknown"
