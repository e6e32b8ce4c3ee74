"""Where the instances of kube-apiserver that run now answer by themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from upgrader.gates.apiserver_instance import API_SERVER, instance_address, secure_port
from upgrader.gates.continuity.bait import NAMESPACE
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.model.workload import Pod
from upgrader.ports import Kube

__all__ = ["FollowedInstances", "running_instances"]


def running_instances(kube: Kube) -> tuple[str, ...]:
    """Each as `https://HOST:PORT`. Raises ApiUnavailable or ApiError."""
    return tuple(sorted(set(_addresses(kube))))


class FollowedInstances:
    """Where the instances that a baseline knows answer now: a run may change their port."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._found: tuple[str, ...] = ()

    def now(self, known: Collection[str]) -> tuple[str, ...]:
        """Each on the same host as before, at its old address while it has no Ready pod there.

        Looked up until all are found, and again after `forget`. Raises ApiUnavailable or ApiError.
        """
        hosts = {_host(server): server for server in known if server}
        if not hosts:  # this machine reaches only whichever answers at the kubeconfig's address
            return ("",)
        if hosts.keys() - set(map(_host, self._found)):
            self._found = tuple(server for server in running_instances(self._kube) if _host(server) in hosts)
        missing = hosts.keys() - set(map(_host, self._found))
        return (*self._found, *(hosts[host] for host in sorted(missing)))

    def forget(self) -> None:
        """They may be elsewhere by now."""
        self._found = ()


def _host(server: str) -> str:
    return server.rpartition(":")[0]


def _addresses(kube: Kube) -> Iterator[str]:
    for item in kube.list(PODS, NAMESPACE):
        pod = Pod.parse(item)
        serves = any(container["name"] == API_SERVER for container in item["spec"].get("containers") or ())
        if serves and pod.ready and not pod.deleting and pod.node_address:
            yield instance_address(pod, secure_port(item["spec"]))
