"""The agent of a load balancer, with a real HAProxy and a real API server, and a run's step that asks it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testkit.haproxy_process import HAProxyProcess, haproxy_process
from testkit.lab_cluster import until
from testkit.waiting import stretched
from tests.contract.checking import merge
from tests.contract.guard.conftest import ACCOUNT, Pair
from upgrader.adapters.clock import SystemClock
from upgrader.contract.detach import ATTACHED, DETACHED, DETACHMENT
from upgrader.contract.times import seconds_of
from upgrader.in_cluster.guard.core.load_balancer import DETACHING
from upgrader.model.node_settings import DetachPolicy
from upgrader.ports import Kind
from upgrader.steps.nodes.cordon import Cordons
from upgrader.steps.nodes.detaching import Detaching

NODES = Kind("v1", "nodes", namespaced=False)
_RBAC = "rbac.authorization.k8s.io"
ROLES = Kind(f"{_RBAC}/v1", "clusterroles", namespaced=False)
BINDINGS = Kind(f"{_RBAC}/v1", "clusterrolebindings", namespaced=False)
NAME = "haproxy-agent"


@pytest.fixture(scope="module", autouse=True)
def rights(pair: Pair) -> Iterator[None]:
    """What docs/guard.md gives it, and nothing else."""
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch", "patch"]}]
    meta = {"metadata": {"name": NAME}}
    pair.kube.create(ROLES, {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", **meta, "rules": rules})
    binding = {
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": NAME},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": ACCOUNT}],
    }
    pair.kube.create(BINDINGS, {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRoleBinding", **meta, **binding})
    yield
    pair.kube.delete(BINDINGS, NAME)
    pair.kube.delete(ROLES, NAME)


@pytest.fixture(autouse=True)
def nodes(pair: Pair) -> Iterator[None]:
    """Two, in the load balancer."""
    for name in ("worker-1", "worker-2"):
        pair.kube.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    yield
    for name in ("worker-1", "worker-2"):
        pair.kube.delete(NODES, name)


@pytest.fixture
def haproxy() -> Iterator[HAProxyProcess]:
    """Serves both."""
    with haproxy_process("worker-1", "worker-2") as process:
        yield process


class Agent:
    """As on a load balancer."""

    def __init__(self, pair: Pair, haproxy: HAProxyProcess, log: Path, *flags: str) -> None:
        self._log, self._output = log, log.open("ab")
        command = [sys.executable, "-m", "upgrader.in_cluster.guard", NAME, f"-haproxy.socket={haproxy.socket}", *flags]
        self.process = subprocess.Popen(
            [*command, f"-kubernetes.config-file={pair.account}"], stdout=self._output, stderr=self._output
        )

    def said(self, text: str) -> bool:
        """Whether it has logged that."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        return any(text in line["message"] for line in lines)

    def end(self, how: int = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(how)
        code = self.process.wait(timeout=stretched(60))
        self._output.close()
        return code


@contextmanager
def agent(pair: Pair, haproxy: HAProxyProcess, log: Path, *flags: str) -> Iterator[Agent]:
    """Until the end of the block, if it lives so long."""
    process = Agent(pair, haproxy, log, *flags)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            assert process.end() == 0


def noted(pair: Pair, name: str = "worker-1") -> dict[str, str]:
    """The Node's."""
    found: Any = pair.kube.get(NODES, name)
    return found["metadata"].get("annotations") or {}


def annotate(pair: Pair, changes: dict[str, str | None], name: str = "worker-1") -> None:
    """As somebody who asks."""
    merge(pair.kube, f"/api/v1/nodes/{name}", {"metadata": {"annotations": changes}})


def becomes(what: str, holds: Callable[[], bool], seconds: float = 120) -> float:
    """Wait until it is so; how long that took."""
    return until(what, holds, timeout_seconds=seconds, interval_seconds=0.05)


def looks_again(haproxy: HAProxyProcess) -> None:
    """Wait until the agent has asked HAProxy from beginning to end, by HAProxy's count of connections."""
    begun, own = haproxy.connections(), 0

    def asked() -> bool:
        nonlocal own
        own += 1
        return haproxy.connections() - begun - own >= 3

    becomes("the agent to look again", asked)


def is_out(pair: Pair) -> bool:
    """As the agent has answered, in a time that can be read."""
    return seconds_of(noted(pair).get(DETACHED)) is not None


def is_back(pair: Pair) -> bool:
    """The same, with nothing left of the way out."""
    return noted(pair).keys() & {ATTACHED, DETACHED, DETACHING} == {ATTACHED}


def test_a_node_is_out_as_long_as_it_is_asked_for(pair: Pair, haproxy: HAProxyProcess, tmp_path: Path) -> None:
    """New requests go to the other one alone; after the way back, to both again. Nothing else of a Node is written."""
    with agent(pair, haproxy, tmp_path / "log"):
        assert haproxy.answering() == {"worker-1", "worker-2"}
        annotate(pair, {DETACHMENT: "true"})
        becomes("worker-1 to be out", lambda: is_out(pair))
        assert haproxy.answering() == {"worker-2"}
        annotate(pair, {DETACHMENT: None})
        becomes("worker-1 to be back", lambda: is_back(pair))
        assert seconds_of(noted(pair)[ATTACHED]) is not None
        assert haproxy.answering() == {"worker-1", "worker-2"}
        assert noted(pair, "worker-2") == {}


def test_sessions_may_end(pair: Pair, haproxy: HAProxyProcess, tmp_path: Path) -> None:
    """It isn't out while one goes on; it is once that has ended, without the rest of the grace period."""
    served = haproxy.served["worker-1"]
    with agent(pair, haproxy, tmp_path / "log", "-grace-period=300s") as process:
        answers: list[str] = []
        clients = [threading.Thread(target=lambda: answers.append(haproxy.get("/slow"))) for _ in range(2)]
        for client in clients:
            client.start()
        becomes("a session on worker-1", lambda: served.slow == 1)
        haproxy.served["worker-2"].may_answer.set()
        annotate(pair, {DETACHMENT: "true"})
        becomes("the agent to wait", lambda: process.said("waiting for its sessions to end"))
        looks_again(haproxy)
        assert not is_out(pair) and DETACHING in noted(pair)
        served.may_answer.set()
        becomes("worker-1 to be out", lambda: is_out(pair))
        for client in clients:
            client.join()
        assert sorted(answers) == ["worker-1", "worker-2"], "no request has failed"


def test_sessions_that_do_not_end_have_a_grace_period(pair: Pair, haproxy: HAProxyProcess, tmp_path: Path) -> None:
    """Then the node is out all the same."""
    served = haproxy.served["worker-1"]
    haproxy.served["worker-2"].may_answer.set()
    with agent(pair, haproxy, tmp_path / "log", "-grace-period=3s"):
        clients = [threading.Thread(target=haproxy.get, args=("/slow",), daemon=True) for _ in range(2)]
        for client in clients:
            client.start()
        becomes("a session on worker-1", lambda: served.slow == 1)
        annotate(pair, {DETACHMENT: "true"})
        assert becomes("worker-1 to be out", lambda: is_out(pair)) >= 3


def test_haproxy_that_is_started_anew_has_it_drained_again(pair: Pair, haproxy: HAProxyProcess, tmp_path: Path) -> None:
    """It has forgotten the state of its servers."""
    with agent(pair, haproxy, tmp_path / "log"):
        annotate(pair, {DETACHMENT: "true"})
        becomes("worker-1 to be out", lambda: is_out(pair))
        haproxy.kill()
        haproxy.start()
        becomes("worker-1 to be out again", lambda: haproxy.answering() == {"worker-2"})
        assert is_out(pair)
        annotate(pair, {DETACHMENT: None})
        becomes("worker-1 to be back", lambda: is_back(pair))


def test_what_can_not_be_asked_is_never_claimed(pair: Pair, haproxy: HAProxyProcess, tmp_path: Path) -> None:
    """Without the socket there is no answer, and the log says why; when it is there again, there is."""
    with agent(pair, haproxy, tmp_path / "log", "-grace-period=1s") as process:
        haproxy.kill()
        annotate(pair, {DETACHMENT: "true"})
        becomes("the agent to say so", lambda: process.said(f"HAProxy can't be queried: {haproxy.socket}: "))
        haproxy.socket.unlink()
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(haproxy.socket))
            silent.listen()
            silent.settimeout(stretched(60))
            for _ in range(4):  # one each second, and the grace period has one
                silent.accept()[0].close()
        assert not is_out(pair)
        haproxy.start()
        becomes("worker-1 to be out", lambda: is_out(pair))
        assert haproxy.answering() == {"worker-2"}


