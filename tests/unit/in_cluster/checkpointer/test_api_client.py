"""How the checkpointer talks to the API server: what it writes, and connections that end."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import cycle
from threading import Thread

import pytest

from tests.unit.in_cluster.checkpointer.api_server import Answer, Node, Server
from upgrader.in_cluster.checkpointer.observation.api_client import Api, on_this_machine


def test_a_condition_is_patched_into_the_pod_s_status(node: Node) -> None:
    """Only our own condition is sent, as a strategic merge, so that the kubelet's conditions stay."""
    asked: list[tuple[str, str, bytes]] = []

    def answer(method: str, path: str, body: bytes) -> Answer:
        asked.append((method, path, body))
        return 200, b"{}"

    server = Server(node.folder, node.authority, answer)
    node.servers.append(server)
    api = node.api(server)
    api.set_condition("kube-system", "web-1", "False", "PodNotReady", "not yet", "2026-01-01T00:00:00Z")
    api.close()
    ((method, path, body),) = asked
    assert (method, path) == ("PATCH", "/api/v1/namespaces/kube-system/pods/web-1/status")
    assert server.types == ["application/strategic-merge-patch+json"]
    assert json.loads(body)["status"]["conditions"] == [
        {
            "type": "checkpointer.upgrader.io/Checkpointed",
            "status": "False",
            "reason": "PodNotReady",
            "message": "not yet",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]


def test_a_kept_connection_that_the_server_closed_is_replaced(node: Node) -> None:
    """An API server that hangs up between two passes is asked again before it counts as unreachable."""
    server = node.serve()
    api = node.api(server)
    api.pods()
    server.connections[0].shutdown(socket.SHUT_RDWR)
    assert api.pods() == []
    api.close()
    assert len(server.connections) == 2


def test_a_stopping_server_is_left_for_another(node: Node) -> None:
    """A 429 on a kept connection is what a stopping server sends: a new connection may reach one that works."""
    asked: list[str] = []

    def answer(method: str, path: str, body: bytes) -> Answer:
        asked.append(path)
        return (429, b"{}") if len(asked) == 2 else (200, b'{"items": []}')

    server = Server(node.folder, node.authority, answer)
    node.servers.append(server)
    api = node.api(server)
    assert api.pods() == []
    assert api.pods() == []
    api.close()
    assert (len(asked), len(server.connections)) == (3, 2)


def slice_of(*addresses: str, port: int = 6443) -> bytes:
    """The EndpointSlice of the API's own Service."""
    endpoints = [{"addresses": [address]} for address in addresses]
    return json.dumps({"ports": [{"name": "https", "port": port}], "endpoints": endpoints}).encode()


def serves_elsewhere(node: Node, server: Server, answer: Answer, address: str) -> bool:
    """What a node with that address finds, when the server it talks to answers so."""
    node.answer = answer
    api = Api(node.kubeconfig(f"https://127.0.0.1:{server.port}"), "controller-1", 10, address)
    try:
        return api.serves_elsewhere()
    finally:
        api.close()


def test_another_instance_is_asked_at_its_own_address(node: Node) -> None:
    """Only an API server that isn't this node's, and answers, counts: what answers us may be our own standby pod."""
    server = node.serve()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = int(closed.getsockname()[1])
    both = slice_of("127.0.0.1", "10.0.0.9", port=server.port)
    assert serves_elsewhere(node, server, (200, both), "10.0.0.9")
    for body in (slice_of("127.0.0.1", port=server.port), b"{}"):
        assert not serves_elsewhere(node, server, (200, body), "127.0.0.1")
    assert not serves_elsewhere(node, server, (200, slice_of("127.0.0.1", port=nobody)), "10.0.0.9")


@contextmanager
def balancer(*ports_of: tuple[str, int]) -> Iterator[int]:
    """A load balancer of TCP on this node, which gives each connection to the next of these servers; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(16) as pool:

        def copied(source: socket.socket, to: socket.socket) -> None:
            with suppress(OSError):
                while data := source.recv(65536):
                    to.sendall(data)
            with suppress(OSError):
                to.shutdown(socket.SHUT_WR)

        def exchanged(client: socket.socket, to: tuple[str, int]) -> None:
            with client, socket.create_connection(to) as server:
                back = Thread(target=copied, args=(server, client))
                back.start()
                copied(client, server)
                back.join()

        def accepting() -> None:
            for to in cycle(ports_of):
                try:
                    client = listening.accept()[0]
                except OSError:
                    return
                pool.submit(exchanged, client, to)

        accepts = Thread(target=accepting)
        accepts.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            accepts.join()


@pytest.mark.parametrize("balanced", [True, False])
def test_load_balancer_on_the_node_is_told_from_its_own_server(node: Node, balanced: bool) -> None:
    """Both are reached on this very node. Behind the one, a certificate of another node's server is seen."""
    here = node.serve()
    there = node.serve(at=("127.0.0.2", here.port))
    node.answer = (200, slice_of("127.0.0.1", "127.0.0.2", port=here.port))
    own, other = ("127.0.0.1", here.port), ("127.0.0.2", there.port)
    with balancer(own, *([other] if balanced else [])) as port:
        api = Api(node.kubeconfig(f"https://127.0.0.1:{port}"), "controller-1", 10, "127.0.0.1")
        assert api.serves_elsewhere() and api.is_here()
        assert api.leads_elsewhere() is balanced
        api.close()


def test_servers_that_cannot_be_told_apart_lead_nowhere_else(node: Node) -> None:
    """The node's own address isn't known, or nothing answers there: the standby pod may be all that there is."""
    here = node.serve()
    there = node.serve(at=("127.0.0.2", here.port))
    node.answer = (200, slice_of("127.0.0.2", port=here.port))
    for address in ("", "127.0.0.3"):
        with balancer(("127.0.0.2", there.port)) as port:
            api = Api(node.kubeconfig(f"https://127.0.0.1:{port}"), "controller-1", 10, address)
            assert not api.leads_elsewhere()
            api.close()


def test_where_the_kubelets_api_is(node: Node) -> None:
    """Asked of the connection, as an address in kubelet.conf may be a name, or a virtual IP that moves."""
    server = node.serve()
    api = node.api(server)
    assert not api.is_here(), "nothing has answered yet"
    api.pods()
    api.close()
    assert api.is_here()


@pytest.mark.parametrize(
    ("own", "peer", "here"),
    [
        ("10.0.0.3", "10.0.0.3", True),
        ("127.0.0.1", "127.4.5.6", True),
        ("::1", "::1", True),
        ("fe80::1%eth0", "fe80::1%eth0", True),
        ("10.0.0.3", "10.0.0.9", False),
        ("fd00::3", "fd00::9", False),
    ],
)
def test_both_ends_of_a_connection(own: str, peer: str, here: bool) -> None:
    """A load balancer elsewhere is another machine, whatever it leads to."""
    assert on_this_machine(own, peer) is here
