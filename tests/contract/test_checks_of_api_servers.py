"""Checks on a real API server that nobody else works with: what would break a living control plane is made here.

It has an etcd, and no controllers: what these would write of Deployments, DaemonSets and their pods is written here.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.api_servers import ApiServers, api_servers
from testkit.lab_cluster import OLD, until
from tests.contract.checking import GROUP, TARGET, Make, Status, checked, fake_node, findings, found, ids, merge
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import CONTROLLER_REVISIONS, ENDPOINT_SLICES, SERVICES
from upgrader.model.finding import Finding
from upgrader.ports import Kind
from upgrader.preflight.api_endpoints import check_api_endpoints
from upgrader.preflight.audit_log import check_clients
from upgrader.preflight.audit_log_files import read_audit_log
from upgrader.preflight.context import DAEMONSETS, DEPLOYMENTS, MIRROR, PODS
from upgrader.preflight.control_plane import check_control_plane
from upgrader.preflight.critical_pods import check_critical_pods
from upgrader.preflight.custom_resources import check_custom_resources
from upgrader.preflight.instances import check_instances
from upgrader.preflight.networks import check_networks
from upgrader.preflight.pod_checkpointer import check_checkpointer
from upgrader.preflight.served_apis import check_served_apis

OLD_CIDRS = Kind("networking.k8s.io/v1beta1", "servicecidrs", namespaced=False)
DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
NOBODY = {"namespace": "default", "name": "nobody"}
SYSTEM = "kube-system"
DAEMONSET_COUNTS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "updatedNumberScheduled",
    "numberReady",
    "numberAvailable",
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServers]:
    """With an empty etcd."""
    with api_servers(tmp_path_factory.mktemp("bare")) as found:
        yield found


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the API server writes."""
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def kube(servers: ApiServers, audit_log: Path) -> Iterator[KubeAdapter]:
    """An API that serves what the next minor removes, audits every request, and has few addresses for Services."""
    policy = audit_log.with_name("policy.yaml")
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    flags = (
        "--runtime-config=networking.k8s.io/v1beta1=true",
        "--service-cluster-ip-range=10.96.0.0/28",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={audit_log}",
    )
    with servers.serving(OLD, *flags, address=own_address()) as found:
        yield found


def test_client_of_an_api_that_the_target_removes(kube: KubeAdapter, audit_log: Path) -> None:
    """v1.37 serves no ServiceCIDR of v1beta1: the server itself counts its readers, and its audit log names them."""

    def in_the_log() -> dict[str, Finding]:
        return {each.id: each for each in check_clients(read_audit_log([audit_log]), TARGET)}

    assert "apis.requested-removed" not in ids(kube, check_served_apis)
    assert "audit-log.removed" not in in_the_log()
    kube.list(OLD_CIDRS)
    assert "apis.requested-removed" in ids(kube, check_served_apis)
    until("the request to be in the log", lambda: "audit-log.removed" in in_the_log(), timeout_seconds=60)
    removed = in_the_log()["audit-log.removed"]
    assert "ServiceCIDR" in removed.title and "upgrader" in removed.diagnosis, removed


def test_services_have_taken_nearly_all_addresses(kube: KubeAdapter, made: Make) -> None:
    """Fourteen addresses: the thirteenth Service is one too many."""
    there = kube.count(SERVICES)
    for number in range(13 - there):
        assert "networks.service-room" not in ids(kube, check_networks)
        made(SERVICES, {"metadata": {"name": f"web-{number}"}, "spec": {"ports": [{"port": 80}]}}, "default")
    assert "networks.service-room" in ids(kube, check_networks)


