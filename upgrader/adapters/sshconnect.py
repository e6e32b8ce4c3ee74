"""Opens an SSH connection, or explains why it can't be opened."""

from __future__ import annotations

import errno
import logging
import shlex
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

from upgrader.adapters.known_hosts import file_with_key, load_known_hosts
from upgrader.adapters.ssh_identities import DEFAULT_FILES, ChosenKeys, is_public
from upgrader.adapters.sshroute import ProxyProcess, login_command
from upgrader.config.yaml_document import shown
from upgrader.errors import HostSilent, HostUnreachable
from upgrader.model.cluster import KEEP_KEYS, Host

if TYPE_CHECKING:
    import paramiko

__all__ = ["NO_CHANNEL", "Connection", "connect", "dialled"]

logging.getLogger("paramiko").addHandler(logging.NullHandler())
"""Its thread logs an error with a traceback, beside what this module raises, and Python prints that by default."""

_CONNECT_SECONDS = 10.0
_KEEPALIVE_SECONDS = 15
_NO_KEYS = "No authentication methods available"
"""paramiko's words."""
NO_CHANNEL = "Timeout opening channel."
"""paramiko's words: a machine has not opened a session in time, or a bastion not said whether it could connect."""
_CONNECT_FAILED = 2
"""RFC 4254's reason of a channel that wasn't opened, beside one that is prohibited."""
_NOTHING_ANSWERS = frozenset(
    {errno.ECONNREFUSED, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT}
)
_REVOKED = "its host key is revoked in known_hosts (@revoked)"


class Connection:
    """A login on a host, with all that it stands on: bastions, a proxy's program."""

    def __init__(self, client: paramiko.SSHClient, *under: _Closeable) -> None:
        self._client, self._under = client, under

    @property
    def transport(self) -> paramiko.Transport | None:
        """The connection; None once it has been closed."""
        transport = self._client.get_transport()
        return transport if transport is not None and transport.is_active() else None

    def close(self) -> None:
        """Close it, and what it stands on."""
        self._client.close()
        for item in reversed(self._under):
            item.close()


class _Closeable(Protocol):
    def close(self) -> None: ...


def connect(host: Host) -> Connection:
    """Log in with the host's own keys, or the agent's and the user's default ones, through its bastions.

    The host key of each machine on the way is verified. Raises HostUnreachable, which names the machine at fault, and
    HostSilent where nothing answers at the host itself.
    """
    with ExitStack() as opened:
        under: list[_Closeable] = []
        through: Connection | None = None
        for machine in (*host.jumps, host):
            way = _way(machine, through, host)
            if way is not None and way.owner is not None:
                opened.callback(way.owner.close)
                under.append(way.owner)
            client = _login(machine, way.channel if way else None, host)
            opened.callback(client.close)
            through = Connection(client, *under)
            under.append(client)
        opened.pop_all()
    assert through is not None, "there is at least the host itself"
    return through


@contextmanager
def dialled(host: Host) -> Iterator[paramiko.Channel | socket.socket]:
    """A connection to the host's sshd, through its bastions, on which nothing was said yet; closed at the end.

    Raises HostUnreachable, also for a bastion that can't be verified or logged in to.
    """
    with ExitStack() as opened:
        through = None
        if host.jumps:
            *before, last = host.jumps
            through = connect(replace(last, jumps=tuple(before)))
            opened.callback(through.close)
        way = _way(host, through, host)
        if way is None:
            try:
                way = _direct(host)
            except OSError as error:
                raise _unreachable(host, error, host) from error
        opened.callback((way.owner or way.channel).close)
        yield way.channel


@dataclass(frozen=True)
class _Way:
    """A channel to a machine that isn't dialled directly, and what has to be closed with it."""

    channel: paramiko.Channel | socket.socket
    owner: _Closeable | None = None


