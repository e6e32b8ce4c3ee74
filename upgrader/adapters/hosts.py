"""SSH to the cluster's machines with paramiko: strict host keys, one connection a host, a deadline for everything."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Self

from upgrader.adapters.beside import GIVE_UP_SECONDS, beside
from upgrader.adapters.sshconnect import NO_CHANNEL, Connection, connect
from upgrader.adapters.sshroute import login_command
from upgrader.errors import HostError, UpgraderError
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult

if TYPE_CHECKING:
    import paramiko

__all__ = ["SshHosts"]

_FILE_SECONDS = 30.0
_OPEN_SECONDS = 20.0
"""How long a kept connection may take for a session: one whose way is gone says nothing, for a quarter of an hour."""
_CHUNK_BYTES = 32768
_NO_SUCH_FILE = 44
"""Exit status of the read snippet: `cat` itself ends with 1 for every error."""

_READ = f'[ -e "$1" ] || exit {_NO_SUCH_FILE}; exec cat -- "$1"'

# The size is checked because `cat` takes a broken connection for the end of the file. The temporary name starts
# with a dot: the kubelet, which reads such folders, ignores those.
_WRITE = """set -eu
folder=$(dirname -- "$1")
temporary=$(mktemp -- "$folder/.$(basename -- "$1").XXXXXX")
trap 'rm -f -- "$temporary"' EXIT
cat > "$temporary"
[ "$(stat -c %s -- "$temporary")" = "$3" ] || { echo "only a part of the content arrived" >&2; exit 1; }
chmod -- "$2" "$temporary"
sync -- "$temporary"
mv -fT -- "$temporary" "$1"
sync -- "$folder"
"""


_INPUT_BEGINS = "upgrader-input-begins"
_SKIP_PASSWORD = f"""IFS= read -r line
[ "$line" = {_INPUT_BEGINS} ] || IFS= read -r line
unset line
exec "$@"
"""
# sudo doesn't read the password if it needs none (now): the command must never get it as its input.

_OUTPUT_BEGINS = b"upgrader-output-begins\n"
"""Text before it comes from the login shell's startup files (bash reads `.bashrc` for SSH commands, too): not
output.
"""
_MOST_GREETING_BYTES = 1 << 20

_CHECK = "Check that the machine is up."


class SshHosts:
    """`ports.Hosts` over SSH. Close it when done, or use it as a context manager."""

    def __init__(self) -> None:
        self._connections: dict[Host, Connection] = {}
        self._silent: list[Connection] = []
        """Those that were replaced; other commands may still wait for an answer over them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        while self._connections:
            self._connections.popitem()[1].close()
        while self._silent:
            self._silent.pop().close()

    def run(
        self,
        host: Host,
        command: Sequence[str],
        *,
        stdin: bytes | Iterable[bytes] = b"",
        timeout_seconds: float = 30.0,
        check: bool = True,
    ) -> CommandResult:
        status, stdout, stderr = self._run(host, command, stdin, timeout_seconds, shlex.join(command))
        result = CommandResult(status, stdout.decode(errors="replace"), stderr.decode(errors="replace"))
        if check:
            _check(host, status, result.stderr or result.stdout, shlex.join(command))
        return result

    def stream(self, host: Host, command: Sequence[str], *, timeout_seconds: float) -> Iterator[bytes]:
        what = shlex.join(command)
        deadline = time.monotonic() + timeout_seconds
        line, before = _as_root(host, command, b"")
        with self._translated(host, what, timeout_seconds):
            channel = self._channel(host, timeout_seconds)
        with channel, ThreadPoolExecutor(1) as pool:
            try:
                with self._translated(host, what, timeout_seconds):
                    channel.settimeout(_left(deadline))
                    channel.exec_command(_marked(line))
                    stderr = pool.submit(_receive, channel, True, deadline)
                    _send(channel, before, deadline)
                greeting, begun = b"", False
                while True:
                    with self._translated(host, what, timeout_seconds):
                        channel.settimeout(_left(deadline))
                        chunk = channel.recv(_CHUNK_BYTES)
                    if not chunk:
                        break
                    if not begun:
                        before_it, mark, chunk = (greeting + chunk).partition(_OUTPUT_BEGINS)
                        greeting, begun = before_it, bool(mark)
                        if not begun and len(greeting) > _MOST_GREETING_BYTES:
                            break
                    if chunk:
                        yield chunk
                with self._translated(host, what, timeout_seconds):
                    status, errors = _exit_status(channel, deadline), stderr.result()
            except BaseException:
                # Wakes the thread, also where the caller has enough before the end.
                channel.close()
                raise
        _check(host, status, errors.decode(errors="replace"), what)
        if not begun:
            raise _not_run(host, greeting)

    def read(self, host: Host, path: str) -> bytes | None:
        what = f"read {path}"
        status, stdout, stderr = self._run(host, ["sh", "-c", _READ, "sh", path], b"", _FILE_SECONDS, what)
        if status == _NO_SUCH_FILE:
            return None
        _check(host, status, stderr.decode(errors="replace"), what)
        return stdout

    def write(self, host: Host, path: str, content: bytes, *, mode: int = 0o600) -> None:
        what = f"write {path}"
        command = ["sh", "-c", _WRITE, "sh", path, f"{mode:o}", str(len(content))]
        status, _, stderr = self._run(host, command, content, _FILE_SECONDS, what)
        _check(host, status, stderr.decode(errors="replace"), what)

    def _run(
        self, host: Host, command: Sequence[str], stdin: bytes | Iterable[bytes], timeout_seconds: float, what: str
    ) -> tuple[int, bytes, bytes]:
        """Exit status, stdout, stderr. Raises HostUnreachable, or HostError when the connection breaks."""
        deadline = time.monotonic() + timeout_seconds
        line, chunks = _as_root(host, command, stdin)
        with self._translated(host, what, timeout_seconds):
            channel = self._channel(host, timeout_seconds)
            with channel:
                status, stdout, stderr = _talk(channel, line, chunks, deadline)
        before, mark, output = stdout.partition(_OUTPUT_BEGINS)
        if not mark and status == 0:
            raise _not_run(host, before)
        return status, output if mark else before, stderr

    @contextmanager
    def _translated(self, host: Host, what: str, timeout_seconds: float) -> Iterator[None]:
        """The library's errors as ours. Raises HostError."""
        import paramiko

        try:
            yield
        except TimeoutError as error:
            self._forget(host)
            raise HostError(
                f"{host.name}: '{_short(what)}' timed out after {timeout_seconds:.0f} s; it may still be running",
                remedy=f"Log in and check: {login_command(host)}",
            ) from error
        except paramiko.ChannelException as error:
            # The connection lives, and other commands use it.
            raise HostError(
                f"{host.name}: the SSH server refused another session, for '{_short(what)}': {error}",
                remedy="Allow more concurrent sessions on that host (MaxSessions in sshd_config).",
            ) from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            self._forget(host)
            raise HostError(
                f"{host.name}: the connection broke during '{_short(what)}': {error or type(error).__name__}",
                remedy=f"The command may or may not have been executed. {_CHECK}",
            ) from error

    def _channel(self, host: Host, timeout_seconds: float) -> paramiko.Channel:
        """A channel for one command. If a kept connection has ended, or has gone silent, nothing was executed over it:
        it is replaced, once.
        """
        import paramiko

        kept, transport = host in self._connections, self._transport(host)
        try:
            return transport.open_session(timeout=min(timeout_seconds, _OPEN_SECONDS) if kept else timeout_seconds)
        except (paramiko.SSHException, EOFError, OSError) as error:
            if transport.is_active():
                if not kept or str(error) != NO_CHANNEL:  # it lives, and refuses or delays one more session
                    raise
                self._set_aside(host, transport)
        return self._transport(host).open_session(timeout=timeout_seconds)

    def _set_aside(self, host: Host, transport: paramiko.Transport) -> None:
        """Keep it for the commands that use it, and no new one; another thread may have replaced it already."""
        connection = self._connections.get(host)
        if connection is not None and connection.transport is transport:
            self._silent.append(connection)
            del self._connections[host]

    def _transport(self, host: Host) -> paramiko.Transport:
        connection = self._connections.get(host)
        transport = connection.transport if connection else None
        if transport is None:
            self._forget(host)
            connection = self._connections[host] = connect(host)
            transport = connection.transport
        if transport is None:
            raise HostError(f"{host.name}: the connection was closed immediately", remedy=_CHECK)
        return transport

    def _forget(self, host: Host) -> None:
        connection = self._connections.pop(host, None)
        if connection is not None:
            connection.close()


