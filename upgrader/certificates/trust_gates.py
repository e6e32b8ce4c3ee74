"""The gates of a rotation: which servers accept clients of the new CA, and which CAs are published to pods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.certificates.authority_on_host import AuthorityOnHost
from upgrader.certificates.gates import API_SERVER
from upgrader.certificates.trust_steps import AUTHENTICATION, accepted_by_aggregated
from upgrader.errors import ApiError, HostError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS, NAMESPACES, NODES
from upgrader.gates.remedies import describe_workload
from upgrader.gates.workload_reading import read_workload
from upgrader.model.cluster import Host
from upgrader.model.outcome import Verdict, holds, pending, unknown
from upgrader.onhost.certificates.bundles import certificates, fingerprint
from upgrader.ports import Kube

__all__ = ["ROOT_CA", "AcceptedGate", "AggregatedGate", "PublishedGate"]

ROOT_CA = "kube-root-ca.crt"
"""ConfigMap in each namespace, from which every pod gets the CAs that it trusts."""
_SHOWN = 5
_KUBELET_PORT = 10250


@dataclass(frozen=True)
class AcceptedGate:
    """The kubelet of a node (on controllers, kube-apiserver too) accepts a client certificate of the new CA; for
    `refuses-old-ca`, it rejects one of the old CA. The controller that keeps the CA's key makes the request.
    """

    kube: Kube
    on_host: AuthorityOnHost
    keeper: Host
    host: Host
    port: int | None
    """kube-apiserver's port; None: the node is not a controller."""
    accepted: bool = True

    @property
    def name(self) -> str:
        return f"{'accepts-new-ca' if self.accepted else 'refuses-old-ca'}/{self.host.name}"

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
            return pending(f"{self.host.name}: the node has no InternalIP", remedy="kubectl get nodes -o wide")
        kubelet = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
        asked = [("the-kubelet", address, int(kubelet.get("Port", _KUBELET_PORT)))]
        if self.port:
            pods = [pod for pod in (reading.newest if reading else ()) if pod.node == self.host.name and pod.ready]
            if not pods:
                return pending(f"{API_SERVER}: no Ready pod on {self.host.name}", remedy=describe_workload(API_SERVER))
            asked.append((API_SERVER.name, pods[0].node_address, self.port))
        try:
            ask = self.on_host.refused if self.accepted else self.on_host.accepting
            lines = ask(self.keeper, asked)
        except HostError as error:
            return unknown(error.message, remedy=error.remedy)
        if lines:
            return pending(
                f"{self.host.name}: client certificates from the new CA are not yet accepted everywhere"
                if self.accepted
                else f"{self.host.name}: client certificates from the old CA are still accepted",
                *lines,
                remedy="kube-apiserver and the kubelet reload their client CA file within a minute: check their logs. "
                "A pod that mounts a single file doesn't see one that was replaced after the pod started: restart it "
                "(kubectl -n kube-system rollout restart deployment kube-apiserver), then try again.",
            )
        what = "the new CA are accepted" if self.accepted else "the old CA are refused"
        return holds(f"{self.host.name}: client certificates of {what}")


@dataclass(frozen=True)
class PublishedGate:
    """A CA is in the CA bundle that is published to pods: in every namespace, or in none once the CA is removed."""

    kube: Kube
    which: Callable[[], str]
    """The CA's fingerprint. Raises HostError."""
    trusted: bool = True
    word: str = "the new CA"
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
                f"ConfigMap {ROOT_CA} {'lacks' if self.trusted else 'has'} {self.word} in: {shown}",
                remedy="kube-controller-manager writes them: kubectl -n kube-system logs deployment/"
                "kube-controller-manager",
            )
        return holds(f"ConfigMap {ROOT_CA} {'has' if self.trusted else 'lacks'} {self.word} in every namespace")

    def _trusts(self, text: str | None, which: str) -> bool | None:
        """None where there is no such ConfigMap yet."""
        return None if text is None else which in [fingerprint(each) for each in certificates(text)]


@dataclass(frozen=True)
class AggregatedGate:
    """The removed CA is not among the client CAs that are published to aggregated APIs. A kube-apiserver that still
    trusts the CA adds it again.
    """

    kube: Kube
    which: str
    """Its fingerprint."""
    name: str = "aggregated-apis"

    def check(self) -> Verdict:
        try:
            found = accepted_by_aggregated(self.kube)
        except ApiError as error:
            return unanswered("the client CAs of aggregated APIs", error)
        if self.which in [fingerprint(each) for each in certificates(found)]:
            return pending(
                f"ConfigMap {AUTHENTICATION} still has the CA {self.which[:16]}",
                remedy="A kube-apiserver has added it again: check that each instance has reloaded its "
                "--client-ca-file.",
            )
        return holds(f"ConfigMap {AUTHENTICATION} contains only one client CA of the cluster")
