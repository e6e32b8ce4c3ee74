"""docs/guard-tutorials.md, typed on a lab: three tutorials, each begun without guard, and what follows each of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.command import upgrader
from testkit.guarded_lab import import_site_images
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.typed_pages import TypedPage
from upgrader.lab.lifecycle import Lab
from upgrader.ports import Kind

PAGE = Path(__file__).parents[2] / "docs/guard-tutorials.md"
NAMESPACES = Kind("v1", "namespaces", namespaced=False)
ETCD = (
    "etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt "
    "--cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt --key=/etc/kubernetes/pki/etcd/healthcheck-client.key"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """As kubeadm made it, with three workers behind lb-1. UPGRADER_LAB names another one, while you write a test."""
    home = tmp_path_factory.mktemp("lab")
    if lent := os.environ.get("UPGRADER_LAB"):
        folder = Path(lent).resolve()
        found = LabCluster(folder.name, folder.parents[1], home / "kept")
        import_site_images(found)
        yield found
        return
    made = LabCluster(f"soak-pages-{os.getpid()}", home, home / "kept")
    try:
        made.lab("up", "--kubernetes", OLD, "--workers", "3", "--ingress")
        import_site_images(made)
        yield made
    finally:
        upgrader("-C", home, "lab", "down", "--force", "--name", made.name)


@pytest.fixture
def page(cluster: LabCluster, tmp_path: Path) -> Iterator[TypedPage]:
    """The page; guard is removed afterwards, as the next tutorial is for somebody who hasn't got it."""
    yield TypedPage(PAGE, cluster, tmp_path / "typed")
    spaces = ("edge", "mimir", "shop")
    for name in spaces:  # before guard, which has finalizers on what it looks after
        cluster.kube.delete(NAMESPACES, name)

    def gone() -> bool:
        return not any(cluster.kube.get(NAMESPACES, name) for name in spaces)

    until("the namespaces to be gone", gone, timeout_seconds=180)
    cluster.helm("uninstall", "guard", "--namespace=guard", "--wait", timeout_seconds=120)


def test_an_ingress_daemon_set_alone(cluster: LabCluster, page: TypedPage) -> None:
    """Installed, updated behind a load balancer, with a canary whose image is wrong, and an update without an agent."""
    page.follow("Only an ingress DaemonSet")
    page.follow("A canary of an ingress")
    lab = Lab.find(cluster.name)
    lab.run("lb-1", "systemctl stop haproxy-agent")
    try:
        page.follow("An update of an ingress that doesn't continue")
    finally:
        lab.run("lb-1", "systemctl start haproxy-agent")


def test_stateful_sets_alone(page: TypedPage) -> None:
    """Two zones are rolled, none shrinks, and while one is ill, no pod of the other goes."""
    page.follow("Only StatefulSets in zones")
    page.follow("A zone with a pod that is not Ready")


def test_deletions_alone(cluster: LabCluster, page: TypedPage) -> None:
    """Limited; first without consequences; then what is done when guard, or what it follows, is gone."""
    page.follow("Only deletions limited")
    page.follow("A canary of limits")
    cluster.on_controller("sh", "-c", f"{ETCD} del /registry/deployments/shop/web")
    page.follow("A Deployment that etcd has lost")
    page.follow("A webhook blocks everything")
    page.follow("A certificate has expired")
    page.follow("Limits aren't updated")
    page.follow("A cell is gone")
    page.follow("Remove the limits")
