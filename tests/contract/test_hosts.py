"""What callers of SSH rely on, from the fake and from a real machine alike."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.hosts import FakeHosts
from upgrader.adapters.hosts import SshHosts
from upgrader.errors import BackupRefused, HostError, HostUnreachable
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult, Hosts


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.lab)])
def hosts(request: pytest.FixtureRequest) -> Hosts:
    """The port: the fake or the adapter."""
    if request.param == "real":
        adapter: SshHosts = request.getfixturevalue("ssh")
        return adapter
    fake = FakeHosts()
    fake.commands = {
        "cat": lambda host, command, stdin: CommandResult(0, stdin.decode(), ""),
        "echo": lambda host, command, stdin: CommandResult(0, " ".join(command[1:]) + "\n", ""),
        "false": CommandResult(1, "", ""),
        "ls": CommandResult(2, "", "ls: cannot access '/nonsense': No such file or directory"),
    }
    return fake


@pytest.fixture
def host(request: pytest.FixtureRequest) -> Host:
    """A machine that can be reached."""
    if "real" in request.node.callspec.params.values():
        found: Host = request.getfixturevalue("machine")
        return found
    return Host("controller-1", "10.0.0.11")


@pytest.fixture
def path(hosts: Hosts, host: Host) -> Iterator[str]:
    """A file that no other test uses."""
    path = f"/root/contract-{uuid.uuid4().hex[:8]}"
    yield path
    if isinstance(hosts, SshHosts):
        hosts.run(host, ["rm", "-f", path])


def test_stdin_reaches_the_command(hosts: Hosts, host: Host) -> None:
    """Input larger than any buffer arrives whole."""
    text = "line\n" * 600_000
    assert hosts.run(host, ["cat"], stdin=text.encode()).stdout == text


def test_stdin_in_chunks_arrives_as_one(hosts: Hosts, host: Host) -> None:
    """An input that is made while it is sent arrives whole and in its order."""
    chunks = (f"line {number}\n".encode() for number in range(20_000))
    lines = hosts.run(host, ["cat"], stdin=chunks).stdout.splitlines()
    assert lines == [f"line {number}" for number in range(20_000)]


def test_an_input_that_fails_ends_the_command(hosts: Hosts, host: Host) -> None:
    """A damaged backup is reported as that, and its command doesn't wait for the rest until its deadline."""

    def damaged() -> Iterator[bytes]:
        yield b"the first part"
        raise BackupRefused("it is damaged")

    with pytest.raises(BackupRefused, match="damaged"):
        hosts.run(host, ["cat"], stdin=damaged(), timeout_seconds=60.0)
    assert hosts.run(host, ["cat"], stdin=b"next").stdout == "next"


def test_output_is_streamed(hosts: Hosts, host: Host) -> None:
    """Output arrives in chunks, complete at the end; a failed command is an error then."""
    words = ["word" * 20] * 500
    assert b"".join(hosts.stream(host, ["echo", *words], timeout_seconds=30.0)).decode().split() == words
    with pytest.raises(HostError, match=r"controller-1: 'ls /nonsense' failed with exit code 2: .*No such file"):
        list(hosts.stream(host, ["ls", "/nonsense"], timeout_seconds=30.0))


def test_failed_command_raises_with_its_words(hosts: Hosts, host: Host) -> None:
    """A non-zero exit is an error that names host, command and output."""
    with pytest.raises(HostError, match=r"controller-1: 'ls /nonsense' failed with exit code 2: .*No such file"):
        hosts.run(host, ["ls", "/nonsense"])


def test_failed_command_can_be_looked_at(hosts: Hosts, host: Host) -> None:
    """With `check=False` a non-zero exit status is a result, not an error."""
    assert hosts.run(host, ["false"], check=False).exit_status == 1


def test_missing_file_is_none(hosts: Hosts, host: Host, path: str) -> None:
    """A missing file is a result, not an error."""
    assert hosts.read(host, path) is None


def test_written_file_is_read_back(hosts: Hosts, host: Host, path: str) -> None:
    """Bytes are written unchanged, and a second write replaces the first."""
    for content in (b"first", bytes(range(256)) * 2000, b""):
        hosts.write(host, path, content)
        assert hosts.read(host, path) == content


