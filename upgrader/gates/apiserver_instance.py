"""Where one instance of kube-apiserver listens, and asking it there, at its node's own address."""

from __future__ import annotations

from collections.abc import Mapping, MutableSet
from http import HTTPStatus
from typing import Any

from upgrader.contract.flags import command_line, last_values, number
from upgrader.errors import ApiError, ApiUnavailable, Blocked
from upgrader.model.workload import Pod
from upgrader.ports import Kube

__all__ = ["API_SERVER", "ask_instance", "instance_address", "instance_flags", "secure_port"]

API_SERVER = "kube-apiserver"
_PORT_FLAG = "secure-port"
_DEFAULT_PORT = "6443"
"""kube-apiserver's own."""


def instance_flags(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The command line of the kube-apiserver of a pod with this spec."""
    for container in spec.get("containers") or ():
        if container["name"] == API_SERVER:
            return command_line(container)
    return ()


def secure_port(spec: Mapping[str, Any]) -> int:
    """The port on which the kube-apiserver of a pod with this spec serves HTTPS. Raises Blocked if it can't be read."""
    given = last_values(instance_flags(spec)).get(_PORT_FLAG, _DEFAULT_PORT)
    port = number(given)
    if port is None:
        raise Blocked(
            f"{API_SERVER} is started with --{_PORT_FLAG}={given}, from which the port of its instances can't be read",
            remedy=f"Write the number itself into --{_PORT_FLAG}, or into the `value` of the environment variable that "
            "it refers to: what comes from a ConfigMap, a Secret or a field of the pod is only known on the node.",
        )
    return port


def instance_address(pod: Pod, port: int) -> str:
    """Where it listens: the address that its kubelet registered, which need not be the one that SSH uses."""
    host = f"[{pod.node_address}]" if ":" in pod.node_address else pod.node_address
    return f"https://{host}:{port}"


def ask_instance(kube: Kube, pod: Pod, port: int, path: str, *, unreachable: MutableSet[str]) -> str:
    """GET a path of this instance alone, as `/readyz`. Raises ApiUnavailable when it can't be asked, or ApiError.

    Where its address can't be reached from here (this machine may reach only a load balancer), whichever instance does
    answer is told to ask it. Addresses of that kind are kept in `unreachable`, as each attempt costs a timeout.
    """
    server = instance_address(pod, port)
    if not pod.node_address:
        raise ApiUnavailable(
            f"pod {pod.name} has no address yet", remedy=f"kubectl -n {pod.namespace} describe pod {pod.name}"
        )
    if server in unreachable:
        # Tried directly again if this fails: what was in the way may have been a restart.
        unreachable.discard(server)
        answer = _through_the_api(kube, pod, port, path)
        unreachable.add(server)
        return answer
    try:
        return kube.raw(path, server=server)
    except ApiUnavailable as direct:
        try:
            answer = _through_the_api(kube, pod, port, path)
        except ApiUnavailable as proxied:
            raise ApiUnavailable(
                f"unreachable directly ({direct.message}) and through the API ({proxied.message})", remedy=direct.remedy
            ) from proxied
        unreachable.add(server)
        return answer


def _through_the_api(kube: Kube, pod: Pod, port: int, path: str) -> str:
    try:
        return kube.raw(f"/api/v1/namespaces/{pod.namespace}/pods/https:{pod.name}:{port}/proxy{path}")
    except ApiError as error:
        if error.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
        # The request has no credentials on its second half.
        raise ApiUnavailable(
            f"the API's proxy, which sends no credentials: {error.message}",
            remedy="Give this machine access to the controllers' own addresses, or allow anonymous requests for "
            "/readyz and /version.",
        ) from error
