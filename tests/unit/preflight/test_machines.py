"""Hosts, nodes, memory and certificates."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from testkit.pki import printed
from tests.unit.preflight.conftest import CONTROL_PLANE, CONTROLLER, World, workload
from upgrader.model.check_ids import may_be_overruled
from upgrader.model.node_settings import NodePool, NodeSource
from upgrader.model.quantity import quantity
from upgrader.ports import CommandResult
from upgrader.preflight.certificates import check_certificates
from upgrader.preflight.context import DEPLOYMENTS, NODES, PreflightContext
from upgrader.preflight.helm_client import check_helm
from upgrader.preflight.memory import check_memory
from upgrader.preflight.nodes import check_nodes, check_workers
from upgrader.preflight.ssh_access import check_hosts
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.step_document import NodeChange


def test_a_host_that_is_away_is_an_error(world: World) -> None:
    """Without SSH to a controller there is no way back, so there is no run; the message names the address."""
    world.hosts.down.add(CONTROLLER)
    found = world.find(check_hosts)["hosts.unreachable"]
    assert found.severity == "error"
    assert "root@10.0.0.2:22" in found.diagnosis


def test_a_user_without_root_is_an_error(world: World) -> None:
    """Commands that don't run as root could not restore a manifest."""
    world.hosts.commands["id"] = CommandResult(0, "1000\n", "")
    assert "ansible_become" in world.find(check_hosts)["hosts.not-root"].remedy


def test_a_host_that_runs_nothing_is_an_error(world: World) -> None:
    """A login that ends every command in failure is told apart from a host that is away."""
    world.hosts.commands["id"] = CommandResult(1, "", "This account is not available")
    assert "not available" in world.find(check_hosts)["hosts.command"].diagnosis


@pytest.mark.parametrize(
    ("ready", "id_", "severity"),
    [("False", "nodes.not-ready", "error"), ("Unknown", "nodes.unknown", "unknown"), ("", "nodes.unknown", "unknown")],
)
def test_a_node_that_is_not_ready(world: World, ready: str, id_: str, severity: str) -> None:
    """Not Ready is an error; a node whose state nobody knows is unknown, not healthy."""
    world.node(ready=ready)
    found = world.find(check_nodes)[id_]
    assert (found.severity, found.diagnosis) == (severity, "because")


def test_a_controller_that_is_away_is_named_with_the_ways_on(world: World) -> None:
    """No run leaves a controller out, and the refusal says what else can be done; a worker that is gone can go."""
    world.node(ready="Unknown")
    found = world.find(check_nodes)["nodes.unknown"]
    assert found.title == f"it is unknown whether controller {CONTROLLER} is Ready"
    assert "remove it (docs" in found.remedy
    world.node()
    world.node("worker-1", ready="Unknown")
    found = world.find(check_workers)["workers.unknown"]
    assert found.title == "it is unknown whether node worker-1 is Ready"
    assert "kubectl delete node worker-1" in found.remedy


def test_workers_stand_in_the_way_of_nothing_but_a_run(world: World) -> None:
    """A worker that is down or going isn't asked for where only controllers matter, and a run may overrule it; but
    not where it is to be upgraded itself.
    """
    world.node("worker-1", ready="False", deletionTimestamp="2026-01-01T00:00:00Z")
    assert not {"nodes.not-ready", "nodes.deleting"} & world.find(check_nodes).keys()
    found = world.find(check_workers)
    assert {"workers.not-ready", "workers.deleting"} <= found.keys() and all(map(may_be_overruled, found))
    assert not may_be_overruled("nodes.not-ready")


def test_worker_that_is_down_stops_nothing(world: World) -> None:
    """The warning names it, and what the run doesn't wait for there; a release that wants no pod of it says nothing.
    Where the run is to upgrade it, it stands in the way, and the remedy says how the others get their turn.
    """
    world.down("worker-1")
    world.manifests["kubernetes"] = workload({"name": "kube-proxy"}, kind="DaemonSet")
    found = world.find(check_workers)
    assert found.keys() == {"workers.down"} and not found["workers.down"].blocking
    assert found["workers.down"].title == "worker worker-1 is down: the run leaves it out"
    assert "The run doesn't wait for the pods of DaemonSet kube-system/x there." in found["workers.down"].diagnosis
    assert "kubectl delete node worker-1" in found["workers.down"].remedy
    world.manifests["kubernetes"] = workload({"name": "x"}, kind="DaemonSet", nodeSelector=CONTROL_PLANE)
    assert "doesn't wait for the pods" not in world.find(check_workers)["workers.down"].diagnosis
    world.down(CONTROLLER)
    assert world.find(check_nodes)["nodes.unknown"].blocking


def upgrading(world: World, name: str) -> PreflightContext:
    """What checks are given of a run that upgrades this worker."""
    context = world.context()
    change = NodeChange(name, world.observed.server, world.target)
    step = PlannedNodes(NodePool("workers"), (change,), world.target, NodeSource("packages"), 1.0, 1, Path("/p"))
    assert context.plan is not None
    return replace(context, plan=replace(context.plan, steps=(step,)))


