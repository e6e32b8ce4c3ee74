"""Replacing pods of kube-apiserver that a rollback doesn't get through, on a controller that behaves as a real one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.recover.controllers import ACTIVE_PATH, NOW, controller, generation
from upgrader.errors import CredentialsRefused, RollbackFailed
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.model.cluster import Host
from upgrader.onhost.sending.host_facts import Clock, Container, Endpoint, Generation
from upgrader.ports import CommandResult
from upgrader.recover.diagnosis.diagnose import Controller, Diagnosis
from upgrader.recover.diagnosis.wrong_api import ApiSeen
from upgrader.recover.restoring.api_recovery import ApiRecovery

WHY = "the rollback has not started after 45 s"
BEGAN = NOW - 60


def written(moment: float) -> str:
    """As a generation says when it was captured."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(uid: str, created: float, *, standby: bool = False, template: str = "t") -> Container:
    """kube-apiserver's container in a pod of that UID."""
    name = f"kube-apiserver-{uid}"
    return Container(
        name, "kube-system", "kube-apiserver", "running", uid=uid, created=created, standby=standby, template=template
    )


class Slow:
    """A controller whose API answers all the time, slowly while the pod `new` runs. Its ReplicaSet makes another pod in
    place of one that is stopped, which isn't Ready for a while.
    """

    def __init__(self, *running: Container, generations: tuple[Generation, ...] = ()) -> None:
        self.hosts, self.kube, self.notes = FakeHosts(), FakeKube(), list[str]()
        self.kube.raw_answers["/readyz"] = "ok"
        self.running = list(running)
        self.generations = generations or (generation(3), replace(generation(4), pod="new"))
        self.clock_offset = 0.0
        self.asked_beside: list[list[str]] = []
        """Which pods ran, each time that the API was asked."""
        self.answering: int | None = None
        """How many instances answer on addresses of their own; None: all."""
        for item in running:
            self.kube.put(PODS, {"metadata": {"name": item.pod}}, "kube-system")
        for number in (3, 4):
            self.hosts.files["controller-1", generation(number).manifest] = b"%d" % number
        done = CommandResult(0, "", "")
        self.hosts.commands = {"mkdir": done, "sh": done, "python3": self._stop}

    def examine(self) -> Diagnosis:
        """What an examination would find now, for which it also asks the API."""
        self.asked_beside.append([item.uid for item in self.running])
        return self.machines()

    def machines(self) -> Diagnosis:
        """What the controllers alone tell."""
        put = self.hosts.files.get(("controller-1", ACTIVE_PATH), b"")
        serving = [*self.running, *([pod("standby", NOW, standby=True)] if put else [])]
        seen = controller(
            active=int(put) if put else None,
            generations=self.generations,
            serves=True,
            containers=(*serving, *self.made()),
        )
        assert seen.facts is not None
        answering = len(serving) if self.answering is None else self.answering
        count = len(serving)
        api = Endpoint(True, "ok", "10.0.0.1:6443", instances=answering, listeners=count, private=count)
        facts = replace(seen.facts, api=api, clock=Clock(self.clock_offset, 0.1))
        return Diagnosis(ApiSeen(True), (replace(seen, facts=facts),), ())

    def made(self) -> list[Container]:
        """What the ReplicaSet has made meanwhile."""
        return [pod("newest", NOW)] if any("stop " in note for note in self.notes) else []

    def replace_newer(self, *, compared: bool = False) -> bool:
        """Replace what was created since the step began."""
        recovery = ApiRecovery(
            self.examine, machines=self.machines, hosts=self.hosts, kube=self.kube, clock=FakeClock()
        )
        return recovery.replace_newer(datetime.fromtimestamp(BEGAN, UTC), WHY, self.notes.append, compared=compared)

    def _stop(self, _host: Host, command: Sequence[str], _stdin: bytes) -> CommandResult:
        self.running = [item for item in self.running if item.uid not in command]
        return CommandResult(0, '{"stopped": []}', "")

    @property
    def done(self) -> list[str]:
        """What was done, in short."""
        return [note.partition(", ")[0].removeprefix("controller-1: ") for note in self.notes]


REPLACED = [
    "start kube-apiserver from its generation 3",
    "stop kube-apiserver-new",
    "deleting pod kube-apiserver-new",
]


def test_newer_pod_is_replaced_though_it_answers_all_clients() -> None:
    """First a standby pod of another generation serves, then the pod is stopped, and deleted. What its ReplicaSet makes
    in its place isn't Ready yet, and stays: the rollback removes it.
    """
    slow = Slow(pod("new", NOW - 50))
    slow.replace_newer()
    assert slow.done == REPLACED
    assert slow.kube.get(PODS, "kube-apiserver-new", "kube-system") is None


def test_slow_api_is_not_asked_before_it_is_replaced() -> None:
    """Each request takes seconds, and tells nothing that isn't known: an examination of the controllers is enough. The
    replacement is over once the API answers.
    """
    slow = Slow(pod("new", NOW - 50))
    slow.replace_newer()
    assert slow.asked_beside == [[]]


def test_instance_that_is_too_slow_to_answer_is_replaced_as_well() -> None:
    """It is enough that the standby pod answers, and that clients reach it."""
    slow = Slow(pod("new", NOW - 50))
    slow.answering = 1
    slow.replace_newer()
    assert slow.done == REPLACED


