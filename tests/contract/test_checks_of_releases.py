"""Checks of Helm's releases, with records that Helm itself wrote into a real cluster."""

from __future__ import annotations

import base64
import gzip
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.contract.checking import checked
from upgrader.adapters.helm import HelmAdapter
from upgrader.adapters.kube import KubeAdapter
from upgrader.app.observe_cluster import observe_release
from upgrader.model.release import ReleaseSpec
from upgrader.ports import Kind
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.context import DEPLOYMENTS
from upgrader.preflight.releases import check_releases
from upgrader.steps.release.plan import PlannedRelease

SECRETS = Kind("v1", "secrets")


@dataclass(frozen=True)
class Release:
    """A release of one ConfigMap, with two revisions."""

    spec: ReleaseSpec
    kube: KubeAdapter
    helm: HelmAdapter

    def becomes(self, status: str, revision: int = 2, *, description: str = "x") -> None:
        """As if Helm had ended, or been killed, with a revision in this state."""
        name = f"sh.helm.release.v1.{self.spec.name}.v{revision}"
        secret = self.kube.get(SECRETS, name, "default")
        assert secret is not None
        kept = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))
        kept["info"] |= {"status": status, "description": description}
        packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(kept).encode()))).decode()
        meta = {**secret["metadata"], "labels": {**secret["metadata"]["labels"], "status": status}}
        self.kube.replace(SECRETS, {**secret, "metadata": meta, "data": {"release": packed}}, "default")

    def ids(self, later: timedelta = timedelta()) -> list[str]:
        """What the check finds of it."""
        context = checked(self.kube, later=later)
        seen = {self.spec.name: observe_release(self.helm, self.spec)}
        context = replace(context, observed=replace(context.observed, releases=seen))
        return [item.id for item in run_checks(context, [("releases", check_releases)])]


@pytest.fixture
def release(kube: KubeAdapter, lab_folder: Path, tmp_path: Path) -> Iterator[Release]:
    """Deployed."""
    name = f"upgrader-check-{uuid.uuid4().hex[:6]}"
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 0.1.0\n")
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"
    (tmp_path / "templates" / "map.yaml").write_text(text)
    helm = HelmAdapter(lab_folder / "kubeconfig")
    spec = ReleaseSpec(name, "default", tmp_path)
    try:
        for _ in range(2):
            helm.upgrade(spec, timeout_seconds=60, watch=lambda: None)
        yield Release(spec, kube, helm)
    finally:
        for revision in (1, 2):
            kube.delete(SECRETS, f"sh.helm.release.v1.{name}.v{revision}", "default")
        kube.delete(Kind("v1", "configmaps"), name, "default")
        helm.close()


def test_release_whose_records_are_lost(kube: KubeAdapter, lab_folder: Path, tmp_path: Path) -> None:
    """Its Deployment, which has Helm's own annotations, would be installed over; silent while the records are there."""
    name = f"upgrader-check-{uuid.uuid4().hex[:6]}"
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 0.1.0\n")
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "one", "image": "registry.k8s.io/pause:3.10"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": template}
    manifest = json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})
    (tmp_path / "templates" / "deployment.yaml").write_text(manifest)
    helm, of = HelmAdapter(lab_folder / "kubeconfig"), ReleaseSpec(name, "default", tmp_path)

    def ids() -> list[str]:
        planned = PlannedRelease(of, "install", "", "", manifest, ())
        context = checked(kube)
        assert context.plan is not None
        observed = replace(context.observed, releases={name: observe_release(helm, of)})
        context = replace(context, observed=observed, plan=replace(context.plan, steps=(planned,)))
        return [item.id for item in run_checks(context, [("releases", check_releases)])]

    try:
        assert ids() == []
        helm.upgrade(of, timeout_seconds=60, watch=lambda: None)
        assert ids() == []
        kube.delete(SECRETS, f"sh.helm.release.v1.{name}.v1", "default")
        assert ids() == ["releases.no-records"]
    finally:
        kube.delete(SECRETS, f"sh.helm.release.v1.{name}.v1", "default")
        kube.delete(DEPLOYMENTS, name, "default")
        helm.close()


def test_release_that_was_interrupted(release: Release) -> None:
    """At first another Helm may work on it; later it goes back to the revision that worked, if there is one."""
    assert release.ids() == []
    release.becomes("pending-upgrade")
    assert release.ids() == ["releases.busy"]
    assert release.ids(timedelta(hours=1)) == ["releases.pending"]
    release.becomes("failed", 1, description='Release "x" failed: why')
    assert release.ids(timedelta(hours=1)) == ["releases.stuck"]


def test_release_that_failed(release: Release) -> None:
    """Told, as its last good revision serves; without one, a run has nothing to go back to."""
    assert release.ids() == []
    release.becomes("failed", description='Release "x" failed: why')
    assert release.ids() == ["releases.last-failed"]
    release.becomes("failed", 1, description='Release "x" failed: why')
    assert release.ids() == ["releases.never-worked"]
