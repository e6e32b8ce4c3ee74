"""A playbook runs only while the cluster's lock is held, also where its holder doesn't reach the API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.fakes.playbooks import FakePlaybooks
from upgrader.engine.locks.cluster_lock import ClusterLock, acquire
from upgrader.engine.locks.fence import NOTICE_SECONDS, UNCONFIRMED_SECONDS, Fence
from upgrader.engine.locks.fenced_playbooks import FencedPlaybooks
from upgrader.engine.locks.lease_object import LEASE_SECONDS, Holder
from upgrader.errors import HostSilent, HostUnreachable, Interrupted, PlaybookError
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult

CONTROLLERS = (Host("controller-1", "10.0.0.1"), Host("controller-2", "10.0.0.2"))


class Machine:
    """A machine that runs upgrader; every machine has an API of its own view, and the same controllers."""

    def __init__(self, name: str, kube: FakeKube, hosts: FakeHosts, clock: FakeClock) -> None:
        self.name, self.kube, self.clock = name, kube, clock
        self.fence = Fence(hosts, CONTROLLERS, clock)
        self.playbooks = FakePlaybooks()
        self.notes: list[str] = []
        self.kept_out_seconds = 0.0
        self.lock: ClusterLock

    def take_lock(self, *, take_over: bool = False) -> None:
        """Take the cluster's lock as a command does."""
        self.lock = acquire(self.kube, self.clock, Holder(self.name), take_over=take_over, note=lambda _: None)
        taken = self.clock.monotonic()
        self.fence.hold(self.lock, self.notes.append)
        self.kept_out_seconds = self.clock.monotonic() - taken

    def run(self, playbook: str = "reboot.yml") -> None:
        """Run a playbook."""
        fenced = FencedPlaybooks(self.playbooks, self.fence, every_seconds=0.001)
        fenced.run(Path(playbook), inventory=Path("hosts.yml"), variables={}, timeout_seconds=60)


@pytest.fixture
def clock() -> FakeClock:
    """One time for all."""
    return FakeClock()


@pytest.fixture
def hosts() -> FakeHosts:
    """The controllers."""
    hosts = FakeHosts()
    hosts.commands["install"] = CommandResult(0, "", "")
    return hosts


@pytest.fixture
def anna(hosts: FakeHosts, clock: FakeClock) -> Machine:
    """The first machine, which holds the lock."""
    machine = Machine("anna", FakeKube(), hosts, clock)
    machine.take_lock()
    return machine


@pytest.fixture
def ben(anna: Machine, hosts: FakeHosts, clock: FakeClock) -> Machine:
    """Another machine, with the same API."""
    return Machine("ben", anna.kube, hosts, clock)


def cut_off(machine: Machine) -> None:
    """The machine doesn't reach the API any more; others do."""
    machine.lock._kube = away = FakeKube()
    away.unavailable = True


def test_one_playbook_after_the_other(anna: Machine, hosts: FakeHosts, clock: FakeClock) -> None:
    """Under a lock that is held, playbooks run; no note of a running one is left behind."""
    anna.run()
    anna.run("tune.yml")
    assert [name for name, *_ in anna.playbooks.ran] == ["reboot.yml", "tune.yml"]
    assert anna.notes == []
    tokens = [anna.fence.read_or_none(host) for host in CONTROLLERS]
    assert [(token.number, token.owner, token.playbook) for token in tokens if token] == [(1, "anna", "")] * 2
    assert clock.monotonic() == 0


def test_holder_that_is_cut_off_from_the_api_loses_its_playbook(anna: Machine, ben: Machine, clock: FakeClock) -> None:
    """Another machine takes the lock over and gives the first one time; that one sees the token over SSH, and ends its
    playbook before the other begins the same."""

    def lose() -> None:
        cut_off(anna)
        clock.sleep(LEASE_SECONDS + 1)
        ben.take_lock()

    anna.playbooks.meanwhile, anna.playbooks.endless = lose, True
    with pytest.raises(Interrupted, match=r"reboot\.yml was not completed: .* taken over by ben"):
        anna.run()
    ben.run()
    assert "anna may still run the playbook reboot.yml" in ben.notes[0]
    assert ben.kept_out_seconds >= NOTICE_SECONDS, "beside the time for which the Lease was watched"


def test_older_token_may_not_begin(anna: Machine, ben: Machine) -> None:
    """A machine that had a token, and whose lock was taken since, is refused by the controllers; nothing is run."""
    anna.run()
    ben.take_lock(take_over=True)
    with pytest.raises(Interrupted, match="taken over by ben"):
        anna.run()
    assert len(anna.playbooks.ran) == 1
    assert (ben.notes, ben.kept_out_seconds) == ([], 0), "no playbook was running"


def test_a_machine_that_slept_asks_before_its_first_playbook(anna: Machine, ben: Machine) -> None:
    """No time has passed by its own clock since it renewed its lock, which another one took over meanwhile: its first
    token would be higher than the other's.
    """
    ben.take_lock(take_over=True)
    with pytest.raises(Interrupted, match="taken over by ben"):
        anna.run()
    assert not anna.playbooks.ran
    ben.run()
    assert len(ben.playbooks.ran) == 1


def test_lost_lock_ends_the_playbook(anna: Machine, ben: Machine) -> None:
    """A holder that the API tells of its loss doesn't need the controllers for that."""

    def lose() -> None:
        ben.take_lock(take_over=True)
        assert not anna.lock.renew()

    anna.playbooks.meanwhile = lose
    with pytest.raises(Interrupted, match="taken over by ben"):
        anna.run()
    with pytest.raises(Interrupted):
        anna.run()


