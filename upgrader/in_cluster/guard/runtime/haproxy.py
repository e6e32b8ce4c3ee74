"""HAProxy's runtime API: its servers, and their state, by its socket."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from upgrader.in_cluster.guard.guard_errors import LoadBalancerAway

__all__ = ["HAProxy", "HAProxyServer"]

_SHOW_STATES, _SHOW_STATISTICS = "show servers state", "show stat -1 4 -1"
_VERSION = "1"
"""Of the format of `show servers state`."""
_MAINTENANCE, _DRAINED = 0x01 | 0x02 | 0x04 | 0x20 | 0x40, 0x08 | 0x10
"""Bits of srv_admin_state: set, inherited, from the configuration or by a name that resolves to nothing."""
_GOOD = ("L4OK", "L6OK", "L7OK", "L7OKC", "PROCOK")


@dataclass(frozen=True)
class HAProxyServer:
    """A server of a backend."""

    backend: str
    name: str
    drained: bool
    maintenance: bool
    sessions: int
    """Those that it has now."""
    status: str
    """`UP`, `DOWN 1/2`, `no check`, …"""
    check: str
    """The result of the last check, such as `L7OK`; "": there was none."""

    @property
    def serves(self) -> bool:
        """Whether it gets new sessions, as far as HAProxy knows."""
        up = self.status == "no check" or self.status.startswith("UP")
        return up and not (self.drained or self.maintenance)

    @property
    def good(self) -> bool:
        """Up by its last check, or without any. Until the first one, HAProxy takes each for up: that isn't enough."""
        return self.status == "no check" or (self.status.startswith("UP") and self.check in _GOOD)


class HAProxy:
    """One HAProxy. Every method raises LoadBalancerAway."""

    def __init__(self, socket: str, timeout_seconds: float = 5.0) -> None:
        """`socket`: the path of a `stats socket` with `level admin`."""
        self.socket, self._timeout_seconds = socket, timeout_seconds

    async def servers(self) -> list[HAProxyServer]:
        """All of them."""
        states = {(row["be_name"], row["srv_name"]): row for row in self._states(await self._ask(_SHOW_STATES))}
        found = []
        for row in self._rows(await self._ask(_SHOW_STATISTICS)):
            state = states.get((row["pxname"], row["svname"]))
            if state is not None:  # what isn't in both has just come, or gone
                found.append(self._server(row, state))
        return found

    async def set_state(self, server: HAProxyServer, state: Literal["drain", "ready"]) -> None:
        """Give it no new sessions, or give it sessions again, if its checks are good."""
        which = f"{server.backend}/{server.name}"
        answer = (await self._ask(f"set server {which} state {state}")).strip()
        if answer:
            raise LoadBalancerAway(f"{self.socket}: 'set server {which} state {state}': {answer[:200]}")

    def _server(self, row: dict[str, str], state: dict[str, str]) -> HAProxyServer:
        try:
            bits = int(state["srv_admin_state"])
            return HAProxyServer(
                row["pxname"],
                row["svname"],
                bool(bits & _DRAINED),
                bool(bits & _MAINTENANCE),
                int(row["scur"]),
                row["status"].strip(),
                row["check_status"].removeprefix("* "),
            )
        except (KeyError, ValueError) as error:
            raise self._unreadable() from error

    def _states(self, text: str) -> Iterator[dict[str, str]]:
        version, _, lines = text.partition("\n")
        if version.strip() != _VERSION:
            raise self._unreadable(version)
        names, *rows = [line.removeprefix("#").split() for line in lines.splitlines() if line.strip()] or [[]]
        for row in rows:
            if not {"be_name", "srv_name", "srv_admin_state"} <= set(names) or len(row) < len(names):
                raise self._unreadable()
            yield dict(zip(names, row, strict=False))

    def _rows(self, text: str) -> Iterator[dict[str, str]]:
        lines = text.removeprefix("# ").strip().splitlines()
        for row in csv.DictReader(lines):
            if not {"pxname", "svname", "scur", "status", "check_status"} <= row.keys():
                raise self._unreadable()
            yield {key: value or "" for key, value in row.items() if isinstance(key, str)}

    def _unreadable(self, text: str = "") -> LoadBalancerAway:
        return LoadBalancerAway(f"{self.socket}: its answer can't be read{f': {text[:100]!r}' if text else ''}")

    async def _ask(self, command: str) -> str:
        """One command for each connection, which HAProxy closes behind its answer."""
        writer = None
        try:
            async with asyncio.timeout(self._timeout_seconds):
                reader, writer = await asyncio.open_unix_connection(self.socket)
                writer.write(f"{command}\n".encode())
                await writer.drain()
                return (await reader.read(-1)).decode(errors="replace")
        except TimeoutError as error:
            raise LoadBalancerAway(f"{self.socket}: no answer in time to '{command}'") from error
        except OSError as error:
            raise LoadBalancerAway(f"{self.socket}: {error.strerror or error}") from error
        finally:
            if writer is not None:
                writer.close()
