"""Where the instances of kube-apiserver that run now answer by themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf

from upgrader.errors import Blocked
from upgrader.gates.apiserver_instance import API_SERVER, instance_address, secure_port
from upgrader.gates.continuity.sentinel import NAMESPACE
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.model.workload import Pod, cpu_limit
from upgrader.ports import Kube, KubeObject

__all__ = ["FollowedInstances", "running_instances", "same_host"]


def running_instances(kube: Kube, controllers: Collection[str] = ()) -> tuple[str, ...]:
    """Each as `https://HOST:PORT`. Raises ApiUnavailable or ApiError.

    Looked for on the controllers, the names of nodes, if each of them has one; else among the pods of all nodes, of
    which kube-system may have thousands.
    """
    found = _on_each(kube, controllers)
    return tuple(found if found and len(found) == len(controllers) else _serving(kube.list(PODS, NAMESPACE)))


class FollowedInstances:
    """Where the instances that a baseline knows answer now: a run may change their port."""

    def __init__(self, kube: Kube, controllers: Collection[str]) -> None:
        """`controllers` are the names of their nodes."""
        self._kube, self._controllers = kube, controllers
        self._found: Mapping[str, float] = {}
        """Where each is, and its CPU limit."""

    def now(self, known: Collection[str]) -> tuple[str, ...]:
        """Each on the same host as before, at its old address while it has no Ready pod there.

        Looked up until all are found, and again after `forget`. Raises ApiUnavailable or ApiError.
        """
        hosts = {_host(server): server for server in known if server}
        if not hosts:  # this machine reaches only whichever answers at the kubeconfig's address
            return ("",)
        if hosts.keys() - set(map(_host, self._found)):
            self._found = self._on_controllers(hosts)
        if hosts.keys() - set(map(_host, self._found)):
            # Rarely: one is between two pods, or isn't where the inventory has it.
            everywhere = _serving(self._kube.list(PODS, NAMESPACE))
            self._found = {server: limit for server, limit in everywhere.items() if _host(server) in hosts}
        missing = hosts.keys() - set(map(_host, self._found))
        return (*self._found, *(hosts[host] for host in sorted(missing)))

    def cpu_limit(self, server: str) -> float:
        """How many CPUs an instance may use, as its pod says; infinity for no limit, or if that isn't known."""
        return self._found.get(server, inf)

    def _on_controllers(self, hosts: Collection[str]) -> Mapping[str, float]:
        found = _on_each(self._kube, self._controllers)
        return {server: limit for server, limit in found.items() if _host(server) in hosts}

    def forget(self) -> None:
        """They may be elsewhere by now."""
        self._found = {}


def _on_each(kube: Kube, controllers: Collection[str]) -> Mapping[str, float]:
    on_each = (kube.list(PODS, NAMESPACE, fields=f"spec.nodeName={name}") for name in controllers)
    return _serving(pod for pods in on_each for pod in pods)


def same_host(one: str, other: str) -> bool:
    """Whether two addresses are of one instance, whose port a run may have changed."""
    return _host(one) == _host(other)


def _host(server: str) -> str:
    return server.rpartition(":")[0]


def _serving(pods: Iterable[KubeObject]) -> Mapping[str, float]:
    """Where the instances of these pods are, in the order of their addresses, and their CPU limits."""
    return dict(sorted(_instances(pods)))


def _instances(pods: Iterable[KubeObject]) -> Iterator[tuple[str, float]]:
    for item in pods:
        pod = Pod.parse(item)
        container = next((each for each in item["spec"].get("containers") or () if each["name"] == API_SERVER), None)
        if container is not None and pod.ready and not pod.deleting and pod.node_address:
            try:
                address = instance_address(pod, secure_port(item["spec"]))
            except Blocked:
                continue  # a check has told of such a port
            yield address, cpu_limit(container)
