"""`upgrader guard`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testkit.fakes.kube import FakeKube
from upgrader.app import guard_switch
from upgrader.cli.main import cli
from upgrader.ports import Kube
from upgrader.webhook_switch.configurations import KINDS, NOTHING

KIND = KINDS["ValidatingWebhookConfiguration"]


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> FakeKube:
    """The cluster behind the command, with one webhook."""
    fake = FakeKube()
    labels = {"grafana.com/inject-rollout-operator-ca": "true"}
    webhook = {"name": "one.example", "clientConfig": {"url": "https://x"}}
    fake.put(KIND, {"metadata": {"name": "a", "labels": labels}, "webhooks": [webhook]})

    @contextmanager
    def open_kube(_folder: Path, _seconds: float) -> Iterator[Kube]:
        yield fake

    monkeypatch.setattr(guard_switch, "open_kube", open_kube)
    return fake


def upgrader(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["guard", *arguments], catch_exceptions=False)


def test_each_webhook_is_named(kube: FakeKube) -> None:
    """On standard error, once it is off; where nothing was to be done, that is said."""
    ended = upgrader("off")
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert ended.stderr == "off: one.example of ValidatingWebhookConfiguration a\n"
    found = kube.get(KIND, "a")
    assert found and found["webhooks"][0]["objectSelector"] == NOTHING
    assert upgrader("off", "a").stderr == "None of guard's webhooks was on.\n"


def test_nothing_to_switch_on(kube: FakeKube) -> None:
    """It says so."""
    assert upgrader("on").stderr == "None of guard's webhooks was off.\n"
