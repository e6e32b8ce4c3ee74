"""The host keys of machines that nobody has logged in to yet: directly, and behind a bastion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from tests.unit.adapters.ssh_server import SshServer
from upgrader.adapters import host_keys
from upgrader.adapters.host_keys import SshHostKeys
from upgrader.errors import ConfigError, HostUnreachable
from upgrader.model.cluster import Host

Found = Callable[[Host], None]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[SshServer, SshServer]]:
    """A bastion that may be logged in to, and a machine that nobody has a key for."""
    bastion = SshServer("bastion", tmp_path, paramiko.ECDSAKey.generate())
    machine = SshServer("controller-1", tmp_path, paramiko.ECDSAKey.generate())
    yield bastion, machine
    bastion.close()
    machine.close()


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Found:
    """Has OpenSSH's configuration lead to a host, whatever address is asked for."""
    return lambda host: monkeypatch.setattr(host_keys, "resolve", lambda _where, _host, _arguments: host)


def test_a_key_is_read_without_a_login(servers: tuple[SshServer, SshServer], found: Found) -> None:
    """It is the machine's own, under the name that known_hosts has for another port."""
    _, machine = servers
    found(machine.host(key_file=None))
    key = SshHostKeys().read("10.0.0.1")
    assert key.line("10.0.0.1").split() == [
        f"[127.0.0.1]:{machine.port}",
        machine.host_key.get_name(),
        machine.host_key.get_base64(),
    ]
    assert machine.lines == []


def test_a_key_is_read_through_a_bastion(servers: tuple[SshServer, SshServer], found: Found) -> None:
    """The bastion is logged in to, and passes the connection on; an alias is the name in known_hosts."""
    bastion, machine = servers
    found(machine.host(jumps=(bastion.host(),), host_key_alias="kept"))
    key = SshHostKeys().read("10.0.0.1")
    assert key.content == machine.host_key.get_base64()
    assert key.line("10.0.0.1").startswith("kept ")
    assert bastion.forwarded == [("127.0.0.1", machine.port)]


def test_an_unknown_bastion_is_not_asked(servers: tuple[SshServer, SshServer], found: Found) -> None:
    """Whoever is there instead could show any key: the bastion is named, and passes nothing on."""
    bastion, machine = servers
    stranger = bastion.host()
    assert stranger.known_hosts is not None
    stranger.known_hosts.write_text("")
    found(machine.host(jumps=(stranger,)))
    with pytest.raises(HostUnreachable, match=r"bastion .*the host key is not known"):
        SshHostKeys().read("10.0.0.1")
    assert bastion.forwarded == []


def test_a_machine_that_is_off_is_named(servers: tuple[SshServer, SshServer], found: Found) -> None:
    """Whether it is the machine or the way to it that fails, it is one line, and no traceback."""
    bastion, machine = servers
    found(replace(machine.host(), port=1))
    with pytest.raises(HostUnreachable, match=r"controller-1 .*refused"):
        SshHostKeys().read("10.0.0.1")
    found(replace(machine.host(jumps=(bastion.host(),)), port=1))
    with pytest.raises(HostUnreachable, match=r"controller-1 .*bastion could not connect"):
        SshHostKeys().read("10.0.0.1")


def test_an_option_that_can_not_be_followed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One machine of OpenSSH's configuration that can't be followed keeps no other from being asked."""

    def refuse(*_arguments: object) -> Host:
        raise ConfigError("10.0.0.1: SSH option IdentityAgent (/x) is not supported", remedy="Take it out.")

    monkeypatch.setattr(host_keys, "resolve", refuse)
    with pytest.raises(HostUnreachable, match="IdentityAgent") as caught:
        SshHostKeys().read("10.0.0.1")
    assert caught.value.remedy == "Take it out."
