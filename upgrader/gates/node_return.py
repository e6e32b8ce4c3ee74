"""Whether a node whose kubelet was restarted is back: Ready, of the right version, with its critical pods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from upgrader.gates.critical_workloads import critical_pods_on
from upgrader.gates.kubernetes_kinds import LEASES, NODES
from upgrader.gates.node_health import HEARTBEATS, LEASES_AT_ONCE, condition_problem
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kube, KubeObject

__all__ = ["FEW", "NodeReturn"]

_BEATS = 2
"""Heartbeats to wait for: a kubelet that ends soon after its start has renewed its Lease once."""
FEW = 5
"""So many nodes are read one by one, and often: of a thousand, all Leases would be a megabyte."""
_MOST_SKIPPED = 10
"""How often at most a node isn't read, while its kubelet shows no heartbeats."""


@dataclass(frozen=True)
class NodeReturn:
    """Readings of single nodes. Every one raises ApiError."""

    kube: Kube
    unready_before: Collection[str] = ()
    """The critical workloads that were not Ready before the run: they are ignored."""

    def problem(self, name: str) -> str:
        """What a node's conditions say against it; "" when nothing does."""
        node = self.kube.get(NODES, name)
        return condition_problem(node) if node is not None else "is not in the cluster"

    def back(self, name: str, *versions: KubernetesVersion, with_pods: bool = True) -> Callable[[], str]:
        """Asks what is still missing; "": nothing. Without `with_pods`, its critical pods don't count.

        `Ready` outlives a kubelet, and the first heartbeat that is read may be from before it was restarted. So only
        heartbeats count that are seen to change.
        """
        missing = self.all_back({name: versions}, with_pods=with_pods)
        return lambda: missing((name,))[name]

    def all_back(
        self, versions: Mapping[str, Collection[KubernetesVersion]], *, with_pods: bool = True
    ) -> Callable[[Collection[str]], Mapping[str, str]]:
        """The same of several nodes, of which only those are asked about that are still waited for.

        Of many nodes, the heartbeats are read together, and a node itself first once, then when they suffice: what it
        says before that decides nothing, and is read now and then, for whom it doesn't come back.
        """
        kubelets = {name: _Kubelet(tuple(wanted)) for name, wanted in versions.items()}

        def missing(left: Collection[str]) -> Mapping[str, str]:
            many = len(left) > FEW
            beats = self._beats(left) if many else {name: self._beat(name) for name in left}
            found = {}
            for name in left:
                kubelet = kubelets[name]
                if kubelet.is_due(beats.get(name, ""), many=many):
                    kubelet.missing = self._missing(name, kubelet, with_pods=with_pods)
                found[name] = kubelet.missing
            return found

        return missing

    def _missing(self, name: str, kubelet: _Kubelet, *, with_pods: bool) -> str:
        node = self.kube.get(NODES, name)
        if node is None:
            return "it is not in the cluster"
        problem = condition_problem(node)
        if problem:
            return f"it {problem}"
        reported = str(node["status"]["nodeInfo"]["kubeletVersion"])
        if KubernetesVersion.known(reported) not in kubelet.versions:
            return f"its kubelet reports {reported}"
        if not kubelet.lives:
            return f"its kubelet has renewed its Lease {max(0, kubelet.renewals)} times ({_BEATS} needed)"
        if not with_pods:
            return ""
        unready = [pod for pod in critical_pods_on(self.kube, name) if not pod.ready]
        waiting = [pod.name for pod in unready if pod.workload not in self.unready_before]
        return f"its critical pods are not Ready: {', '.join(waiting)}" if waiting else ""

    def _beat(self, name: str) -> str:
        return _renewed(self.kube.get(LEASES, name, HEARTBEATS) or {})

    def _beats(self, names: Collection[str]) -> Mapping[str, str]:
        leases = self.kube.each(LEASES, HEARTBEATS, at_once=LEASES_AT_ONCE)
        return {name: _renewed(lease) for lease in leases if (name := lease["metadata"]["name"]) in names}


@dataclass
class _Kubelet:
    """A kubelet that is waited for."""

    versions: tuple[KubernetesVersion, ...]
    missing: str = ""
    """As it was last found; "" before that."""
    renewals: int = -1
    """Of its Lease, since the first one that was seen."""
    _last: str = ""
    _skipped: int = 0

    @property
    def lives(self) -> bool:
        return self.renewals >= _BEATS

    def is_due(self, beat: str, *, many: bool) -> bool:
        """Take a heartbeat, "" for none; returns whether the node itself is to be read."""
        if beat and beat != self._last:
            self._last, self.renewals = beat, self.renewals + 1
        self._skipped += 1
        due = not many or self.lives or not self.missing or self._skipped >= _MOST_SKIPPED
        if due:
            self._skipped = 0
        return due


def _renewed(lease: KubeObject) -> str:
    return str((lease.get("spec") or {}).get("renewTime") or "")
