"""The apiserver gate asks every instance by itself, and then tries the API as a client would."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_deployment, add_pod, running
from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.api_round_trip import round_trip
from upgrader.gates.apiserver_gate import ApiServerGate
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS
from upgrader.gates.written_objects import PROBE_LABEL
from upgrader.model.cluster import Cluster
from upgrader.model.outcome import VerdictKind
from upgrader.model.version import KubernetesVersion
from upgrader.model.workload import WorkloadRef

REF = WorkloadRef("Deployment", "kube-system", "kube-apiserver")
TARGET = KubernetesVersion(1, 37, 1)
FIRST, SECOND = "https://10.0.0.11:6443", "https://10.0.0.12:6443"


@pytest.fixture
def gate(kube: FakeKube, cluster: Cluster) -> ApiServerGate:
    """The gate of two healthy instances at v1.37.1."""
    add_deployment(kube, "kube-apiserver", replicas=2)
    for node, address in (("controller-1", "10.0.0.11"), ("controller-2", "10.0.0.12")):
        add_pod(kube, "kube-apiserver", node=node, host_ip=address)
    kube.raw_answers["/readyz"] = "ok"
    kube.raw_answers["/version"] = json.dumps({"gitVersion": "v1.37.1"})
    return ApiServerGate(kube, cluster, REF, TARGET)


def test_two_healthy_instances_hold(gate: ApiServerGate, kube: FakeKube) -> None:
    """Both answer by themselves at the target version, the round trip works, and nothing of it is left."""
    verdict = gate.check()
    assert verdict.kind is VerdictKind.HOLDS
    assert "2 of 2 instances ready at v1.37.1" in verdict.reason
    assert kube.list(CONFIG_MAPS) == ()


def test_each_instance_must_be_ready_by_itself(gate: ApiServerGate, kube: FakeKube) -> None:
    """F5: one instance that answers for all is not enough; the failed checks of the other are shown."""
    kube.raw_answers[f"{SECOND}/readyz"] = ApiError("HTTP 500 [+]ping ok\n[-]etcd failed: reason withheld")
    verdict = gate.check()
    assert verdict.kind is VerdictKind.PENDING
    assert "controller-2" in verdict.reason
    assert "[-]etcd failed: reason withheld" in verdict.details


def test_instance_that_does_not_answer_is_unknown(gate: ApiServerGate, kube: FakeKube) -> None:
    """No answer from an instance's own address is neither ready nor not ready."""
    kube.raw_answers[f"{FIRST}/readyz"] = ApiUnavailable("did not answer: Connection refused")
    assert gate.check().kind is VerdictKind.UNKNOWN


def test_version_must_be_the_expected_one(gate: ApiServerGate, kube: FakeKube) -> None:
    """An instance left behind at the old version keeps the gate from holding."""
    kube.raw_answers[f"{SECOND}/version"] = json.dumps({"gitVersion": "v1.36.3"})
    verdict = gate.check()
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason == "kube-apiserver on controller-2 is v1.36.3, not v1.37.1"


def test_strange_version_is_unknown(gate: ApiServerGate, kube: FakeKube) -> None:
    """An answer that isn't a version is no reason to crash."""
    kube.raw_answers["/version"] = "<html>"
    assert gate.check().kind is VerdictKind.UNKNOWN


def test_others_that_still_terminate_may_be_who_answers(gate: ApiServerGate, kube: FakeKube) -> None:
    """The pod of a workload that was removed shares the address until it ends: only then answers are the new one's."""
    add_pod(kube, "removed", running("kube-apiserver"), name="kube-apiserver-of-before", deleting=True)
    verdict = gate.check()
    assert verdict.kind is VerdictKind.PENDING
    assert "kube-apiserver-of-before" in verdict.reason


def test_every_controller_needs_a_pod(gate: ApiServerGate, kube: FakeKube) -> None:
    """Two Ready pods on one controller leave the other without."""
    add_pod(kube, "kube-apiserver", name="kube-apiserver-1-controller-2", node="controller-1")
    verdict = gate.check()
    assert verdict.kind is VerdictKind.PENDING
    assert "no Ready pod on controller-2" in verdict.reason