def _way(machine: Host, through: Connection | None, goal: Host) -> _Way | None:
    """The connection to speak SSH on; None where the machine is dialled directly."""
    import paramiko

    try:
        if through is not None:
            transport = through.transport
            if transport is None:
                raise EOFError("the bastion closed the connection")
            to = (machine.address, machine.port)
            return _Way(transport.open_channel("direct-tcpip", to, ("127.0.0.1", 0), timeout=_CONNECT_SECONDS))
        if machine.proxy_command:
            process = ProxyProcess(machine)
            return _Way(process.socket, process)
        if machine.host_key_alias:
            return _direct(machine)
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise _unreachable(machine, error, goal) from error
    return None


def _direct(machine: Host) -> _Way:
    connection = socket.create_connection((machine.address, machine.port), _CONNECT_SECONDS)
    return _Way(connection, connection)


def _login(machine: Host, channel: paramiko.Channel | socket.socket | None, goal: Host) -> paramiko.SSHClient:
    import paramiko

    files = [key for key in (machine.key_file, *machine.more_keys) if key is not None]
    keys = [str(file) for file in files if not is_public(file)]
    client = paramiko.SSHClient()
    revoked: frozenset[str] = frozenset()
    try:
        known = _known_files(machine)
        # OpenSSH goes on with the next one where a file is missing; where all are, the first is named.
        revoked = load_known_hosts(client, [file for file in known if file.exists()] or known)
        client.set_missing_host_key_policy(_policy(revoked))
        chosen = files or [Path(name).expanduser() for name in DEFAULT_FILES]
        # In place of the agent that it would ask for all keys, as it has no way to choose among them.
        client._agent = ChosenKeys(chosen, only=machine.identities_only)  # type: ignore[attr-defined]
        # With a channel the address is only the name that known_hosts is searched for.
        client.connect(
            machine.host_key_alias or machine.address,
            port=22 if machine.host_key_alias else machine.port,
            username=machine.user,
            key_filename=keys or None,  # type: ignore[arg-type]  # a list is documented
            look_for_keys=not files,
            timeout=_CONNECT_SECONDS,
            banner_timeout=_CONNECT_SECONDS,
            auth_timeout=_CONNECT_SECONDS,
            channel_timeout=_CONNECT_SECONDS,
            sock=channel,
        )
    except (paramiko.SSHException, OSError, EOFError) as error:
        client.close()
        if isinstance(error, paramiko.BadHostKeyException) and error.key.get_base64() in revoked:
            raise _unreachable(machine, paramiko.SSHException(_REVOKED), goal) from error
        raise _unreachable(machine, error, goal) from error
    transport = client.get_transport()
    if transport is not None:
        transport.set_keepalive(_KEEPALIVE_SECONDS)
    return client


def _known_files(machine: Host) -> list[Path]:
    default = Path("~/.ssh/known_hosts").expanduser()
    first = machine.known_hosts or (default if default.exists() else None)
    return [file for file in (first, *machine.more_known_hosts) if file is not None]


def _policy(revoked: frozenset[str]) -> paramiko.MissingHostKeyPolicy:
    import paramiko

    class Refuse(paramiko.RejectPolicy):
        def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> NoReturn:
            if key.get_base64() in revoked:
                raise paramiko.SSHException(_REVOKED)
            super().missing_host_key(client, hostname, key)

    return Refuse()


