"""Releases of charts that others have written, with the real Helm and a real API server, without controllers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.api_servers import api_servers
from testkit.lab_cluster import OLD, until
from tests.contract.checking import checked
from upgrader.adapters.helm import HelmAdapter, find_helm
from upgrader.adapters.kube import KubeAdapter
from upgrader.app.observe_cluster import observe_release
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS
from upgrader.model.release import ReleaseSpec
from upgrader.ports import Kind
from upgrader.preflight.admission import check_admission
from upgrader.preflight.all_checks import Check, run_checks
from upgrader.preflight.chart_definitions import check_chart_definitions
from upgrader.preflight.releases import check_releases
from upgrader.steps.release.plan import IntendedRelease

DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
QUOTAS = Kind("v1", "resourcequotas")
KEPT = "helm.sh/resource-policy"


class Site:
    """An API server, a Helm for it, and a chart."""

    def __init__(self, kube: KubeAdapter, kubeconfig: Path, chart: Path) -> None:
        self.kube, self.kubeconfig, self.helm = kube, kubeconfig, HelmAdapter(kubeconfig)
        self.spec = ReleaseSpec("shop.web", "default", chart)

    def write(self, name: str, content: dict[str, Any]) -> None:
        """A file of the chart."""
        path = self.spec.chart / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content))

    def upgrade(self) -> int:
        """The revision that Helm wrote."""
        return self.helm.upgrade(self.spec, timeout_seconds=60, watch=lambda: None).number

    def uninstall(self, *options: str) -> None:
        """As a person does."""
        command = [str(find_helm()), "uninstall", self.spec.name, "--namespace", "default", *options]
        subprocess.run([*command, "--kubeconfig", str(self.kubeconfig)], check=True, capture_output=True)

    def planned(self) -> Any:
        """What a run would do with the release, as it is now."""
        context = checked(self.kube, controllers=())
        seen = {self.spec.name: observe_release(self.helm, self.spec)}
        observed = replace(context.observed, releases=seen)
        return IntendedRelease(self.spec, self.helm.render(self.spec)).planned(observed), observed

    def ids(self, check: Check) -> list[str]:
        """What a check finds before such a run."""
        step, observed = self.planned()
        context = checked(self.kube, controllers=())
        assert context.plan is not None
        plan = replace(context.plan, steps=(step,))
        context = replace(context, helm=self.helm, observed=observed, plan=plan)
        return [item.id for item in run_checks(context, [("custom-resources", check)])]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KubeAdapter, Path]]:
    """An API server, and a kubeconfig for it."""
    with api_servers(tmp_path_factory.mktemp("bare")) as servers, servers.serving(OLD) as kube:
        yield kube, servers.kubeconfig()


@pytest.fixture
def site(served: tuple[KubeAdapter, Path], tmp_path: Path) -> Iterator[Site]:
    """With a chart as pyhelm3's models refuse it."""
    found = Site(*served, tmp_path / "chart")
    found.write("Chart.yaml", {"apiVersion": "v2", "name": "Shop_Web", "version": "1.0", "home": "example.com"})
    found.write("templates/map.yaml", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}})
    try:
        yield found
    finally:
        found.helm.uninstall(found.spec.name, "default", timeout_seconds=60)
        found.helm.close()
        found.kube.delete(CONFIG_MAPS, "web", "default")
        found.kube.delete(DEFINITIONS, "queues.example.com")
        found.kube.delete(QUOTAS, "few", "kube-system")