def test_worker_that_is_down_and_to_be_upgraded(world: World) -> None:
    """Nobody can upgrade it: the remedy says how the others get their turn before it is back."""
    world.down("worker-1")
    context = upgrading(world, "worker-1")
    (found,) = (item for item in check_nodes(context) if item.id == "nodes.unknown")
    assert found.blocking and "`- nodes: [worker-1]`" in found.remedy
    assert not list(check_workers(context))


def test_a_node_without_conditions_is_unknown(world: World) -> None:
    """A node that never reported says nothing about itself."""
    world.kube.put(NODES, {"metadata": {"name": "worker-1"}})
    assert world.find(check_workers)["workers.unknown"].severity == "unknown"


def test_a_node_on_its_way_out_is_an_error(world: World) -> None:
    """A node that is being deleted would take pods with it in the middle of the run."""
    world.node(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"])
    assert "x/y" in world.find(check_nodes)["nodes.deleting"].diagnosis


def test_cordoned_node(world: World) -> None:
    """No step passes its gates with a cordoned controller; a worker's is only said, as somebody may have meant it."""
    for name, severity in ((CONTROLLER, "error"), ("worker-1", "warning")):
        node = world.node(name)
        node["spec"]["unschedulable"] = True
        world.kube.put(NODES, node)
        found = world.find(check_nodes)["nodes.cordoned"]
        assert (found.severity, found.remedy) == (severity, f"kubectl uncordon {name}")
        world.node(name)


def test_node_under_pressure(world: World) -> None:
    """No step passes its gates on a controller whose disk is full; a worker's is only said."""
    for name, severity in ((CONTROLLER, "error"), ("worker-1", "warning")):
        node = world.node(name)
        node["status"]["conditions"].append({"type": "DiskPressure", "status": "True", "message": "95 % full"})
        world.kube.put(NODES, node)
        found = world.find(check_nodes)["nodes.pressure"]
        assert found.severity == severity and "95 % full" in found.title
        world.node(name)


def test_worker_under_pressure_that_is_to_be_upgraded(world: World) -> None:
    """It would not be back with either version, and the whole run would go back: the remedy leaves it alone."""
    node = world.node("worker-1")
    node["status"]["conditions"].append({"type": "DiskPressure", "status": "True", "message": "95 % full"})
    world.kube.put(NODES, node)
    (found,) = (item for item in check_nodes(upgrading(world, "worker-1")) if item.id == "nodes.pressure")
    assert found.blocking and "the run would be rolled back" in found.diagnosis
    assert "`- nodes: [worker-1]`" in found.remedy


def test_inventory_and_labels_must_agree(world: World) -> None:
    """The control plane's pods go where the label is, and the gates look where the inventory says."""
    world.node("controller-2", labels=CONTROL_PLANE)
    found = world.find(check_nodes)["nodes.unlisted"]
    assert found.severity == "error" and "controller-2" in found.title
    assert "kubectl label node controller-2 node-role.kubernetes.io/control-plane-" in found.remedy
    world.kube.delete(NODES, "controller-2")
    world.node(labels={})
    found = world.find(check_nodes)["nodes.unlabelled"]
    assert found.remedy.startswith(f"kubectl label node {CONTROLLER} node-role.kubernetes.io/control-plane=;")


def test_label_is_the_planned_selector(world: World) -> None:
    """A cluster may choose its controllers by a label of its own."""
    world.manifests["kube-apiserver"] = (
        "{kind: Deployment, metadata: {name: kube-apiserver}, "
        "spec: {template: {spec: {nodeSelector: {role: master}, containers: []}}}}"
    )
    assert world.find(check_nodes).keys() == {"nodes.unlabelled"}
    world.node(labels={"role": "master"})
    assert world.find(check_nodes) == {}


def test_a_controller_that_is_no_node_is_an_error(world: World) -> None:
    """An inventory and a kubeconfig of two different clusters are found out."""
    world.kube.delete(NODES, CONTROLLER)
    world.node("other-1")
    assert "The API knows other-1" in world.find(check_nodes)["nodes.missing"].diagnosis


def test_too_little_memory_is_a_warning(world: World) -> None:
    """900 MiB are requested; of 1.2 GiB not enough is left for a second API server, of 4 GiB it is."""
    assert world.find(check_memory) == {}
    node = world.node()
    node["status"]["allocatable"]["memory"] = "1200Mi"
    world.kube.put(NODES, node)
    found = world.find(check_memory)["memory.tight"]
    assert found.severity == "warning"
    assert "300 MiB of memory left" in found.title
    assert found.diagnosis.startswith("500 MiB are needed")


@pytest.mark.parametrize("status", [{}, {"allocatable": {}}])
def test_memory_of_a_controller_that_has_never_reported(world: World, status: dict[str, Any]) -> None:
    """That it isn't Ready, the check of nodes says; this one has nothing to say, and ends no command."""
    world.kube.put(NODES, {"metadata": {"name": CONTROLLER}, "status": status})
    assert world.find(check_memory) == {}
    assert "nodes.unknown" in world.find(check_nodes)


def test_the_requests_of_the_server_count_when_they_are_larger(world: World) -> None:
    """The scheduler goes by requests: a server that requests 4 GiB needs them, init containers included."""
    server = world.kube.get(DEPLOYMENTS, "kube-apiserver", "kube-system")
    assert server is not None
    server["spec"]["template"]["spec"] = {
        "containers": [{"name": "a", "resources": {"requests": {"memory": "2Gi"}}}],
        "initContainers": [
            {"name": "b", "restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}},
            {"name": "c", "resources": {"requests": {"memory": "3Gi"}}},
        ],
    }
    world.kube.put(DEPLOYMENTS, server)
    assert world.find(check_memory)["memory.tight"].diagnosis.startswith("4,096 MiB are needed")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("128974848", 128974848),
        ("129e6", 129e6),
        ("129M", 129e6),
        ("123Mi", 123 * 2**20),
        ("1500m", 1.5),
        ("0.5Gi", 2**29),
    ],
)
def test_quantities(text: str, value: float) -> None:
    """Every way in which Kubernetes writes an amount of memory is read."""
    assert quantity(text) == value


