"""Giving kube-apiserver back to its own pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.fakes.recovery import FakeRecovery
from tests.unit.gates.builders import add_deployment, add_pod, crashed, running
from tests.unit.recover.controllers import ACTIVE_PATH, controller
from upgrader.errors import StepFailed
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.model.cluster import Cluster, Host
from upgrader.model.workload import CHECKPOINT_OF
from upgrader.onhost.sending.host_facts import Endpoint, Unknown
from upgrader.ports import CommandResult
from upgrader.recover.diagnosis.diagnose import Diagnosis
from upgrader.recover.diagnosis.wrong_api import ApiSeen
from upgrader.recover.steps.hand_over import (
    ALONE_SECONDS,
    BESIDE_SECONDS,
    HAND_OVER_SECONDS,
    PORT_SECONDS,
    HandOverStep,
)

NAME, SPACE, NODE = "kube-apiserver", "kube-system", "controller-1"
MANIFEST = """
kind: Deployment
metadata: {name: kube-apiserver}
spec: {template: {spec: {containers: []}}}
"""
IN_USE = "listen tcp 0.0.0.0:6443: bind: address already in use"


class World:
    """A controller whose standby pod serves; `happen(seconds)` is what the cluster does meanwhile."""

    def __init__(self) -> None:
        self.kube, self.helm, self.hosts = FakeKube(), FakeHelm(), FakeHosts()
        self.kube.raw_answers["/readyz"] = "ok"
        self.recovery = FakeRecovery(self.kube)
        self.notes: list[str] = []
        self.events: dict[float, str] = {}
        self.runs_for: float | None = 60.0
        self.only_standby_runs = False
        self.wrong_until = 0
        self.api: Endpoint | Unknown = Endpoint(True, instances=1, listeners=1, private=1)
        self.helm.install(NAME, MANIFEST)
        self.hosts.files[NODE, ACTIVE_PATH] = b'{"metadata": {"labels": {"%s": "x"}}}' % CHECKPOINT_OF.encode()
        self.hosts.commands["sh"] = self._remove
        self.copy(NAME)
        world = self

        class Clock(FakeClock):
            def sleep(self, seconds: float) -> None:
                super().sleep(seconds)
                for when in [moment for moment in world.events if moment <= self.monotonic()]:
                    getattr(world, world.events.pop(when))()

        self.clock = Clock()

    def copy(self, of: str) -> None:
        """A standby pod that runs."""
        add_pod(self.kube, of, name=f"{of}-checkpoint-{NODE}", labels={CHECKPOINT_OF: of})

    def stands(self) -> None:
        """Its own pod is Ready."""
        add_deployment(self.kube, NAME)
        add_pod(self.kube, NAME, running(NAME))

    def blocked(self) -> None:
        """Its own pod can't have the port."""
        add_deployment(self.kube, NAME, readyReplicas=0, availableReplicas=0)
        add_pod(self.kube, NAME, crashed(name=NAME, restarts=4))
        self.kube.log_texts[f"{NAME}-1-{NODE}", NAME, False] = f"E1121 server.go] {IN_USE}\n"

    def copy_goes(self) -> None:
        """The standby pod's pod has ended."""
        self.kube.delete(PODS, f"{NAME}-checkpoint-{NODE}", SPACE)

    def checkpointer(self, labels: dict[str, str]) -> None:
        """A pod-checkpointer that runs on the controller."""
        add_pod(self.kube, "pod-checkpointer", name="checkpointer", labels=labels)

    @property
    def withdrawn(self) -> bool:
        """Whether the recovery removed the standby pod's manifest."""
        return (NODE, ACTIVE_PATH) not in self.hosts.files

    def _remove(self, host: Host, command: Sequence[str], _stdin: bytes) -> CommandResult:
        del self.hosts.files[host.name, command[-1]]
        self.events[self.clock.monotonic() + 1] = "copy_goes"
        return CommandResult(0, "", "")

    def examine(self) -> Diagnosis:
        """What the machine itself reports."""
        seen = controller(running_for=self.runs_for, only_standby_runs=self.only_standby_runs, active=4)
        assert seen.facts is not None
        seen = replace(seen, facts=replace(seen.facts, api=self.api))
        wrong = "it refuses kubelet" if self.wrong_until > self.recovery.calls else ""
        return Diagnosis(ApiSeen(answers=True), (seen,), (), wrong)

    def apply(self, cluster: Cluster, *, replaced_wrong: bool = False) -> None:
        """Carry the step out."""
        step = HandOverStep(
            hosts=self.hosts,
            helm=self.helm,
            kube=self.kube,
            clock=self.clock,
            cluster=cluster,
            examine=self.examine,
            recovery=self.recovery,
            replaced_wrong=replaced_wrong,
        )
        step.apply(self.notes.append)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """One controller."""
    files = (tmp_path / "kubeconfig", "lab", tmp_path / "hosts.yml")
    return Cluster(tmp_path, *files, (Host(NODE, "10.0.0.1"),))


