"""The API adapter reports each fault between it and an API server truthfully, in time, and never as healthy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.faults.api import SmallApi
from testkit.faults.proxy import Fault, FaultProxy
from testkit.waiting import stretched
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.api_absence import api_problem
from upgrader.gates.critical_pods_gate import CriticalPodsGate
from upgrader.gates.node_health import NodeHealth, NodeMemory
from upgrader.gates.nodes_gate import NodesGate
from upgrader.model.cluster import Cluster
from upgrader.model.outcome import VerdictKind
from upgrader.pipeline import Gate
from upgrader.ports import Kind

CONFIG_MAPS = Kind("v1", "configmaps")
PATH = "/api/v1/namespaces/ns/configmaps"
LASTING = tuple(Fault)
SECONDS = 1.5
"""The adapter's deadline here, on an idle machine; much shorter than a stall or a trickle."""

SAYS = {
    Fault.REFUSED: "did not answer: Connection refused",
    # A reset also discards what arrived and was not read yet: a slow client sees all, half or nothing of the answer.
    Fault.RESET: "did not answer: (Connection reset by peer|.*IncompleteRead|.*RemoteDisconnected)",
    Fault.STALL: "did not answer: .*timed out",
    Fault.TRICKLE: "did not answer: .*(timed out|incomplete at the deadline)",
    Fault.THROTTLED: "could not serve 'get configmaps ns/a': HTTP 429 too many requests",
    Fault.BROKEN: "refused 'get configmaps ns/a': HTTP 500 an internal error",
    Fault.TRUNCATED: r"the response was truncated after \d+ bytes",
    Fault.STRANGER: "can't be verified: .*certificate verify failed",
    Fault.EXPIRED: "HTTP 401 Unauthorized",
}


@dataclass(frozen=True)
class World:
    """An API server, the proxy before it, and the adapter that connects through it."""

    api: SmallApi
    proxy: FaultProxy
    kubeconfig: Path
    kube: KubeAdapter


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    for name in ("api", "proxy"):
        (tmp_path / name).mkdir()
    with SmallApi(tmp_path / "api") as api, FaultProxy(api.upstream, tmp_path / "proxy") as proxy:
        api.objects[f"{PATH}/a"] = {"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "value" * 20}}
        kubeconfig = proxy.write_kubeconfig(tmp_path / "kubeconfig")
        kube = KubeAdapter(kubeconfig, timeout_seconds=stretched(SECONDS))
        yield World(api, proxy, kubeconfig, kube)
        kube.close()


def test_through_the_proxy(world: World) -> None:
    """Without a fault the proxy changes nothing, so effects in the other tests are the faults'."""
    assert (world.kube.get(CONFIG_MAPS, "a", "ns") or {})["data"] == {"key": "value" * 20}
    assert world.kube.get(CONFIG_MAPS, "b", "ns") is None
    assert api_problem(world.kube) == ""


@pytest.mark.parametrize("fault", LASTING)
def test_a_fault_that_stays_is_told_as_it_is(world: World, fault: Fault) -> None:
    """A read ends within its deadline while the fault lasts, and names the fault."""
    world.proxy.set(fault)
    with pytest.raises(ApiError, match=SAYS[fault]):
        world.kube.get(CONFIG_MAPS, "a", "ns")
    assert not world.proxy.outlasted.is_set()


@pytest.mark.parametrize("fault", LASTING)
def test_no_fault_passes_for_health(world: World, fault: Fault, tmp_path: Path) -> None:
    """A failed request is `unknown` to every gate, and never an API that is ready."""
    # Long enough for a trickle to outlast the deadline of the busiest machine.
    none = {"metadata": {"continue": "", "selfLink": "/" * 200}, "items": []}
    world.api.objects |= dict.fromkeys(("/api/v1/nodes", "/api/v1/namespaces/kube-system/pods"), none)
    cluster = Cluster(tmp_path, world.kubeconfig, "", tmp_path, ())
    health = NodeHealth(world.kube, FakeClock(), (), NodeMemory())
    gates: list[Gate] = [NodesGate(health, cluster), CriticalPodsGate(world.kube, health, cluster)]
    world.proxy.set(fault)
    for gate in gates:
        assert gate.check().kind is VerdictKind.UNKNOWN
    if fault not in (Fault.TRUNCATED, Fault.TRICKLE):  # half an "ok", or a slow one, is from an API that is ready
        assert api_problem(world.kube)


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.THROTTLED, Fault.BROKEN, Fault.TRUNCATED])
def test_a_fault_that_passes_is_not_noticed(world: World, fault: Fault) -> None:
    """A read that meets a short fault is answered on retry."""
    world.proxy.set(fault, times=1)
    found = world.kube.get(CONFIG_MAPS, "a", "ns")
    assert found is not None
    assert world.proxy.hits == 1


