"""`run`: a whole process, with an API server to talk to, until it is told to stop."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testkit.ports import free_port
from testkit.waiting import Patience, stretched
from tests.unit.in_cluster.checkpointer.api_server import Node
from tests.unit.in_cluster.checkpointer.cluster import own_pod
from upgrader.in_cluster.checkpointer.commands.entry import main
from upgrader.in_cluster.checkpointer.observed_values import ApiState
from upgrader.in_cluster.checkpointer.reporting.health_server import Health, serve
from upgrader.in_cluster.checkpointer.reporting.pass_report import Board, Counters, Report
from upgrader.in_cluster.checkpointer.storage.node_lock import NodeLock

ENVIRONMENT = {
    "NODE_NAME": "controller-1",
    "HOST_IP": "127.0.0.1",
    "POD_NAME": "pod-checkpointer-abcde",
    "POD_NAMESPACE": "kube-system",
}
STANDBY = {"POD_NAME": "pod-checkpointer-checkpoint-controller-1", "CHECKPOINT_OF": "pod-checkpointer"}


@contextmanager
def stopped_when_ready(port: int) -> Iterator[list[tuple[int, str]]]:
    """As soon as /healthz on that port is good, note what /readyz says and stop the process, as the kubelet does."""
    seen: list[tuple[int, str]] = []
    over = threading.Event()

    def get(path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=stretched(5))
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def watch() -> None:
        patience = Patience(30)
        while not over.wait(0.01):
            healthy = get("/healthz")[0] == 200
            if healthy:
                seen.append(get("/readyz"))
            if healthy or not patience.left():
                os.kill(os.getpid(), signal.SIGTERM)
                return

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()
        for number, handler in handlers.items():
            signal.signal(number, handler)


@pytest.fixture
def arguments(node: Node, tmp_path: Path) -> list[str]:
    """A node whose API server shows the checkpointer's own pod and that of somebody else, and whose runtime is down."""
    other = own_pod()
    other["metadata"] |= {"namespace": "elsewhere", "name": "other", "uid": "other"}
    node.answer = (200, json.dumps({"items": [own_pod(), other]}).encode())
    kubeconfig = node.kubeconfig(f"https://127.0.0.1:{node.serve().port}")
    places = [f"--kubeconfig={kubeconfig}", f"--runtime-socket={tmp_path / 'none'}"]
    return [f"--root={tmp_path / 'kubernetes'}", "run", *places, "--interval=0.5"]


@pytest.mark.parametrize("environment", [ENVIRONMENT, {**ENVIRONMENT, **STANDBY}], ids=["daemonset", "static-pod"])
def test_an_instance_serves_its_own_port_until_it_is_stopped(
    arguments: list[str],
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Either kind recognises the DaemonSet's pods as its own, says why it isn't ready, and leaves the lock behind."""
    monkeypatch.delenv("CHECKPOINT_OF", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    mine, peers = free_port(), free_port()
    ports = (peers, mine) if "CHECKPOINT_OF" in environment else (mine, peers)
    with stopped_when_ready(mine) as seen:
        assert main([*arguments, f"--port={ports[0]}", f"--standby-port={ports[1]}"]) == 0
    ((status, reasons),) = seen
    assert status == 503
    assert "kube-system/pod-checkpointer-abcde: its own standby pod is not in place yet" in reasons
    assert "elsewhere/other" not in reasons  # no namespace whose pods may have a checkpoint
    assert "the container runtime doesn't answer" in reasons
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (lines[0]["message"], lines[0]["node"], lines[0]["port"]) == ("started", "controller-1", mine)
    assert lines[-1]["message"] == "stopped"
    lock = NodeLock(tmp_path / "kubernetes/checkpointer/lock", 1)
    assert lock.holders_port() == mine
    assert lock.acquire()
    lock.release()


def test_an_instance_that_stands_by_passes_on_what_the_acting_one_says(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks on the port that the lock's holder wrote down, even where its own options name another one."""
    monkeypatch.delenv("CHECKPOINT_OF", raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    board = Board()
    board.put(Report(0.0, acting=True, api=ApiState.ANSWERING, runtime_known=True), Counters())
    acting = serve("127.0.0.1", 0, Health(board, lambda: 0.0, 30.0, lambda: (503, "")))
    lock = NodeLock(tmp_path / "kubernetes/checkpointer/lock", int(acting.server_address[1]))
    assert lock.acquire()
    mine = free_port()
    try:
        with stopped_when_ready(mine) as seen:
            assert main([*arguments, f"--port={mine}", f"--standby-port={free_port()}"]) == 0
    finally:
        lock.release()
        acting.shutdown()
        acting.server_close()
    ((status, text),) = seen
    assert status == 200
    assert text.startswith("standby; the acting instance reports: ok")


def test_a_port_in_use_ends_the_process(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An instance that nothing could probe doesn't run on silently."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main([*arguments, f"--port={taken.getsockname()[1]}"]) == 1
    assert "Address already in use" in capsys.readouterr().err
