"""Edits by hand that no rollback reverts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError
from upgrader.ports import Kind, KubeObject
from upgrader.recover.steps.manual_edits import take_out_edits
from upgrader.recover.steps.revision_match import Rendered, rendered

DEPLOYMENTS = Kind("apps/v1", "deployments")
NAME, SPACE = "kube-apiserver", "kube-system"


def workload(**container: Any) -> dict[str, Any]:
    """A Deployment with one container."""
    main = {"name": NAME, "image": "i", "env": [{"name": "HOST_IP"}], "volumeMounts": [{"mountPath": "/pki"}]}
    pod = {"containers": [{**main, **container}], "volumes": [{"name": "pki"}]}
    return {"kind": "Deployment", "metadata": {"name": NAME}, "spec": {"replicas": 1, "template": {"spec": pod}}}


def wanted() -> Rendered:
    """The revision's workload."""
    found = rendered(yaml.safe_dump(workload()), SPACE, NAME)
    assert found is not None
    return found


EDITS: Mapping[str, dict[str, Any]] = {
    "variable GODEBUG of kube-apiserver": workload(env=[{"name": "HOST_IP"}, {"name": "GODEBUG"}]),
    "mount /x of kube-apiserver": workload(volumeMounts=[{"mountPath": "/pki"}, {"mountPath": "/x"}]),
}


@pytest.mark.parametrize(("edit", "live"), EDITS.items(), ids=EDITS)
def test_addition_is_taken_out(edit: str, live: dict[str, Any]) -> None:
    """What only the live object has goes, is named, and nothing else of the object changes."""
    kube, notes = FakeKube(), list[str]()
    live["spec"]["replicas"] = 3
    kube.put(DEPLOYMENTS, live, SPACE)
    take_out_edits(kube, wanted(), notes.append)
    after = kube.get(DEPLOYMENTS, NAME, SPACE)
    assert after is not None
    assert after["spec"]["template"] == wanted().spec["template"]
    assert after["spec"]["replicas"] == 3
    assert len(notes) == 1
    assert edit in notes[0]


def test_added_container_and_volume_are_taken_out() -> None:
    """Also whole containers and volumes that were added."""
    kube, notes, live = FakeKube(), list[str](), workload()
    pod = live["spec"]["template"]["spec"]
    pod["containers"].append({"name": "debug", "image": "sh"})
    pod["volumes"].append({"name": "tmp"})
    kube.put(DEPLOYMENTS, live, SPACE)
    take_out_edits(kube, wanted(), notes.append)
    assert "container debug, volume tmp" in notes[0]


def test_defaults_of_the_api_server_are_no_edits() -> None:
    """What the API server fills in is no reason to write."""
    kube, notes = FakeKube(), list[str]()
    live = workload(terminationMessagePath="/dev/termination-log", imagePullPolicy="IfNotPresent")
    live["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    kube.put(DEPLOYMENTS, live, SPACE)
    before = kube.get(DEPLOYMENTS, NAME, SPACE)
    take_out_edits(kube, wanted(), notes.append)
    assert notes == []
    assert kube.get(DEPLOYMENTS, NAME, SPACE) == before


def test_conflict_is_tried_again() -> None:
    """A controller that writes the status in between is no reason to give up."""

    class Busy(FakeKube):
        conflicts = 2

        def replace(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
            if self.conflicts:
                self.conflicts -= 1
                error = ApiError("the object has been modified")
                error.status = 409
                raise error
            return super().replace(kind, manifest, namespace)

    kube = Busy()
    kube.put(DEPLOYMENTS, EDITS["mount /x of kube-apiserver"], SPACE)
    take_out_edits(kube, wanted(), lambda _: None)
    after = kube.get(DEPLOYMENTS, NAME, SPACE)
    assert after is not None and after["spec"]["template"] == wanted().spec["template"]
