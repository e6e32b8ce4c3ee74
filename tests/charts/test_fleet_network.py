"""What the pods of a fleet's Jobs can reach, by the rendered NetworkPolicies, evaluated as the API defines them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from tests.charts.conftest import Render

VALUES = {
    "clusters": [
        {"name": "eu-1", "egress": [{"cidr": "10.0.0.0/24"}, {"cidr": "fd00:1::/64", "ports": [6443]}]},
        {"name": "eu-2", "egress": [{"cidr": "10.0.1.10/32", "ports": [443]}]},
        {"name": "eu-3"},
    ]
}
NAMESPACES = {
    name: {"kubernetes.io/metadata.name": name}
    for name in ("fleet-eu-1", "fleet-eu-2", "fleet-eu-3", "kube-system", "ops")
}
HUB_SERVICE, HUB_NODE, INTERNET = "10.96.0.1", "192.0.2.10", "203.0.113.5"


@dataclass(frozen=True)
class Peer:
    """One end of a connection: a pod of a namespace, or an address outside of the pod network."""

    namespace: str = ""
    address: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


JOB, OTHER_JOB = (
    Peer(f"fleet-{name}", labels={"app.kubernetes.io/managed-by": "upgrader", "upgrader.io/cluster": name})
    for name in ("eu-1", "eu-2")
)
DNS, COORDINATOR = Peer("kube-system", labels={"k8s-app": "kube-dns"}), Peer("ops")


class Network:
    """A cluster whose network plugin enforces these policies."""

    def __init__(self, objects: Iterable[Mapping[str, Any]]) -> None:
        self._policies = [each for each in objects if each["kind"] == "NetworkPolicy"]

    def allows(self, source: Peer, target: Peer, port: int, protocol: str = "TCP") -> bool:
        """Whether a connection is allowed at both ends."""
        out = self._end("Egress", source, target, port, protocol)
        return out and self._end("Ingress", target, source, port, protocol)

    def _end(self, direction: str, here: Peer, there: Peer, port: int, protocol: str) -> bool:
        mine = [
            each["spec"]
            for each in self._policies
            if each["metadata"]["namespace"] == here.namespace
            and direction in each["spec"]["policyTypes"]
            and _selects(each["spec"]["podSelector"], here.labels)
        ]
        peers = "to" if direction == "Egress" else "from"
        rules = [rule for spec in mine for rule in spec.get(direction.lower()) or ()]
        return not mine or any(
            (not rule.get(peers) or any(_is(peer, there) for peer in rule[peers]))
            and (not rule.get("ports") or any(_has(each, port, protocol) for each in rule["ports"]))
            for rule in rules
        )


def _has(allowed: Mapping[str, Any], port: int, protocol: str) -> bool:
    assert set(allowed) <= {"port", "protocol"}, "more isn't evaluated here"
    return bool(allowed.get("protocol", "TCP") == protocol and allowed.get("port", port) == port)


def _is(rule: Mapping[str, Any], peer: Peer) -> bool:
    assert set(rule) <= {"ipBlock", "namespaceSelector", "podSelector"}, "more isn't evaluated here"
    if block := rule.get("ipBlock"):
        assert set(block) == {"cidr"}, "more isn't evaluated here"
        return bool(peer.address) and ip_address(peer.address) in ip_network(block["cidr"])
    assert "namespaceSelector" in rule, "pods of its own namespace alone: no rule of the chart's"
    known = NAMESPACES.get(peer.namespace)
    return (
        known is not None
        and _selects(rule["namespaceSelector"], known)
        and _selects(rule.get("podSelector", {}), peer.labels)
    )


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    assert set(selector) <= {"matchLabels"}, "more isn't evaluated here"
    return (selector.get("matchLabels") or {}).items() <= labels.items()


@pytest.fixture
def network(render: Render) -> Network:
    return Network(render("fleet", VALUES, "ops").objects)


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.255"])
def test_job_reaches_its_own_cluster(network: Network, address: str) -> None:
    """The API and SSH, at each of its addresses, and nothing else there; of IPv6, the port that is named."""
    there = Peer(address=address)
    assert [port for port in (22, 53, 443, 2379, 6443, 10250) if network.allows(JOB, there, port)] == [22, 6443]
    assert not network.allows(JOB, there, 6443, "UDP")
    assert [port for port in (22, 6443) if network.allows(JOB, Peer(address="fd00:1::5"), port)] == [6443]
    assert network.allows(OTHER_JOB, Peer(address="10.0.1.10"), 443)


@pytest.mark.parametrize("address", ["10.0.1.10", "10.0.2.1", HUB_SERVICE, HUB_NODE, INTERNET, "169.254.169.254"])
def test_job_reaches_no_other_address(network: Network, address: str) -> None:
    """Neither another cluster's, nor the management cluster's API by its Service or a node, nor a cloud's metadata."""
    there = Peer(address=address)
    assert not [port for port in (22, 53, 80, 443, 6443) if network.allows(JOB, there, port)]


def test_job_reaches_no_pod_but_dns(network: Network) -> None:
    """DNS by both protocols; no pod of another cluster's namespace, of its own, or of the coordinator's."""
    assert network.allows(JOB, DNS, 53) and network.allows(JOB, DNS, 53, "UDP")
    assert not [port for port in (443, 8080, 9153, 6443) if network.allows(JOB, DNS, port)]
    for there in (JOB, OTHER_JOB, COORDINATOR):
        assert not [port for port in (22, 53, 80, 443, 6443) if network.allows(JOB, there, port)]


def test_nothing_reaches_a_job(network: Network) -> None:
    """Not even from its own namespace, or the coordinator's: what is asked of it goes through the API."""
    for source in (JOB, OTHER_JOB, COORDINATOR, DNS, Peer(address=INTERNET), Peer(address=HUB_NODE)):
        assert not [port for port in (22, 80, 443, 8080) if network.allows(source, JOB, port)]


def test_cluster_without_addresses_reaches_dns_alone(network: Network) -> None:
    """What was not listed is closed, not open."""
    mine = Peer("fleet-eu-3", labels=JOB.labels)
    assert network.allows(mine, DNS, 53, "UDP")
    assert not any(network.allows(mine, Peer(address=each), 6443) for each in ("10.0.0.1", HUB_SERVICE, INTERNET))


def test_any_pod_of_a_namespace_is_held(network: Network) -> None:
    """The policy selects each pod, whatever its labels: what someone else starts there reaches no more."""
    other = Peer("fleet-eu-1", labels={"app": "other"})
    assert network.allows(other, Peer(address="10.0.0.1"), 6443)
    assert not network.allows(other, Peer(address=HUB_SERVICE), 443)


def test_without_the_policies_all_is_open(render: Render) -> None:
    """The evaluation itself: a namespace without a policy allows everything, as Kubernetes does."""
    open_one = Network(render("fleet", {**VALUES, "networkPolicy": {"enabled": False}}, "ops").objects)
    assert open_one.allows(JOB, Peer(address=HUB_SERVICE), 443) and open_one.allows(COORDINATOR, JOB, 80)
