"""Whether the controllers work: their Leases are renewed, by an instance that runs."""

from __future__ import annotations

from collections.abc import Iterable

from upgrader.errors import ApiError
from upgrader.gates.continuity.findings import KEEP_THE_RELEASES, contradicted
from upgrader.gates.kubernetes_kinds import LEASES, NODES, PODS
from upgrader.model.baseline import Baseline
from upgrader.model.outcome import Verdict, pending
from upgrader.model.workload import Pod
from upgrader.ports import Kube, KubeObject

__all__ = ["LeaseWatch", "held_leases"]

_NAMESPACE = "kube-system"
_NAMES = ("kube-controller-manager", "kube-scheduler")


def held_leases(kube: Kube) -> tuple[dict[str, str], dict[str, str]]:
    """The Leases that a running instance holds, by the time of their renewal, and the others: name → why.

    Raises ApiUnavailable or ApiError.
    """
    held: dict[str, str] = {}
    others: dict[str, str] = {}
    for name in _NAMES:
        found = kube.get(LEASES, name, _NAMESPACE)
        if found is None:
            others[name] = "the Lease doesn't exist: leader election is off, or uses another Lease"
        elif problem := _holder_problem(kube, name, found):
            others[name] = problem
        else:
            held[name] = _renewed(found)
    return held, others


class LeaseWatch:
    """Compares the renewals of each Lease between two checks of a gate; clocks are never compared."""

    def __init__(self) -> None:
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
            held, others = held_leases(kube)
        except ApiError as error:
            return contradicted(f"reading the Leases in {_NAMESPACE}", error, KEEP_THE_RELEASES)
        for name in baseline.leases:
            if name in others:
                remedy = f"Check the log of {name}, and the Lease: kubectl -n {_NAMESPACE} get lease {name} -o yaml"
                return pending(f"Lease {_NAMESPACE}/{name}: {others[name]}", remedy=remedy)
            if held[name] != self._first.setdefault(name, held[name]):
                self._renewed.add(name)
        return None


def _holder_problem(kube: Kube, name: str, lease: KubeObject) -> str:
    """The holder's identity is its host's name and a random part: its pod's name or, on the host's network, the name
    that the host has itself. This is its node's name, unless the kubelet was given another one.

    Only its own node's pods are read, or itself: with one kube-proxy on each node, the namespace may have thousands.
    """
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    if not holder:
        return "it has no holder"
    host = holder.rpartition("_")[0] or holder
    # Listed by its name, too: the checks have asked for the right to list pods, not to get them.
    for field in ("spec.nodeName", "metadata.name"):
        if _running(name, kube.list(PODS, _NAMESPACE, fields=f"{field}={host}")):
            return ""
    others = _running(name, kube.list(PODS, _NAMESPACE))
    # Which node's host that is, the API doesn't know. One that has gone renews its Lease no more, which is seen later.
    if any(host_network for _, host_network in others) and _is_name_of_a_host(kube, name, host):
        return ""
    running = ", ".join(pod for pod, _ in others) or "none"
    return f"its holder {holder} is not a running pod of this component (running: {running})"


def _is_name_of_a_host(kube: Kube, component: str, host: str) -> bool:
    """Whether it can be one: it isn't the name of a pod, nor of a node, whose pods were read."""
    return not host.startswith(f"{component}-") and not kube.list(NODES, fields=f"metadata.name={host}")


def _running(name: str, pods: Iterable[KubeObject]) -> list[tuple[str, bool]]:
    """Those of a component that run, each with whether it is on its host's network."""
    found = ((Pod.parse(pod), bool(pod["spec"].get("hostNetwork"))) for pod in pods)
    return [(pod.name, host) for pod, host in found if pod.phase == "Running" and pod.name.startswith(name)]


def _renewed(lease: KubeObject) -> str:
    return str(lease["spec"].get("renewTime") or "")
