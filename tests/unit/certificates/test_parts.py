"""The parts of a renewal: what kubeadm lists, what its gates take for proof, and what a step leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from tests.unit.certificates.controllers import Certificate, Controllers, RollingKube, add_control_plane
from tests.unit.gates.builders import add_pod, running
from upgrader.certificates.gates import InUseGate, ServedGate
from upgrader.certificates.kubeadm_on_host import KubeadmOnHost
from upgrader.certificates.pipeline import serving
from upgrader.certificates.steps import RESTARTED_AT, RestartStep
from upgrader.errors import ApiError, HostError, StepFailed
from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.model.cluster import Host
from upgrader.model.outcome import VerdictKind
from upgrader.model.renewable import ControllerCertificates
from upgrader.onhost.sending.shipped_program import program
from upgrader.ports import CommandResult

HOST = Host("controller-1", "10.0.0.1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CRT = "/etc/kubernetes/pki/apiserver.crt"


def test_what_kubeadm_lists() -> None:
    """Names, ends and CAs as kubeadm v1.36 prints them; what the controller doesn't have is no certificate of it."""
    printed = """{
      "kind": "CertificateExpirationInfo", "apiVersion": "output.kubeadm.k8s.io/v1alpha3",
      "certificates": [
        {"name": "admin.conf", "expirationDate": "2027-11-24T20:00:00Z", "residualTime": 31535999, "caName": "ca"},
        {"name": "etcd-server", "expirationDate": "2026-01-20T20:00:00Z", "caName": "etcd-ca",
         "externallyManaged": true},
        {"name": "super-admin.conf", "expirationDate": null, "residualTime": 0, "missing": true}
      ],
      "certificateAuthorities": []
    }"""
    found = ControllerCertificates.parse(HOST, printed)
    assert [(item.name, item.authority, item.external) for item in found.certificates] == [
        ("admin.conf", "ca", False),
        ("etcd-server", "etcd-ca", True),
    ]
    assert [item.name for item in found.ending(NOW, timedelta(days=30))] == ["etcd-server"]
    assert len(found.ending(NOW, None)) == 2


@pytest.mark.parametrize("printed", ["", "{}", '{"certificates": [{"name": "x", "expirationDate": "soon"}]}'])
def test_what_can_not_be_understood(printed: str) -> None:
    """It is an error with the controller's name, and no empty list."""
    hosts = FakeHosts()
    hosts.commands["python3"] = CommandResult(0, json.dumps({"kubeadm": printed}), "")
    with pytest.raises(HostError, match="controller-1: the answer about its kubeadm can't be parsed"):
        KubeadmOnHost(hosts).look(HOST)


def test_answer_of_a_controller() -> None:
    """Why it failed is kubeadm's own words; no answer at all is an error too."""
    hosts = FakeHosts()
    hosts.commands["python3"] = CommandResult(0, '{"failed": "kubeadm was not found on this host"}', "")
    with pytest.raises(HostError, match="controller-1: kubeadm was not found on this host"):
        KubeadmOnHost(hosts).renew(HOST, "r", ("apiserver",))
    hosts.commands["python3"] = CommandResult(1, "", "SyntaxError: invalid syntax")
    with pytest.raises(HostError, match=r"failed with exit code 1: SyntaxError"):
        KubeadmOnHost(hosts).renew(HOST, "r", ("apiserver",))
    hosts.commands["python3"] = CommandResult(0, "[]", "")
    with pytest.raises(HostError):
        KubeadmOnHost(hosts).renew(HOST, "r", ("apiserver",))


def test_program_runs_as_it_is_sent() -> None:
    """One text on standard input, in a Python that sees nothing of this project; what is wrong is an answer."""
    done = subprocess.run(
        [sys.executable, "-I", "-", "look", "/nowhere"],
        input=program("controller", "certificates"),
        capture_output=True,
        check=True,
    )
    failed = json.loads(done.stdout)["failed"]
    assert failed == "/nowhere, kubeadm's folder of certificates, is not a folder below /etc/kubernetes"


