"""Container runtimes that answer badly: nothing that they send counts as an answer, and none is waited for for ever."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.in_cluster.checkpointer.container_runtime import Frame, Runtime, field, framed
from upgrader.in_cluster.checkpointer.checkpointer_errors import RuntimeUnknown
from upgrader.in_cluster.checkpointer.observation import grpc
from upgrader.in_cluster.checkpointer.observation.running_pods import images_present, list_sandboxes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the socket is."""
    return tmp_path / "s"


@pytest.fixture
def serve(path: Path) -> Iterator[Callable[..., None]]:
    """Starts a runtime, and stops it after the test."""
    started: list[Runtime] = []

    def start(message: bytes = b"", reset: bool = False, framed: Frame = framed) -> None:
        started.append(Runtime(path, lambda _: (message, "0"), reset=reset, framed=framed))

    yield start
    for runtime in started:
        runtime.close()


@pytest.mark.parametrize(
    "frame",
    [
        lambda message: b"",
        lambda message: struct.pack(">BI", 1, len(message)) + message,
        lambda message: struct.pack(">BI", 0, len(message) + 1) + message,
        lambda message: framed(message) + framed(message),
    ],
    ids=["nothing", "compressed", "cut off", "two messages"],
)
def test_only_one_whole_message_is_an_answer(path: Path, serve: Callable[..., None], frame: Frame) -> None:
    """What is not exactly one uncompressed message never reads as an empty node, though the status is OK."""
    serve(b"abc", framed=frame)
    with pytest.raises(RuntimeUnknown, match="not one whole uncompressed message"):
        list_sandboxes(str(path), 20)


def test_a_runtime_that_resets_the_request_is_unknown(path: Path, serve: Callable[..., None]) -> None:
    """A runtime that is shutting down may end a request without any status; the error code is reported."""
    serve(reset=True)
    with pytest.raises(RuntimeUnknown, match="ended by the server, error code 2"):
        list_sandboxes(str(path), 20)


def test_an_endless_answer_is_given_up(path: Path, serve: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer beyond the limit doesn't fill the node's memory."""
    monkeypatch.setattr(grpc, "_MAX_MESSAGE", 1000)
    serve(b"x" * 2000)
    with pytest.raises(RuntimeUnknown, match="answer larger than 1000 bytes"):
        list_sandboxes(str(path), 20)


@contextmanager
def saying(path: Path, content: bytes) -> Iterator[None]:
    """A service that says the same to each client, and then waits until the client leaves."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def talk() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(content)
                while peer.recv(65536):
                    pass

        thread = threading.Thread(target=talk)
        thread.start()
        yield
        thread.join()


def test_the_timeout_is_for_the_whole_call(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that keeps sending without ever answering is given up too: each byte doesn't begin the wait again."""
    empty_settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    times = iter((0.0, 0.0, 21.0))
    monkeypatch.setattr(grpc, "time", SimpleNamespace(monotonic=lambda: next(times)))
    with saying(path, empty_settings), pytest.raises(RuntimeUnknown, match="no answer within 20 s"):
        list_sandboxes(str(path), 20)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "timed out"), (b"\x00\x00\x00\x00\x00\x00\x00\x00\x00", "ListContainers")],
    ids=["another protocol", "data without a request"],
)
def test_a_service_that_does_not_speak_grpc_is_unknown(path: Path, content: bytes, says: str) -> None:
    """Behind a wrong socket path there may be another service: what it sends is an error, not an empty node."""
    with saying(path, content), pytest.raises(RuntimeUnknown, match=says):
        list_sandboxes(str(path), 0.2)


def test_which_images_are_here(path: Path) -> None:
    """An image is here when the runtime describes it, and missing when its answer describes none."""
    answers = iter((field(1, field(1, "sha256:aa")), b""))
    asked: list[str] = []

    def answer(method: str) -> tuple[bytes, str]:
        asked.append(method)
        return next(answers), "0"

    runtime = Runtime(path, answer)
    try:
        assert images_present(str(path), 20, ["a:v1", "b:v1", "a:v1"]) == {"a:v1": True, "b:v1": False}
    finally:
        runtime.close()
    assert asked == ["/runtime.v1.ImageService/ImageStatus"] * 2
