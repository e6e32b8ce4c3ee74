"""The steps by which a controller leaves the control plane. None can be undone: it is repeated, or goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from upgrader.adopt.etcd_membership import MemberToRemove, change_members
from upgrader.adopt.facts import COMPONENTS
from upgrader.adopt.manifest_step import StaticPods
from upgrader.adopt.names_of_one_controller import canonical
from upgrader.adopt.node_withdrawal import pods_on, withdraw
from upgrader.adopt.release_step import FORGET
from upgrader.errors import HostError, StepFailed
from upgrader.model.cluster import Host
from upgrader.model.go_yaml import first_document
from upgrader.ports import Clock, Hosts, Kind, Kube
from upgrader.steps.one_way import OneWay
from upgrader.wait_and_retry import retry, wait_until

__all__ = [
    "DeleteNodeStep",
    "ForgetOneStep",
    "LeaveEtcdStep",
    "LeaveStep",
    "RewireKubeletStep",
    "StopStaticPodsStep",
    "WithdrawNodeStep",
    "local_server",
]

_NODES, _PODS = Kind("v1", "nodes", namespaced=False), Kind("v1", "pods")
_LEASES = Kind("coordination.k8s.io/v1", "leases")
_SYSTEM, _HEARTBEATS = "kube-system", "kube-node-lease"
_KUBELET_CONF = "/etc/kubernetes/kubelet.conf"
_HEARTBEAT_SECONDS = 120.0
_END_SECONDS = 180.0
_GONE_SECONDS = 120.0
_SETTLED_SECONDS = 60.0
_QUIET = 8
"""For how many checks in a row, two seconds apart, no checkpoint may come back."""
_LEFT = "ls -d /etc/kubernetes/manifests/checkpoint-*.json /etc/kubernetes/checkpointer 2>/dev/null || true"


@dataclass(frozen=True)
class RewireKubeletStep(OneWay):
    """Has the node's kubelet use another controller's API, where it uses that of its own: it must report to the end."""

    hosts: Hosts
    kube: Kube
    clock: Clock
    host: Host
    own: frozenset[str]
    """The controller's own addresses."""
    server: str
    """The URL of the API that stays."""
    name: str = "kubelet"

    def summary(self) -> str:
        return f"the kubelet of {self.host.name} uses {self.server} instead of its own controller's API"

    def apply(self, note: Callable[[str], None]) -> None:
        """A file that has the new server already may be one that was written before a kill, and that the kubelet has
        never read: it is restarted then, too.
        """
        content = self.hosts.read(self.host, _KUBELET_CONF)
        server = local_server(content, self.own)
        if content is None or not (server or self.server in _servers(content)):
            return
        if server:
            self.hosts.write(self.host, _KUBELET_CONF, content.replace(server.encode(), self.server.encode()))
        self._restart()
        note(f"{self.host.name}: the kubelet was restarted with {self.server} (before: {server or 'the same'})")
        what = f"the kubelet of {self.host.name} to report to {self.server}"
        if left := wait_until(self.clock, self._renewal(), seconds=_HEARTBEAT_SECONDS, what=what, note=note):
            if server:
                self.hosts.write(self.host, _KUBELET_CONF, content)
                self._restart()
            raise StepFailed(
                f"{self.host.name}: its kubelet did not report to {self.server} within {_HEARTBEAT_SECONDS:.0f} s "
                f"({left}); it {f'uses {server} again' if server else 'still uses that server'}",
                remedy=f"On {self.host.name}, check that {self.server} is reachable, and journalctl -u kubelet.",
            )

    def _restart(self) -> None:
        self.hosts.run(self.host, ["systemctl", "restart", "kubelet"], timeout_seconds=60.0)

    def _renewal(self) -> Callable[[], str]:
        """What is missing until the Lease changes. It is read first after the restart: a renewal before that, by the
        kubelet that has ended since, would prove nothing.
        """
        seen: list[str] = []

        def missing() -> str:
            lease = self.kube.get(_LEASES, self.host.name, _HEARTBEATS) or {}
            seen.append(str((lease.get("spec") or {}).get("renewTime", "")))
            return "" if seen[-1] != seen[0] else "its Lease was not renewed"

        return missing


def local_server(kubeconfig: bytes | None, own: frozenset[str]) -> str:
    """The URL in a kubeconfig that points to its own machine; "" if it doesn't."""
    local = own | {"127.0.0.1", "localhost", "::1"}
    return next((server for server in _servers(kubeconfig) if canonical(urlsplit(server).hostname or "") in local), "")


def _servers(kubeconfig: bytes | None) -> tuple[str, ...]:
    entries = (first_document(kubeconfig) or {}).get("clusters") or () if kubeconfig else ()
    return tuple(str(entry["cluster"].get("server", "")) for entry in entries)


@dataclass(frozen=True)
class WithdrawNodeStep(OneWay):
    """Removes the node's label, by which the releases choose their nodes, and marks its pods as the first to go."""

    kube: Kube
    host: Host
    name: str = "withdraw"

    def summary(self) -> str:
        return f"stop scheduling control-plane pods to {self.host.name}, and mark the pods there to be removed first"

    def apply(self, note: Callable[[str], None]) -> None:
        withdraw(self.kube, self.host.name)


