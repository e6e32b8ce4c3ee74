"""`upgrader guard`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.app import guard_cells, guard_switch
from upgrader.cli.main import cli
from upgrader.errors import Blocked, UsageError
from upgrader.gates.kubernetes_kinds import POD_PROTECTORS
from upgrader.ports import Kube
from upgrader.recover.webhook_bypass.configurations import KINDS, NOTHING

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

    for module in (guard_switch, guard_cells):
        monkeypatch.setattr(module, "open_kube", open_kube)
    return fake


ONCE = "podseidon.kubewharf.io/remove-cell-once"


def protector(kube: FakeKube, name: str, *cells: str, once: str = "") -> None:
    """One that these cells have counted."""
    meta = {"name": name, "namespace": "shop", "annotations": {ONCE: once} if once else {}}
    kube.put(POD_PROTECTORS, {"metadata": meta, "status": {"cells": [{"cellID": cell} for cell in cells]}}, "shop")


class Generator(FakeClock):
    """While somebody waits, all PodProtectors forget what they were asked to; None: nobody does it."""

    def __init__(self, kube: FakeKube | None) -> None:
        super().__init__()
        self._kube = kube

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        for each in self._kube.list(POD_PROTECTORS) if self._kube else ():
            changes = {"metadata": {"annotations": {ONCE: None}}}
            self._kube and self._kube.patch(POD_PROTECTORS, each["metadata"]["name"], changes, "shop")


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


def test_a_cell_is_forgotten_by_all_that_know_it(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others aren't asked; what one was asked to forget besides stays; it waits until that is done."""
    monkeypatch.setattr(guard_cells, "system_clock", lambda: Generator(kube))
    for name, cells in (("a", ("one", "two")), ("b", ("one",)), ("c", ("two",))):
        protector(kube, name, *cells, once="three" if name == "a" else "")
    ended = upgrader("forget-cell", "two")
    assert (ended.exit_code, ended.stderr) == (0, "removing from: shop/a\nremoving from: shop/c\nremoved: two\n")


def test_a_generator_that_takes_its_time_is_waited_for_aloud(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """For what, and how long at most."""
    clock = Generator(None)
    monkeypatch.setattr(guard_cells, "system_clock", lambda: clock)
    protector(kube, "a", "one")
    ended = CliRunner().invoke(cli, ["guard", "forget-cell", "one"])
    assert isinstance(ended.exception, Blocked)
    assert "waiting up to 60 s for guard's generator to remove cell one: shop/a still has" in ended.stderr


def test_what_was_to_be_forgotten_before_is_forgotten_too(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a generator it says so, and leaves what it has asked for."""
    monkeypatch.setattr(guard_cells, "system_clock", lambda: Generator(None))
    protector(kube, "a", "one", "two", once="three, two")
    with pytest.raises(Blocked, match="cell two was not removed within 60 s: shop/a still has the annotation"):
        upgrader("forget-cell", "two")
    found = kube.get(POD_PROTECTORS, "a", "shop")
    assert found and found["metadata"]["annotations"][ONCE] == "three,two"


def test_a_cell_that_nobody_knows(kube: FakeKube) -> None:
    """It says which there are."""
    protector(kube, "a", "one")
    with pytest.raises(UsageError, match="no PodProtector has a cell 'tow'; existing cells: one"):
        upgrader("forget-cell", "tow")
