"""A program that is sent to a host: its secrets are no arguments, and no error repeats a secret answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import pytest

from testkit.fakes.hosts import FakeHosts
from upgrader.adopt.etcd_membership import change_members
from upgrader.certificates.authority_on_host import AuthorityOnHost
from upgrader.certificates.kubeadm_on_host import KubeadmOnHost
from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.model.etcd_client import EtcdClient
from upgrader.onhost.sending.collect import examine
from upgrader.onhost.sending.etcd_answers import ask_etcd
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.onhost.sending.shipped_program import program
from upgrader.ports import CommandResult
from upgrader.recover.restoring.host_actions import HostActions
from upgrader.recover.restoring.next_actions import StopInstances
from upgrader.steps.backup.etcd_member import EtcdMember
from upgrader.steps.backup.etcd_tools import EtcdTools
from upgrader.steps.etcd.on_hosts import EtcdOnHosts

HOST = Host("controller-1", "10.0.0.1")
PROGRAM = SentProgram("authority", "certificates", "its CAs", "look there")


def test_secrets_are_no_arguments() -> None:
    """They stand in the program's text, which is sent to its standard input."""
    hosts, sent = FakeHosts(), list[bytes]()

    def python(_host: Host, _command: object, stdin: bytes) -> CommandResult:
        sent.append(stdin)
        return CommandResult(0, json.dumps({"changed": []}), "")

    hosts.commands["python3"] = python
    PROGRAM.answer(hosts, HOST, "sign", seconds=1, secrets=("it's\na key",))
    assert hosts.ran == [("controller-1", ("python3", "-I", "-", "sign"))]
    assert sent[0].startswith(b'SECRETS = ["it\'s\\na key"]\n') and sent[0].endswith(b"main(*sys.argv[1:], *SECRETS)\n")
    assert program("authority", "certificates").startswith(b"SECRETS = []\n")


def test_what_a_program_is_given_is_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes in chunks behind the program's text, and may be anything."""
    text = b"import json, sys; print(json.dumps({'words': sys.argv[1:], 'given': list(sys.stdin.buffer.read())}))"
    monkeypatch.setattr("upgrader.onhost.sending.sent_program.program", lambda *_: text)
    hosts = FakeHosts()

    def python(_host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        done = subprocess.run([sys.executable, *command[1:]], input=stdin, capture_output=True, check=True)
        return CommandResult(0, done.stdout.decode(), "")

    hosts.commands["python3"] = python
    for given in ((b"\x00\xff", b"\n"), ()):
        answer = PROGRAM.answer(hosts, HOST, "a", "b", seconds=1, given=iter(given))
        assert answer == {"words": ["a", "b"], "given": list(b"".join(given))}


@pytest.mark.parametrize("quiet", [False, True])
def test_answer_that_is_cut_off(quiet: bool) -> None:
    """It is repeated only where it can be no secret."""
    hosts = FakeHosts()
    hosts.commands["python3"] = CommandResult(0, '{"key": "half a k', "")
    with pytest.raises(HostError, match="the answer about its CAs can't be parsed") as caught:
        PROGRAM.answer(hosts, HOST, "key", seconds=1, quiet=quiet)
    assert ("half a k" in caught.value.message) is not quiet


@pytest.mark.parametrize(
    ("code", "stderr", "remedy"),
    [
        (1, "Failed to start transient service unit: Access denied", "have systemd"),
        (1, "", "have systemd"),
        (127, "bash: line 1: systemd-run: command not found", "have systemd"),
        (1, "Failed to find executable python3: No such file or directory", "Install python3"),
        (127, "sh: 1: python3: not found", "Install python3"),
        (1, "SyntaxError: future feature annotations is not defined", "Python 3.8"),
    ],
)
def test_why_a_unit_does_not_start_is_not_taken_for_an_old_python(code: int, stderr: str, remedy: str) -> None:
    """The remedy is the program's own, unless the unit's Python can't be run, or doesn't know the program."""
    hosts = FakeHosts()
    hosts.commands["systemd-run"] = CommandResult(code, "", stderr)
    unit = SentProgram("authority", "certificates", "the rehearsal", "have systemd", ("systemd-run", "--wait"))
    with pytest.raises(HostError) as caught:
        unit.answer(hosts, HOST, seconds=1)
    assert remedy in caught.value.remedy and (stderr or "no output") in caught.value.message


MEMBER = EtcdMember(HOST, "etcd", "a", "https://10.0.0.1:2380", "https://127.0.0.1:2379", "/var/lib/etcd", "")
ASKED: Mapping[str, Callable[[FakeHosts], object]] = {
    "the machine": lambda hosts: examine(hosts, HOST),
    "etcd": lambda hosts: ask_etcd(hosts, HOST, EtcdClient(("https://10.0.0.1:2379",))),
    "etcd's members": lambda hosts: change_members(hosts, HOST, "remove", "b2"),
    "kube-apiserver's pods": lambda hosts: HostActions(hosts).carry_out(StopInstances(HOST, {"u1": "a"})),
    "its etcd": lambda hosts: EtcdTools(hosts).standing(MEMBER),
    "its etcd ": lambda hosts: EtcdOnHosts(hosts).look(HOST),
    "its kubeadm": lambda hosts: KubeadmOnHost(hosts).look(HOST),
    "its CAs": lambda hosts: AuthorityOnHost(hosts).look(HOST),
}
"""What is asked of a host by a program: its words in errors, and the question."""


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(
    ("printed", "error", "remedy"),
    [
        (CommandResult(127, "", "sh: python3: not found"), "python3 can't be run", "ansible_python_interpreter"),
        (
            CommandResult(1, "", "Traceback\nSyntaxError: no"),
            "querying {} failed with exit code 1: SyntaxError: no",
            "Python 3.8",
        ),
        (CommandResult(0, "Welcome!\n", ""), "the answer about {} can't be parsed: Welcome!", ""),
        (CommandResult(0, '["of another form"]', ""), "the answer about {} can't be parsed", ""),
        (CommandResult(0, '{"of": "another form"}', ""), "the answer about {} can't be parsed: KeyError", ""),
        (CommandResult(0, 'Welcome!\n{"failed": "no disk"}', ""), "controller-1: no disk", ""),
    ],
)
def test_every_question_has_the_same_errors(asked: str, printed: CommandResult, error: str, remedy: str) -> None:
    """Whatever is asked, no answer names the host, why, and what to do; a login shell's words are no answer."""
    hosts = FakeHosts()
    hosts.commands["python3"] = printed
    with pytest.raises(HostError) as caught:
        ASKED[asked](hosts)
    assert error.format(asked.strip()) in caught.value.message and caught.value.message.startswith("controller-1: ")
    assert caught.value.remedy and remedy in caught.value.remedy
