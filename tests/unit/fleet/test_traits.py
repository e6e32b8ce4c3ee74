"""What clusters are made of, and which of it no earlier stage has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError
from upgrader.fleet.cluster_traits import UNKNOWN, cluster_traits
from upgrader.fleet.model import Fleet, FleetCluster, Stage
from upgrader.fleet.selectors import Requirement, Selector
from upgrader.fleet.traits import new_traits
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS, NODES, WORKLOADS
from upgrader.model.health_before import IntOrPercent
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind

DAEMON_SETS = WORKLOADS["DaemonSet"]
_TRAITS = ("CNI x", "CNI y", "kube-proxy mode ipvs", "unknown kube-proxy mode: forbidden")


def put_node(
    kube: FakeKube, name: str, system: str, runtime: str, machine: str = "amd64", kubelet: str = "v1.36.3"
) -> None:
    info = {"osImage": system, "containerRuntimeVersion": runtime, "architecture": machine, "kubeletVersion": kubelet}
    kube.put(NODES, {"metadata": {"name": name}, "status": {"nodeInfo": info}})


def put_daemon_set(kube: FakeKube, name: str, image: str, *folders: str, namespace: str = "kube-system") -> None:
    volumes: list[dict[str, Any]] = [{"name": "logs", "emptyDir": {}}]
    volumes += [{"name": str(number), "hostPath": {"path": each}} for number, each in enumerate(folders)]
    pod = {"containers": [{"name": name, "image": image}], "volumes": volumes}
    kube.put(DAEMON_SETS, {"metadata": {"name": name}, "spec": {"template": {"spec": pod}}}, namespace)


def put_proxy(kube: FakeKube, config: str | None) -> None:
    put_daemon_set(kube, "kube-proxy", "registry.k8s.io/kube-proxy:v1.36.3", "/lib/modules", "/run/xtables.lock")
    if config is not None:
        kube.put(CONFIG_MAPS, {"metadata": {"name": "kube-proxy"}, "data": {"config.conf": config}}, "kube-system")


def test_nodes_of_several_kinds() -> None:
    """Each operating system, architecture, container runtime and kubelet once, with its version; a node that never
    reported has none, and counts as a node.
    """
    kube = FakeKube()
    put_node(kube, "c1", "Debian GNU/Linux 12 (bookworm)", "containerd://1.7.22")
    put_node(kube, "w1", "Debian GNU/Linux 12 (bookworm)", "containerd://2.1.4", "arm64", "v1.35.1")
    kube.put(NODES, {"metadata": {"name": "w2"}})
    assert cluster_traits(kube) == {
        "operating system Debian GNU/Linux 12 (bookworm)",
        "container runtime containerd://1.7.22",
        "container runtime containerd://2.1.4",
        "architecture amd64",
        "architecture arm64",
        "kubelet v1.36.3",
        "kubelet v1.35.1",
        "size up to 10 nodes",
        "CNI without a DaemonSet",
        "no kube-proxy DaemonSet",
    }


@pytest.mark.parametrize(
    ("nodes", "trait"),
    [
        (1, "size 1 node"),
        (2, "size up to 10 nodes"),
        (10, "size up to 10 nodes"),
        (11, "size up to 100 nodes"),
        (100, "size up to 100 nodes"),
        (1000, "size up to 1000 nodes"),
        (1001, "size over 1000 nodes"),
    ],
)
def test_size_by_its_class(nodes: int, trait: str) -> None:
    """Clusters of about as many nodes are alike; one that is larger by an order of magnitude isn't."""
    kube = FakeKube()
    for number in range(nodes):
        kube.put(NODES, {"metadata": {"name": f"n{number}"}})
    assert {each for each in cluster_traits(kube) if each.startswith("size")} == {trait}


