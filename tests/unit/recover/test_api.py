"""Bringing the API back, on controllers that behave as real ones do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.recover.controllers import ACTIVE_PATH, controller, generation
from upgrader.errors import ApiError, RollbackFailed
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.gates.rollback_needs import Refusal
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.onhost.sending.host_facts import Container, Endpoint
from upgrader.ports import CommandResult, Kind
from upgrader.recover.diagnosis.diagnose import Controller, Diagnosis
from upgrader.recover.diagnosis.wrong_api import ApiSeen
from upgrader.recover.restoring import api_recovery
from upgrader.recover.restoring.api_recovery import API_SECONDS, STOPS, ApiRecovery

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
        recovery = ApiRecovery(self.examine, machines=self.examine, hosts=self.hosts, kube=self.kube, clock=self.clock)
        recovery.bring_api_back(self.notes.append)

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
        f"waiting up to {API_SECONDS:.0f} s for the API to answer",
        "the API server answers again",
    ]


def test_stopped_units_are_started_first() -> None:
    """containerd, then kubelet, then the standby pod, each of them named before it is done."""
    world = World()
    world.stopped = ["containerd", "kubelet"]
    world.bring_api_back()
    assert [note.removeprefix("controller-1: ")[:20] for note in world.notes if "start" in note][:3] == [
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


class WrongWorld(World):
    """One controller whose API answers, and is wrong until its instance is stopped beside a sound standby pod."""

    def __init__(self, sound: tuple[int, ...] = (3,)) -> None:
        super().__init__(sound)
        self.kube.unavailable = False
        self.kube.put(PODS, {"metadata": {"name": "kube-apiserver-new"}}, "kube-system")
        self.right = False
        self.looks = 0
        self.hosts.commands |= {"python3": self._stop, "sh": CommandResult(0, "", "")}

    def examine(self) -> Diagnosis:
        self.looks += 1
        own = Container("kube-apiserver-new", "kube-system", "kube-apiserver", "running", uid="u-new")
        standby = replace(own, uid="u-s", standby=True)
        put = self._standby()
        made = (generation(3), replace(generation(4), pod="u-new"))
        seen = controller(
            active=int(put) if put else None,
            generations=made,
            serves=True,
            containers=(own, standby) if put else (own,),
        )
        seen = replace(seen, wrong=not self.right)
        wrong = "" if self.right else "kube-apiserver is ready, but does not work correctly: it rejects kubelet"
        return Diagnosis(ApiSeen(True), (seen,), (), wrong)

    def _stop(self, _host: Host, _command: Sequence[str], _stdin: bytes) -> CommandResult:
        self.right = bool(self._standby()) and int(self._standby()) in self.sound
        return CommandResult(0, '{"stopped": ["kube-apiserver-new"]}', "")


def test_wrong_instance_is_replaced_stopped_and_deleted() -> None:
    """First the standby pod, then the stop; then its pod is deleted, as the kubelet would start it again."""
    world = WrongWorld()
    world.bring_api_back()
    assert [note.partition(", ")[0] for note in world.notes] == [
        "controller-1: start kube-apiserver from its generation 3",
        "controller-1: stop kube-apiserver-new",
        "deleting pod kube-apiserver-new",
    ]
    assert world.kube.get(PODS, "kube-apiserver-new", "kube-system") is None
    assert world.clock.monotonic() < 60


class RefusedFromOutside(WrongWorld):
    """The API refuses what a rollback needs; no client on the controller is refused. The standby pod serves at once."""

    def examine(self) -> Diagnosis:
        seen = super().examine()
        first = seen.controllers[0]
        assert first.facts is not None and isinstance(first.facts.containers, tuple)
        serving = len(first.facts.containers)
        api = Endpoint(True, "ok", "10.0.0.1:6443", instances=serving, listeners=serving, private=serving)
        return replace(seen, controllers=(replace(first, facts=replace(first.facts, api=api)),))


@pytest.mark.parametrize("standby_accepts", [True, False])
def test_replacement_is_asked_before_the_instance_is_stopped(
    monkeypatch: pytest.MonkeyPatch, standby_accepts: bool
) -> None:
    """New connections meet both: where none of them is accepted, the instance is not to blame, and keeps serving."""
    world = RefusedFromOutside()
    answers = iter([False, standby_accepts] * 100)
    refused = Refusal("HTTP 403 no")
    monkeypatch.setattr(api_recovery, "refusal", lambda *_, **__: None if next(answers) else refused)
    if standby_accepts:
        world.bring_api_back()
    else:
        with pytest.raises(RollbackFailed, match="rejects the same requests"):
            world.bring_api_back()
    stopped = any("stop kube-apiserver-new" in note for note in world.notes)
    assert stopped is standby_accepts
    assert (world.kube.get(PODS, "kube-apiserver-new", "kube-system") is None) is standby_accepts


def test_api_that_looked_wrong_once_is_left_alone() -> None:
    """A single examination may be of an API server that starts: it changes nothing."""
    world = WrongWorld()
    examine = world.examine

    def once() -> Diagnosis:
        seen = examine()
        world.right = True
        return seen

    world.examine = once  # type: ignore[method-assign]
    world.bring_api_back()
    assert (world.notes, world.looks) == ([], 2)


def test_nothing_to_replace_a_wrong_instance_with() -> None:
    """Where the only generation was made from the wrong pod, the recovery ends soon, and says so."""
    world = WrongWorld()
    examine = world.examine

    def without_others() -> Diagnosis:
        seen = examine()
        first = seen.controllers[0]
        assert first.facts is not None and isinstance(first.facts.workloads, tuple)
        workload = replace(first.facts.workloads[0], generations=(replace(generation(4), pod="u-new"),))
        return replace(seen, controllers=(replace(first, facts=replace(first.facts, workloads=(workload,))),))

    world.examine = without_others  # type: ignore[method-assign]
    with pytest.raises(RollbackFailed, match="none can replace them"):
        world.bring_api_back()
    assert world.clock.monotonic() < 10


def test_generation_that_is_refused_the_same_is_taken_back() -> None:
    """Where another generation changes nothing, the fault isn't the instance's: the recovery ends soon, and leaves no
    standby pod behind.
    """
    world = WrongWorld(sound=())
    with pytest.raises(RollbackFailed, match="rejects the same requests") as failed:
        world.bring_api_back()
    assert "certificates" in failed.value.remedy
    assert world.hosts.ran[-1][1][-1] == ACTIVE_PATH
    assert sum(note.startswith("controller-1: stop") for note in world.notes) == STOPS + 1
    assert world.clock.monotonic() < 120


def test_pod_that_cannot_be_deleted_is_noted() -> None:
    """The API is right again all the same: the gates that follow find what is left."""
    world = WrongWorld()

    def refuse(kind: Kind, name: str, namespace: str = "", *, at_once: bool = False) -> None:
        raise ApiError(f"delete {name}: HTTP 500")

    world.kube.delete = refuse  # type: ignore[method-assign]
    world.bring_api_back()
    assert world.notes[-1] == "delete kube-apiserver-new: HTTP 500"