def _unreachable(host: Host, error: BaseException, goal: Host) -> HostUnreachable:
    """`goal` is what is to be reached, by way of `host`."""
    import paramiko

    where = f"{host.name} ({host.user}@{host.address}:{host.port})"
    kind = HostSilent if goal is host and _nothing_answered(error) else HostUnreachable
    if goal is not host:
        where = f"{goal.name}: bastion {where}"
    known_hosts = shlex.quote(shown(host.known_hosts)) if host.known_hosts else "~/.ssh/known_hosts"
    name = host.host_key_alias or (host.address if host.port == 22 else f"[{host.address}]:{host.port}")
    login = login_command(host)
    if isinstance(error, paramiko.BadHostKeyException):
        if found := file_with_key(_known_files(host), name):
            known_hosts = shlex.quote(shown(found))
        return HostUnreachable(
            f"{where}: the host key has changed (it is now {error.key.get_name()} {error.key.fingerprint}): "
            "this may be another machine, or an attacker in between",
            remedy=f"If the machine was reinstalled: ssh-keygen -f {known_hosts} -R '{name}', then add its new key.",
        )
    if isinstance(error, paramiko.SSHException) and str(error) == _REVOKED:
        return HostUnreachable(
            f"{where}: {_REVOKED}: an attacker may have this key",
            remedy="Don't log in to it. Give the machine a new host key, and add that to known_hosts.",
        )
    folder = host.known_hosts.parent if host.known_hosts else None
    make = f"mkdir -p {shlex.quote(shown(folder))} && " if folder and not folder.exists() else ""
    unread = isinstance(error, FileNotFoundError) and error.filename == str(host.known_hosts)
    lacks_file = unread or (host.known_hosts is not None and not host.known_hosts.exists())
    if unread or (isinstance(error, paramiko.SSHException) and "not found in known_hosts" in str(error)):
        if host.forgets_keys:
            return HostUnreachable(
                f"{where}: the host key is not known, and UserKnownHostsFile {known_hosts} keeps none",
                remedy=f"{KEEP_KEYS} Then log in once and compare its fingerprint: {login}",
            )
        return HostUnreachable(
            f"{where}: the host key is not known{f': there is no {known_hosts}' if lacks_file else ''}",
            remedy=f"Log in once and compare its fingerprint: {login}"
            if host.jumps or host.proxy_command or host.host_key_alias
            else f"Compare its fingerprint, then: {make}ssh-keyscan -p {host.port} {host.address} >> {known_hosts}",
        )
    if isinstance(error, paramiko.PasswordRequiredException):
        return HostUnreachable(
            f"{where}: its key is protected by a passphrase",
            remedy="Add the key to an agent: ssh-add FILE. If it is in one, check SSH_AUTH_SOCK.",
        )
    if host.key_file and is_public(host.key_file) and str(error) == _NO_KEYS:
        return HostUnreachable(
            f"{where}: {host.key_file} is a public key, and no SSH agent has the private key",
            remedy="List the agent's keys: ssh-add -L. If no agent is running, or SSH_AUTH_SOCK isn't set, start one.",
        )
    if isinstance(error, paramiko.AuthenticationException):
        with_key = f"with {host.key_file}" if host.key_file else "with the agent's and the default keys"
        return HostUnreachable(f"{where}: login refused {with_key}", remedy=f"Check the user and the key: {login}")
    if isinstance(error, FileNotFoundError):
        return HostUnreachable(f"{where}: {error.filename}: no such file", remedy="Check the inventory's SSH options.")
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        error = next(iter(error.errors.values()))
    if isinstance(error, paramiko.ChannelException):
        return kind(
            f"{where}: the bastion could not connect to it: {error.text}",
            remedy="Check that the machine is up, that the bastion reaches it at this address, and that the bastion "
            "allows forwarding (AllowTcpForwarding).",
        )
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return kind(f"{where}: {words}", remedy="Check that the machine is up and its address is right.")


def _nothing_answered(error: BaseException) -> bool:
    """Whether a connection failed below SSH. Of a ProxyCommand's end it isn't known why, and what hangs up, or refuses
    a login, is there.
    """
    import paramiko

    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        return all(_nothing_answered(each) for each in error.errors.values())
    if isinstance(error, paramiko.ChannelException):
        return error.code == _CONNECT_FAILED
    if isinstance(error, paramiko.SSHException):
        return str(error) == NO_CHANNEL
    return isinstance(error, TimeoutError) or (isinstance(error, OSError) and error.errno in _NOTHING_ANSWERS)