class TestRealOnly:
    """What only a real machine can show."""

    def test_mode_and_no_remains(self, ssh: SshHosts, machine: Host, tmp_path: Path) -> None:
        """The file has the given mode and belongs to root, and no temporary file stays."""
        folder = f"/root/contract-{uuid.uuid4().hex[:8]}"
        ssh.run(machine, ["mkdir", folder])
        try:
            ssh.write(machine, f"{folder}/a b'c", b"x", mode=0o640)
            assert ssh.run(machine, ["stat", "-c", "%a %U", f"{folder}/a b'c"]).stdout == "640 root\n"
            assert ssh.run(machine, ["ls", "-A", folder]).stdout == "a b'c\n"
        finally:
            ssh.run(machine, ["rm", "-r", folder])

    def test_write_into_a_missing_folder_says_so(self, ssh: SshHosts, machine: Host) -> None:
        """The error names the file that could not be written, and not its content."""
        with pytest.raises(HostError, match="write /nonsense/file") as caught:
            ssh.write(machine, "/nonsense/file", b"secret content")
        assert "secret content" not in caught.value.message

    def test_deadline_holds(self, ssh: SshHosts, machine: Host) -> None:
        """A command that doesn't end is abandoned at its deadline, and the next one gets a new connection."""
        with pytest.raises(HostError, match="timed out after 1 s"):
            ssh.run(machine, ["sleep", "60"], timeout_seconds=1.0)
        assert ssh.run(machine, ["echo", "on"]).stdout == "on\n"

    def test_talkative_command_has_a_deadline_too(self, ssh: SshHosts, machine: Host) -> None:
        """Endless output doesn't extend the deadline."""
        with pytest.raises(HostError, match="timed out after 1 s"):
            ssh.run(machine, ["sh", "-c", "while sleep 0.1; do echo on; done"], timeout_seconds=1.0)

    def test_a_stream_is_bytes_of_any_size(self, ssh: SshHosts, machine: Host) -> None:
        """Binary output, larger than any buffer, with megabytes on stderr meanwhile; one that is left early ends."""
        script = "dd if=/dev/zero bs=1M count=4 status=none >&2; dd if=/dev/zero bs=1M count=8 status=none"
        assert sum(map(len, ssh.stream(machine, ["sh", "-c", script], timeout_seconds=60.0))) == 8 << 20
        endless = ssh.stream(machine, ["cat", "/dev/zero"], timeout_seconds=60.0)
        assert next(iter(endless))
        del endless
        assert ssh.run(machine, ["echo", "on"]).stdout == "on\n"

    def test_both_streams_at_once(self, ssh: SshHosts, machine: Host) -> None:
        """Megabytes on stderr don't block stdout, nor vice versa."""
        script = "dd if=/dev/zero bs=1M count=4 status=none | tr '\\0' e >&2; echo done"
        result = ssh.run(machine, ["sh", "-c", script])
        assert (result.stdout, len(result.stderr)) == ("done\n", 4 << 20)

    def test_unknown_host_key_is_refused(self, ssh: SshHosts, machine: Host, tmp_path: Path) -> None:
        """A machine with an unknown host key is refused; the remedy says how to add the key."""
        (tmp_path / "known_hosts").touch()
        with pytest.raises(HostUnreachable, match="host key is not known") as caught:
            ssh.run(replace(machine, known_hosts=tmp_path / "known_hosts"), ["true"])
        assert "ssh-keyscan" in caught.value.remedy

    def test_changed_host_key_is_refused(self, ssh: SshHosts, machine: Host, tmp_path: Path) -> None:
        """A host key that differs from the known one is refused."""
        assert machine.known_hosts is not None
        known = tmp_path / "known_hosts"
        lines = machine.known_hosts.read_text().splitlines()
        other = "AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
        known.write_text("".join(f"{line.split()[0]} ssh-ed25519 {other}\n" for line in lines if "ed25519" in line))
        with pytest.raises(HostUnreachable, match="host key has changed") as caught:
            ssh.run(replace(machine, known_hosts=known), ["true"])
        assert "ssh-keygen" in caught.value.remedy

    def test_refused_login_names_the_key(self, ssh: SshHosts, machine: Host) -> None:
        """A refused login names the key that was tried."""
        with pytest.raises(HostUnreachable, match="login refused with"):
            ssh.run(replace(machine, user="nobody"), ["true"])

    def test_missing_key_file_is_named(self, ssh: SshHosts, machine: Host, tmp_path: Path) -> None:
        """A missing key file is reported as missing, not as refused."""
        with pytest.raises(HostUnreachable, match="missing-key"):
            ssh.run(replace(machine, key_file=tmp_path / "missing-key"), ["true"])

    def test_closed_port_is_unreachable(self, ssh: SshHosts, machine: Host) -> None:
        """A machine without SSH is reported as unreachable, not as failed."""
        with pytest.raises(HostUnreachable, match=":1\\)"):
            ssh.run(replace(machine, port=1), ["true"])

    def test_a_bastion_is_passed(self, ssh: SshHosts, machine: Host) -> None:
        """A real sshd forwards to the machine: the connection comes from the bastion's own address."""
        through = replace(machine, jumps=(machine,))
        seen = ssh.run(through, ["sh", "-c", "echo $SSH_CONNECTION"]).stdout.split()
        assert seen[0] == seen[2]
        assert ssh.run(through, ["cat"], stdin=b"x" * 300_000).stdout == "x" * 300_000

    def test_a_proxy_command_is_used(self, ssh: SshHosts, machine: Host) -> None:
        """OpenSSH's own `ssh -W` is a ProxyCommand like any other."""
        options = f"-F none -i {machine.key_file} -o UserKnownHostsFile={machine.known_hosts}"
        command = f"ssh {options} -p %p -W %h:%p {machine.user}@%h"
        assert ssh.run(replace(machine, proxy_command=command), ["echo", "on"]).stdout == "on\n"

    def test_become_uses_sudo_without_a_password(self, ssh: SshHosts, machine: Host) -> None:
        """With `become` a command runs through `sudo -n`; without sudo the error has the shell's message."""
        try:
            result = ssh.run(replace(machine, become=True), ["id", "-u"], check=False)
        except HostError as error:
            pytest.fail(error.message)
        assert result.stdout == "0\n" or "sudo" in result.stderr


def test_connection_is_kept(ssh: SshHosts, machine: Host) -> None:
    """Consecutive commands share a connection: they come from the same port."""
    ports = {ssh.run(machine, ["sh", "-c", "echo $SSH_CONNECTION"]).stdout for _ in range(3)}
    assert len(ports) == 1


def test_missing_known_hosts_is_named(tmp_path: Path) -> None:
    """A missing known_hosts file is named."""
    host = Host("controller-1", "127.0.0.1", known_hosts=tmp_path / "known_hosts")
    with SshHosts() as ssh, pytest.raises(HostUnreachable, match="known_hosts"):
        ssh.run(host, ["true"])