def test_no_playbook_begins_under_a_lock_that_is_not_confirmed(anna: Machine, clock: FakeClock) -> None:
    """Without an API to confirm the lock, another process may have it."""
    cut_off(anna)
    clock.sleep(UNCONFIRMED_SECONDS + 1)
    with pytest.raises(PlaybookError, match="has not been confirmed for 16 s"):
        anna.run()
    assert anna.playbooks.ran == []


def test_api_that_reboots_with_its_controller_ends_nothing(anna: Machine, hosts: FakeHosts, clock: FakeClock) -> None:
    """A playbook that reboots the only controller goes on: with neither API nor SSH, nobody else can take the lock."""

    def reboot() -> None:
        cut_off(anna)
        hosts.down = {"controller-1", "controller-2"}
        clock.sleep(300)
        assert anna.fence.unconfirmed
        assert [anna.fence.outranked_on(host) for host in CONTROLLERS] == ["", ""]
        hosts.down = set()

    anna.playbooks.meanwhile = reboot
    anna.run()
    assert len(anna.playbooks.ran) == 1


def test_controller_whose_token_is_unknown(anna: Machine, hosts: FakeHosts, clock: FakeClock) -> None:
    """With a controller that can't be read, no playbook begins: another process's token may be there. One that refuses
    the login isn't waited for.
    """
    hosts.refusing = {"controller-2"}
    with pytest.raises(HostUnreachable):
        anna.run()
    assert anna.playbooks.ran == [] and clock.monotonic() == 0


def test_controller_that_reboots_is_waited_for(
    anna: Machine, hosts: FakeHosts, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself, as by unattended upgrades: between two batches of nodes, it is no reason to roll all of them back. It
    is told what is waited for.
    """
    hosts.down = {"controller-2"}

    def back() -> None:
        if clock.monotonic() >= 70:  # its SSH server runs, but refuses the login until it has booted
            hosts.down, hosts.refusing = set(), {"controller-2"} if clock.monotonic() < 90 else set()

    kept_alive(anna, clock, monkeypatch, back)
    anna.run()
    assert len(anna.playbooks.ran) == 1 and 90 <= clock.monotonic() < 120
    assert len(anna.notes) == 1 and "controller-2" in anna.notes[0] and "waiting up to 300 s" in anna.notes[0]


def test_controller_that_stays_away_is_not_waited_for_without_end(
    anna: Machine, hosts: FakeHosts, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The playbook hasn't begun then."""
    hosts.down = {"controller-2"}
    kept_alive(anna, clock, monkeypatch)
    with pytest.raises(HostSilent):
        anna.run()
    assert anna.playbooks.ran == [] and 200 < clock.monotonic() <= 300


def test_only_controller_that_reboots_takes_the_api_along(
    anna: Machine, hosts: FakeHosts, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock isn't confirmed for as long, nor can another process take it: both are waited for."""
    hosts.down = {"controller-1", "controller-2"}
    cut_off(anna)

    def back() -> None:
        if clock.monotonic() >= 60:
            hosts.down.clear()
        if clock.monotonic() >= 90:
            anna.lock._kube = anna.kube

    kept_alive(anna, clock, monkeypatch, back)
    anna.run()
    assert len(anna.playbooks.ran) == 1 and 90 <= clock.monotonic() < 120


def test_lock_that_is_lost_meanwhile_ends_the_wait(
    anna: Machine, ben: Machine, hosts: FakeHosts, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine has taken over: what it does with the controllers is not for this one."""
    hosts.down = {"controller-2"}

    def taken() -> None:
        if clock.monotonic() >= 60 and not anna.fence.lost_to:
            ben.take_lock(take_over=True)

    kept_alive(anna, clock, monkeypatch, taken)
    with pytest.raises(Interrupted, match="taken over by ben"):
        anna.run()
    assert clock.monotonic() < 120


def kept_alive(
    machine: Machine, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, back: Callable[[], object] = lambda: None
) -> None:
    """Have its lock renewed while it waits, as a thread does."""
    sleep = clock.sleep

    def slept(seconds: float) -> None:
        sleep(seconds)
        back()
        machine.lock.renew()

    monkeypatch.setattr(clock, "sleep", slept)


def test_takeover_with_an_unreachable_controller(anna: Machine, ben: Machine, hosts: FakeHosts) -> None:
    """The token is raised where that is possible: each controller that the former holder can reach counts."""
    anna.playbooks.errors["reboot.yml"] = PlaybookError("failed")
    with pytest.raises(PlaybookError, match="failed"):
        anna.run()
    hosts.files["controller-1", "/etc/kubernetes/upgrader/playbook-token.json"] = b"[damaged"
    hosts.down = {"controller-2"}
    ben.take_lock(take_over=True)
    assert anna.fence.outranked_on(CONTROLLERS[0]) == "ben"
    assert anna.fence.outranked_on(CONTROLLERS[1]) == "", "it can't be read"
    hosts.down = set()
    with pytest.raises(Interrupted):
        anna.run()


def test_playbook_needs_a_lock(hosts: FakeHosts, clock: FakeClock) -> None:
    """Without the cluster's lock nothing runs."""
    with pytest.raises(PlaybookError, match="only under the cluster's lock"):
        Fence(hosts, CONTROLLERS, clock).enter("reboot.yml")


def test_check_mode_needs_no_lock(tmp_path: Path, hosts: FakeHosts, clock: FakeClock) -> None:
    """A plan asks what a playbook would change while another machine upgrades the cluster, and keeps nobody out."""
    playbooks = FakePlaybooks()
    fenced = FencedPlaybooks(playbooks, Fence(hosts, CONTROLLERS, clock))
    fenced.run(tmp_path / "a.yml", inventory=tmp_path / "hosts.yml", variables={}, timeout_seconds=1.0, check=True)
    assert playbooks.ran == [("a.yml", {}, "", True)] and not hosts.files