def _as_root(host: Host, command: Sequence[str], stdin: bytes | Iterable[bytes]) -> tuple[str, Iterable[bytes]]:
    """The line for the remote shell, and its input: with sudo's password before it, if there is one."""
    chunks = _sliced(stdin) if isinstance(stdin, bytes) else stdin
    if not host.become:
        return shlex.join(command), chunks
    if not host.become_password:
        return shlex.join(["sudo", "-n", "--", *command]), chunks
    line = shlex.join(["sudo", "-S", "-p", "", "--", "sh", "-c", _SKIP_PASSWORD, "sh", *command])
    return line, chain([f"{host.become_password}\n{_INPUT_BEGINS}\n".encode()], chunks)


def _marked(line: str) -> str:
    """In a syntax that every login shell understands, fish and csh too."""
    return f"echo {_OUTPUT_BEGINS.decode().strip()}; exec {line}"


def _not_run(host: Host, printed: bytes) -> HostError:
    """The answer, which succeeded, is not a shell's, but that of a forced command or a menu."""
    text = printed.decode(errors="replace").strip()
    return HostError(
        f"{host.name}: the login of {host.user} did not run the command; it printed: {_short(text) or 'nothing'}",
        remedy=f"Give this user a login shell, without `command=` or ForceCommand. Test it: {login_command(host)} true",
    )


