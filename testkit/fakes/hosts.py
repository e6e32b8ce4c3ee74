"""Machines in memory: files by path, and commands that a test scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from upgrader.errors import HostError, HostSilent, HostUnreachable
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult

__all__ = ["FakeHosts"]

Answer = CommandResult | Callable[[Host, Sequence[str], bytes], CommandResult]


class FakeHosts:
    """`ports.Hosts` in memory. A command that no test scripted exits with 127, as on a machine that lacks it."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], bytes] = {}
        """(Host name, path) → content."""
        self.modes: dict[tuple[str, str], int] = {}
        self.commands: dict[str, Answer] = {}
        """The command's first word → its exit code and output."""
        self.down: set[str] = set()
        """Names of the hosts where nothing answers."""
        self.refusing: set[str] = set()
        """Names of the hosts that answer, and to which no login is possible."""
        self.ran: list[tuple[str, tuple[str, ...]]] = []

    def run(
        self,
        host: Host,
        command: Sequence[str],
        *,
        stdin: bytes | Iterable[bytes] = b"",
        timeout_seconds: float = 30.0,
        check: bool = True,
    ) -> CommandResult:
        self._check(host)
        stdin = stdin if isinstance(stdin, bytes) else b"".join(stdin)
        self.ran.append((host.name, tuple(command)))
        answer = self.commands.get(command[0], CommandResult(127, "", f"{command[0]}: command not found"))
        result = answer if isinstance(answer, CommandResult) else answer(host, command, stdin)
        if check and result.exit_status:
            raise HostError(
                f"{host.name}: '{' '.join(command)}' failed with exit code {result.exit_status}: {result.stderr}"
            )
        return result

    def stream(self, host: Host, command: Sequence[str], *, timeout_seconds: float) -> Iterator[bytes]:
        result = self.run(host, command, check=False)
        text = result.stdout.encode()
        yield from (text[start : start + 4096] for start in range(0, len(text), 4096))
        if result.exit_status:
            raise HostError(
                f"{host.name}: '{' '.join(command)}' failed with exit code {result.exit_status}: {result.stderr}"
            )

    def read(self, host: Host, path: str) -> bytes | None:
        self._check(host)
        return self.files.get((host.name, path))

    def write(self, host: Host, path: str, content: bytes, *, mode: int = 0o600) -> None:
        self._check(host)
        self.files[host.name, path] = content
        self.modes[host.name, path] = mode

    def _check(self, host: Host) -> None:
        if host.name in self.down:
            raise HostSilent(f"{host.name} ({host.user}@{host.address}:{host.port}): no answer")
        if host.name in self.refusing:
            raise HostUnreachable(f"{host.name} ({host.user}@{host.address}:{host.port}): login refused")