def test_unfinished_rollout_comes_first(gate: ApiServerGate, kube: FakeKube) -> None:
    """While an old pod shares the address, its answers would be taken for the new one's: they aren't asked for."""
    add_pod(kube, "kube-apiserver", name="old", deleting=True)
    verdict = gate.check()
    assert verdict.kind is VerdictKind.PENDING
    assert "old pods are still terminating" in verdict.reason


def test_watch_that_shows_nothing_fails_the_round_trip(gate: ApiServerGate, kube: FakeKube) -> None:
    """Reads and writes that work aren't enough: controllers live on watches. The probe is removed all the same."""
    kube.mute_watch = True
    verdict = gate.check()
    assert verdict.kind is VerdictKind.PENDING
    assert "a watch did not show ConfigMap upgrader-probe-" in verdict.reason
    assert kube.list(CONFIG_MAPS) == ()


def test_leftover_probes_are_removed(kube: FakeKube) -> None:
    """What an interrupted look left behind, the next one cleans up; other ConfigMaps are not touched."""
    leftover = {"metadata": {"name": "upgrader-probe-old", "labels": {PROBE_LABEL: "true"}}}
    kube.create(CONFIG_MAPS, leftover, "kube-system")
    kube.create(CONFIG_MAPS, {"metadata": {"name": "mine"}}, "kube-system")
    assert round_trip(kube) == ""
    assert [item["metadata"]["name"] for item in kube.list(CONFIG_MAPS)] == ["mine"]


def test_api_away_is_unknown(gate: ApiServerGate, kube: FakeKube) -> None:
    """The gate of the API itself must not fall over when the API is away."""
    kube.unavailable = True
    assert gate.check().kind is VerdictKind.UNKNOWN


def test_any_version_will_do_where_none_is_expected(kube: FakeKube, gate: ApiServerGate) -> None:
    """Without an expected version, no instance is asked for its own."""
    del kube.raw_answers["/version"]
    verdict = replace(gate, target=None).check()
    assert verdict.kind is VerdictKind.HOLDS
    assert "2 of 2 instances ready;" in verdict.reason


