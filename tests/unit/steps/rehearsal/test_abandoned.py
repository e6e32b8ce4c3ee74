"""A rehearsal on a host ends with its client, also where no hang-up is seen."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.fakes.hosts import FakeHosts
from testkit.waiting import stretched
from upgrader.model.cluster import Host
from upgrader.onhost.rehearsal import rehearse
from upgrader.onhost.rehearsal.abandoned import Lease, end_when_abandoned
from upgrader.ports import CommandResult
from upgrader.steps.rehearsal.renewed_lease import renewed_lease

HOST = Host("controller-1", "10.0.0.11")


def renewed(path: Path, number: int) -> None:
    """As `touch` does, at another time of a clock that may be wrong."""
    path.touch()
    os.utime(path, (number, number))


def test_a_lease_expires_if_it_is_not_renewed(tmp_path: Path) -> None:
    """By the host's monotonic clock alone; a client that has never renewed it isn't known to be able to."""
    file = tmp_path / "lease"
    lease = Lease(str(file))
    assert not lease.expired(1000.0)
    renewed(file, 500)
    assert not lease.expired(2000.0) and not lease.expired(2120.0) and lease.expired(2121.0)
    renewed(file, 400)
    assert not lease.expired(3000.0) and lease.expired(3121.0)
    renewed(file, 401)
    assert not lease.expired(4000.0)
    file.unlink()
    assert lease.expired(4001.0), "another use has the folder"


class Ended(Exception):
    """Instead of the end of this process."""


@pytest.mark.parametrize("hangs_up", [True, False])
def test_the_program_ends_without_a_reader_and_without_a_lease(
    hangs_up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sudo with a pipe of its own keeps the reader's end open when the connection is lost."""
    asked, written = list[int](), list[bytes]()
    now = iter([0.0, 60.0, 130.0])

    def poll(_: int) -> list[tuple[int, int]]:
        asked.append(1)
        return [(1, select.POLLERR)] if hangs_up and len(asked) == 2 else []

    def end(code: int) -> None:
        raise Ended(code)

    (tmp_path / "lease").touch()
    polling = SimpleNamespace(register=lambda *_: None, poll=poll)
    monkeypatch.setattr("upgrader.onhost.rehearsal.abandoned.select.poll", lambda: polling)
    monkeypatch.setattr("upgrader.onhost.rehearsal.abandoned.time", SimpleNamespace(monotonic=lambda: next(now)))
    monkeypatch.setattr("upgrader.onhost.rehearsal.abandoned.os.write", lambda _, text: written.append(text))
    monkeypatch.setattr("upgrader.onhost.rehearsal.abandoned.os._exit", end)
    with pytest.raises(Ended):
        end_when_abandoned(str(tmp_path))
    assert len(asked) == (2 if hangs_up else 3)
    assert [b"did not renew its lease for 120 s" in each for each in written] == ([] if hangs_up else [True])


def test_the_lease_is_renewed_while_the_program_runs() -> None:
    """At once, in the folder of this use; what the renewal fails with is the command's own error."""
    hosts, touched = FakeHosts(), threading.Event()

    def touch(_: Host, command: Sequence[str], __: bytes) -> CommandResult:
        assert command == ["touch", "--", "/var/lib/etcd/upgrader/u1/lease"]
        touched.set()
        return CommandResult(1, "", "no such folder")

    hosts.commands["touch"] = touch
    with renewed_lease(hosts, HOST, "/var/lib/etcd/upgrader/u1"):
        assert touched.wait(stretched(30))
    assert not any(each.name == "rehearsal-lease" for each in threading.enumerate())


def test_an_unexpected_error_quotes_no_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its text may have any of it: where it happened is said."""

    def fail(_: Any) -> None:
        raise KeyError("hunter2")

    monkeypatch.setattr(rehearse, "end_when_abandoned", lambda _: None)
    monkeypatch.setattr(rehearse, "_rehearse", fail)
    rehearse.main('{"work": "/w"}')
    said = capsys.readouterr().out
    assert "an unexpected KeyError at line" in said and "test_abandoned.py" in said and "hunter2" not in said
