"""Whether the controllers work: their Leases are renewed, by an instance that runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from upgrader.errors import ApiError, HostError
from upgrader.gates.continuity.findings import KEEP_THE_RELEASES, contradicted
from upgrader.gates.kubernetes_kinds import LEASES, NODES, PODS
from upgrader.model.baseline import Baseline
from upgrader.model.outcome import Verdict, pending
from upgrader.model.workload import Pod
from upgrader.ports import Kube, KubeObject

__all__ = ["LeaseWatch", "NodeCalled", "held_leases"]

NodeCalled = Callable[[str], Collection[str]]
"""The nodes of the controllers whose hosts have this name; raises HostError. See `HostNames`."""

_NAMESPACE = "kube-system"
_NAMES = ("kube-controller-manager", "kube-scheduler")


def held_leases(kube: Kube, node_called: NodeCalled) -> tuple[dict[str, str], dict[str, str]]:
    """The Leases that a running instance holds, by the time of their renewal, and the others: name → why.

    Raises ApiUnavailable or ApiError.
    """
    held: dict[str, str] = {}
    others: dict[str, str] = {}
    for name in _NAMES:
        found = kube.get(LEASES, name, _NAMESPACE)
        if found is None:
            others[name] = "the Lease doesn't exist: leader election is off, or uses another Lease"
        elif problem := _holder_problem(kube, name, found, node_called):
            others[name] = problem
        else:
            held[name] = _renewed(found)
    return held, others


class LeaseWatch:
    """Compares the renewals of each Lease between two checks of a gate; clocks are never compared."""

    def __init__(self, node_called: NodeCalled) -> None:
        self._node_called = node_called
        self._first: dict[str, str] = {}
        self._renewed: set[str] = set()

    def begin(self, kube: Kube, baseline: Baseline) -> Verdict | None:
        """Read what later checks compare with: only a holder that doesn't run is a problem by now."""
        return None if self._first or not baseline.leases else self._read(kube, baseline)

    def check(self, kube: Kube, baseline: Baseline) -> Verdict | None:
        """Each of the baseline has been renewed since the first check, and a running instance holds it."""
        if problem := self._read(kube, baseline):
            return problem
        missing = [name for name in baseline.leases if name not in self._renewed]
        if not missing:
            return None
        return pending(
            f"Lease {_NAMESPACE}/{missing[0]} has not been renewed since this gate was first checked",
            remedy=f"Check the log of {missing[0]}: without a leader, it reconciles nothing.",
        )

    def _read(self, kube: Kube, baseline: Baseline) -> Verdict | None:
        try:
            held, others = held_leases(kube, self._node_called)
        except ApiError as error:
            return contradicted(f"reading the Leases in {_NAMESPACE}", error, KEEP_THE_RELEASES)
        for name in baseline.leases:
            if name in others:
                remedy = f"Check the log of {name}, and the Lease: kubectl -n {_NAMESPACE} get lease {name} -o yaml"
                return pending(f"Lease {_NAMESPACE}/{name}: {others[name]}", remedy=remedy)
            if held[name] != self._first.setdefault(name, held[name]):
                self._renewed.add(name)
        return None


def _holder_problem(kube: Kube, name: str, lease: KubeObject, node_called: NodeCalled) -> str:
    """The holder's identity is its host's name and a random part: its pod's name or, on the host's network, the name
    that the host has itself. This is its node's name, unless the kubelet was given another one.

    Only its own node's pods are read, or itself: with one kube-proxy on each node, the namespace may have thousands.
    Which node has a host of another name, the API doesn't know, and the controllers are asked: a machine that was
    removed from the cluster, and still runs an instance, renews the Lease just as well.
    """
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    if not holder:
        return "it has no holder"
    host = holder.rpartition("_")[0] or holder
    # Listed by its name, too: the checks have asked for the right to list pods, not to get them.
    for field in ("spec.nodeName", "metadata.name"):
        if _running(name, kube.list(PODS, _NAMESPACE, fields=f"{field}={host.lower()}")):
            return ""
    others = _running(name, kube.list(PODS, _NAMESPACE))
    on_hosts = {node for node in others.values() if node}
    if on_hosts and _is_name_of_a_host(kube, name, host):
        try:
            if on_hosts.intersection(node_called(host)):
                return ""
        except HostError as error:
            return f"it is unknown whether its holder {holder} is on a controller's host: {error.message}"
    running = ", ".join(others) or "none"
    return f"its holder {holder} is not a running pod of this component (running: {running})"


def _is_name_of_a_host(kube: Kube, component: str, host: str) -> bool:
    """Whether it can be one: it isn't the name of a pod, nor of a node, whose pods were read."""
    return not host.startswith(f"{component}-") and not kube.list(NODES, fields=f"metadata.name={host.lower()}")


def _running(name: str, pods: Iterable[KubeObject]) -> dict[str, str]:
    """Those of a component that run, each with its node if it is on its host's network, else with ""."""
    found = ((Pod.parse(pod), pod["spec"]) for pod in pods)
    return {
        pod.name: str(spec.get("nodeName") or "") if spec.get("hostNetwork") else ""
        for pod, spec in found
        if pod.phase == "Running" and pod.name.startswith(name)
    }


def _renewed(lease: KubeObject) -> str:
    return str(lease["spec"].get("renewTime") or "")
