"""The way to a machine: bastions one after the other, programs, agents, and sudo with a password."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest

from testkit.waiting import stretched
from tests.unit.adapters.ssh_server import SshServer
from upgrader.adapters import hosts as hosts_module
from upgrader.adapters.hosts import SshHosts, _as_root
from upgrader.adapters.sshroute import expand_tokens, login_command
from upgrader.errors import BackupRefused, HostError, HostSilent, HostUnreachable
from upgrader.model.cluster import Host

Servers = Callable[[str], SshServer]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Makes SSH servers, which all know one key."""
    made: list[SshServer] = []
    key = paramiko.ECDSAKey.generate()

    def make(name: str) -> SshServer:
        made.append(SshServer(name, tmp_path, key))
        return made[-1]

    yield make
    for server in made:
        server.close()


def test_bastions_are_passed_one_after_the_other(servers: Servers) -> None:
    """The first bastion is asked for the second, and that for the machine; the command runs on the machine alone."""
    outer, inner, machine = servers("outer"), servers("inner"), servers("controller-1")
    host = machine.host(jumps=(outer.host(), inner.host()))
    with SshHosts() as hosts:
        assert hosts.run(host, ["echo"], stdin=b"hello").stdout == "controller-1:hello"
        assert hosts.run(host, ["echo"], stdin=b"again").stdout == "controller-1:again"
    assert outer.forwarded == [("127.0.0.1", inner.port)]
    assert inner.forwarded == [("127.0.0.1", machine.port)]
    assert (outer.lines, inner.lines) == ([], [])


@pytest.mark.parametrize("greeting", [b"Welcome!\n", b"upgrader-out\n" * 9000, b"no line's end"])
def test_a_greeting_is_no_output(servers: Servers, greeting: bytes) -> None:
    """What `.bashrc` prints before each command gets into no file that is read, list, or stream."""
    machine = servers("controller-1")
    machine.greeting = greeting
    host = machine.host()
    with SshHosts() as hosts:
        assert hosts.run(host, ["cat"], stdin=b"hello").stdout == "controller-1:hello"
        assert hosts.read(host, "/etc/hostname") == b"controller-1:"
        assert b"".join(hosts.stream(host, ["cat"], timeout_seconds=30.0)) == b"controller-1:"
    assert machine.lines[0] == "echo upgrader-output-begins; exec cat"


class _Hanging:
    """An input that comes from another host, which hangs."""

    def __init__(self) -> None:
        self.let_go, self.ended = threading.Event(), False

    def __iter__(self) -> Iterator[bytes]:
        yield b"half"
        self.let_go.wait(stretched(30))
        self.ended = True


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Hanging]:
    """Such an input, which isn't given up for a moment first."""
    monkeypatch.setattr("upgrader.adapters.hosts.GIVE_UP_SECONDS", 0.0)
    made = _Hanging()
    yield made
    made.let_go.set()