@pytest.mark.parametrize("accepts", [True, False])
def test_newer_pod_is_replaced_only_by_one_that_accepts_more(*, accepts: bool) -> None:
    """The step's instance refuses the run's credentials. Where the standby pod refuses them as well, they are to blame:
    the standby pod is removed, and the step's instance was never stopped.
    """
    slow = Slow(pod("new", NOW - 50))
    if accepts:
        assert slow.replace_newer(compared=True) is True
        assert slow.done == REPLACED
        return
    slow.kube.refuses_all = CredentialsRefused("HTTP 401 Unauthorized")
    with pytest.raises(RollbackFailed, match="rejects the same requests"):
        slow.replace_newer(compared=True)
    assert [item.uid for item in slow.running] == ["new"]
    assert slow.done[-1] == "deactivating the standby pod: it rejects the same requests"


def test_pod_from_before_the_step_stays() -> None:
    """It serves, and is what a rollback goes back to."""
    slow = Slow(pod("old", BEGAN - 10), pod("new", NOW - 50))
    slow.replace_newer()
    assert [item.uid for item in slow.running] == ["old"]


@pytest.mark.parametrize(("offset", "is_newer"), [(100.0, False), (-100.0, True)])
def test_clock_of_the_controller_may_differ(offset: float, *, is_newer: bool) -> None:
    """When a pod was created is by the controller's clock, when the step began by that of this machine."""
    slow = Slow(pod("new", BEGAN + offset / 2))
    slow.clock_offset = offset
    slow.replace_newer()
    assert bool(slow.running) is not is_newer


def test_nothing_newer_nothing_done() -> None:
    """One examination is enough, and changes nothing; the caller learns that waiting is all that is left."""
    slow = Slow(pod("old", BEGAN - 10))
    assert slow.replace_newer() is False
    assert slow.done == ["no running kube-apiserver pod belongs to the step that is being rolled back"]
    assert len(slow.running) == 1


AGAIN = (
    replace(generation(3), template="before", pod="gone", captured_at=written(BEGAN - 3600)),
    replace(generation(4), template="step", pod="new", captured_at=written(BEGAN + 20)),
)
"""What the controller keeps: of the pod that the step replaced, and of the one that it brought."""


def test_pods_that_a_rollback_has_made_stay() -> None:
    """Helm's own rollback, or one that was interrupted, may have brought back what was there before the step: those
    pods are newer, too, and the only other generation is the step's.
    """
    slow = Slow(pod("back", NOW - 10, template="before"), generations=AGAIN)
    assert slow.replace_newer() is False
    assert [item.uid for item in slow.running] == ["back"]
    assert ("controller-1", ACTIVE_PATH) not in slow.hosts.files


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (written(BEGAN - 1), written(BEGAN).replace("Z", ".750Z")),
        (written(BEGAN - 1 + 7200).replace("Z", "+02:00"), written(BEGAN + 1 - 7200).replace("Z", "-02:00")),
        (written(BEGAN - 1).removesuffix("Z"), "1 hour ago"),
    ],
    ids=["fractional seconds", "offsets", "no time zone, and no time"],
)
def test_when_a_generation_was_captured_is_read_as_a_time(before: str, after: str) -> None:
    """However a checkpoint writes it: what was captured a second before the step began is of the pods from before it;
    what was captured once it had begun, or at a time that can't be read, may be of the step's own.
    """
    then, step = replace(AGAIN[0], captured_at=before), replace(AGAIN[1], captured_at=after)
    back, new = pod("back", NOW - 10, template="before"), pod("new", NOW - 50, template="step")
    slow = Slow(back, new, generations=(then, step))
    assert slow.replace_newer() is True
    assert [item.uid for item in slow.running] == ["back"]


def test_pod_of_the_step_is_replaced_beside_one_that_a_rollback_has_made() -> None:
    """The rollback has begun, and goes on slowly: what it has made so far stays."""
    slow = Slow(pod("back", NOW - 10, template="before"), pod("new", NOW - 50, template="step"), generations=AGAIN)
    assert slow.replace_newer() is True
    assert [item.uid for item in slow.running] == ["back"]


def test_second_attempt_at_an_upgrade_is_rolled_back_like_the_first() -> None:
    """A generation of the first attempt is from before this step; what it has replaced was kept after that one."""
    first = replace(generation(3), template="step", pod="gone", captured_at=written(BEGAN - 7200))
    then = replace(generation(4), template="before", pod="old", captured_at=written(BEGAN - 3600))
    slow = Slow(pod("new", NOW - 50, template="step"), generations=(first, then))
    assert slow.replace_newer() is True
    assert slow.running == []


def test_no_generation_but_that_of_the_new_pod() -> None:
    """Then nothing is stopped, and the caller learns it soon."""
    slow = Slow(pod("new", NOW - 50), generations=(replace(generation(4), pod="new"),))
    with pytest.raises(RollbackFailed, match="none can replace them"):
        slow.replace_newer()
    assert [item.uid for item in slow.running] == ["new"]


def test_controller_that_can_not_be_examined() -> None:
    """What runs there isn't known: the others are examined, and nothing is done about it."""
    slow = Slow(pod("old", BEGAN - 10))
    examine = slow.machines
    away = Controller(Host("controller-2", "10.0.0.2"), None, ())

    def with_another() -> Diagnosis:
        seen = examine()
        return replace(seen, controllers=(*seen.controllers, away))

    slow.examine = slow.machines = with_another  # type: ignore[method-assign]
    assert slow.replace_newer() is False
    assert not any("start " in note or "stop " in note for note in slow.notes)