@pytest.fixture
def world() -> World:
    """A standby pod that serves."""
    return World()


@pytest.mark.parametrize(
    "labels", [{"app.kubernetes.io/name": "pod-checkpointer"}, {CHECKPOINT_OF: "pod-checkpointer"}]
)
def test_checkpointer_ends_the_standby_pod(world: World, cluster: Cluster, labels: dict[str, str]) -> None:
    """Where a pod-checkpointer runs, be it its own static pod, the standby pod is its business."""
    world.checkpointer(labels)
    world.stands()
    world.events[60.0] = "copy_goes"
    world.apply(cluster)
    assert not world.withdrawn
    assert 60 <= world.clock.monotonic() < 65


def test_standby_pod_is_ended_where_no_checkpointer_runs(world: World, cluster: Cluster) -> None:
    """Nobody else would: it is ended once its pod has been Ready for a while."""
    world.stands()
    world.apply(cluster)
    assert world.withdrawn
    assert ALONE_SECONDS <= world.clock.monotonic() < ALONE_SECONDS + 10


def test_checkpointer_that_hangs(world: World, cluster: Cluster) -> None:
    """A pod-checkpointer that doesn't end the standby pod in its time doesn't hold the recovery up."""
    world.checkpointer({"app.kubernetes.io/name": "pod-checkpointer"})
    world.stands()
    world.apply(cluster)
    assert world.withdrawn
    assert BESIDE_SECONDS <= world.clock.monotonic() < BESIDE_SECONDS + 10


@pytest.mark.parametrize(("runs_for", "only_standby_runs"), [(None, False), (5.0, False), (60.0, True)])
def test_pod_that_only_the_api_takes_for_ready(
    world: World, cluster: Cluster, runs_for: float | None, only_standby_runs: bool
) -> None:
    """A pod's status in the API may be from before a power cut: the standby pod stays until the machine confirms it
    too.
    """
    world.stands()
    world.runs_for, world.only_standby_runs = runs_for, only_standby_runs
    with pytest.raises(StepFailed):
        world.apply(cluster)
    assert not world.withdrawn


@pytest.mark.parametrize("api", [Endpoint(True), Unknown("not asked")])
def test_pod_that_does_not_listen(world: World, cluster: Cluster, api: Endpoint | Unknown) -> None:
    """A pod that is Ready by the answers of the standby pod, whose port it shares, doesn't replace it."""
    world.stands()
    world.api = api
    with pytest.raises(StepFailed, match="did not take over within 240 s"):
        world.apply(cluster)
    assert not world.withdrawn


def test_standby_pod_stays_while_its_pod_does_not_stand(world: World, cluster: Cluster) -> None:
    """A standby pod is all the API there is: where its pod never gets Ready it stays, and the error says why it
    does.
    """
    world.blocked()
    world.kube.log_texts[f"{NAME}-1-{NODE}", NAME, False] = "Error: unknown flag: --nonsense\n"
    with pytest.raises(StepFailed, match="unknown flag: --nonsense"):
        world.apply(cluster)
    assert not world.withdrawn
    assert HAND_OVER_SECONDS <= world.clock.monotonic() < HAND_OVER_SECONDS + 10


def test_pod_that_can_not_share_the_port(world: World, cluster: Cluster) -> None:
    """The standby pod makes room, which is reported with its bound; the pod takes the port over."""
    world.blocked()
    world.events[20.0] = "stands"
    world.apply(cluster)
    assert world.withdrawn
    assert any("for up to 90 s, the API may be unreachable" in note for note in world.notes)


def test_port_that_is_never_taken_over(world: World, cluster: Cluster) -> None:
    """Where the pod doesn't come up without the standby pod either, the standby pod is started again, and the
    operator is informed.
    """
    world.blocked()
    with pytest.raises(StepFailed, match="did not take over the port"):
        world.apply(cluster)
    assert world.recovery.calls == 1
    assert world.clock.monotonic() < PORT_SECONDS + 20


@pytest.mark.parametrize(("replaced_wrong", "calls"), [(True, 2), (False, 0)])
def test_wrong_instances_that_come_again_are_replaced_again(
    world: World, cluster: Cluster, replaced_wrong: bool, calls: int
) -> None:
    """Until the rollback is acted upon, the controller creates another wrong pod, which keeps it from acting;
    where nothing wrong was replaced before, nobody looks for it.
    """
    world.wrong_until = 2
    world.events = {30.0: "stands", 60.0: "copy_goes"}
    world.apply(cluster, replaced_wrong=replaced_wrong)
    assert world.recovery.calls == calls
