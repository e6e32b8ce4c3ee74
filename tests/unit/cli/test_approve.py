"""`upgrader approve`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testkit.fakes.kube import FakeKube
from upgrader.app import approval
from upgrader.cli.main import cli
from upgrader.engine.execution.approval import NAME, NAMESPACE
from upgrader.errors import UsageError
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS
from upgrader.ports import Kube


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> FakeKube:
    """The cluster behind the command, in which a run waits for step b."""
    fake = FakeKube()
    fake.put(CONFIG_MAPS, {"metadata": {"name": NAME}, "data": {"run": "r1", "step": "b"}}, NAMESPACE)

    @contextmanager
    def open_kube(_folder: Path, _seconds: float) -> Iterator[Kube]:
        yield fake

    monkeypatch.setattr(approval, "open_kube", open_kube)
    return fake


def upgrader(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["approve", *arguments], catch_exceptions=False)


def test_approve(kube: FakeKube) -> None:
    """The step is approved of in the user's name, with their reason; the run is named."""
    result = upgrader("b", "--reason", "dashboards are green")
    assert result.exit_code == 0 and "Approved: run r1, step b" in result.stderr
    item = kube.get(CONFIG_MAPS, NAME, NAMESPACE)
    assert item is not None
    notes = item["metadata"]["annotations"]
    assert notes["upgrader.io/approved"] == "r1/b" and "@" in notes["upgrader.io/approved-by"]
    assert notes["upgrader.io/approved-because"] == "dashboards are green"


@pytest.mark.parametrize("arguments", [["b"], ["b", "--reason", " "], ["--reason", "ok"]])
def test_step_and_reason_are_needed(kube: FakeKube, arguments: list[str]) -> None:
    """Nobody approves of a step that they didn't name, or without a word on why."""
    assert upgrader(*arguments).exit_code == 2
    assert "annotations" not in (kube.get(CONFIG_MAPS, NAME, NAMESPACE) or {})["metadata"]


def test_another_step(kube: FakeKube) -> None:
    """A step that isn't the one that waits is an error that names the one that does."""
    with pytest.raises(UsageError, match="waits for an approval of the step b, not of a"):
        upgrader("a", "--reason", "ok")
