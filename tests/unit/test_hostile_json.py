"""JSON that others write: nested deeper than Python reads, or with a number that is none, it is damage like any."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from upgrader.engine.history.journal_in_secrets import SECRETS, ClusterReplicas, secret_name
from upgrader.engine.locks.fence import Fence, Token
from upgrader.errors import JournalError
from upgrader.model.cluster import Host
from upgrader.recover.diagnosis.causes.cause import last_words
from upgrader.recover.steps.revision_match import Checkpoint
from upgrader.recover.webhook_bypass import configurations
from upgrader.steps.playbook.playbook_markers import Marker, read_marker

DEEP = "[" * 100_000
HOST = Host("controller-1", "")


def of_a_token(text: str) -> object:
    hosts = FakeHosts()
    hosts.files[HOST.name, "/etc/kubernetes/upgrader/playbook-token.json"] = text.encode()
    return Fence(hosts, (HOST,), FakeClock()).read_or_none(HOST)


def of_a_marker(text: str) -> object:
    hosts = FakeHosts()
    hosts.files[HOST.name, "/m.json"] = text.encode()
    return read_marker(hosts, HOST, "/m.json")


def of_a_journal(text: str) -> object:
    kube = FakeKube()
    data = {"chunks.json": base64.b64encode(text.encode()).decode(), "tail.jsonl.gz": ""}
    kube.put(SECRETS, {"metadata": {"name": secret_name("r1")}, "data": data}, "kube-system")
    try:
        return ClusterReplicas(kube).read("r1")
    except JournalError as error:
        return type(error)


def of_a_checkpoint(text: str) -> object:
    try:
        return Checkpoint.parse(1, b"{}", text.encode())
    except ValueError:
        return ValueError


def of_a_webhook(text: str) -> object:
    return configurations._formers({"metadata": {"annotations": {configurations.NOTE: text}}, "webhooks": []})


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (of_a_token, Token()),
        (of_a_marker, Marker()),
        (of_a_journal, JournalError),
        (of_a_checkpoint, ValueError),
        (of_a_webhook, {}),
        (lambda text: last_words([text]) != "", True),
    ],
    ids=["token", "marker", "journal", "checkpoint", "webhook", "log"],
)
def test_what_is_nested_too_deeply_is_not_read(read: Callable[[str], object], found: object) -> None:
    """Each reader answers as for any other text that isn't its own."""
    assert read(DEEP) == found


@pytest.mark.parametrize(
    ("read", "text", "found"),
    [(of_a_token, '{"number": 1e999}', Token()), (of_a_marker, '{"begun": 1e999}', Marker())],
    ids=["token", "marker"],
)
def test_a_number_without_an_end_is_none(read: Callable[[str], object], text: str, found: object) -> None:
    """JSON has no infinity, but Python's parser makes one of a large number."""
    assert read(text) == found