@pytest.mark.parametrize("fault", LASTING)
def test_it_works_again_afterwards(world: World, fault: Fault) -> None:
    """After each fault the next request is answered: no dead connection is reused."""
    world.proxy.set(fault)
    with pytest.raises(ApiError):
        world.kube.get(CONFIG_MAPS, "a", "ns")
    world.proxy.set(None)
    assert world.kube.get(CONFIG_MAPS, "a", "ns") is not None


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.TRUNCATED, Fault.TRICKLE])
def test_a_write_whose_answer_is_lost_is_not_repeated(world: World, fault: Fault) -> None:
    """A write without an answer is executed once, and its outcome is reported as unknown."""
    world.proxy.set(fault)
    with pytest.raises(ApiUnavailable):
        world.kube.create(CONFIG_MAPS, {"metadata": {"name": "new"}, "data": {"key": "value" * 20}}, "ns")
    assert world.api.writes == [("POST", PATH)]
    world.proxy.set(None)
    assert world.kube.get(CONFIG_MAPS, "new", "ns") is not None


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.STALL, Fault.THROTTLED, Fault.BROKEN, Fault.STRANGER])
def test_a_write_that_never_arrived_is_not_claimed(world: World, fault: Fault) -> None:
    """A write that didn't arrive is not executed, and not reported as executed."""
    world.proxy.set(fault)
    with pytest.raises(ApiError):
        world.kube.create(CONFIG_MAPS, {"metadata": {"name": "new"}}, "ns")
    assert world.api.writes == []


def test_a_wrong_certificate_is_said_at_once(world: World) -> None:
    """An untrusted certificate is reported at once, without a retry, as waiting doesn't help."""
    world.proxy.set(Fault.STRANGER)
    with pytest.raises(ApiUnavailable) as caught:
        world.kube.get(CONFIG_MAPS, "a", "ns")
    assert "certificate-authority" in caught.value.remedy
    assert world.proxy.hits == 1


def test_a_new_token_is_read(world: World) -> None:
    """An expired token is read again from the kubeconfig, for reads and for writes."""
    world.kube.get(CONFIG_MAPS, "a", "ns")
    for name in ("one", "two"):
        world.proxy.renew_token()
        world.proxy.write_kubeconfig(world.kubeconfig)
        world.kube.create(CONFIG_MAPS, {"metadata": {"name": name}}, "ns")
    assert len(world.api.writes) == 2


def test_a_token_that_nobody_renewed(world: World) -> None:
    """Without a new token the error names the credentials, and the server isn't asked again."""
    world.proxy.set(Fault.EXPIRED)
    with pytest.raises(ApiError) as caught:
        world.kube.get(CONFIG_MAPS, "a", "ns")
    assert "credentials" in caught.value.remedy
    assert world.proxy.hits == 1


def test_a_name_that_is_not_known(world: World, tmp_path: Path) -> None:
    """A name that can't be resolved is reported as an unreachable API."""
    path = world.proxy.write_kubeconfig(tmp_path / "elsewhere", server="https://api.invalid:6443")
    with pytest.raises(ApiUnavailable, match=r"https://api.invalid:6443 did not answer: .*(?i:name)"):
        KubeAdapter(path, timeout_seconds=SECONDS).get(CONFIG_MAPS, "a", "ns")