@pytest.mark.parametrize(
    ("name", "image", "folder", "trait"),
    [
        ("cilium", "quay.io/cilium/cilium:v1.16.1@sha256:0123", "/etc/cni/net.d", "CNI cilium v1.16.1"),
        ("calico-node", "mirror.example.com:5000/calico/node:v3.28.0", "/opt/cni/bin", "CNI calico-node v3.28.0"),
        ("kube-flannel-ds", "mirror.example.com:5000/flannel@sha256:0123", "/etc/cni/net.d", "CNI kube-flannel-ds"),
        ("x", "x:1", "/var/lib/rancher/k3s/agent/etc/cni/net.d", "CNI x 1"),
        ("x", "x:1", "/var/snap/microk8s/current/args/cni-network", "CNI x 1"),
        ("x", "x:1", "/var/lib/cninja", "CNI without a DaemonSet"),
    ],
)
def test_plugins_by_what_they_install(name: str, image: str, folder: str, trait: str) -> None:
    """In whatever namespace, and from whatever registry: who mounts the folders of CNI installs a plugin."""
    kube = FakeKube()
    put_daemon_set(kube, name, image, "/run", folder, namespace="network")
    assert {each for each in cluster_traits(kube) if each.startswith("CNI")} == {trait}


@pytest.mark.parametrize(
    ("config", "trait"),
    [
        ("mode: ipvs", "kube-proxy mode ipvs"),
        ('mode: ""', "kube-proxy mode default"),
        ("mode: nftables\n---\nmode: ipvs\n", "kube-proxy mode nftables"),
        ("mode: [", "unknown kube-proxy mode: ConfigMap kube-system/kube-proxy has no readable config.conf"),
        (None, "unknown kube-proxy mode: ConfigMap kube-system/kube-proxy has no readable config.conf"),
    ],
)
def test_how_kube_proxy_works(config: str | None, trait: str) -> None:
    """By its ConfigMap, as long as it runs: where Cilium has taken its place, that may be left."""
    kube = FakeKube()
    put_proxy(kube, config)
    assert trait in cluster_traits(kube)
    kube.delete(DAEMON_SETS, "kube-proxy", "kube-system")
    assert trait not in cluster_traits(kube) and "no kube-proxy DaemonSet" in cluster_traits(kube)


@pytest.mark.parametrize("status", [403, 500, 0])
def test_what_cannot_be_read_is_unknown(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A right that the credentials lack, and a list that fails or takes too long, leave that one unknown: the cluster
    has been planned, and its traits are for information.
    """
    kube, each, refusal = FakeKube(), FakeKube.each, ApiError("list daemonsets: refused")
    refusal.status = status
    put_node(kube, "c1", "Debian", "containerd://2.1.4")

    def refused(self: FakeKube, kind: Kind, *arguments: Any, **options: Any) -> Any:
        if kind == DAEMON_SETS:
            raise refusal
        return each(self, kind, *arguments, **options)

    monkeypatch.setattr(FakeKube, "each", refused)
    found = cluster_traits(kube)
    assert "unknown CNI plugins: list daemonsets: refused" in found and "operating system Debian" in found
    kube.unavailable = True
    assert all(trait.startswith(UNKNOWN) for trait in cluster_traits(kube))


@given(st.lists(st.tuples(st.integers(0, 2), st.frozensets(st.sampled_from(_TRAITS))), min_size=1, max_size=8))
def test_each_trait_that_no_earlier_stage_has_is_named(found: list[tuple[int, frozenset[str]]]) -> None:
    """Of any fleet: for each cluster of a later stage, exactly those traits that none of the clusters before it has, or
    that aren't known.
    """
    names = [f"stage-{number}" for number in range(3)]
    clusters = [
        FleetCluster(f"cluster-{number}", Path("/x"), f"u{number}", {"ring": names[stage]})
        for number, (stage, _) in enumerate(found)
    ]
    stages = [Stage(name, Selector((Requirement("ring", "In", (name,)),)), IntOrPercent(1)) for name in names]
    fleet = Fleet(KubernetesVersion.release("v1.37.1"), tuple(stages), tuple(clusters))
    named = new_traits(fleet, {f"cluster-{number}": traits for number, (_, traits) in enumerate(found)})
    for number, (stage, traits) in enumerate(found):
        before = [others for place, others in found if place < stage]
        expected = {each for each in traits if each.startswith(UNKNOWN) or not any(each in has for has in before)}
        mine = {each.trait for each in named if f"cluster-{number}" in each.clusters}
        assert mine == (expected if stage else set())
