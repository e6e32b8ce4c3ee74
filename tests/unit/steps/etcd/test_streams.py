"""Which connections count as abandoned by their etcd, by the kernel's own tables."""

from __future__ import annotations

import socket
import sys
from itertools import count
from pathlib import Path

import pytest

from upgrader.onhost.etcd import streams
from upgrader.onhost.etcd.streams import Streams

pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="the tables have words in the machine's order")

LISTENS, ESTABLISHED = "0A", "01"
LOOPBACK, ANY, ANY6 = "0100007F", "0" * 8, "0" * 32
MAPPED = "0000000000000000FFFF00000100007F"
LOOPBACK6 = "00000000000000000000000001000000"
ETCD, OTHER, CLIENT = "094B", "094C", "C350"


def line(address: str, state: str, port: str = ETCD) -> str:
    """One of `/proc/net/tcp`."""
    peer = f"{address}:{CLIENT}" if state == ESTABLISHED else f"{'0' * len(address)}:0000"
    return f"   0: {address}:{port} {peer} {state} 00000000:00000000 00:00000000 00000000 0 0 1 1 0 20 4 0 10 -1"


@pytest.mark.parametrize(
    ("listeners", "connection", "closed"),
    [
        ([], (LOOPBACK, ESTABLISHED), True),
        ([(LOOPBACK, LISTENS)], (LOOPBACK, ESTABLISHED), False),
        ([(ANY, LISTENS)], (LOOPBACK, ESTABLISHED), False),
        ([(ANY6, LISTENS)], (MAPPED, ESTABLISHED), False),
        ([(ANY6, LISTENS)], (LOOPBACK6, ESTABLISHED), False),
        ([(LOOPBACK6, LISTENS)], (LOOPBACK6, ESTABLISHED), False),
        ([], (MAPPED, ESTABLISHED), True),
        ([], (LOOPBACK6, ESTABLISHED), True),
        ([(LOOPBACK, LISTENS, OTHER)], (LOOPBACK, ESTABLISHED), True),
        ([], (LOOPBACK, ESTABLISHED, OTHER), False),
    ],
    ids=[
        "ended",
        "serves",
        "serves all",
        "serves all, IPv4 on IPv6",
        "serves all of IPv6",
        "serves IPv6",
        "ended, IPv4 on IPv6",
        "ended, IPv6",
        "another program listens",
        "another program's",
    ],
)
@pytest.mark.parametrize("ipv6", [True, False])
def test_only_what_nobody_serves_is_closed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listeners: list[tuple[str, ...]],
    connection: tuple[str, ...],
    closed: bool,
    ipv6: bool,
) -> None:
    """A listener on all addresses serves each, one of IPv6 also IPv4; a kernel without IPv6 has no table of it."""
    rows = [*listeners, connection]
    tables = []
    for family, length in ((socket.AF_INET, 8), (socket.AF_INET6, 32)):
        path = tmp_path / str(int(family))
        own = [line(*row) for row in rows if len(row[0]) == length]
        if own or family == socket.AF_INET or ipv6:
            path.write_text("\n".join(["  sl  local_address rem_address   st", *own]) + "\n")
        tables.append((family, str(path)))
    ended: list[object] = []
    now = count(1.0)
    monkeypatch.setattr(streams, "_TABLES", tuple(tables))
    monkeypatch.setattr(streams, "_close", ended.append)
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    watched = Streams(2379)
    watched.end_abandoned()
    assert ended == [], "requests that it has already get a second"
    watched.end_abandoned()
    watched.end_abandoned()
    assert bool(ended) is closed


def test_kernel_that_closes_no_connection_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CONFIG_INET_DIAG_DESTROY etcd takes its time; nothing fails, and each call tries all of them again."""
    table = tmp_path / "tcp"
    table.write_text("\n".join(["  sl", line(LOOPBACK, ESTABLISHED), line(LOOPBACK, ESTABLISHED)]) + "\n")
    tried: list[object] = []

    def refuse(each: object) -> None:
        tried.append(each)
        raise OSError(95, "Operation not supported")

    now = count(1.0)
    monkeypatch.setattr(streams, "_TABLES", ((socket.AF_INET, str(table)),))
    monkeypatch.setattr(streams, "_close", refuse)
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    watched = Streams(2379)
    for _ in range(3):
        watched.end_abandoned()
    assert len(tried) == 4
