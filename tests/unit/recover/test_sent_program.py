"""A program that is sent to a host: its secrets are no arguments, and no error repeats a secret answer."""

from __future__ import annotations

import json

import pytest

from testkit.fakes.hosts import FakeHosts
from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.onhost.sending.shipped_program import program
from upgrader.ports import CommandResult

HOST = Host("controller-1", "10.0.0.1")
PROGRAM = SentProgram("authority", "renewal", "its CAs", "look there")


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
    assert program("authority", "renewal").startswith(b"SECRETS = []\n")


@pytest.mark.parametrize("quiet", [False, True])
def test_answer_that_is_cut_off(quiet: bool) -> None:
    """It is repeated only where it can be no secret."""
    hosts = FakeHosts()
    hosts.commands["python3"] = CommandResult(0, '{"key": "half a k', "")
    with pytest.raises(HostError, match="its CAs could not be asked") as caught:
        PROGRAM.answer(hosts, HOST, "key", seconds=1, quiet=quiet)
    assert ("half a k" in caught.value.message) is not quiet
