"""Pods find the API by the endpoints of Service `kubernetes`."""

from __future__ import annotations

from collections.abc import Sequence

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from upgrader.adopt.endpoints import count_endpoints, publish_fixed_endpoint, wait_for_endpoints
from upgrader.adopt.manifest_step import StaticPods
from upgrader.errors import ApiError
from upgrader.model.cluster import Host
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult, Kind, KubeObject

SLICES = Kind("discovery.k8s.io/v1", "endpointslices")
ENDPOINTS = Kind("v1", "endpoints")
PORTS = [{"name": "https", "port": 6443, "protocol": "TCP"}]
SUBSETS = [{"addresses": [{"ip": "10.0.0.1"}], "ports": PORTS}]
LABELS = {"endpointslice.kubernetes.io/skip-mirror": "true"}


def cluster(*addresses: str) -> FakeKube:
    """A cluster whose Service has these endpoints."""
    kube = FakeKube()
    meta = {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}}
    kube.put(SLICES, {"metadata": meta, "endpoints": [{"addresses": [address]} for address in addresses]}, "default")
    return kube


def test_addresses_are_counted_once() -> None:
    """An address that two slices name is one endpoint."""
    kube = cluster("10.0.0.1", "10.0.0.2")
    meta = {"name": "kube-apiserver", "labels": {"kubernetes.io/service-name": "kubernetes"}}
    kube.put(SLICES, {"metadata": meta, "endpoints": [{"addresses": ["10.0.0.1"]}]}, "default")
    assert count_endpoints(kube) == 2


def test_waits_no_longer_than_it_says() -> None:
    """An endpoint that doesn't return is reported, and delays the adoption for a limited time only."""
    clock, said = FakeClock(), list[str]()
    assert "1 of 3 endpoints" in wait_for_endpoints(cluster("10.0.0.1"), clock, 3, said.append)
    assert clock.monotonic() <= 40
    (told,) = said
    assert told == ("waiting up to 30 s for kube-apiserver to register itself: 1 of 3 endpoints of Service kubernetes")


def test_doesnt_wait_when_all_are_there() -> None:
    """Where none is missing, no time is lost."""
    clock, said = FakeClock(), list[str]()
    before = clock.monotonic()
    assert wait_for_endpoints(cluster("10.0.0.1", "10.0.0.2"), clock, 2, said.append) == ""
    assert clock.monotonic() == before and not said


def test_static_api_servers_go_one_by_one() -> None:
    """The next controller's turn comes when the previous one is an endpoint again: two are never missing."""
    addresses = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
    at_each_turn: list[int] = []

    class Reconciling(FakeKube):
        """Adds an address again when it was missed three times."""

        asked = 0

        def list(
            self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = ""
        ) -> tuple[KubeObject, ...]:
            self.asked += 1
            if self.asked % 3 == 0:
                self.name(*addresses)
            return super().list(kind, namespace, labels=labels, fields=fields)

        def name(self, *found: str) -> None:
            meta = {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}}
            self.put(SLICES, {"metadata": meta, "endpoints": [{"addresses": [at]} for at in found]}, "default")

    kube, hosts = Reconciling(), FakeHosts()
    kube.name(*addresses)

    def move(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        (item,) = FakeKube.list(kube, SLICES, "default")
        at_each_turn.append(len(item["endpoints"]))
        kube.name(*(address for address in addresses if address != host.address))
        return CommandResult(0, "moved\n", "")

    hosts.commands["sh"] = move
    controllers = tuple(Host(f"controller-{number}", address) for number, address in enumerate(addresses, 1))
    pods = StaticPods(hosts, kube, FakeClock(), controllers, KubernetesVersion(1, 36, 3))
    pods.retire(("kube-apiserver",), lambda _: None)
    assert at_each_turn == [3, 3, 3]


def with_one_replica(kube: FakeKube) -> FakeKube:
    """The chart keeps the one endpoint in a slice of its own."""
    meta = {"name": "kube-apiserver", "labels": {"kubernetes.io/service-name": "kubernetes"}}
    kube.put(SLICES, {"metadata": meta, "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": PORTS}, "default")
    return kube


def published(kube: FakeKube) -> KubeObject:
    found = kube.get(ENDPOINTS, "kubernetes", "default")
    assert found is not None
    return found


def test_endpoints_have_the_one_controller_after_its_static_pod() -> None:
    """The static pod removes its address as it ends; clients that read Endpoints find the API all the same."""
    kube, hosts = with_one_replica(FakeKube()), FakeHosts()
    kube.put(ENDPOINTS, {"metadata": {"name": "kubernetes", "labels": LABELS}, "subsets": SUBSETS}, "default")

    def move(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        kube.put(ENDPOINTS, {"metadata": {"name": "kubernetes", "labels": LABELS}}, "default")
        return CommandResult(0, "moved\n", "")

    hosts.commands["sh"] = move
    host = Host("controller-1", "10.0.0.1")
    StaticPods(hosts, kube, FakeClock(), (host,), KubernetesVersion(1, 36, 3)).retire(("kube-apiserver",), print)
    assert published(kube)["subsets"] == SUBSETS


def test_endpoints_that_are_gone_are_made() -> None:
    """With the label by which no controller copies them into one more slice."""
    kube = with_one_replica(FakeKube())
    publish_fixed_endpoint(kube, print)
    assert published(kube)["subsets"] == SUBSETS
    assert published(kube)["metadata"]["labels"] == LABELS


def test_endpoints_of_several_controllers_are_left_to_them() -> None:
    """Instances that register themselves keep the object, and nobody else writes it."""
    kube = cluster("10.0.0.1", "10.0.0.2")
    publish_fixed_endpoint(kube, print)
    assert kube.get(ENDPOINTS, "kubernetes", "default") is None


def test_refused_endpoints_are_noted() -> None:
    """A policy that forbids the write costs no adoption: kube-proxy reads slices."""

    class Refusing(FakeKube):
        def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
            raise ApiError("endpoints is forbidden")

    notes: list[str] = []
    publish_fixed_endpoint(with_one_replica(Refusing()), notes.append)
    assert notes == [
        "Endpoints default/kubernetes could not be updated and may have no address: endpoints is forbidden"
    ]