def definition(*versions: str) -> dict[str, Any]:
    """A CustomResourceDefinition of these versions, the last one stored."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = [{"name": each, "served": True, "storage": each == versions[-1], "schema": schema} for each in versions]
    names = {"kind": "Queue", "plural": "queues"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": served}
    meta = {"name": "queues.example.com"}
    return {"apiVersion": DEFINITIONS.api_version, "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}


def test_release_that_was_uninstalled_with_its_history_kept(site: Site) -> None:
    """It is planned, installed and taken back as one that isn't there, whatever its chart and it are called."""
    assert [site.upgrade(), site.upgrade()] == [1, 2]
    assert site.planned()[0].action == "unchanged"
    site.uninstall("--keep-history")
    step, _ = site.planned()
    assert (step.action, step.revision) == ("install", None) and site.ids(check_releases) == []
    assert site.upgrade() == 3 and site.kube.get(CONFIG_MAPS, "web", "default") is not None
    assert site.planned()[0].action == "unchanged"


def test_object_that_an_uninstall_has_kept(site: Site) -> None:
    """The chart is installed again over it; without the chart's own wish to keep it, its records count as lost."""
    meta = {"name": "web", "annotations": {KEPT: "keep"}}
    site.write("templates/map.yaml", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    site.upgrade()
    site.uninstall()
    assert site.kube.get(CONFIG_MAPS, "web", "default") is not None and site.ids(check_releases) == []
    site.write("templates/map.yaml", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}})
    assert site.ids(check_releases) == ["releases.no-records"]


def test_definitions_that_helm_does_not_upgrade(site: Site) -> None:
    """Installed with the release, and left as they are by an upgrade: named until they are applied."""
    site.write("crds/queues.yaml", definition("v1"))
    assert site.ids(check_chart_definitions) == []
    site.upgrade()
    site.write("templates/map.yaml", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}})
    assert site.ids(check_chart_definitions) == []
    site.write("crds/queues.yaml", definition("v1", "v2"))
    assert site.ids(check_chart_definitions) == ["custom-resources.not-upgraded"]
    site.kube.apply(DEFINITIONS, definition("v1", "v2"))
    assert site.ids(check_chart_definitions) == []
    site.kube.delete(DEFINITIONS, "queues.example.com")
    until("it to be gone", lambda: site.kube.get(DEFINITIONS, "queues.example.com") is None, timeout_seconds=60)
    assert site.ids(check_chart_definitions) == ["custom-resources.not-upgraded"]


def test_quota_that_refuses_what_gates_write(site: Site) -> None:
    """A full one of kube-system: nothing of the release itself is refused."""
    assert site.ids(check_admission) == []
    hard = {"count/configmaps": "1"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": hard}}
    site.kube.create(QUOTAS, quota, "kube-system")
    # Without the controller that counts.
    site.kube.patch(
        QUOTAS,
        "few",
        {"status": {"hard": hard, "used": {"count/configmaps": "1"}}},
        "kube-system",
        subresource="status",
    )
    until("it to hold", lambda: site.ids(check_admission) == ["admission.refused"], timeout_seconds=120)


def test_hooks_are_counted_as_helm_renders_and_stores_them(site: Site) -> None:
    """Those that an upgrade waits for, and not its tests; for a rollback, those of the revision that it returns to."""
    write_hook(site, "back", "pre-rollback,post-rollback")
    write_hook(site, "check", "test")
    assert site.helm._upgrade_limit(site.spec, 60.0, undone=False).extended() == 60.0 + 60.0
    assert site.helm._upgrade_limit(site.spec, 60.0, undone=True).extended() == 60.0 * 4 + 60.0
    revision = site.upgrade()
    assert site.helm._rollback_limit("shop.web", "default", revision, 60.0).extended() == 60.0 * 3 + 30.0
    write_hook(site, "migrate", "pre-install,pre-upgrade")
    write_hook(site, "index", "post-upgrade")
    assert site.helm._upgrade_limit(site.spec, 60.0, undone=False).extended() == 60.0 * 3 + 60.0


def write_hook(site: Site, name: str, events: str) -> None:
    """A Job of the chart that Helm runs at these events."""
    meta = {"name": name, "annotations": {"helm.sh/hook": events}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "x", "image": "x"}]}
    spec = {"template": {"spec": pod}}
    site.write(f"templates/{name}.yaml", {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
