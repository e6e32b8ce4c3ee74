"""Which group versions may go with a version of Kubernetes, or with a plan."""

from __future__ import annotations

import json

import pytest

from testkit.fakes.kube import FakeKube
from upgrader.gates.continuity.served_groups import PRERELEASES, missing_at, missing_groups, removed_by
from upgrader.model.baseline import Baseline

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  versions:
    - {name: v1, served: true}
    - {name: v1alpha1, served: false}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec: {group: metrics.k8s.io, version: v1beta1}
---
# nothing
"""


@pytest.mark.parametrize(
    ("group", "before", "now", "missing"),
    [
        ("apps/v1", "v1.36.3", "v1.37.1", True),
        ("example.com/v1", "v1.36.3", "v1.37.1", True),
        ("policy/v1beta1", "v1.24.0", "v1.25.0", False),
        ("policy/v1beta1", "v1.23.0", "v1.24.0", True),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "v1.31.0", "v1.33.0", False),
        ("storage.k8s.io/v1beta1", "v1.26.0", "v1.27.0", False),
        ("storage.k8s.io/v1beta1", "v1.25.0", "v1.26.0", True),
        ("resource.k8s.io/v1beta2", "v1.36.3", "v1.37.1", False),
        ("resource.k8s.io/v1beta2", "v1.36.3", "v1.36.4", True),
        ("storagemigration.k8s.io/v1beta1", "v1.36.3", "v1.37.1", True),
        ("internal.apiserver.k8s.io/v1alpha1", "v1.36.3", "v1.37.1", False),
        ("apps/v2", "v1.37.1", "v1.36.3", False),
        ("example.com/v1", "v1.37.1", "v1.36.3", True),
    ],
)
def test_missing_groups(group: str, before: str, now: str, missing: bool) -> None:
    """Kubernetes' own prerelease versions go with a minor version if a stable one stays; others never by themselves."""
    baseline = Baseline(before, groups=(group, "resource.k8s.io/v1"))
    assert missing_groups(baseline, ["resource.k8s.io/v1"], now, ()) == ((group,) if missing else ())


def test_plan_removes_what_it_no_longer_declares() -> None:
    """What only the old manifest declares may go, but for versions that were never served."""
    assert removed_by(CRD, "") == {"example.com/v1", "metrics.k8s.io/v1beta1"}
    assert removed_by(CRD, CRD) == frozenset()
    assert removed_by("", CRD) == frozenset()


def test_plan_may_turn_prereleases_off() -> None:
    """With other flags for it, prerelease versions of Kubernetes' own groups may go, but no stable one."""
    before, after = (
        'args: ["--runtime-config=resource.k8s.io/v1beta1=true"]',
        'args: ["--runtime-config=apps/v1=false"]',
    )
    removed = removed_by(before, after)
    baseline = Baseline("v1.36.3", groups=("apps/v1", "example.com/v1beta1", "resource.k8s.io/v1beta1"))
    assert removed == {PRERELEASES}
    assert missing_groups(baseline, [], "v1.36.3", removed) == ("apps/v1", "example.com/v1beta1")


def test_emulating_server_serves_what_the_older_minor_did() -> None:
    """What only the newer minor removes must be there while the older one is emulated, and may go when that ends."""
    kube = FakeKube()
    baseline = Baseline(version="v1.36.0", groups=("certificates.k8s.io/v1alpha1",))
    kube.raw_answers["/apis"] = json.dumps({"groups": []})
    version = {"gitVersion": "v1.37.1", "emulationMajor": "1", "emulationMinor": "36"}
    kube.raw_answers["/version"] = json.dumps(version)
    assert missing_at(kube, baseline, ()) == ("certificates.k8s.io/v1alpha1",)
    kube.raw_answers["/version"] = json.dumps({**version, "emulationMinor": "37"})
    assert missing_at(kube, baseline, ()) == ()
