"""Reads machines' SSH host keys as `ssh-keyscan` does, but over the route that `ssh` would use, bastions included."""

from __future__ import annotations

from upgrader.adapters.sshconnect import dialled
from upgrader.config.ssh_options import resolve
from upgrader.errors import ConfigError, HostUnreachable
from upgrader.model.cluster import Host
from upgrader.model.host_key import HostKey

__all__ = ["SshHostKeys"]

_SECONDS = 10.0
_REMEDY = "Check the connection to it (`ssh -v`), or add its key to ssh/known_hosts manually."


class SshHostKeys:
    """`ports.HostKeys`. It doesn't log in to the machine; it does log in to its bastions, and verifies them."""

    def read(self, address: str) -> HostKey:
        import paramiko

        try:
            host = resolve(address, Host(address, address), ())
        except ConfigError as error:
            raise HostUnreachable(error.message, remedy=error.remedy) from error
        with dialled(host) as connection:
            try:
                transport = paramiko.Transport(connection)
                try:
                    transport.start_client(timeout=_SECONDS)
                    key = transport.get_remote_server_key()
                finally:
                    transport.close()
            except (OSError, EOFError, paramiko.SSHException) as error:
                why = (
                    f"the SSH host key of {address} could not be read on port {host.port}: "
                    f"{error or type(error).__name__}"
                )
                raise HostUnreachable(why, remedy=_REMEDY) from error
        return HostKey(key.get_name(), key.get_base64(), _known_as(host))


def _known_as(host: Host) -> str:
    """The name under which OpenSSH looks for its key in known_hosts."""
    return host.host_key_alias or (host.address if host.port == 22 else f"[{host.address}]:{host.port}")
