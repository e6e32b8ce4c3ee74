"""Asks machines for their SSH host keys, as `ssh-keyscan` does."""

from __future__ import annotations

import socket

from upgrader.errors import HostUnreachable
from upgrader.model.host_key import HostKey

__all__ = ["SshHostKeys"]

_SECONDS = 10.0


class SshHostKeys:
    """`ports.HostKeys` over TCP, without a login; a machine behind a bastion can't be asked."""

    def read(self, address: str) -> HostKey:
        import paramiko

        try:
            with socket.create_connection((address, 22), timeout=_SECONDS) as connection:
                transport = paramiko.Transport(connection)
                try:
                    transport.start_client(timeout=_SECONDS)
                    key = transport.get_remote_server_key()
                finally:
                    transport.close()
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise HostUnreachable(
                f"{address} doesn't tell its SSH host key on port 22: {error or type(error).__name__}",
                remedy="If it is behind a bastion, or on another port, write it into ssh/known_hosts yourself.",
            ) from error
        return HostKey(key.get_name(), key.get_base64())