def test_an_interruption_does_not_wait_for_an_input_that_hangs(
    servers: Servers, hanging: _Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while what one host sends is passed to another."""
    machine, receive = servers("build-1"), hosts_module._receive

    def interrupted(channel: paramiko.Channel, stderr: bool, deadline: float) -> bytes:
        if stderr:
            return receive(channel, stderr, deadline)
        raise KeyboardInterrupt

    monkeypatch.setattr(hosts_module, "_receive", interrupted)
    with SshHosts() as hosts, pytest.raises(KeyboardInterrupt):
        hosts.run(machine.host(), ["cat"], stdin=hanging)
    assert not hanging.ended


def test_a_command_that_has_ended_does_not_wait_for_its_input(servers: Servers, hanging: _Hanging) -> None:
    """It failed, or needed no more: that is told, although the host that sends hangs."""
    machine = servers("build-1")
    machine.reads_input = False
    with SshHosts() as hosts:
        assert hosts.run(machine.host(), ["head"], stdin=hanging).stdout == "build-1:"
    assert not hanging.ended


def test_an_input_that_fails_is_the_commands_error(servers: Servers) -> None:
    """A damaged backup is reported as that, and its part isn't taken for the whole."""
    machine = servers("build-1")

    def damaged() -> Iterator[bytes]:
        yield b"the first part"
        raise BackupRefused("it is damaged")

    with SshHosts() as hosts, pytest.raises(BackupRefused, match="damaged"):
        hosts.run(machine.host(), ["cat"], stdin=damaged())


def test_a_connection_that_has_ended_is_made_anew(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may end a kept one just when the next command begins: that is executed, and once."""
    machine, opened = servers("controller-1"), paramiko.Transport.open_session

    def ends(transport: paramiko.Transport, **named: Any) -> paramiko.Channel:
        monkeypatch.setattr(paramiko.Transport, "open_session", opened)
        transport.close()
        return opened(transport, **named)

    with SshHosts() as hosts:
        hosts.run(machine.host(), ["echo"])
        monkeypatch.setattr(paramiko.Transport, "open_session", ends)
        assert hosts.run(machine.host(), ["cat"], stdin=b"hello").stdout == "controller-1:hello"
    assert len(machine.lines) == 2


def test_a_kept_connection_that_has_gone_silent_is_replaced(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a laptop has slept, or its network changed: nothing says that it has ended, and a command with half an
    hour would wait that long. It is executed once, over a new one; what still runs over the old one isn't ended.
    """
    machine, opened, waited = servers("controller-1"), paramiko.Transport.open_session, list[float]()

    def is_silent(_: paramiko.Transport, **named: Any) -> paramiko.Channel:
        monkeypatch.setattr(paramiko.Transport, "open_session", opened)
        waited.append(named["timeout"])
        raise paramiko.SSHException("Timeout opening channel.")

    with SshHosts() as hosts:
        hosts.run(machine.host(), ["echo"])
        before = hosts._transport(machine.host())
        monkeypatch.setattr(paramiko.Transport, "open_session", is_silent)
        done = hosts.run(machine.host(), ["cat"], stdin=b"hello", timeout_seconds=1800.0)
        assert done.stdout == "controller-1:hello" and before.is_active()
    assert len(machine.lines) == 2 and waited[0] < 60 and not before.is_active()


def test_a_new_connection_that_is_silent_is_not_tried_twice(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine itself opens no sessions: that is told, after the command's own time."""
    machine, waited = servers("controller-1"), list[float]()

    def is_silent(_: paramiko.Transport, **named: Any) -> paramiko.Channel:
        waited.append(named["timeout"])
        raise paramiko.SSHException("Timeout opening channel.")

    monkeypatch.setattr(paramiko.Transport, "open_session", is_silent)
    with SshHosts() as hosts, pytest.raises(HostError, match="Timeout opening channel"):
        hosts.run(machine.host(), ["true"], timeout_seconds=1800.0)
    assert waited == [1800.0]


def test_a_session_that_is_refused_ends_no_other_command(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other commands may be running over the connection (MaxSessions of sshd): it stays, and no new one is tried."""
    machine = servers("controller-1")

    def refuse(*_: Any, **__: Any) -> None:
        raise paramiko.ChannelException(1, "Administratively prohibited")

    with SshHosts() as hosts:
        hosts.run(machine.host(), ["echo"], stdin=b"hello")
        transport = hosts._transport(machine.host())
        with monkeypatch.context() as refusing:
            refusing.setattr(paramiko.Transport, "open_session", refuse)
            with pytest.raises(HostError, match="refused another session, for 'true'") as caught:
                hosts.run(machine.host(), ["true"])
        assert "MaxSessions" in caught.value.remedy
        assert transport.is_active() and hosts._transport(machine.host()) is transport
    assert len(machine.lines) == 1


def test_a_login_that_runs_no_commands_is_told(servers: Servers) -> None:
    """A forced command that answers with success has not done what was asked for."""
    machine = servers("controller-1")
    machine.runs_commands = False
    with SshHosts() as hosts:
        with pytest.raises(HostError, match="did not run the command; it printed: controller-1:"):
            hosts.read(machine.host(), "/etc/hostname")
        with pytest.raises(HostError, match="did not run the command"):
            list(hosts.stream(machine.host(), ["cat"], timeout_seconds=30.0))


@pytest.mark.parametrize("changed", [False, True])
def test_a_bastions_host_key_is_verified(servers: Servers, changed: bool) -> None:
    """A bastion that nobody has verified is refused by its own name: it would see where everything goes."""
    outer, machine = servers("bastion"), servers("controller-1")
    bastion = outer.host()
    assert bastion.known_hosts is not None
    other = paramiko.ECDSAKey.generate()
    line = f"[127.0.0.1]:{outer.port} {other.get_name()} {other.get_base64()}\n" if changed else ""
    bastion.known_hosts.write_text(line)
    what = "has changed" if changed else "is not known"
    with SshHosts() as hosts, pytest.raises(HostUnreachable, match=rf"^controller-1: bastion bastion .*key {what}"):
        hosts.run(machine.host(jumps=(bastion,)), ["echo"])
    assert outer.forwarded == []


def test_a_bastion_that_can_not_connect_is_not_taken_for_the_machine(servers: Servers) -> None:
    """When the bastion reaches nothing, the message says that it was the bastion that could not connect."""
    outer = servers("bastion")
    machine = servers("controller-1").host(jumps=(outer.host(),), port=1)
    with SshHosts() as hosts, pytest.raises(HostUnreachable, match="the bastion could not connect") as caught:
        hosts.run(machine, ["echo"])
    assert "AllowTcpForwarding" in caught.value.remedy


def test_nothing_answers_at_the_machine_itself(servers: Servers) -> None:
    """Directly, or as its bastion says: the machine may be off."""
    machine = servers("controller-1").host(port=1)
    for way in (machine, replace(machine, jumps=(servers("bastion").host(),))):
        with SshHosts() as hosts, pytest.raises(HostSilent):
            hosts.run(way, ["echo"])


@pytest.mark.parametrize("why", ["login", "host key", "bastion", "proxy"])
def test_machine_that_can_not_be_logged_in_to_may_live(servers: Servers, why: str) -> None:
    """It refuses us or we refuse it, or what fails is the way there: it isn't known that nothing answers."""
    server = servers("controller-1")
    if why == "login":
        host, server.key = server.host(), paramiko.ECDSAKey.generate()
    elif why == "host key":
        host = server.host()
        assert host.known_hosts is not None
        host.known_hosts.write_text("")
    elif why == "bastion":
        host = server.host(jumps=(servers("bastion").host(port=1),))
    else:
        host = server.host(proxy_command="false")
    with SshHosts() as hosts, pytest.raises(HostUnreachable) as refused:
        hosts.run(host, ["echo"])
    assert not isinstance(refused.value, HostSilent) and refused.value.remedy


def test_a_proxy_command_is_the_connection(servers: Servers, tmp_path: Path) -> None:
    """A ProxyCommand's stdin and stdout are spoken SSH on, and it has ended when the connection is closed."""
    machine = servers("controller-1")
    script = tmp_path / "pipe.py"
    script.write_text(
        "import os, socket, sys, threading\n"
        "there = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def up():\n"
        "    while data := os.read(0, 65536): there.sendall(data)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := there.recv(65536): os.write(1, data)\n"
    )
    host = machine.host(proxy_command=f"{sys.executable} {script} %h %p")
    with SshHosts() as hosts:
        assert hosts.run(host, ["echo"], stdin=b"hello").stdout == "controller-1:hello"
        process = hosts._connections[host]._under[0]._process  # type: ignore[attr-defined]
    assert process.returncode is not None


def test_a_proxy_command_that_fails_is_unreachable(servers: Servers) -> None:
    """A program that ends at once is a machine that can't be reached, within the usual time."""
    with SshHosts() as hosts, pytest.raises(HostUnreachable, match="controller-1"):
        hosts.run(servers("controller-1").host(proxy_command="false"), ["echo"])


_CLOSED = """
import socket, threading
from upgrader.adapters.hosts import SshHosts
from upgrader.errors import HostUnreachable
from upgrader.model.cluster import Host
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
with SshHosts() as hosts:
    try:
        hosts.run(Host("controller-1", "127.0.0.1", port=server.getsockname()[1]), ["id"])
    except HostUnreachable as error:
        print(error.message)
"""


def test_machine_that_hangs_up_is_told_once() -> None:
    """As the error of that machine: the library's thread prints no traceback of its own beside it."""
    asked = subprocess.run([sys.executable, "-c", _CLOSED], capture_output=True, text=True, check=True)
    assert "controller-1" in asked.stdout and asked.stderr == ""


def test_the_host_key_may_have_another_name(servers: Servers, tmp_path: Path) -> None:
    """With HostKeyAlias known_hosts is searched for that name, and for no other."""
    machine = servers("controller-1")
    known = tmp_path / "aliases"
    known.write_text(f"the-alias {machine.host_key.get_name()} {machine.host_key.get_base64()}\n")
    with SshHosts() as hosts:
        host = machine.host(host_key_alias="the-alias", known_hosts=known)
        assert hosts.run(host, ["echo"]).stdout == "controller-1:"
        with pytest.raises(HostUnreachable, match="host key is not known"):
            hosts.run(machine.host(host_key_alias="another", known_hosts=known), ["echo"])


def test_a_line_for_a_ca_is_passed_over(servers: Servers) -> None:
    """paramiko can't read OpenSSH's markers, nor broken lines: the other keys of the file count all the same."""
    machine = servers("controller-1")
    host = machine.host()
    assert host.known_hosts is not None
    before = host.known_hosts.read_text()
    ca = f"@cert-authority * {machine.host_key.get_name()} {machine.host_key.get_base64()}\n"
    host.known_hosts.write_text(f"{ca}broken ssh-ed25519 !\n\n# a comment\n{before}")
    with SshHosts() as hosts:
        assert hosts.run(host, ["echo"]).stdout == "controller-1:"
    host.known_hosts.write_text(ca)
    with SshHosts() as hosts, pytest.raises(HostUnreachable, match="host key is not known"):
        hosts.run(host, ["echo"])


def test_known_hosts_file_that_is_missing_is_passed_over(servers: Servers, tmp_path: Path) -> None:
    """As ssh does: the next one is asked, and a key that is in none is as unknown as ever."""
    machine, missing = servers("controller-1"), tmp_path / "missing"
    known = machine.host().known_hosts
    assert known is not None
    with SshHosts() as hosts:
        host = machine.host(known_hosts=missing, more_known_hosts=(known,))
        assert hosts.run(host, ["echo"], stdin=b"hello").stdout == "controller-1:hello"
    empty = tmp_path / "empty"
    empty.touch()
    with SshHosts() as hosts, pytest.raises(HostUnreachable, match=r"host key is not known: there is no .*missing"):
        hosts.run(machine.host(known_hosts=missing, more_known_hosts=(empty,)), ["echo"])


def test_no_known_hosts_at_all(servers: Servers, tmp_path: Path) -> None:
    """As in a folder that was written by hand: the machine's key is not known, and the remedy makes the folder."""
    host = servers("controller-1").host(known_hosts=tmp_path / "ssh" / "known_hosts")
    with (
        SshHosts() as hosts,
        pytest.raises(HostUnreachable, match=r"host key is not known: there is no .*known_hosts") as caught,
    ):
        hosts.run(host, ["echo"])
    assert f"mkdir -p {tmp_path / 'ssh'} && ssh-keyscan" in caught.value.remedy


@pytest.mark.parametrize("bastion", [False, True])
def test_a_known_hosts_that_keeps_no_key_is_told(servers: Servers, bastion: bool) -> None:
    """`UserKnownHostsFile /dev/null`, as Terraform's and Vagrant's configurations have it: no remedy writes into it."""
    outer, machine = servers("bastion"), servers("controller-1")
    nowhere = {"known_hosts": Path("/dev/null")}
    host = machine.host(jumps=(outer.host(**nowhere),)) if bastion else machine.host(**nowhere)
    with SshHosts() as hosts, pytest.raises(HostUnreachable, match="and UserKnownHostsFile /dev/null keeps none") as it:
        hosts.run(host, ["echo"])
    assert "ssh-keyscan" not in it.value.remedy and it.value.remedy.startswith("Remove UserKnownHostsFile")
    known = machine.host().known_hosts
    assert known is not None
    with SshHosts() as hosts:  # a file of all users' may have it
        everyones = machine.host(known_hosts=Path("/dev/null"), more_known_hosts=(known,))
        assert hosts.run(everyones, ["echo"], stdin=b"hello").stdout == "controller-1:hello"


@pytest.mark.parametrize("hashed", [False, True])
def test_a_changed_key_is_removed_where_it_is(servers: Servers, tmp_path: Path, hashed: bool) -> None:
    """Of several files, the remedy names the one that has the other key."""
    machine, empty, missing, kept = servers("controller-1"), tmp_path / "empty", tmp_path / "missing", tmp_path / "all"
    empty.write_text("broken !\n")
    name, other = f"[127.0.0.1]:{machine.port}", paramiko.ECDSAKey.generate()
    shown = paramiko.HostKeys.hash_host(name) if hashed else name
    kept.write_text(f"{shown} {machine.host_key.get_name()} {other.get_base64()}\n")
    with SshHosts() as hosts, pytest.raises(HostUnreachable, match="host key has changed") as caught:
        hosts.run(machine.host(known_hosts=empty, more_known_hosts=(missing, kept)), ["echo"])
    assert f"ssh-keygen -f {kept} -R '{name}'" in caught.value.remedy


@pytest.mark.parametrize("other", ["none", "the same", "another"])
def test_a_revoked_key_is_refused(servers: Servers, other: str) -> None:
    """Whatever else known_hosts has for the machine; and no remedy says to add the key again."""
    machine = servers("controller-1")
    host = machine.host()
    assert host.known_hosts is not None
    kind, key = machine.host_key.get_name(), machine.host_key.get_base64()
    line = {"none": "", "the same": host.known_hosts.read_text()}.get(
        other, f"[127.0.0.1]:{machine.port} {kind} {paramiko.ECDSAKey.generate().get_base64()}\n"
    )
    host.known_hosts.write_text(f"{line}@revoked * {kind} {key}\n")
    with SshHosts() as hosts, pytest.raises(HostUnreachable, match="is revoked") as refused:
        hosts.run(host, ["echo"])
    assert "ssh-keyscan" not in refused.value.remedy and machine.lines == []


def test_tokens() -> None:
    """OpenSSH's tokens are replaced, safe for a shell; one that isn't known is refused by its name."""
    host = Host("c", "10.0.0.1", "me; rm", 2222)
    assert expand_tokens("nc -X %h:%p %r %%", host) == "nc -X 10.0.0.1:2222 'me; rm' %"
    with pytest.raises(HostUnreachable, match="token %C is not supported"):
        expand_tokens("nc %C", host)


def test_a_remedy_logs_in_the_same_way() -> None:
    """The command that an operator is told has the bastions in it."""
    bastion = Host("b", "192.0.2.1", "jump", 2222)
    assert login_command(Host("c", "10.0.0.1", port=22, jumps=(bastion,))) == "ssh -J jump@192.0.2.1:2222 root@10.0.0.1"
    bastion = replace(bastion, address="2001:db8::1")
    shown = login_command(Host("c", "fd00::1", port=22, jumps=(bastion,)))
    assert shown == "ssh -J 'jump@[2001:db8::1]:2222' root@fd00::1"


@pytest.mark.parametrize("asks", [True, False])
def test_sudos_password_never_reaches_the_command(tmp_path: Path, asks: bool) -> None:
    """Whether sudo reads the password or needs none, the command gets its own input and nothing else."""
    sudo = tmp_path / "sudo"
    sudo.write_text(
        "#!/bin/sh\n" + ('IFS= read -r given; echo "$given" > "$(dirname "$0")/given"\n' if asks else "")
        + 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"\n'
    )  # fmt: skip
    sudo.chmod(0o700)
    host = Host("c", "10.0.0.1", become=True, become_password="s3cret word")
    line, stdin = _as_root(host, ["cat", "-"], b"first\nsecond\x00")
    assert "s3cret" not in line + repr(host)
    done = subprocess.run(
        ["sh", "-c", line],
        input=b"".join(stdin),
        capture_output=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        check=True,
    )
    assert done.stdout == b"first\nsecond\x00"
    assert not asks or (tmp_path / "given").read_text() == "s3cret word\n"
