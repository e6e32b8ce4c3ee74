"""What runs, as a container runtime reports it: decoded from real wire format, over a real socket."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest

from tests.unit.checkpointer.builders import API
from upgrader.checkpointer.checkpointer_errors import RuntimeUnknown
from upgrader.checkpointer.observation.running_pods import list_sandboxes, presence
from upgrader.checkpointer.observed_values import Presence
from upgrader.node.cri import decode


def field(number: int, value: bytes | str | int) -> bytes:
    """One protobuf field."""
    if isinstance(value, int):
        return bytes([number << 3]) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def varint(value: int) -> bytes:
    """A protobuf number."""
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def entry(key: str, value: str) -> bytes:
    """A map entry."""
    return field(1, key) + field(2, value)


def sandbox(name: str = "kube-apiserver-abc-x1", state: int = 0, source: str = "api", label: str = "") -> bytes:
    """A ListPodSandboxResponse with one sandbox. A state of 0 (ready) is left out, as proto3 does."""
    item = field(1, f"s-{name}") + field(2, field(1, name) + field(2, "uid") + field(3, "kube-system"))
    item += field(3, state) if state else b""
    item += field(4, 1_700_000_000_000_000_000) + field(5, entry("pod-template-hash", "abc"))
    item += field(5, entry(label, "kube-apiserver")) if label else b""
    return field(1, item + field(6, entry("kubernetes.io/config.source", source)) + field(7, "runc"))


def container(name: str, state: int, identity: str, pod: str = "kube-apiserver-abc-x1") -> bytes:
    """A ListContainersResponse with one container."""
    item = field(1, identity) + field(2, f"s-{pod}") + field(3, field(1, name) + field(2, 3)) + field(5, "sha256:aa")
    return field(1, item + (field(6, state) if state else b"") + field(7, 1_700_000_000_000_000_000))


def seen(sandboxes: bytes, containers: bytes, names: tuple[str, ...] = ("main", "side")) -> Presence:
    """The workload's presence in two responses."""
    return presence(API, names, decode(sandboxes, containers))


def test_a_pod_is_up_when_all_its_containers_run() -> None:
    """A sidecar alone is running, but not up."""
    side, main = container("side", 1, "c1"), container("main", 1, "c2")
    assert seen(sandbox(), side + main) == Presence(frozenset({"c1", "c2"}), frozenset({"c1", "c2"}), True)
    assert seen(sandbox(), side + container("main", 2, "c0")) == Presence(frozenset({"c1"}), frozenset(), True)


def test_what_a_power_cut_leaves_is_absent() -> None:
    """Dead sandboxes with exited or unknown containers are nothing that runs, and nothing unknown."""
    dead = sandbox(state=1)
    assert seen(dead, container("main", 2, "c1") + container("side", 3, "c2")) == Presence()


def test_an_unknown_container_in_a_living_sandbox_is_unknown() -> None:
    """It may be running."""
    assert seen(sandbox(), container("main", 3, "c1")) == Presence(sandbox=True, unknown=True)


def test_a_container_that_outlives_its_sandbox_still_runs() -> None:
    """On the host's network a container can outlive its sandbox."""
    assert seen(sandbox(state=1), container("main", 1, "c1")).running == {"c1"}


def test_static_pods_and_our_standby_pods_are_not_parents() -> None:
    """Neither kubeadm's static pod nor our own standby pod counts as the workload's own pod."""
    running = container("main", 1, "c1")
    assert seen(sandbox(source="file"), running) == Presence()
    assert seen(sandbox(label="checkpointer.upgrader.io/checkpoint-of"), running) == Presence()


def test_other_workloads_do_not_count() -> None:
    """A name that merely starts alike is another workload's."""
    name = "kube-apiserver-proxy-abc-x1"
    assert seen(sandbox(name), container("main", 1, "c1", name)) == Presence()


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\xff", b"\x0a\x05ab", b"\x0b", b"\x08\x01" * 3, b"\xff" * 12])
def test_a_damaged_answer_is_an_error(data: bytes) -> None:
    """Garbage never reads as an empty node."""
    if data == b"\x08\x01" * 3:
        with pytest.raises(ValueError, match="number where a message"):
            decode(data, b"")
    else:
        with pytest.raises(ValueError, match=r"truncated|wire type|too long"):
            decode(b"", data)