def test_the_last_one_stays_in(pair: Pair, haproxy: HAProxyProcess, tmp_path: Path) -> None:
    """The other one is down: nothing is claimed until it is up again."""
    haproxy.served["worker-2"].well = False
    becomes("worker-2 to be down", lambda: haproxy.answering() == {"worker-1"})
    with agent(pair, haproxy, tmp_path / "log") as process:
        annotate(pair, {DETACHMENT: "true"})
        becomes("the agent to wait", lambda: process.said("waiting for another server to be up besides ingress/work"))
        looks_again(haproxy)
        assert not is_out(pair) and haproxy.answering() == {"worker-1"}
        haproxy.served["worker-2"].well = True
        becomes("worker-1 to be out", lambda: is_out(pair))
        assert haproxy.answering() == {"worker-2"}


def test_it_is_back_after_a_good_check(pair: Pair, haproxy: HAProxyProcess, tmp_path: Path) -> None:
    """Not while its check fails."""
    with agent(pair, haproxy, tmp_path / "log") as process:
        annotate(pair, {DETACHMENT: "true"})
        becomes("worker-1 to be out", lambda: is_out(pair))
        haproxy.served["worker-1"].well = False
        becomes("its checks to fail", lambda: haproxy.check("worker-1") == "L7STS")
        annotate(pair, {DETACHMENT: None})
        becomes("the agent to wait", lambda: process.said("waiting for a successful check of ingress/worker-1"))
        looks_again(haproxy)
        assert ATTACHED not in noted(pair) and is_out(pair)
        haproxy.served["worker-1"].well = True
        becomes("worker-1 to be back", lambda: is_back(pair))


