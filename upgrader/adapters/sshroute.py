"""The way to a machine: directly, through bastions, or through a program (ProxyCommand)."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shlex
import signal
import socket
import subprocess

from upgrader.errors import HostUnreachable
from upgrader.model.cluster import Host

__all__ = ["ProxyProcess", "expand_tokens", "login_command"]

_END_SECONDS = 2.0


def expand_tokens(command: str, host: Host) -> str:
    """A ProxyCommand with OpenSSH's tokens replaced, quoted for the shell. Raises HostUnreachable for others."""
    tokens = {
        "%": "%",
        "h": host.address,
        "p": str(host.port),
        "r": host.user,
        "u": getpass.getuser(),
        "d": os.path.expanduser("~"),
        "L": socket.gethostname().partition(".")[0],
        "l": socket.gethostname(),
    }

    def replaced(match: re.Match[str]) -> str:
        if match[1] not in tokens:
            raise HostUnreachable(
                f"{host.name}: ProxyCommand's token %{match[1]} is not supported",
                remedy=f"Write the ProxyCommand with %h, %p and %r: {command}",
            )
        return shlex.quote(tokens[match[1]])

    return re.sub(r"%(.)", replaced, command)


class ProxyProcess:
    """A running ProxyCommand; `socket` is our end of it."""

    def __init__(self, host: Host) -> None:
        """Start it. Raises OSError, or HostUnreachable for a command that can't be used."""
        command = expand_tokens(host.proxy_command, host)
        self.socket, theirs = socket.socketpair()
        with theirs:
            # A session of its own: Ctrl-C in the terminal is upgrader's, and must not cut the connection.
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def close(self) -> None:
        """End it, with its children."""
        self.socket.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)


def login_command(host: Host) -> str:
    """The command with which an operator logs in to a host, as remedies show it."""
    words = ["ssh", *(["-p", str(host.port)] if host.port != 22 else [])]
    if host.jumps:
        words += ["-J", ",".join(map(_jump, host.jumps))]
    return shlex.join([*words, f"{host.user}@{host.address}"])


def _jump(host: Host) -> str:
    """As `ssh -J` takes it."""
    address = f"[{host.address}]" if ":" in host.address else host.address
    return f"{host.user}@{address}:{host.port}"
