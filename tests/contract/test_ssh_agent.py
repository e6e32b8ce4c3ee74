"""Keys that only an agent has: OpenSSH's own agent and keys, against a server that takes one key."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from testkit.waiting import until
from tests.unit.adapters.ssh_server import SshServer
from upgrader.adapters.hosts import SshHosts
from upgrader.adapters.own_machine import ThisMachine
from upgrader.adapters.ssh_identities import public_half
from upgrader.config.ssh_options import resolve
from upgrader.errors import HostUnreachable
from upgrader.model.cluster import Host


def make_key(file: Path, passphrase: str = "", kind: str = "ecdsa") -> Path:
    """A key and FILE.pub, by ssh-keygen."""
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "a comment", "-f", str(file)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def key(folder: Path) -> Path:
    """The file of the key that may log in."""
    return make_key(folder / "key")


@pytest.fixture
def agent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An agent without keys; the path is its socket."""
    socket = folder / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL) as process:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        try:
            until("the agent listens", socket.exists, timeout_seconds=30.0)
            yield socket
        finally:
            process.terminate()


@pytest.fixture
def server(folder: Path, key: Path) -> Iterator[SshServer]:
    """It takes that key alone."""
    server = SshServer("controller-1", folder, paramiko.ECDSAKey.from_private_key_file(str(key)))
    try:
        yield server
    finally:
        server.close()


def add(*files: Path) -> None:
    """Give the agent these keys."""
    subprocess.run(["ssh-add", "-q", *map(str, files)], check=True, stdin=subprocess.DEVNULL)


def answers(host: Host) -> str:
    """What a command on the host says."""
    with SshHosts() as hosts:
        return hosts.run(host, ["cat"], stdin=b"hello").stdout


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize("left", [["key.pub"], ["key", "key.pub"]], ids=["the public half alone", "both"])
def test_public_key_stands_for_the_agents(server: SshServer, key: Path, left: list[str]) -> None:
    """`IdentityFile key.pub` and `IdentitiesOnly yes`, as password managers and smart cards have it: of an agent with
    many keys, the one is offered.
    """
    others = [make_key(key.with_name(f"other-{number}")) for number in range(8)]
    add(*others, key)
    if "key" not in left:
        key.unlink()
    public = key.with_name("key.pub")
    public.chmod(0o644)
    assert answers(server.host(key_file=public)) == "controller-1:hello"
    assert not ThisMachine().ssh_refuses(public)


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize("with_public", [True, False])
def test_key_with_a_passphrase_is_the_agents(server: SshServer, key: Path, with_public: bool) -> None:
    """With IdentitiesOnly, too: its public half is in FILE.pub, and not encrypted in FILE."""
    add(key)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "a passphrase", "-f", str(key)], check=True)
    if not with_public:
        key.with_name("key.pub").unlink()
    assert answers(server.host(key_file=key)) == "controller-1:hello"


@pytest.mark.usefixtures("agent")
def test_only_the_files_keys_are_offered(server: SshServer, key: Path) -> None:
    """The agent has the right key, and IdentitiesOnly names another one: that alone is offered, and refused."""
    other = make_key(key.with_name("other"))
    add(key, other)
    with pytest.raises(HostUnreachable, match=r"login refused with .*other\.pub"):
        answers(server.host(key_file=other.with_name("other.pub")))
    assert answers(server.host(key_file=other.with_name("other.pub"), identities_only=False)) == "controller-1:hello"


@pytest.mark.usefixtures("agent")
def test_default_key_is_the_agents(server: SshServer, key: Path, folder: Path) -> None:
    """`IdentitiesOnly yes` without any IdentityFile means the usual files, of which one has a passphrase."""
    add(key)
    (folder / ".ssh").mkdir()
    key.with_name("key.pub").rename(folder / ".ssh" / "id_ecdsa.pub")
    assert answers(server.host(key_file=None)) == "controller-1:hello"


def test_agent_that_lacks_the_key(server: SshServer, key: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The message names the file and what it is; a socket that nobody answers at is an agent without keys."""
    monkeypatch.setenv("SSH_AUTH_SOCK", str(folder / "nothing"))
    with pytest.raises(HostUnreachable) as caught:
        answers(server.host(key_file=key.with_name("key.pub")))
    assert "key.pub is a public key, and no SSH agent has the private key" in caught.value.message
    assert "ssh-add -L" in caught.value.remedy


@pytest.mark.usefixtures("agent")
def test_identity_file_whose_public_half_alone_is_there(server: SshServer, key: Path, folder: Path) -> None:
    """OpenSSH reads IdentityFile FILE from FILE.pub where FILE is missing; so is what `ssh -G` says followed."""
    add(key)
    key.unlink()
    config = folder / "config"
    config.write_text(f"Host target\n IdentityFile {key}\n IdentitiesOnly yes\n")
    found = resolve("hosts.yml: host 'a'", Host("a", "target"), ["-F", str(config)])
    assert found.key_file == key.with_name("key.pub")
    assert answers(server.host(key_file=found.key_file)) == "controller-1:hello"


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
@pytest.mark.parametrize("passphrase", ["", "a passphrase"])
def test_public_half_of_a_private_file(folder: Path, kind: str, passphrase: str) -> None:
    """The same as FILE.pub has."""
    file = make_key(folder / "some", passphrase, kind)
    public = public_half(folder / "some.pub")
    assert public is not None
    (folder / "some.pub").unlink()
    assert public_half(file) == public


@pytest.mark.parametrize("content", [b"", b"ssh-ed25519", b"ssh-ed25519 AAAA", b"ssh-rsa !!", os.urandom(3000)])
def test_file_that_is_no_key(folder: Path, content: bytes) -> None:
    """It has no public half."""
    (folder / "some").write_bytes(content)
    assert public_half(folder / "some") is None