def test_an_agent_that_was_killed_leaves_no_node_out(pair: Pair, haproxy: HAProxyProcess, tmp_path: Path) -> None:
    """Killed before its answer, and nobody wants the node out any more: the next one brings it back. A server that an
    administrator has drained stays so.
    """
    served = haproxy.served["worker-1"]
    haproxy.served["worker-2"].may_answer.set()
    with agent(pair, haproxy, tmp_path / "log") as process:
        clients = [threading.Thread(target=haproxy.get, args=("/slow",), daemon=True) for _ in range(2)]
        for client in clients:
            client.start()
        becomes("a session on worker-1", lambda: served.slow == 1)
        annotate(pair, {DETACHMENT: "true"})
        becomes("worker-1 to be drained", lambda: process.said("waiting for its sessions to end"))
        process.end(signal.SIGKILL)
    assert not is_out(pair) and haproxy.answering() == {"worker-2"}
    annotate(pair, {DETACHMENT: None})
    haproxy.command("set server unchecked/worker-2 state drain")
    with agent(pair, haproxy, tmp_path / "log"):
        becomes("worker-1 to be back", lambda: is_back(pair))
        assert haproxy.answering() == {"worker-1", "worker-2"}
    assert "worker-2 127.0.0.1 2 8 " in haproxy.command("show servers state unchecked")


def test_a_run_and_the_agent(pair: Pair, haproxy: HAProxyProcess, tmp_path: Path) -> None:
    """What the node step does with a node's load balancer, while a client asks without a break: no request fails, and
    none reaches the node between both.
    """
    with agent(pair, haproxy, tmp_path / "log"):
        clock = SystemClock()
        cordons = Cordons(pair.kube, clock)
        policy = DetachPolicy(grace_seconds=1, deadline_seconds=stretched(60))
        detaching = Detaching(pair.kube, clock, cordons, policy, check=lambda: None)
        answers: list[str] = []
        ended = threading.Event()

        def ask() -> None:
            while not ended.is_set():
                answers.append(haproxy.get())

        client = threading.Thread(target=ask)
        client.start()
        notes: list[str] = []
        assert detaching.out(["worker-1"], notes.append) == {}
        cordons.cordon("worker-1", "drain")
        begun = len(answers) + 1
        becomes("a hundred answers", lambda: len(answers) > begun + 100)
        assert set(answers[begun:]) == {"worker-2"}
        cordons.release("worker-1")
        assert detaching.back(["worker-1"], notes.append) == {}
        becomes("worker-1 to answer", lambda: "worker-1" in answers[begun:])
        ended.set()
        client.join()
    assert "" not in answers
    assert notes[-1] == "worker-1: in the load balancer again"
    assert noted(pair).keys() == {ATTACHED}
