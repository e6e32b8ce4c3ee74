"""Bringing the API back, on controllers that behave as real ones do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.recover.controllers import ACTIVE_PATH, controller, generation
from upgrader.errors import RollbackFailed
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.ports import CommandResult
from upgrader.recover.diagnosis.diagnose import ApiSeen, Controller, Diagnosis
from upgrader.recover.restoring.api_recovery import API_SECONDS, ApiRecovery

START_SECONDS = 8.0


class World:
    """One controller without an API. A standby pod of a generation in `sound` serves 8 s after it was put in place."""

    def __init__(self, sound: tuple[int, ...] = (4,)) -> None:
        self.clock, self.hosts, self.kube = FakeClock(), FakeHosts(), FakeKube()
        self.kube.unavailable = True
        self.kube.raw_answers["/readyz"] = "ok"
        self.sound = sound
        self.controllers: tuple[Controller, ...] = (controller(),)
        self.stopped: list[str] = []
        self.notes: list[str] = []
        self._since: dict[bytes, float] = {}
        self.hosts.commands = {"sh": self._sh, "mkdir": CommandResult(0, "", "")}
        for number in (3, 4):
            self.hosts.files["controller-1", generation(number).manifest] = b"%d" % number

    def examine(self) -> Diagnosis:
        """What an examination would find now."""
        first, *others = self.controllers
        number = int(self._standby()) if self._standby() else None
        if first.facts is not None:
            first = controller(active=number, start=tuple(self.stopped), blocked=first.blocked)
        first = replace(first, findings=self.controllers[0].findings)
        api = ApiSeen(not self.kube.unavailable, "" if not self.kube.unavailable else "Connection refused")
        return Diagnosis(api, (first, *others), first.findings)

    def bring_api_back(self) -> None:
        """Run the recovery; its notes are in `notes`."""
        world = self

        class Clock(FakeClock):
            def sleep(self, seconds: float) -> None:
                super().sleep(seconds)
                world.happen(self.monotonic())

        self.clock = Clock()
        ApiRecovery(self.examine, hosts=self.hosts, kube=self.kube, clock=self.clock).bring_api_back(self.notes.append)

    def happen(self, now: float) -> None:
        """What the kubelet does meanwhile."""
        standby = self._standby()
        if not standby or self.stopped:
            return
        since = self._since.setdefault(standby, now)
        if int(standby) in self.sound and now - since >= START_SECONDS:
            self.kube.unavailable = False

    def _standby(self) -> bytes:
        return self.hosts.files.get(("controller-1", ACTIVE_PATH), b"")

    def _sh(self, _host: Host, command: Sequence[str], _stdin: bytes) -> CommandResult:
        self.stopped.remove(command[-1])
        return CommandResult(0, "", "")


def test_last_good_generation_brings_the_api_back() -> None:
    """The standby pod is put in place at once, and the recovery ends as soon as the API answers."""
    world = World()
    world.bring_api_back()
    assert world.hosts.files["controller-1", ACTIVE_PATH] == b"4"
    assert world.clock.monotonic() < START_SECONDS + 2
    assert [note.partition(", ")[0] for note in world.notes] == [
        "controller-1: start kube-apiserver from its generation 4",
        "the API server answers again",
    ]


def test_stopped_units_are_started_first() -> None:
    """containerd, then kubelet, then the standby pod, each of them named before it is done."""
    world = World()
    world.stopped = ["containerd", "kubelet"]
    world.bring_api_back()
    assert [note.removeprefix("controller-1: ")[:20] for note in world.notes[:3]] == [
        "start containerd",
        "start kubelet",
        "start kube-apiserver",
    ]


def test_older_generation_where_the_newest_does_not_come_up() -> None:
    """A generation that doesn't serve is replaced by the one before, within the deadline."""
    world = World(sound=(3,))
    world.bring_api_back()
    assert world.hosts.files["controller-1", ACTIVE_PATH] == b"3"
    assert world.clock.monotonic() < 90


def test_running_it_again_changes_nothing() -> None:
    """Where the API answers, one examination is enough."""
    world = World()
    world.bring_api_back()
    ran, notes = list(world.hosts.ran), list(world.notes)
    world.bring_api_back()
    assert (world.hosts.ran, world.notes, world.clock.monotonic()) == (ran, notes, 0.0)


def test_killed_half_way_it_goes_on() -> None:
    """A standby pod that an earlier recovery had put in place isn't put again: it gets its time, and serves."""
    world = World()
    world.hosts.files["controller-1", ACTIVE_PATH] = b"4"
    world.bring_api_back()
    assert [note for note in world.notes if "start kube-apiserver" in note] == []


def test_deadline_says_what_was_tried_and_what_is_wrong() -> None:
    """When nothing helps, the error names each generation that was started, and what was found; no waiting for ever."""
    world = World(sound=())
    finding = Finding("etcd.space", "error", "controller-1: etcd is out of space", remedy="Defragment it.")
    world.controllers = (replace(controller(), findings=(finding,)),)
    with pytest.raises(RollbackFailed) as failed:
        world.bring_api_back()
    assert API_SECONDS <= world.clock.monotonic() < API_SECONDS + 10
    for words in ("generation 4 was started", "generation 3 was started", "etcd is out of space"):
        assert words in failed.value.message
    assert failed.value.remedy == "Defragment it."


def test_what_only_a_person_can_mend_is_said_soon() -> None:
    """Where a recovery must not act, nothing is put in place, and it ends before the deadline."""
    world = World()
    world.controllers = (controller(blocked="etcd has lost its data"),)
    with pytest.raises(RollbackFailed, match="etcd has lost its data"):
        world.bring_api_back()
    assert world.clock.monotonic() < 60
    assert ("controller-1", ACTIVE_PATH) not in world.hosts.files


def test_controller_that_boots_is_waited_for() -> None:
    """A machine that doesn't answer yet isn't given up before the deadline."""
    world = World()
    booted = world.controllers
    away = Controller(Host("controller-1", "10.0.0.1"), None, (), blocked="no answer")
    world.controllers = (away,)
    happen = world.happen

    def boots(now: float) -> None:
        if now > 60:
            world.controllers = booted
        happen(now)

    world.happen = boots  # type: ignore[method-assign]
    world.bring_api_back()
    assert 60 < world.clock.monotonic() < 90


def test_copy_that_could_not_be_written_is_tried_again() -> None:
    """A connection that breaks while the standby pod is written is no fault of the generation: it isn't passed over."""
    world = World()
    content = world.hosts.files.pop(("controller-1", generation(4).manifest))
    happen = world.happen

    def answers_again(now: float) -> None:
        if now > 3:
            world.hosts.files["controller-1", generation(4).manifest] = content
        happen(now)

    world.happen = answers_again  # type: ignore[method-assign]
    world.bring_api_back()
    assert world.hosts.files["controller-1", ACTIVE_PATH] == b"4"