def test_refused_round_trip_is_unknown(kube: FakeKube, gate: ApiServerGate, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API that refuses the probe's write, for lack of a permission, say, can't be judged."""

    def refuse(*_: object) -> None:
        raise ApiError("configmaps is forbidden")

    monkeypatch.setattr(kube, "create", refuse)
    verdict = gate.check()
    assert (verdict.kind, verdict.reason) == (VerdictKind.UNKNOWN, "kube-apiserver: configmaps is forbidden")


PROXIED = "/api/v1/namespaces/kube-system/pods/https:kube-apiserver-1-controller-1:6443/proxy"


def test_address_is_the_nodes_and_the_port_is_the_charts(gate: ApiServerGate, kube: FakeKube) -> None:
    """The address that SSH uses may be a public one or a name, and the chart's port another one."""
    add_pod(kube, "kube-apiserver", node="controller-1", host_ip="fd00::11")
    del kube.raw_answers["/readyz"]
    for server in ("https://[fd00::11]:7443", "https://10.0.0.12:7443"):
        kube.raw_answers[f"{server}/readyz"] = "ok"
    assert replace(gate, port=7443).check().kind is VerdictKind.HOLDS


def test_success_of_something_else_is_unknown(gate: ApiServerGate, kube: FakeKube) -> None:
    """What answers at an instance's address with another 200 than kube-apiserver's says nothing, also behind an undo,
    which asks for no version.
    """
    kube.raw_answers[f"{FIRST}/readyz"] = '{"status": "UP"}'
    verdict = replace(gate, target=None).check()
    assert verdict.kind is VerdictKind.UNKNOWN and "not from a Kubernetes API" in verdict.reason


def test_instance_that_only_the_api_reaches(gate: ApiServerGate, kube: FakeKube) -> None:
    """A machine that reaches only the load balancer has each instance asked through the API, and waits only once."""
    direct = iter([ApiUnavailable("did not answer: timed out")])
    kube.raw_answers[f"{FIRST}/readyz"] = direct
    kube.raw_answers[f"{PROXIED}/readyz"] = "ok"
    kube.raw_answers[f"{PROXIED}/version"] = json.dumps({"gitVersion": "v1.37.1"})
    assert gate.check().kind is VerdictKind.HOLDS
    assert gate.check().kind is VerdictKind.HOLDS  # a second direct attempt would raise StopIteration
    kube.raw_answers[f"{PROXIED}/version"] = json.dumps({"gitVersion": "v1.36.3"})
    assert gate.check().reason == "kube-apiserver on controller-1 is v1.36.3, not v1.37.1"
    refused = ApiError("HTTP 500 [-]etcd failed: reason withheld")
    refused.status = 500
    kube.raw_answers[f"{PROXIED}/readyz"] = refused
    verdict = gate.check()
    assert (verdict.kind, verdict.reason) == (VerdictKind.PENDING, "kube-apiserver on controller-1 is not ready")


def test_instance_that_nobody_reaches_is_unknown(gate: ApiServerGate, kube: FakeKube) -> None:
    """Where anonymous requests are refused, the remedy says what to open."""
    denied = ApiError("HTTP 401 Unauthorized")
    denied.status = 401
    kube.raw_answers[f"{FIRST}/readyz"] = ApiUnavailable("did not answer: timed out")
    kube.raw_answers[f"{PROXIED}/readyz"] = denied
    verdict = gate.check()
    assert verdict.kind is VerdictKind.UNKNOWN
    assert "and through the API" in verdict.reason
    kube.raw_answers[f"{PROXIED}/readyz"] = "ok"
    assert replace(gate, target=None).check().kind is VerdictKind.HOLDS
    kube.raw_answers[f"{PROXIED}/readyz"] = denied
    kube.raw_answers[f"{FIRST}/readyz"] = "ok"
    assert [gate.check().kind for _ in range(2)] == [VerdictKind.UNKNOWN, VerdictKind.HOLDS]


def test_pod_without_an_address_is_unknown(gate: ApiServerGate, kube: FakeKube) -> None:
    """It is not asked at somebody else's."""
    add_pod(kube, "kube-apiserver", node="controller-1")
    assert "has no address yet" in gate.check().reason


def test_emulation_must_be_the_one_that_was_asked_for(gate: ApiServerGate, kube: FakeKube) -> None:
    """A server that emulates, or doesn't, against what its release says is waited for; each instance by itself."""
    emulates = {"gitVersion": "v1.37.1", "emulationMajor": "1", "emulationMinor": "36"}
    own = {**emulates, "emulationMinor": "37"}
    asked = replace(gate, emulated=(1, 36))
    kube.raw_answers["/version"] = json.dumps(emulates)
    assert asked.check().kind is VerdictKind.HOLDS
    assert "at v1.37.1, emulating 1.36" in asked.check().reason
    assert "controller-1 emulates 1.36, not 1.37" in gate.check().reason
    kube.raw_answers[f"{SECOND}/version"] = json.dumps(own)
    verdict = asked.check()
    assert (verdict.kind, "controller-2 emulates 1.37, not 1.36" in verdict.reason) == (VerdictKind.PENDING, True)
    kube.raw_answers["/version"] = json.dumps(own)
    assert gate.check().kind is VerdictKind.HOLDS


def test_server_that_reports_no_emulation_has_none(gate: ApiServerGate, kube: FakeKube) -> None:
    """Where emulation is asked for, silence is no proof of it; compatibility is compared only where it is asked for."""
    assert gate.check().kind is VerdictKind.HOLDS
    assert "emulates an unknown minor" in replace(gate, emulated=(1, 36)).check().reason
    assert "not with 1.35" in replace(gate, compatible=(1, 35)).check().reason
    kube.raw_answers["/version"] = json.dumps(
        {"gitVersion": "v1.37.1", "minCompatibilityMajor": "1", "minCompatibilityMinor": "35"}
    )
    assert replace(gate, compatible=(1, 35)).check().kind is VerdictKind.HOLDS
