"""Which pods of a plan need which images."""

from __future__ import annotations

from pathlib import Path

from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.steps.images.planned_images import WantedImage, planned_pods
from upgrader.steps.plan import Plan
from upgrader.steps.playbook.plan import PlannedPlaybook
from upgrader.steps.release.plan import Action, PlannedRelease

APP = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  template:
    spec:
      serviceAccountName: runner
      hostNetwork: true
      runtimeClassName: kata
      initContainers: [{name: init, image: app:1}]
      containers: [{name: app, image: app:1}, {name: side, image: side:2, imagePullPolicy: Always}, {name: none}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: runner}
imagePullSecrets: [{name: login}]
---
apiVersion: v1
kind: Secret
metadata: {name: login}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: other}
spec: {jobTemplate: {spec: {template: {spec: {imagePullSecrets: [{name: mine}], containers: [{image: job:3}]}}}}}
"""


def plan(action: Action, before: str = "") -> Plan:
    """One release, and a playbook."""
    version = KubernetesVersion(1, 37, 1)
    release = PlannedRelease(ReleaseSpec("app", "apps", Path("/chart")), action, "change", before, APP, ())
    return Plan(version, version, (release, PlannedPlaybook(Path("/play.yml"))))


def test_workload_without_pods_needs_no_image() -> None:
    """A Deployment that is scaled to 0 starts nothing: its image may not even be there any more."""
    scaled = APP.replace("metadata: {name: app}\nspec:\n", "metadata: {name: app}\nspec:\n  replicas: 0\n")
    release = PlannedRelease(ReleaseSpec("app", "apps", Path("/chart")), "upgrade", "change", "", scaled, ())
    version = KubernetesVersion(1, 37, 1)
    assert [pods.workload for pods in planned_pods(Plan(version, version, (release,)))] == ["CronJob other/nightly"]


def test_images_with_what_they_are_pulled_with() -> None:
    """Each image once, with its policy; the namespace, account and secrets are those of the pods."""
    app, job = planned_pods(plan("upgrade"))
    assert (app.workload, app.namespace, app.service_account) == ("Deployment apps/app", "apps", "runner")
    assert app.images == (WantedImage("app:1"), WantedImage("side:2", "Always"))
    assert app.pull_secrets == app.own_secrets == ("login",), "the planned ServiceAccount's, which the plan brings"
    assert (app.host_network, app.runtime_class) == (True, "kata")
    assert (job.workload, job.service_account) == ("CronJob other/nightly", "default")
    assert (job.pull_secrets, job.own_secrets) == (("mine",), ())


def test_release_that_stays_needs_nothing() -> None:
    """What isn't changed starts no pods."""
    assert planned_pods(plan("unchanged")) == ()


def test_workload_that_stays_needs_nothing() -> None:
    """Its pods are not started again, so that no node needs its image: the registry may have lost it since."""
    before = APP.replace("job:3", "job:2").replace("{name: app}", "{name: app, labels: {version: old}}", 1)
    (job,) = planned_pods(plan("upgrade", before))
    assert job.workload == "CronJob other/nightly"
    assert len(planned_pods(plan("upgrade", before.replace("app:1", "app:0")))) == 2
    assert planned_pods(plan("upgrade", APP)) == ()
