"""What runs, as a container runtime reports it: decoded from real wire format, over a real socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.in_cluster.checkpointer.builders import API
from tests.unit.in_cluster.checkpointer.container_runtime import Answer, Runtime, container, entry, field, sandbox
from upgrader.in_cluster.checkpointer.checkpointer_errors import RuntimeUnknown
from upgrader.in_cluster.checkpointer.observation.running_pods import list_sandboxes, presence
from upgrader.in_cluster.checkpointer.observed_values import Presence
from upgrader.onhost.node.cri import decode


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


@pytest.mark.parametrize("made_of", ["²", "9" * 5000, "-1", "x"])
def test_an_annotation_of_any_pod_hides_nothing(made_of: str) -> None:
    """A pod may claim any generation for itself: one that is no number is none, and all other pods are still seen."""
    item = field(1, "s-1") + field(2, field(1, "evil") + field(2, "uid") + field(3, "tenant"))
    evil = field(1, item + field(6, entry("checkpointer.upgrader.io/generation", made_of)))
    pods = decode(evil + sandbox(), container("main", 1, "c1"))
    assert [(pod.name, pod.generation) for pod in pods] == [("evil", None), ("kube-apiserver-abc-x1", None)]


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