@dataclass(frozen=True)
class LeaveStep(OneWay):
    """Waits until no pod of the releases runs on the node; deletes what a replica count hasn't taken away there."""

    kube: Kube
    clock: Clock
    host: Host
    name: str = "leave"

    def summary(self) -> str:
        return f"wait until the control plane's pods on {self.host.name} have ended; clients switch to other pods first"

    def apply(self, note: Callable[[str], None]) -> None:
        for pod in pods_on(self.kube, self.host.name):
            if not pod.deleting:
                note(f"{self.host.name}: deleting {pod.name}, which is still there after the releases were scaled down")
                self.kube.delete(_PODS, pod.name, _SYSTEM)

        def missing() -> str:
            return ", ".join(pod.name for pod in pods_on(self.kube, self.host.name))

        what = f"the control plane's pods on {self.host.name} to end"
        if left := wait_until(self.clock, missing, seconds=_END_SECONDS, what=what, note=note):
            raise StepFailed(
                f"{left} on {self.host.name} did not terminate within {_END_SECONDS:.0f} s",
                remedy=f"kubectl -n {_SYSTEM} describe pod {left.partition(',')[0]}; on {self.host.name}: "
                "journalctl -u kubelet",
            )


@dataclass(frozen=True)
class ForgetOneStep(OneWay):
    """Removes the controller's checkpoints: left over, they would start at the next boot, in a cluster without it."""

    hosts: Hosts
    clock: Clock
    host: Host
    name: str = "forget-checkpoints"

    def summary(self) -> str:
        return f"remove the checkpoints from {self.host.name}"

    def apply(self, note: Callable[[str], None]) -> None:
        """Until none comes back: the checkpointer's own standby pod writes them as long as it runs."""
        quiet = 0

        def missing() -> str:
            nonlocal quiet
            left = self.hosts.run(self.host, ["sh", "-c", _LEFT]).stdout.split()
            if left:
                self.hosts.run(self.host, ["sh", "-c", FORGET])
            quiet = 0 if left else quiet + 1
            return "" if quiet >= _QUIET else f"{quiet} of {_QUIET} checks found none"

        what = f"the checkpoints on {self.host.name} to stay removed"
        if wait_until(self.clock, missing, seconds=_GONE_SECONDS, interval_seconds=2.0, what=what, note=note):
            raise StepFailed(
                f"{self.host.name}: a pod-checkpointer still runs there: it has recreated the removed checkpoints for "
                f"{_GONE_SECONDS:.0f} s",
                remedy=f"On {self.host.name}, find it with `crictl pods --name pod-checkpointer` and stop it; then run "
                "the upgrader command again.",
            )


@dataclass(frozen=True)
class StopStaticPodsStep(OneWay):
    """Ends kubeadm's own static pods of the control plane there, where that controller was never adopted."""

    pods: StaticPods
    name: str = "static-pods"

    def summary(self) -> str:
        return f"stop kubeadm's static pods on {self.pods.controllers[0].name}, if any, except etcd"

    def apply(self, note: Callable[[str], None]) -> None:
        self.pods.put_aside(COMPONENTS, note)


@dataclass(frozen=True)
class LeaveEtcdStep(OneWay):
    """Removes the controller's member from etcd, after it has handed over if it leads; then ends its pod."""

    hosts: Hosts
    clock: Clock
    host: Host
    ask: Host
    """A controller that stays, whose member removes the other one."""
    member: MemberToRemove
    pods: StaticPods | None
    """Those of the controller; None for one that is dead."""
    name: str = "etcd"

    def summary(self) -> str:
        which = f"member {self.member.member}" if self.member.member else "the member (already removed)"
        return f"remove {which} of {self.host.name} from etcd; remaining members: {self.member.left}"

    def apply(self, note: Callable[[str], None]) -> None:
        if self.member.successor and self.pods:
            # An election takes a second or more, in which every write waits; handing over takes milliseconds.
            try:
                change_members(self.hosts, self.host, "lead", self.member.successor)
                note(f"{self.host.name}: etcd's leadership was handed over")
            except HostError as error:
                note(f"{error.message}; the other members elect a leader")
        if self.member.member:
            said = self._removed(note)
            note(f"etcd's member {self.member.member} of {self.host.name}: {said}")
        if self.pods:
            self.pods.put_aside(("etcd",), note)

    def _removed(self, note: Callable[[str], None]) -> str:
        """etcd refuses a change of its members until all have been connected to the leader for five seconds."""

        def pause(error: Exception) -> float | None:
            connecting = isinstance(error, HostError) and "unhealthy cluster" in error.message
            return 2.0 if connecting else None

        return retry(
            self.clock,
            lambda: change_members(self.hosts, self.ask, "remove", self.member.member),
            pause=pause,
            seconds=_SETTLED_SECONDS,
            what="etcd's members to be connected",
            note=note,
        )


@dataclass(frozen=True)
class DeleteNodeStep(OneWay):
    """Deletes the Node of a machine that is dead, and with it what the API still lists as running there."""

    kube: Kube
    host: Host
    name: str = "node"

    def summary(self) -> str:
        return f"delete node {self.host.name}"

    def apply(self, note: Callable[[str], None]) -> None:
        self.kube.delete(_NODES, self.host.name)
