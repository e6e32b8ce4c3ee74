"""An SSH server in this process, which answers commands with their input, and forwards connections like a bastion."""

from __future__ import annotations

import contextlib
import shlex
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_FAILED_CONNECT_FAILED, OPEN_SUCCEEDED

from testkit.waiting import stretched
from upgrader.model.cluster import Host

__all__ = ["SshServer"]


@dataclass
class SshServer:
    """One server on a port of this machine; `key` is the only one that may log in."""

    name: str
    folder: Path
    key: paramiko.ECDSAKey
    lines: list[str] = field(default_factory=list)
    """The commands that it was given."""
    greeting: bytes = b""
    """What its login shell prints before each command."""
    runs_commands: bool = True
    """Whether it does what a command begins with: that is `echo` of a mark."""
    reads_input: bool = True
    """Whether its commands take all of their input."""
    forwarded: list[tuple[str, int]] = field(default_factory=list)
    """Where it was asked to connect to."""

    def __post_init__(self) -> None:
        self.host_key = paramiko.ECDSAKey.generate()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._transports: list[paramiko.Transport] = []
        self.key_file = self.folder / "key"
        if not self.key_file.exists():
            self.key.write_private_key_file(str(self.key_file))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def host(self, **changes: object) -> Host:
        """How to reach it, with its host key known."""
        known_hosts = self.folder / f"known_hosts-{self.name}"
        known_hosts.write_text(f"[127.0.0.1]:{self.port} {self.host_key.get_name()} {self.host_key.get_base64()}\n")
        port = changes.pop("port", self.port)
        given = {"key_file": self.key_file, "known_hosts": known_hosts, "identities_only": True, **changes}
        return Host(self.name, "127.0.0.1", "me", port, **given)  # type: ignore[arg-type]

    def close(self) -> None:
        """End all connections."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for transport in self._transports:
            transport.close()
        for thread in self._threads:
            thread.join(stretched(1))

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._socket.accept()
            except OSError:
                return
            transport = paramiko.Transport(connected)
            self._transports.append(transport)
            transport.add_server_key(self.host_key)
            transport.start_server(event=threading.Event(), server=_Session(self))

    def pump(self, channel: paramiko.Channel, there: socket.socket) -> None:
        """Pass on what comes from either side."""
        for source, to in ((channel, there), (there, channel)):
            thread = threading.Thread(target=_copy, args=(source, to), daemon=True)
            self._threads.append(thread)
            thread.start()


class _Session(paramiko.ServerInterface):
    def __init__(self, server: SshServer) -> None:
        self._server = server
        self._there: dict[int, socket.socket] = {}

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return AUTH_SUCCESSFUL if key == self._server.key else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        self._server.forwarded.append(destination)
        try:
            there = socket.create_connection(destination, 10)
        except OSError:
            return OPEN_FAILED_CONNECT_FAILED
        threading.Thread(target=self._forward, args=(chanid, there), daemon=True).start()
        return OPEN_SUCCEEDED

    def _forward(self, chanid: int, there: socket.socket) -> None:
        for transport in self._server._transports:
            channel = transport.accept(10)
            if channel is not None and channel.get_id() == chanid:
                self._server.pump(channel, there)
                return

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self._server.lines.append(command.decode())

        def answer() -> None:
            # The first of it shows that the client knows that the command has begun.
            data = channel.recv(65536)
            data = b"".join((data, *iter(lambda: channel.recv(65536), b""))) if self._server.reads_input else b""
            words = shlex.split(command.decode())
            mark = words[1].rstrip(";").encode() + b"\n" if words[0] == "echo" and self._server.runs_commands else b""
            with contextlib.suppress(OSError):  # the client may have left
                channel.sendall(self._server.greeting + mark + f"{self._server.name}:".encode() + data)
                channel.send_exit_status(0)
                channel.close()

        threading.Thread(target=answer, daemon=True).start()
        return True


def _copy(source: paramiko.Channel | socket.socket, to: paramiko.Channel | socket.socket) -> None:
    # Paramiko sends a message to close a channel, and raises EOFError where the connection has ended already.
    with contextlib.suppress(OSError, EOFError):
        while data := source.recv(65536):
            to.sendall(data)
    for end in (source, to):
        with contextlib.suppress(OSError, EOFError):
            end.close()
