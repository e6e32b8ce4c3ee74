"""A member of etcd that is told to end while a client watches it, on a real etcd and the kernel's own tables."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import IO
from urllib.parse import urlsplit

import pytest

from testkit.etcd_members import FILES, NAMES, Etcd, new_members
from testkit.lab_cluster import until
from upgrader.lab.binaries import Binaries
from upgrader.lab.progress_port import Silent
from upgrader.onhost.etcd import streams
from upgrader.onhost.etcd.streams import Streams

NAME = NAMES[0]
SLOW = ("--election-timeout=15000", "--heartbeat-interval=1000")
"""etcd waits for its clients for 5 s and two election timeouts: 35 s."""


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    """One member that takes its time to end."""
    made = new_members(tmp_path, Binaries(Silent()).etcd())
    try:
        made.start(NAME, flags=SLOW)
        yield made
    finally:
        made.stop()


def test_a_watch_does_not_hold_up_its_end(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it serves, its clients stay. Once it has stopped to listen they are closed, and it ends in order."""
    monkeypatch.setattr(streams, "time", SimpleNamespace(monotonic=itertools.count(1).__next__))
    port = urlsplit(etcd.urls[NAME]).port
    assert port is not None
    clients = Streams(port)
    files = [f"--{flag}={etcd.folder / file}" for flag, file in FILES.items()]
    command = [str(etcd.programs / "etcdctl"), f"--endpoints={etcd.urls[NAME]}", *files, "watch", "key", "--rev=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        try:
            assert watch.stdout is not None
            for value in ("first", "second"):
                etcd.ctl(NAME, "put", "key", value)
                assert _next(watch.stdout) == ["PUT", "key", value]
                for _ in range(3):
                    clients.end_abandoned()

            member = etcd.members[NAME]
            member.terminate()

            def ended() -> bool:
                clients.end_abandoned()
                return member.poll() is not None

            until("etcd to end", ended, timeout_seconds=120, interval_seconds=0.1)
            assert "closed etcd server" in (etcd.folder / f"{NAME}.log").read_text()
        finally:
            watch.kill()


def _next(lines: IO[str]) -> list[str]:
    return [lines.readline().strip() for _ in range(3)]
