"""Opens an SSH connection, or explains why it can't be opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upgrader.errors import HostUnreachable
from upgrader.model.cluster import Host

if TYPE_CHECKING:
    import paramiko

__all__ = ["connect"]

_CONNECT_SECONDS = 10.0
_KEEPALIVE_SECONDS = 15


def connect(host: Host) -> paramiko.SSHClient:
    """Connect with the host's own key file, or the agent's and the user's default keys. Raises HostUnreachable."""
    import paramiko

    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    try:
        # "System" keys are read-only; paramiko would write others back.
        client.load_system_host_keys(str(host.known_hosts) if host.known_hosts else None)
        client.connect(
            host.address,
            port=host.port,
            username=host.user,
            key_filename=str(host.key_file) if host.key_file else None,
            look_for_keys=host.key_file is None,
            timeout=_CONNECT_SECONDS,
            banner_timeout=_CONNECT_SECONDS,
            auth_timeout=_CONNECT_SECONDS,
            channel_timeout=_CONNECT_SECONDS,
        )
    except (paramiko.SSHException, OSError, EOFError) as error:
        client.close()
        raise _unreachable(host, error) from error
    transport = client.get_transport()
    if transport is not None:
        transport.set_keepalive(_KEEPALIVE_SECONDS)
    return client


def _unreachable(host: Host, error: BaseException) -> HostUnreachable:
    import paramiko

    where = f"{host.name} ({host.user}@{host.address}:{host.port})"
    known_hosts = host.known_hosts or "~/.ssh/known_hosts"
    name = host.address if host.port == 22 else f"[{host.address}]:{host.port}"
    if isinstance(error, paramiko.BadHostKeyException):
        return HostUnreachable(
            f"{where}: the host key has changed (it is now {error.key.get_name()} {error.key.fingerprint}): "
            "this may be another machine, or an attacker in between",
            remedy=f"If the machine was reinstalled: ssh-keygen -f {known_hosts} -R '{name}', then add its new key.",
        )
    if isinstance(error, paramiko.SSHException) and "not found in known_hosts" in str(error):
        return HostUnreachable(
            f"{where}: the host key is not known",
            remedy=f"Compare its fingerprint, then: ssh-keyscan -p {host.port} {host.address} >> {known_hosts}",
        )
    if isinstance(error, paramiko.AuthenticationException):
        with_key = f"with {host.key_file}" if host.key_file else "with the agent's and the default keys"
        return HostUnreachable(
            f"{where}: login refused {with_key}", remedy=f"Check the user and the key: ssh {host.user}@{host.address}"
        )
    if isinstance(error, FileNotFoundError):
        return HostUnreachable(f"{where}: {error.filename}: no such file", remedy="Check the inventory's SSH options.")
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        error = next(iter(error.errors.values()))
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return HostUnreachable(f"{where}: {words}", remedy="Check that the machine is up and its address is right.")
