"""Health endpoints: which instance answers, and what it reports."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest
from prometheus_client.parser import text_string_to_metric_families

from testkit.waiting import stretched
from upgrader.in_cluster.checkpointer.observed_values import ApiState
from upgrader.in_cluster.checkpointer.reporting.health_server import (
    CONNECTION_SECONDS,
    CONNECTIONS,
    Answer,
    Health,
    Server,
    ask_peer,
    serve,
)
from upgrader.in_cluster.checkpointer.reporting.metrics import render
from upgrader.in_cluster.checkpointer.reporting.pass_report import Board, Counters, Report, WorkloadReport
from upgrader.onhost.node.workload_policy import Workload

GOOD = Report(100.0, acting=True, api=ApiState.ANSWERING, runtime_known=True)


def health(report: Report | None, now: float = 101.0, peer: Answer = (503, "nobody")) -> Health:
    """The answers after a report."""
    board = Board()
    if report is not None:
        board.put(report, Counters(passes=3))
    return Health(board, lambda: now, 30.0, lambda: peer)


@contextmanager
def served(checks: Health) -> Iterator[int]:
    """A real server; its port."""
    server = serve("127.0.0.1", 0, checks)
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


def get(port: int, path: str) -> tuple[int, str]:
    """A request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=stretched(10))
    connection.request("GET", path)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def test_no_pass_yet_is_neither_healthy_nor_ready() -> None:
    """Unknown is not healthy."""
    checks = health(None)
    assert checks.healthz()[0] == checks.readyz()[0] == 503


def test_a_stuck_loop_is_neither_healthy_nor_ready() -> None:
    """When the last pass is too long ago the kubelet may restart the instance."""
    checks = health(GOOD, now=131.0)
    assert checks.healthz() == (503, "the last pass was 31 s ago")
    assert checks.readyz()[0] == 503


def test_ready_when_every_pod_has_a_current_checkpoint() -> None:
    """The acting instance's own word."""
    assert health(GOOD).readyz()[0] == 200


def test_unready_says_every_reason() -> None:
    """Each pod without a checkpoint, each source that can't be seen, and each failed write is named."""
    bad = Report(100.0, acting=True, pending={"kube-system/p": "no"}, failure="disk full")
    status, text = health(bad).readyz()
    assert status == 503
    assert text.splitlines() == [
        "kube-system/p: no",
        "the API server is unknown",
        "the container runtime doesn't answer",
        "disk full",
    ]


def test_a_standby_is_as_ready_as_the_acting_instance() -> None:
    """A DaemonSet's pod that is the standby is judged by the checkpoints all the same; its own liveness is its own."""
    checks = health(Report(100.0, acting=False), peer=(503, "p: no"))
    assert checks.healthz()[0] == 200
    assert checks.readyz() == (503, "standby; the acting instance reports: p: no")
    assert health(Report(100.0, acting=False), peer=(200, "ok")).readyz()[0] == 200


def test_standby_asks_over_the_network() -> None:
    """The acting instance is asked on its own port."""
    with served(health(GOOD)) as port:
        assert ask_peer("127.0.0.1", port)[0] == 200


def test_two_standbys_do_not_ask_each_other_for_ever() -> None:
    """A standby that is asked by another one reports itself as standby instead of asking back."""
    with served(health(Report(100.0, acting=False))) as port:
        assert ask_peer("127.0.0.1", port) == (503, "standby, too")


def test_no_peer_is_unready() -> None:
    """When nothing answers on the other port, that is reported."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        status, text = ask_peer("127.0.0.1", unused.getsockname()[1])
    assert status == 503
    assert "refused" in text


def test_endpoints_over_http() -> None:
    """All three paths answer, others don't."""
    with served(health(GOOD)) as port:
        assert get(port, "/healthz") == (200, "ok\n")
        assert get(port, "/readyz")[0] == 200
        assert "upgrader_checkpointer_passes_total 3" in get(port, "/metrics")[1]
        assert get(port, "/")[0] == 404


