"""Where the instances of kube-apiserver that run now answer by themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from upgrader.gates.apiserver_instance import API_SERVER, instance_address, secure_port
from upgrader.gates.continuity.sentinel import NAMESPACE
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.model.workload import Pod
from upgrader.ports import Kube, KubeObject

__all__ = ["FollowedInstances", "running_instances", "same_host"]


def running_instances(kube: Kube, controllers: Collection[str] = ()) -> tuple[str, ...]:
    """Each as `https://HOST:PORT`. Raises ApiUnavailable or ApiError.

    Looked for on the controllers, the names of nodes, if each of them has one; else among the pods of all nodes, of
    which kube-system may have thousands.
    """
    found = _on_each(kube, controllers)
    return found if found and len(found) == len(controllers) else _addresses(kube.list(PODS, NAMESPACE))


class FollowedInstances:
    """Where the instances that a baseline knows answer now: a run may change their port."""

    def __init__(self, kube: Kube, controllers: Collection[str]) -> None:
        """`controllers` are the names of their nodes."""
        self._kube, self._controllers = kube, controllers
        self._found: tuple[str, ...] = ()

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
            self._found = tuple(server for server in running_instances(self._kube) if _host(server) in hosts)
        missing = hosts.keys() - set(map(_host, self._found))
        return (*self._found, *(hosts[host] for host in sorted(missing)))

    def _on_controllers(self, hosts: Collection[str]) -> tuple[str, ...]:
        return tuple(server for server in _on_each(self._kube, self._controllers) if _host(server) in hosts)

    def forget(self) -> None:
        """They may be elsewhere by now."""
        self._found = ()


def _on_each(kube: Kube, controllers: Collection[str]) -> tuple[str, ...]:
    on_each = (kube.list(PODS, NAMESPACE, fields=f"spec.nodeName={name}") for name in controllers)
    return _addresses(pod for pods in on_each for pod in pods)


def same_host(one: str, other: str) -> bool:
    """Whether two addresses are of one instance, whose port a run may have changed."""
    return _host(one) == _host(other)


def _host(server: str) -> str:
    return server.rpartition(":")[0]


def _addresses(pods: Iterable[KubeObject]) -> tuple[str, ...]:
    return tuple(sorted(set(_serving(pods))))


def _serving(pods: Iterable[KubeObject]) -> Iterator[str]:
    for item in pods:
        pod = Pod.parse(item)
        serves = any(container["name"] == API_SERVER for container in item["spec"].get("containers") or ())
        if serves and pod.ready and not pod.deleting and pod.node_address:
            yield instance_address(pod, secure_port(item["spec"]))
