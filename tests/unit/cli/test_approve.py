"""`upgrader approve`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testkit.fakes.kube import FakeKube
from upgrader.app import approval
from upgrader.cli import approve
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


def upgrader(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(cli, ["approve", *arguments], input=answer, catch_exceptions=False)


def test_approve(kube: FakeKube) -> None:
    """The step is approved of in the user's name, with their reason; the run is named."""
    result = upgrader("b", "--reason", "dashboards are green")
    assert result.exit_code == 0 and "Approved: run r1, step b" in result.stderr
    item = kube.get(CONFIG_MAPS, NAME, NAMESPACE)
    assert item is not None
    notes = item["metadata"]["annotations"]
    assert notes["upgrader.io/approved"] == "r1/b" and "@" in notes["upgrader.io/approved-by"]
    assert notes["upgrader.io/approved-because"] == "dashboards are green"


@pytest.mark.parametrize("arguments", [["b", "--reason", " "], ["--reason", "ok"]])
def test_step_and_reason_are_needed(kube: FakeKube, arguments: list[str]) -> None:
    """Nobody approves of a step that they didn't name, or without a word on why."""
    assert upgrader(*arguments).exit_code == 2
    assert "annotations" not in (kube.get(CONFIG_MAPS, NAME, NAMESPACE) or {})["metadata"]


def test_reason_is_asked_for_at_a_terminal(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever leaves it out is asked why, until they have said it."""
    monkeypatch.setattr(approve, "_at_a_terminal", lambda: True)
    result = upgrader("b", answer="\ndashboards are green\n")
    assert result.exit_code == 0 and "Why do you approve b?" in result.stderr
    item = kube.get(CONFIG_MAPS, NAME, NAMESPACE)
    assert item is not None
    assert item["metadata"]["annotations"]["upgrader.io/approved-because"] == "dashboards are green"


def test_job_without_a_reason(kube: FakeKube) -> None:
    """Where nobody can be asked, the error has the command; whatever stands on standard input is no reason."""
    with pytest.raises(UsageError, match="the approval of step b needs a reason") as caught:
        upgrader("b", answer="y\n")
    assert "upgrader approve b --reason" in caught.value.remedy
    assert "annotations" not in (kube.get(CONFIG_MAPS, NAME, NAMESPACE) or {})["metadata"]


def test_another_step(kube: FakeKube) -> None:
    """A step that isn't the one that waits is an error that names the one that does."""
    with pytest.raises(UsageError, match="waits for the approval of step b, not of a"):
        upgrader("a", "--reason", "ok")