def test_a_controller_with_an_ipv6_address_serves() -> None:
    """The server binds to the node's address of whichever family, and the peer is asked there."""
    server = serve("::1", 0, health(GOOD))
    try:
        assert ask_peer("::1", int(server.server_address[1]))[0] == 200
    finally:
        server.shutdown()
        server.server_close()


class Held:
    """A server that is never run: the test accepts for it, and moves its clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.server = Server("127.0.0.1", 0, BaseHTTPRequestHandler, lambda: self.now)
        self.pairs: list[tuple[socket.socket, socket.socket]] = []

    def admits(self, source: str) -> bool:
        """Whether a connection from there is served."""
        pair = socket.socketpair()
        self.pairs.append(pair)
        return self.server.verify_request(pair[0], (source, 5000))

    def close(self) -> None:
        """Close everything."""
        for ours, theirs in self.pairs:
            self.server.shutdown_request(ours)
            theirs.close()
        self.server.server_close()


@pytest.fixture
def held() -> Iterator[Held]:
    """Such a server."""
    held = Held()
    yield held
    held.close()


def test_connections_are_bounded_and_the_kubelets_have_a_place(held: Held) -> None:
    """However many connections others hold, their threads are few, and a probe from the node itself is answered."""
    assert [held.admits("10.244.0.9") for _ in range(CONNECTIONS + 2)] == [True] * CONNECTIONS + [False] * 2
    assert held.admits("127.0.0.1")
    held.server.shutdown_request(held.pairs[0][0])
    assert held.admits("10.244.0.9")


def test_a_connection_that_lasts_is_ended(held: Held) -> None:
    """A client that sends a byte now and then can't hold its place: the whole connection has a time."""
    assert held.admits("10.244.0.9")
    ours, theirs = held.pairs[0]
    held.now = CONNECTION_SECONDS - 0.1
    held.server.service_actions()
    ours.send(b"x")
    assert theirs.recv(1) == b"x"
    held.now = CONNECTION_SECONDS
    held.server.service_actions()
    assert theirs.recv(1) == b""
    held.server.shutdown_request(ours)
    held.server.service_actions()


def test_a_connection_that_ended_just_now_is_no_trouble(held: Held) -> None:
    """Between the list of late connections and their end, one may end by itself."""
    assert held.admits("10.244.0.9")
    held.pairs[0][0].close()
    held.now = CONNECTION_SECONDS
    held.server.service_actions()


def test_a_client_that_hangs_up_leaves_no_traceback(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    """A port scan fills no log."""
    held.server.handle_error(held.server.socket, ("10.244.0.9", 5000))
    assert capsys.readouterr() == ("", "")


def test_metrics_of_each_workload() -> None:
    """Generation, count, damage and activity are labelled by workload."""
    workload = Workload("kube-system", "kube-apiserver")
    report = Report(
        100.0, True, ApiState.AWAY, True, workloads={workload: WorkloadReport(7, 3, 1, 0, active=True, reason="")}
    )
    lines = render(report, Counters(), 102.5).splitlines()
    labels = '{namespace="kube-system",workload="kube-apiserver"}'
    assert f"upgrader_checkpointer_generation{labels} 7.0" in lines
    assert f"upgrader_checkpointer_active{labels} 1.0" in lines
    assert f"upgrader_checkpointer_damaged_generations{labels} 1.0" in lines
    assert 'upgrader_checkpointer_api{state="away"} 1.0' in lines
    assert "upgrader_checkpointer_pass_age_seconds 2.5" in lines
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)


def test_metrics_are_well_formed_before_the_first_pass() -> None:
    """A scrape at any moment parses, and reports nothing that isn't known yet."""
    for report in (None, GOOD, Report(100.0, acting=False)):
        names = {family.name for family in text_string_to_metric_families(render(report, Counters(passes=3), 101.0))}
        assert "upgrader_checkpointer_passes" in names
        assert ("upgrader_checkpointer_api" in names) is (report is GOOD)