def place() -> tuple[RollingKube, Controllers, FakeClock]:
    """A controller with a control plane."""
    clock = FakeClock()
    kube, hosts = RollingKube(clock.now), Controllers(clock.now)
    hosts.certificates[HOST.name] = {"apiserver": Certificate(NOW), "scheduler.conf": Certificate(NOW)}
    add_control_plane(kube, HOST.name)
    return kube, hosts, clock


def test_served_gate() -> None:
    """It holds for what was proven, waits for what isn't there yet, and knows nothing where nobody answers."""
    kube, hosts, _ = place()
    gate = ServedGate(kube, KubeadmOnHost(hosts), HOST, CRT, 6443)
    assert gate.check().kind is VerdictKind.HOLDS
    hosts.serves_old.add(HOST.name)
    KubeadmOnHost(hosts).renew(HOST, "r", ("apiserver",))
    verdict = gate.check()
    assert verdict.kind is VerdictKind.PENDING and "10.0.0.1:6443" in "\n".join(verdict.lines())
    hosts.down.add(HOST.name)
    assert gate.check().kind is VerdictKind.UNKNOWN
    kube.unavailable = True
    assert gate.check().kind is VerdictKind.UNKNOWN


def test_served_gate_without_an_instance() -> None:
    """A controller without a Ready kube-apiserver proves nothing."""
    kube, hosts, _ = place()
    add_pod(kube, "kube-apiserver", running("kube-apiserver", ready=False), node=HOST.name)
    verdict = ServedGate(kube, KubeadmOnHost(hosts), HOST, CRT, 6443).check()
    assert verdict.kind is VerdictKind.PENDING and "no Ready pod on controller-1" in verdict.reason


def test_in_use_gate() -> None:
    """A pod from before the file's change is named; the gate holds once its successor runs."""
    kube, hosts, clock = place()
    gate = InUseGate(kube, hosts, (HOST,))
    assert gate.check().kind is VerdictKind.HOLDS
    clock.sleep(60)
    KubeadmOnHost(hosts).renew(HOST, "r", ("scheduler.conf",))
    verdict = gate.check()
    assert verdict.kind is VerdictKind.PENDING and "kube-scheduler" in "\n".join(verdict.lines())
    clock.sleep(1)
    RestartStep(kube, clock, ("kube-scheduler",)).apply(lambda _: None)
    assert gate.check().kind is VerdictKind.HOLDS
    hosts.down.add(HOST.name)
    assert gate.check().kind is VerdictKind.UNKNOWN
    kube.unavailable = True
    assert gate.check().kind is VerdictKind.UNKNOWN


def test_undone_restart_has_the_annotation_from_before() -> None:
    """An operator's own `kubectl rollout restart` stays the last one, so that the pods of that time return."""
    kube, _, clock = place()
    step = RestartStep(kube, clock, ("kube-scheduler",))
    kube.patch(
        WORKLOADS["Deployment"],
        "kube-scheduler",
        {"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: "2025-01-01T00:00:00Z"}}}}},
        "kube-system",
    )
    point = step.capture()
    assert str(point) == "the previous pods"
    step.apply(lambda _: None)
    step.undo(point, lambda _: None)
    found = kube.get(WORKLOADS["Deployment"], "kube-scheduler", "kube-system")
    assert found is not None
    assert found["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT] == "2025-01-01T00:00:00Z"


def test_restart_of_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said before anything changes; what the API refuses is the step's failure."""
    kube, _, clock = place()
    with pytest.raises(StepFailed, match="Deployment kube-system/gone no longer exists"):
        RestartStep(kube, clock, ("gone",)).capture()

    def refuse(*_: object) -> None:
        raise ApiError("denied")

    monkeypatch.setattr(kube, "patch", refuse)
    with pytest.raises(StepFailed, match="kube-scheduler: denied"):
        RestartStep(kube, clock, ("kube-scheduler",)).apply(lambda _: None)


def test_where_it_is_served() -> None:
    """By the Deployment's own flags and volumes; nothing is claimed of one that is not installed."""
    kube, _, _ = place()
    found = serving(kube)
    assert found is not None and (found.certificate, found.port) == (CRT, 6443)
    kube.delete(WORKLOADS["Deployment"], "kube-apiserver", "kube-system")
    assert serving(kube) is None