def test_a_quantity_that_is_none_is_refused() -> None:
    """A unit that doesn't exist is an error, not a zero."""
    with pytest.raises(ValueError, match="'12Q' is not a Kubernetes quantity"):
        quantity("12Q")


def certificate(end: datetime) -> bytes:
    """A self-signed certificate that ends then, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(1)
    builder = builder.not_valid_before(end - timedelta(days=365)).not_valid_after(end).public_key(key.public_key())
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def answer(world: World, days: dict[str, int]) -> None:
    """Let the controller have certificates that end in so many days."""
    now = world.clock.now()
    files = {name: certificate(now + timedelta(days=n)).decode() for name, n in days.items()}
    world.hosts.commands["sh"] = CommandResult(0, printed(files), "")


def test_certificates_with_time_left_are_fine(world: World) -> None:
    """A year left is nothing to talk about."""
    answer(world, {"pki/apiserver.crt": 364, "pki/etcd/server.crt": 31})
    assert world.find(check_certificates) == {}


def test_certificates_that_end_soon_are_one_warning(world: World) -> None:
    """All of a host's that end within 30 days are one finding, the first to end on top."""
    answer(world, {"pki/apiserver.crt": 20, "/var/lib/kubelet/pki/kubelet-client-current.pem": 5, "pki/ca.crt": 360})
    found = world.find(check_certificates)["certificates.expiring"]
    assert found.severity == "warning"
    assert "2 certificates have less than 30 days left" in found.title
    assert found.diagnosis.splitlines()[0].startswith("/var/lib/kubelet/pki/kubelet-client-current.pem: 2026-01-06")


def test_an_expired_certificate_is_an_error(world: World) -> None:
    """An expired certificate would break the run midway."""
    answer(world, {"admin.conf": -1})
    found = world.find(check_certificates)["certificates.expired"]
    assert (found.severity, "1 certificate has expired" in found.title) == ("error", True)
    assert found.diagnosis.startswith("/etc/kubernetes/admin.conf")


def test_a_certificate_that_begins_later_is_an_error(world: World) -> None:
    """Its issuer's clock was ahead: until then, nobody accepts it."""
    answer(world, {"pki/apiserver.crt": 700})
    found = world.find(check_certificates)["certificates.not-yet-valid"]
    assert (found.severity, "1 certificate is not yet valid" in found.title) == ("error", True)


def test_a_certificate_that_can_not_be_read_is_unknown(world: World) -> None:
    """Garbage where a certificate should be is not taken for a valid one."""
    world.hosts.commands["sh"] = CommandResult(0, printed({"pki/apiserver.crt": "nonsense"}), "")
    assert world.find(check_certificates)["certificates.unknown"].severity == "unknown"


def test_controller_that_can_not_be_asked_hides_no_other(world: World) -> None:
    """Its certificates are unknown, which blocking; those of the others are checked."""
    world.hosts.commands["sh"] = CommandResult(1, "", "sh: cannot fork")
    found = world.find(check_certificates)["certificates.unknown"]
    assert (
        found.severity == "unknown" and found.title.startswith(f"{CONTROLLER}: ") and "cannot fork" in found.diagnosis
    )


def test_an_old_helm_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Helm 2 is another program; 3 and 4 are fine."""
    assert world.find(check_helm) == {}
    monkeypatch.setattr(world.helm, "version", lambda: "v2.17.0")
    assert world.find(check_helm)["helm.version"].severity == "error"
