"""The commands for a person on the node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.checkpointer.builders import API, made
from upgrader.checkpointer.cli import main
from upgrader.checkpointer.generation import Origin
from upgrader.checkpointer.model import Policy
from upgrader.checkpointer.store import Store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with two generations, one of them damaged."""
    store = Store(tmp_path)
    store.prepare()
    origin = Origin("kube-apiserver-abc-x1", "u", "controller-1", "abc", "4", "2026-01-01T00:00:00Z")
    for _ in range(2):
        store.capture(made(), Policy.API_AWAY, "", origin)
    store.activate(API, 1)
    (store.folder / "workloads/kube-system.kube-apiserver/generations/2/manifest.json").write_text("{}")
    return tmp_path


def test_status(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each workload with its last-known-good and whether its copy is active."""
    assert main(["--root", str(root), "status", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["workload"], row["generation"], row["damaged"]) == ("kube-system/kube-apiserver", 1, 1)
    assert (row["active"], row["active_generation"], row["starts"]) == (True, 1, "api-away")


def test_generations(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each generation with its origin, or with what is wrong with it."""
    assert main(["--root", str(root), "generations"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["workload", "generation", "state"]
    assert "intact" in lines[1] and "kube-apiserver-abc-x1" in lines[1]
    assert "damaged: manifest.json was changed" in lines[2]


def test_an_empty_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A node without checkpoints is no error."""
    assert main(["--root", str(tmp_path), "status"]) == 0
    assert capsys.readouterr().out == "no checkpoints on this node\n"


@pytest.mark.parametrize(
    "arguments", [[], ["run", "--keep=0"], ["run", "--interval=-1"], ["run", "--port=70000"], ["run", "--grace=x"]]
)
def test_bad_usage_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Values outside their range end in exit code 2 with the option's name."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert (arguments[-1].partition("=")[0] if arguments else "COMMAND") in capsys.readouterr().err


def test_run_needs_to_know_where_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the chart's environment the process says what is missing."""
    monkeypatch.delenv("NODE_NAME", raising=False)
    assert main(["run"]) == 1
    assert "NODE_NAME" in capsys.readouterr().err
