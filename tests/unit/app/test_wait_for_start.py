"""`--wait`: what is starting gets time, with an end."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_node, add_pod, crashed, running, waiting
from upgrader.app.front_end import FrontEnd
from upgrader.app.wait_for_start import await_start
from upgrader.cli.main import cli
from upgrader.errors import ApiError, CredentialsRefused, UsageError
from upgrader.model.cluster import Cluster, Host

CRITICAL = "system-node-critical"


class Starting:
    """A controller whose pods become what `later` says after some seconds; what is told of the wait."""

    names: tuple[str, ...] = ("controller-1",)

    def __init__(self) -> None:
        self.kube, self.clock = FakeKube(), FakeClock()
        self.told: list[str] = []
        self.doing: list[str] = []

    def wait(self, seconds: float = 60.0) -> float:
        """Wait; returns for how long it did."""
        folder = Path("/cluster")
        hosts = tuple(Host(name, f"10.0.0.1{number}") for number, name in enumerate(self.names))
        cluster = Cluster(folder, folder / "kubeconfig", "", folder / "hosts.yml", hosts)
        front_end = FrontEnd(notify=self.told.append, doing=self.doing.append)
        begun = self.clock.monotonic()
        await_start(self.kube, self.clock, cluster, seconds, front_end)
        return self.clock.monotonic() - begun


def test_nothing_to_wait_for() -> None:
    """All critical pods are Ready: nothing is said, and no time passes."""
    world = Starting()
    add_pod(world.kube, "kube-apiserver", priority_class=CRITICAL)
    add_pod(world.kube, "web", running(ready=False))
    assert (world.wait(), world.told) == (0.0, [])


class PowerCut(Starting):
    """Three controllers whose pods are stored as Ready; the third one's kubelet starts after a while, and then says
    that its pod isn't.
    """

    names = ("controller-1", "controller-2", "controller-3")

    def __init__(self, *, back_after: float) -> None:
        super().__init__()
        self.back = self.clock.monotonic() + back_after
        for name in self.names:
            add_node(self.kube, name)
            add_pod(self.kube, "kube-apiserver", node=name, priority_class=CRITICAL)
        self.kube.silent_kubelets = {self.names[2]}
        self.sleep, self.clock.sleep = self.clock.sleep, self.later  # type: ignore[method-assign]

    def later(self, seconds: float) -> None:
        """What a kubelet does meanwhile: it renews its Lease at once, and writes its pods' status a moment later."""
        self.sleep(seconds)
        now = self.clock.monotonic()
        if now >= self.back:
            self.kube.silent_kubelets = set()
        if self.back < now < self.back + 30:
            unready = running(ready=False)
            add_pod(self.kube, "kube-apiserver", unready, node=self.names[2], priority_class=CRITICAL)
        elif now >= self.back + 30:
            add_pod(self.kube, "kube-apiserver", node=self.names[2], priority_class=CRITICAL)


def test_what_is_stored_from_before_a_power_cut_is_not_believed() -> None:
    """Until each controller's kubelet has reported, pods that are stored as Ready are waited for as well."""
    world = PowerCut(back_after=28)
    assert world.wait() == 58.0
    assert world.told == ["Waiting up to 1 min 00 s (--timeout) until these are Ready: the kubelet of controller-3"]


def test_kubelets_at_work_are_seen_within_seconds() -> None:
    """Nothing is said of it, where they only renew their Leases in their time; one that is dead is named in the end."""
    world = PowerCut(back_after=0)
    world.back = float("inf")
    world.kube.silent_kubelets = set()
    assert (world.wait(), world.told) == (4.0, []), "the fake's kubelets renew at each reading"
    dead = PowerCut(back_after=1000)
    assert dead.wait() == 60.0
    assert dead.told[-1] == "Not Ready after 1 min 00 s: the kubelet of controller-3"


def test_pod_that_becomes_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, with the time that is left, and the wait ends as soon as it is Ready."""
    world = Starting()
    add_pod(world.kube, "kube-apiserver", running(ready=False), priority_class=CRITICAL)
    sleep = world.clock.sleep

    def later(seconds: float) -> None:
        sleep(seconds)
        if world.clock.monotonic() >= begun + 10:
            add_pod(world.kube, "kube-apiserver", priority_class=CRITICAL)

    begun = world.clock.monotonic()
    monkeypatch.setattr(world.clock, "sleep", later)
    assert world.wait() == 10.0
    name = "kube-apiserver-1-controller-1 on controller-1"
    assert world.told == [f"Waiting up to 1 min 00 s (--timeout) until these are Ready: {name}"]
    assert world.doing[1] == f"waiting 58 s more until these are Ready: {name}"


def test_deadline() -> None:
    """The wait ends, and says for what it was: the checks go on to the cause."""
    world = Starting()
    add_pod(world.kube, "etcd", waiting("ContainerCreating"), priority_class=CRITICAL)
    assert world.wait() == 60.0
    assert world.told[1] == "Not Ready after 1 min 00 s: etcd-1-controller-1 on controller-1"


def test_api_that_starts_is_waited_for() -> None:
    """On a single controller it is what starts last; refused credentials are no matter of time."""
    world = Starting()
    world.kube.unavailable = True
    assert world.wait() == 60.0
    assert "until these are Ready: " in world.told[0]


def test_refused_credentials_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked next says so."""
    world = Starting()

    def refuse(*_: object, **__: object) -> None:
        raise CredentialsRefused("401")

    monkeypatch.setattr(world.kube, "list", refuse)
    assert (world.wait(), world.told) == (0.0, [])


def test_crash_loop_is_waited_for_only_beside_what_starts() -> None:
    """It may only need what is starting; alone, time doesn't help it."""
    world = Starting()
    add_pod(world.kube, "kube-scheduler", crashed(restarts=9), priority_class=CRITICAL)
    assert (world.wait(), world.told) == (0.0, [])
    add_pod(world.kube, "kube-apiserver", running(ready=False), priority_class=CRITICAL)
    assert world.wait() == 60.0


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [
        (["check"], None),
        (["check", "--wait"], 300.0),
        (["check", "--wait", "--timeout", "10m"], 600.0),
        (["check", "--wait", "--trial"], 300.0),
        (["run", "--wait"], 300.0),
        (["run", "--wait", "--timeout", "90s", "--resume"], 90.0),
    ],
)
def test_commands_wait_first(monkeypatch: pytest.MonkeyPatch, arguments: list[str], seconds: float | None) -> None:
    """Five minutes unless told otherwise, as Helm's --timeout; before the lock, a plan or a check."""
    asked: list[float | None] = []

    def wait(_folder: Path, _target: object, seconds: float, _front_end: FrontEnd) -> None:
        asked.append(seconds)
        raise ApiError("enough")

    monkeypatch.setattr("upgrader.app.wait_for_start.wait_for_start", wait)
    CliRunner().invoke(cli, ["-C", "/nonexistent", *arguments])
    assert asked == ([] if seconds is None else [seconds])


@pytest.mark.parametrize(
    "arguments", [["check", "--timeout", "5m"], ["run", "--timeout", "5m"], ["check", "--offline", "--wait"]]
)
def test_what_has_no_meaning(arguments: list[str]) -> None:
    """It is refused, and not ignored."""
    result = CliRunner().invoke(cli, ["-C", "/nonexistent", *arguments])
    assert isinstance(result.exception, UsageError)