Answer = Callable[[str], tuple[bytes, str]]


class Runtime:
    """A gRPC server on a Unix socket. `answer`: method → (message, grpc-status)."""

    def __init__(self, path: Path, answer: Answer, cut: bool = False) -> None:
        self._answer, self._cut = answer, cut
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait for the thread."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer, contextlib.suppress(ConnectionError):  # the client may leave as soon as it has its answer
                self._talk(peer)

    def _talk(self, peer: socket.socket) -> None:
        http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        http.initiate_connection()
        peer.sendall(http.data_to_send())
        paths: dict[int, str] = {}
        pending: dict[int, bytes] = {}
        while data := peer.recv(65536):
            for event in http.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    paths[event.stream_id] = next(str(v) for k, v in event.headers if str(k) == ":path")
                elif isinstance(event, h2.events.StreamEnded):
                    if self._cut:
                        return
                    message, status = self._answer(paths[event.stream_id])
                    http.send_headers(event.stream_id, [(":status", "200"), ("content-type", "application/grpc")])
                    pending[event.stream_id] = struct.pack(">BI", 0, len(message)) + message if status == "0" else b""
                    paths[event.stream_id] = status
            for stream, rest in list(pending.items()):
                # Large answers wait for the client to open its window.
                while rest and (room := min(http.local_flow_control_window(stream), http.max_outbound_frame_size)):
                    http.send_data(stream, rest[:room])
                    rest = rest[room:]
                pending[stream] = rest
                if not rest:
                    del pending[stream]
                    trailers = [("grpc-status", paths[stream]), ("grpc-message", "no such thing")]
                    http.send_headers(stream, trailers, end_stream=True)
            peer.sendall(http.data_to_send())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the socket is."""
    return tmp_path / "s"


@pytest.fixture
def serve(path: Path) -> Iterator[Callable[..., None]]:
    """Starts a runtime, and stops it after the test."""
    started: list[Runtime] = []

    def start(answer: Answer, cut: bool = False) -> None:
        started.append(Runtime(path, answer, cut))

    yield start
    for runtime in started:
        runtime.close()


def test_lists_over_a_socket_however_large(path: Path, serve: Callable[..., None]) -> None:
    """Answers larger than HTTP/2's windows arrive whole; both lists are of runtime.v1."""
    many = b"".join(sandbox(f"kube-apiserver-abc-{n:05}") for n in range(3000))
    asked: list[str] = []

    def answer(method: str) -> tuple[bytes, str]:
        asked.append(method)
        return (many if method.endswith("Sandbox") else container("main", 1, "c1", "kube-apiserver-abc-00007")), "0"

    serve(answer)
    found = list_sandboxes(str(path), 20)
    assert len(found) == 3000
    assert [c.id for c in found[7].containers] == ["c1"]
    assert asked == ["/runtime.v1.RuntimeService/ListContainers", "/runtime.v1.RuntimeService/ListPodSandbox"]


def test_an_error_status_is_unknown(path: Path, serve: Callable[..., None]) -> None:
    """A runtime that refuses to answer is not one on which nothing runs."""
    serve(lambda _: (b"", "12"))
    with pytest.raises(RuntimeUnknown, match="status 12 no such thing"):
        list_sandboxes(str(path), 20)


def test_a_cut_connection_is_unknown(path: Path, serve: Callable[..., None]) -> None:
    """After a runtime that dies while it answers, nothing is known."""
    serve(lambda _: (b"", "0"), cut=True)
    with pytest.raises(RuntimeUnknown, match="ListContainers"):
        list_sandboxes(str(path), 20)


def test_no_socket_is_unknown(path: Path) -> None:
    """Without a runtime, nothing is known."""
    with pytest.raises(RuntimeUnknown, match="No such file"):
        list_sandboxes(str(path), 20)
