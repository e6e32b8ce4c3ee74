"""The sysctl by which connections outlive the kube-apiserver in whose queue they wait."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from testkit.fakes.hosts import FakeHosts
from upgrader.adopt.accept_queues import ResetQueuesStep, SetQueuesStep
from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.model.release import RestorePoint
from upgrader.ports import CommandResult

HOST = Host("controller-1", "10.0.0.1")
LIVE = "proc/sys/net/ipv4/tcp_migrate_req"
FILE = "etc/sysctl.d/90-upgrader.conf"
KEPT = "etc/kubernetes/upgrader/net.ipv4.tcp_migrate_req"


class Controller:
    """A controller's files in a folder; the steps' own scripts run on them."""

    def __init__(self, root: Path, live: str = "0") -> None:
        self.root, self.hosts, self.notes = root, FakeHosts(), list[str]()
        self.hosts.commands["sh"] = self._sh
        if live:
            (root / LIVE).parent.mkdir(parents=True)
            (root / LIVE).write_text(f"{live}\n")

    def _sh(self, _host: Host, command: Sequence[str], _stdin: bytes) -> CommandResult:
        done = subprocess.run([*command, str(self.root)], capture_output=True, text=True, check=False)
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def set(self) -> SetQueuesStep:
        step = SetQueuesStep(self.hosts, (HOST,))
        step.apply(self.notes.append)
        return step

    def reset(self) -> None:
        ResetQueuesStep(self.hosts, (HOST,)).apply(self.notes.append)

    @property
    def live(self) -> str:
        return (self.root / LIVE).read_text().strip()

    def has(self, path: str) -> bool:
        return (self.root / path).exists()


def test_it_is_set_at_once_and_for_later_boots(tmp_path: Path) -> None:
    """And so that everybody can read why."""
    place = Controller(tmp_path)
    assert place.set().name == "accept-queues"
    assert place.live == "1"
    assert "net.ipv4.tcp_migrate_req = 1" in (tmp_path / FILE).read_text().splitlines()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o644
    assert place.notes == ["controller-1: net.ipv4.tcp_migrate_req=1 is set, and in /etc/sysctl.d/90-upgrader.conf"]


def test_adoption_that_is_repeated_takes_back_nothing_of_the_first(tmp_path: Path) -> None:
    """Its rollback leaves an adopted cluster as it was; the first one's has something to take back."""
    place = Controller(tmp_path)
    step = SetQueuesStep(place.hosts, (HOST,))
    assert step.capture() == RestorePoint()
    step.apply(place.notes.append)
    assert step.capture() is None


def test_controller_that_can_not_be_reached_keeps_no_other_from_its_undo(tmp_path: Path) -> None:
    """All others are as they were before the adoption, and the one that failed is named."""
    place, away = Controller(tmp_path), Host("controller-0", "10.0.0.9")
    place.set()
    place.hosts.down.add(away.name)
    with pytest.raises(HostError, match=away.name):
        ResetQueuesStep(place.hosts, (away, HOST)).apply(place.notes.append)
    assert place.live == "0" and not place.has(FILE)


@pytest.mark.parametrize("by", ["undo", "rollback"])
def test_it_is_taken_back_to_what_it_was(tmp_path: Path, by: str) -> None:
    """By `adopt --undo` and by an adoption that is rolled back, also after steps that were repeated; nothing stays."""
    place = Controller(tmp_path)
    step = place.set()
    place.set()
    for _ in range(2):
        if by == "undo":
            place.reset()
        else:
            step.undo(RestorePoint(), place.notes.append)
        assert place.live == "0"
        assert not place.has(FILE) and not place.has(KEPT)


def test_what_the_site_has_set_stays(tmp_path: Path) -> None:
    """Nothing is written where it was 1 before; a value that was changed since the adoption is not changed again."""
    place = Controller(tmp_path / "own", live="1")
    place.set()
    place.reset()
    assert place.live == "1" and not place.has(FILE)
    assert "was 1 already" in place.notes[0]
    place = Controller(tmp_path / "later")
    place.set()
    (place.root / LIVE).write_text("2\n")
    place.reset()
    assert place.live == "2"


def test_interrupted_step_is_completed(tmp_path: Path) -> None:
    """One that was killed after it had set the value still knows what it was before, and writes the file."""
    place = Controller(tmp_path)
    place.set()
    (tmp_path / FILE).unlink()
    place.set()
    assert place.has(FILE)
    place.reset()
    assert place.live == "0"


def test_kernel_without_it_is_no_failure(tmp_path: Path) -> None:
    """It is noted, with what it means; nothing is written."""
    place = Controller(tmp_path, live="")
    place.set()
    (note,) = place.notes
    assert "Linux 5.14" in note and "the connections in its accept queue are reset" in note
    assert not place.has(FILE)
    place.reset()


def test_kernel_that_refuses_it_is_no_failure(tmp_path: Path) -> None:
    """As in a container whose /proc/sys can't be written: it is noted, and an undo has nothing to do."""
    place = Controller(tmp_path)
    (tmp_path / LIVE).unlink()
    (tmp_path / LIVE).symlink_to("/proc/version")  # which not even root can write
    place.set()
    assert "the kernel refuses to set net.ipv4.tcp_migrate_req=1" in place.notes[0]
    assert not place.has(FILE) and not place.has(KEPT)


def test_disk_that_can_not_be_written_is_named() -> None:
    """With the host's own words, and what to check."""
    hosts = FakeHosts()
    hosts.commands["sh"] = CommandResult(1, "", "mv: Read-only file system")
    with pytest.raises(
        HostError, match=r"controller-1: net.ipv4.tcp_migrate_req can't be set: mv: Read-only"
    ) as caught:
        SetQueuesStep(hosts, (HOST,)).apply(lambda _: None)
    assert "/etc/sysctl.d/90-upgrader.conf" in caught.value.remedy
