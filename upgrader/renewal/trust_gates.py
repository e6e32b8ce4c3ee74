"""The gates of a rotation: who accepts clients of the new CA, and what pods are told to trust."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.errors import ApiError, HostError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS, NAMESPACES, NODES
from upgrader.gates.remedies import describe_workload
from upgrader.gates.workload_reading import read_workload
from upgrader.model.cluster import Host
from upgrader.model.outcome import Verdict, holds, pending, unknown
from upgrader.ports import Kube
from upgrader.renewal.authority_on_host import NewAuthority
from upgrader.renewal.gates import API_SERVER
from upgrader.renewal.onhost.bundles import certificates, fingerprint

__all__ = ["ROOT_CA", "AcceptedGate", "PublishedGate"]

ROOT_CA = "kube-root-ca.crt"
"""ConfigMap in each namespace, from which every pod gets the CAs that it trusts."""
_SHOWN = 5
_KUBELET_PORT = 10250


@dataclass(frozen=True)
class AcceptedGate:
    """The kubelet of a node, and kube-apiserver where the node is a controller, accept a client of the new CA.

    Asked with a certificate of the new CA, on the controller that keeps it.
    """

    kube: Kube
    new: NewAuthority
    host: Host
    port: int | None
    """That of kube-apiserver; None: the node is no controller."""

    @property
    def name(self) -> str:
        return f"accepts-new-ca/{self.host.name}"

    def check(self) -> Verdict:
        try:
            node = self.kube.get(NODES, self.host.name) or {}
            reading = read_workload(self.kube, API_SERVER) if self.port else None
        except ApiError as error:
            return unanswered("nodes and kube-apiserver", error)
        status = node.get("status") or {}
        address = next(
            (str(item["address"]) for item in status.get("addresses", ()) if item["type"] == "InternalIP"), ""
        )
        if not address:
            return pending(f"{self.host.name}: its node has no InternalIP", remedy="kubectl get nodes -o wide")
        kubelet = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
        asked = [("the-kubelet", address, int(kubelet.get("Port", _KUBELET_PORT)))]
        if self.port:
            pods = [pod for pod in (reading.newest if reading else ()) if pod.node == self.host.name and pod.ready]
            if not pods:
                return pending(f"{API_SERVER}: no Ready pod on {self.host.name}", remedy=describe_workload(API_SERVER))
            asked.append((API_SERVER.name, pods[0].node_address, self.port))
        try:
            lines = self.new.on_host.refused(self.new.keeper, asked)
        except HostError as error:
            return unknown(error.message, remedy=error.remedy)
        if lines:
            return pending(
                f"{self.host.name}: clients of the new CA are not accepted everywhere",
                *lines,
                remedy="kube-apiserver and the kubelet read the file of their clients' CA again within a minute: see "
                "their logs. A pod that mounts a single file doesn't see one that was replaced since it began: roll "
                "it out (kubectl -n kube-system rollout restart deployment kube-apiserver), then try again.",
            )
        return holds(f"{self.host.name}: clients of the new CA are accepted")


@dataclass(frozen=True)
class PublishedGate:
    """Pods of every namespace are told to trust the new CA, or (not `trusted`) no more."""

    kube: Kube
    which: Callable[[], str]
    """The new CA's fingerprint. Raises HostError."""
    trusted: bool = True
    name: str = ROOT_CA

    def check(self) -> Verdict:
        try:
            which = self.which()
        except HostError as error:
            return unknown(error.message, remedy=error.remedy)
        try:
            namespaces = [
                str(item["metadata"]["name"])
                for item in self.kube.list(NAMESPACES)
                if not item["metadata"].get("deletionTimestamp")
            ]
            found = {
                str(item["metadata"]["namespace"]): str((item.get("data") or {}).get("ca.crt") or "")
                for item in self.kube.list(CONFIG_MAPS, fields=f"metadata.name={ROOT_CA}")
            }
        except ApiError as error:
            return unanswered(f"ConfigMaps {ROOT_CA}", error)
        wrong = sorted(name for name in namespaces if self._trusts(found.get(name), which) is not self.trusted)
        if wrong:
            shown = ", ".join(wrong[:_SHOWN]) + (f" and {len(wrong) - _SHOWN} others" if len(wrong) > _SHOWN else "")
            return pending(
                f"ConfigMap {ROOT_CA} {'lacks' if self.trusted else 'has'} the new CA in: {shown}",
                remedy="kube-controller-manager writes them: kubectl -n kube-system logs deployment/"
                "kube-controller-manager",
            )
        return holds(f"ConfigMap {ROOT_CA} {'has' if self.trusted else 'lacks'} the new CA in every namespace")

    def _trusts(self, text: str | None, which: str) -> bool | None:
        """None where there is no such ConfigMap yet."""
        return None if text is None else which in [fingerprint(each) for each in certificates(text)]