def test_conversion_webhook_without_a_backend(kube: KubeAdapter, made: Make) -> None:
    """A definition with two versions and nobody to convert between them."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    widgets = {
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": schema},
                {"name": "v2", "served": True, "storage": False, "schema": schema},
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"service": NOBODY}, "conversionReviewVersions": ["v1"]},
            },
        },
    }
    assert found(kube, check_custom_resources, GROUP) == []
    made(DEFINITIONS, widgets)
    assert found(kube, check_custom_resources, GROUP) == ["custom-resources.conversion"]


def definition(kind: str, **more: Any) -> dict[str, Any]:
    """A definition of a kind in the tests' group, stored as v1 unless other versions are given."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": GROUP,
        "scope": "Cluster",
        "names": {"plural": plural, "kind": kind},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    return {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": {**spec, **more}}


def test_definition_whose_names_are_taken(kube: KubeAdapter, made: Make) -> None:
    """The API server admits it, and says later that it doesn't serve it."""
    made(DEFINITIONS, definition("Gadget"))
    until("the first to be served", lambda: _established(kube, f"gadgets.{GROUP}"), timeout_seconds=120)
    assert found(kube, check_custom_resources, GROUP) == []
    made(DEFINITIONS, definition("Gizmo", names={"plural": "gizmos", "kind": "Gadget"}))
    until("the second to be refused", lambda: bool(found(kube, check_custom_resources, "gizmos")), timeout_seconds=120)
    assert found(kube, check_custom_resources, "gizmos") == ["custom-resources.not-served"]
    assert found(kube, check_custom_resources, "gadgets") == []


def _established(kube: KubeAdapter, name: str) -> bool:
    conditions = ((kube.get(DEFINITIONS, name) or {}).get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)


def test_definition_that_stores_another_version_now(kube: KubeAdapter, made: Make) -> None:
    """The API server itself remembers that there may be objects of the version before."""
    name = made(DEFINITIONS, definition("Trinket"))
    until("it to be served", lambda: _established(kube, name), timeout_seconds=120)
    assert found(kube, check_custom_resources, name) == []
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [{"name": v, "served": True, "storage": v == "v2", "schema": schema} for v in ("v1", "v2")]
    merge(kube, f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", {"spec": {"versions": versions}})
    until("it to be stored so", lambda: bool(found(kube, check_custom_resources, name)), timeout_seconds=120)
    assert found(kube, check_custom_resources, name) == ["custom-resources.stored-versions"]


def test_definition_that_can_not_be_deleted(kube: KubeAdapter, made: Make) -> None:
    """An object with a finalizer that nobody removes keeps it."""
    name = made(DEFINITIONS, definition("Relic"))
    relics = Kind(f"{GROUP}/v1", "relics", namespaced=False)
    meta = {"name": "kept", "finalizers": [f"{GROUP}/nobody"]}
    kept = {"apiVersion": f"{GROUP}/v1", "kind": "Relic", "metadata": meta}

    def created() -> bool:
        return bool(kube.get(relics, "kept") or kube.create(relics, kept))

    until("it to be served", created, timeout_seconds=120)
    try:
        kube.delete(DEFINITIONS, name)
        assert found(kube, check_custom_resources, name) == []
        much_later = {"later": timedelta(minutes=11)}
        assert found(kube, check_custom_resources, name, **much_later) == ["custom-resources.terminating"]
    finally:
        merge(kube, f"/apis/{GROUP}/v1/relics/kept", {"metadata": {"finalizers": None}})
        until("the definition to be gone", lambda: kube.get(DEFINITIONS, name) is None, timeout_seconds=120)


def test_etcd_that_does_not_answer(kube: KubeAdapter, servers: ApiServers) -> None:
    """Its process is stopped for as long as kube-apiserver asks it, and goes on."""
    assert "etcd.unhealthy" not in ids(kube, check_critical_pods, controllers=())
    context = checked(kube, controllers=())
    servers.etcd.send_signal(signal.SIGSTOP)
    try:
        until("kube-apiserver to notice", lambda: not healthy(kube), timeout_seconds=120)
        found = next(check_critical_pods(context))
    finally:
        servers.etcd.send_signal(signal.SIGCONT)
    assert found.id == "etcd.unhealthy"
    until("etcd to answer again", lambda: healthy(kube), timeout_seconds=120)


def healthy(kube: KubeAdapter) -> bool:
    """What kube-apiserver says of its etcd."""
    try:
        return kube.raw("/readyz/etcd") == "ok"
    except ApiError:
        return False


@dataclass(frozen=True)
class Objects:
    """Makes workloads as their controllers and kubelets would have left them."""

    make: Make
    status: Status

    def workload(self, kube: KubeAdapter, kind: Kind, name: str, node: str, *flags: str) -> str:
        """A Deployment or DaemonSet of kube-system with one Ready pod on a node. Returns the pod's name."""
        container = {"name": name, "image": "nothing.example/nothing", "args": [name, *flags]}
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        self.make(kind, {"metadata": {"name": name}, "spec": spec}, SYSTEM)
        found = kube.get(kind, name, SYSTEM)
        assert found is not None
        owner = {"apiVersion": kind.api_version, "name": name, "uid": found["metadata"]["uid"], "controller": True}
        owner["kind"] = "DaemonSet" if kind == DAEMONSETS else "Deployment"
        hashes = {"controller-revision-hash": "one"} if kind == DAEMONSETS else {}
        if hashes:
            meta = {"name": f"{name}-one", "labels": {"app": name, **hashes}, "ownerReferences": [owner]}
            self.make(CONTROLLER_REVISIONS, {"metadata": meta, "revision": 1, "data": {}}, SYSTEM)
            numbers = dict.fromkeys(DAEMONSET_COUNTS, 1)
            self.status(kind, name, SYSTEM, {**numbers, "numberMisscheduled": 0, "observedGeneration": 1})
        return self.pod(f"{name}-1", node, {"app": name, **hashes}, ownerReferences=[owner])

    def pod(self, name: str, node: str, labels: Mapping[str, str], **meta: Any) -> str:
        """A Ready pod of kube-system on a node. Returns its name."""
        container = {"name": "main", "image": "nothing.example/nothing"}
        pod = {"metadata": {"name": name, "labels": labels, **meta}}
        self.make(PODS, {**pod, "spec": {"nodeName": node, "containers": [container]}}, SYSTEM)
        self.reports(name)
        return name

    def reports(self, pod: str, *, ready: bool = True, **told: Any) -> None:
        """What a kubelet writes of a pod."""
        running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        container = {"name": "main", "image": "x", "imageID": "x", "restartCount": 0, "ready": ready, "state": running}
        conditions = [{"type": kind, "status": str(ready)} for kind in ("Ready", "ContainersReady")]
        fields = {"phase": "Running", "conditions": conditions, "containerStatuses": [container], **told}
        self.status(PODS, pod, SYSTEM, fields)


@pytest.fixture
def objects(made: Make, status: Status) -> Objects:
    """None at first."""
    return Objects(made, status)


def test_components_of_the_control_plane(kube: KubeAdapter, objects: Objects) -> None:
    """One that isn't there, without a Ready pod, with a pod too many, on a node that is no controller, and static."""
    node, other = (fake_node(objects.make, objects.status) for _ in range(2))

    def found() -> list[str]:
        wrong = [item for item in findings(kube, check_control_plane, controllers=[node]) if "kube-sch" in item.title]
        return [item.id for item in wrong]

    assert found() == ["control-plane.missing"]
    first = objects.workload(kube, DEPLOYMENTS, "kube-scheduler", node)
    assert found() == []
    objects.reports(first, ready=False)
    assert found() == ["control-plane.not-ready"]
    second = objects.pod("kube-scheduler-2", node, {"app": "kube-scheduler"})
    assert found() == ["control-plane.leftover"]
    objects.reports(first)
    objects.reports(second)
    assert found() == []
    objects.pod("kube-scheduler-3", other, {"app": "kube-scheduler"})
    assert found() == ["control-plane.unexpected"]
    objects.pod("kube-scheduler-4", node, {"component": "kube-scheduler"}, annotations={MIRROR: "x"})
    assert found() == ["control-plane.not-adopted", "control-plane.unexpected"]


def test_pod_checkpointer(kube: KubeAdapter, objects: Objects) -> None:
    """None at all, a Ready one, one that has a checkpoint to make, and none on one of two controllers."""
    node = fake_node(objects.make, objects.status)
    assert ids(kube, check_checkpointer, controllers=[node]) == ["checkpointer.missing"]
    pod = objects.workload(kube, DAEMONSETS, "pod-checkpointer", node)
    assert ids(kube, check_checkpointer, controllers=[node]) == []
    assert ids(kube, check_checkpointer, controllers=[node, "another"]) == ["checkpointer.down"]
    objects.reports(pod, ready=False)
    assert ids(kube, check_checkpointer, controllers=[node]) == ["checkpointer.not-ready"]


def test_instances_by_themselves(kube: KubeAdapter, servers: ApiServers, objects: Objects) -> None:
    """At its own address, through the API where no route leads there, and at a port where nobody listens."""
    node = fake_node(objects.make, objects.status)
    pod = objects.workload(kube, DEPLOYMENTS, "kube-apiserver", node, f"--secure-port={servers.port}")
    objects.reports(pod, hostIP=own_address())
    assert ids(kube, check_instances) == []
    objects.reports(pod, hostIP="2001:db8::1", podIP=own_address(), podIPs=[{"ip": own_address()}])
    assert ids(kube, check_instances) == ["instances.proxied"]
    found = kube.get(DEPLOYMENTS, "kube-apiserver", SYSTEM)
    assert found is not None
    found["spec"]["template"]["spec"]["containers"][0]["args"] = ["kube-apiserver", "--secure-port=1"]
    kube.replace(DEPLOYMENTS, found, SYSTEM)
    assert ids(kube, check_instances) == ["instances.unreachable"]


def own_address() -> str:
    """One of this machine's that isn't 127.0.0.1: kube-apiserver passes nothing on to that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


def test_address_behind_the_service_of_the_api(kube: KubeAdapter) -> None:
    """A release that puts another one there is found, and one that keeps it is not."""
    labels = {"kubernetes.io/service-name": "kubernetes"}
    meta = {"name": "kubernetes", "namespace": "default", "labels": labels}
    registered = {"addressType": "IPv4", "metadata": meta, "endpoints": [{"addresses": ["192.0.2.10"]}]}
    kube.apply(ENDPOINT_SLICES, {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **registered}, "default")

    def changes(*fixed: str) -> bool:
        spec = {"containers": [{"name": "kube-apiserver", "args": ["--endpoint-reconciler-type=none"]}]}
        server = {"kind": "Deployment", "metadata": {"name": "kube-apiserver"}, "spec": {"template": {"spec": spec}}}
        kept = {
            "kind": "EndpointSlice",
            "metadata": {"name": "kube-apiserver", "namespace": "default"},
            "endpoints": [{"addresses": [each]} for each in fixed],
        }
        planned = {"kube-apiserver": yaml.safe_dump_all([server, kept])}
        return "control-plane.endpoint-changes" in ids(kube, check_api_endpoints, planned=planned)

    try:
        assert not changes("192.0.2.10")
        assert changes("192.0.2.1")
    finally:
        kube.delete(ENDPOINT_SLICES, "kubernetes", "default")