def _sliced(content: bytes) -> Iterator[bytes]:
    return (content[start : start + _CHUNK_BYTES] for start in range(0, len(content), _CHUNK_BYTES))


def _talk(channel: paramiko.Channel, line: str, stdin: Iterable[bytes], deadline: float) -> tuple[int, bytes, bytes]:
    """Start a command and serve all three streams concurrently: a full one would block the others."""
    channel.settimeout(_left(deadline))
    channel.exec_command(_marked(line))
    sending = beside(lambda: _send(channel, stdin, deadline))
    stderr = beside(lambda: _receive(channel, True, deadline))
    try:
        stdout, errors = _receive(channel, False, deadline), stderr.result()
        _await_input(channel, sending, deadline)
    except BaseException:
        # Wakes both threads, unless the input itself is waited for, as from a host that hangs.
        channel.close()
        wait((sending,), GIVE_UP_SECONDS)
        raise
    return _exit_status(channel, deadline), stdout, errors


def _await_input(channel: paramiko.Channel, sending: Future[None], deadline: float) -> None:
    """Wait until all is sent; for an input that hangs only if a command may still take it. Raises what it raised."""
    channel.status_event.wait(_left(deadline))
    ended = channel.exit_status >= 0
    wait((sending,), GIVE_UP_SECONDS if ended else _left(deadline))
    if sending.done():
        sending.result()
    elif not ended:
        raise TimeoutError


def _exit_status(channel: paramiko.Channel, deadline: float) -> int:
    if not channel.status_event.wait(_left(deadline)):
        raise TimeoutError
    status = channel.recv_exit_status()
    if status < 0:
        raise EOFError("no exit status was received")
    return status


def _send(channel: paramiko.Channel, stdin: Iterable[bytes], deadline: float) -> None:
    try:
        for chunk in stdin:
            channel.settimeout(_left(deadline))
            channel.sendall(chunk)
        channel.shutdown_write()
    except UpgraderError:
        # The input itself failed. The command must not take its part for the whole, nor be waited for.
        channel.close()
        raise
    except TimeoutError:
        raise
    except OSError:
        # The command ended without reading all of it: its exit status shows whether that was an error.
        return


def _receive(channel: paramiko.Channel, stderr: bool, deadline: float) -> bytes:
    chunks: list[bytes] = []
    while True:
        channel.settimeout(_left(deadline))
        chunk = channel.recv_stderr(_CHUNK_BYTES) if stderr else channel.recv(_CHUNK_BYTES)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _check(host: Host, status: int, output: str, what: str) -> None:
    if status == 0:
        return
    remedy = ""
    if host.become and "sudo:" in output:
        remedy = f"Allow {host.user} to use sudo on {host.name}, without a password or with ansible_become_password."
    raise HostError(f"{host.name}: '{_short(what)}' failed with exit code {status}: {output.strip()}", remedy=remedy)


def _short(what: str) -> str:
    first = what.splitlines()[0] if what else ""
    return first if len(first) <= 100 else first[:100] + "…"
