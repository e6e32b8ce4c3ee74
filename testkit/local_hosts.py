"""Hosts that all are this machine: commands are run here, without SSH."""

from __future__ import annotations

import shlex
import subprocess
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testkit.waiting import stretched
from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult

__all__ = ["LocalHosts"]


@dataclass(frozen=True)
class LocalHosts:
    """`ports.Hosts`, as the user who runs it. A command has the pipes that an SSH server would give it: when this
    process is killed, its input ends, and its output has no reader.
    """

    environment: Mapping[str, str]
    inside: Sequence[str] = ()
    """The command before a program that is sent, such as one that makes this machine look like another."""

    def run(
        self,
        host: Host,
        command: Sequence[str],
        *,
        stdin: bytes | Iterable[bytes] = b"",
        timeout_seconds: float = 30.0,
        check: bool = True,
    ) -> CommandResult:
        failures: list[BaseException] = []
        with self._started(host, command) as process:
            chunks = (stdin,) if isinstance(stdin, bytes) else stdin
            sender = threading.Thread(target=_send, args=(process, chunks, failures))
            errors: list[bytes] = []
            reader = threading.Thread(target=_receive, args=(process, errors))
            sender.start()
            reader.start()
            assert process.stdout is not None
            output = process.stdout.read()
            process.wait(timeout=stretched(timeout_seconds))
            sender.join()
            reader.join()
        if failures:
            raise failures[0]
        result = CommandResult(process.returncode, output.decode(), b"".join(errors).decode())
        if check and result.exit_status:
            raise _failed(host, command, result)
        return result

    def stream(self, host: Host, command: Sequence[str], *, timeout_seconds: float) -> Iterator[bytes]:
        errors: list[bytes] = []
        with self._started(host, command) as process:
            assert process.stdout is not None and process.stdin is not None
            process.stdin.close()
            reader = threading.Thread(target=_receive, args=(process, errors))
            reader.start()
            while chunk := process.stdout.read1(1 << 16):  # type: ignore[attr-defined]  # it is buffered
                yield chunk
            process.wait(timeout=stretched(timeout_seconds))
            reader.join()
        if process.returncode:
            raise _failed(host, command, CommandResult(process.returncode, "", b"".join(errors).decode()))

    def read(self, host: Host, path: str) -> bytes | None:
        file = Path(path)
        return file.read_bytes() if file.exists() else None

    def write(self, host: Host, path: str, content: bytes, *, mode: int = 0o600) -> None:
        Path(path).write_bytes(content)
        Path(path).chmod(mode)

    def _started(self, host: Host, command: Sequence[str]) -> subprocess.Popen[bytes]:
        words = [*self.inside, *command] if command[0] == host.python else list(command)
        pipe = subprocess.PIPE
        return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(self.environment))


def _send(process: subprocess.Popen[bytes], chunks: Iterable[bytes], failures: list[BaseException]) -> None:
    assert process.stdin is not None
    try:
        with process.stdin as stdin:
            for chunk in chunks:
                stdin.write(chunk)
    except BrokenPipeError:
        if isinstance(chunks, Generator):
            chunks.close()  # it ended without reading all of it: nor does what makes them go on
    except HostError as error:
        failures.append(error)
        process.kill()


def _receive(process: subprocess.Popen[bytes], errors: list[bytes]) -> None:
    assert process.stderr is not None
    errors.append(process.stderr.read())


def _failed(host: Host, command: Sequence[str], result: CommandResult) -> HostError:
    return HostError(f"{host.name}: '{shlex.join(command)}' failed with {result.exit_status}: {result.stderr}")
