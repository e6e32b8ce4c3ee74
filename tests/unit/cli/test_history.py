"""`upgrader history` and `upgrader status`: what they print, from the folder alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testkit.fakes.clock import FakeClock
from upgrader.adapters.clock import SystemClock
from upgrader.cli.main import cli
from upgrader.engine.journal.journal_file import Journal
from upgrader.engine.locks.folder_lock import folder_lock
from upgrader.errors import UsageError
from upgrader.model.event import (
    Event,
    GateChecked,
    GatePassed,
    RunEnded,
    RunStarted,
    StepApplied,
    StepEnded,
    StepStarted,
)
from upgrader.model.outcome import RunOutcome, pending
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Clock

TARGET = KubernetesVersion(1, 37, 1)

NAME = "20260101T000000-v1.37.1"
BEGIN: tuple[Event, ...] = (
    RunStarted(NAME, RunKind.UPGRADE, ("pod-checkpointer", "kube-apiserver", "kubernetes"), "/x", TARGET),
    StepStarted("pod-checkpointer", "nothing to change", None),
    StepApplied("pod-checkpointer", 0.0),
    GatePassed("pod-checkpointer", "nodes", 2.0, 3),
    StepEnded("pod-checkpointer", "passed", 5.0),
    StepStarted("kube-apiserver", "v1.36.3 → v1.37.1", None),
    StepApplied("kube-apiserver", 9.0),
    GateChecked("kube-apiserver", "checkpoint", pending("controller-1 has no copy yet"), 0, 3, 60.0),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cluster folder without runs."""
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    return tmp_path


def a_run(folder: Path, *events: Event, name: str = NAME, clock: Clock | None = None) -> Path:
    """Add a run with these events to the folder; returns its journal."""
    path = folder / "runs" / name / "journal.jsonl"
    path.parent.mkdir(parents=True)
    journal = Journal(path, clock or FakeClock())
    for event in events:
        journal.emit(event)
    journal.close()
    return path


def upgrader(folder: Path, *arguments: str) -> Result:
    """Run a command on the folder."""
    return CliRunner().invoke(cli, ["-C", str(folder), *arguments], catch_exceptions=False)


def test_status_of_a_run_that_was_cut_off(folder: Path) -> None:
    """Each step is shown, where the run was interrupted, which gate it waited for, and that it can be resumed."""
    a_run(folder, *BEGIN)
    output = upgrader(folder, "status").stdout
    assert "no run in progress in this folder" in output
    assert "last: kube-apiserver: waiting for its gates" in output
    assert [line.split()[:2] for line in output.splitlines() if line[:2] in (" ✔", " ?", " ·")] == [
        ["✔", "pod-checkpointer"],
        ["?", "kube-apiserver"],
        ["·", "kubernetes"],
    ]
    assert f"`upgrader -C {folder} resume`" in output


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("rolled-back", "Next: `upgrader -C {folder} run --to v1.37.1`"),
        ("failed", "Next: `upgrader -C {folder} check`, then `upgrader -C {folder} resume`"),
    ],
)
def test_status_of_a_run_that_failed_says_what_is_next(folder: Path, outcome: RunOutcome, words: str) -> None:
    """Who comes back to a run of last night finds its remedy, and the command to type, as its report has them."""
    failed = StepEnded("kube-apiserver", "failed", 9.0, "bad flag", remedy="Remove the flag from the values.")
    a_run(folder, *BEGIN, failed, RunEnded(NAME, outcome, 61.0, "bad flag"))
    output = upgrader(folder, "status").stdout
    assert "Remedy: Remove the flag from the values." in output and words.format(folder=folder) in output


def test_status_of_a_run_that_succeeded_asks_for_nothing(folder: Path) -> None:
    """All is done."""
    a_run(folder, BEGIN[0], RunEnded(NAME, "succeeded", 42.0))
    output = upgrader(folder, "status").stdout
    assert "succeeded" in output and "Next:" not in output and "Remedy:" not in output


def test_status_for_machines(folder: Path) -> None:
    """The JSON has the same: state, holder, whether the run can be resumed, and the report so far."""
    a_run(folder, *BEGIN)
    found = json.loads(upgrader(folder, "status", "--json").stdout)
    assert (found["state"], found["holder"], found["resumable"]) == ("idle", None, True)
    assert found["run"]["doing"] == "kube-apiserver: waiting for its gates"
    assert found["run"]["planned"] == ["pod-checkpointer", "kube-apiserver", "kubernetes"]


def test_status_names_the_holder(folder: Path) -> None:
    """Who holds the folder's lock is named, also when no run has begun."""
    with folder_lock(folder, "anna@laptop (process 7)", FakeClock()):
        output = upgrader(folder, "status").stdout
    assert "this folder is locked by anna@laptop (process 7)" in output
    assert "no run was found" in output


def test_status_works_without_the_api(folder: Path) -> None:
    """With an API that doesn't answer, the folder's part is shown, and the cluster's lock could not be read."""
    (folder / "kubeconfig").write_text(
        'apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]\nusers: []\n'
        'contexts: [{name: c, context: {cluster: c, user: ""}}]\ncurrent-context: c\n'
    )
    a_run(folder, *BEGIN)
    output = upgrader(folder, "status").stdout
    assert "the cluster's lock could not be read" in output and "127.0.0.1" in output
    assert "last: kube-apiserver" in output


def test_history_has_a_line_for_each_run(folder: Path) -> None:
    """Outcome, duration and the first line of the reason; a damaged journal is marked, and hides no other run."""
    a_run(folder, BEGIN[0], RunEnded("r", "rolled-back", 61.0, "bad flag\nmore"), name="20260101T000000-v1.37.1")
    damaged = a_run(folder, *BEGIN, name="20260102T000000-v1.37.1")
    damaged.write_bytes(b"garbage\n")
    a_run(folder, BEGIN[0], RunEnded("r", "succeeded", 42.0), name="20260103T000000-adopt")
    lines = upgrader(folder, "history").stdout.splitlines()
    assert len(lines) == 3
    assert "rolled back" in lines[0] and "1 min 01 s" in lines[0] and lines[0].endswith("bad flag")
    assert "can't be read" in lines[1] and "journal.jsonl:1" in lines[1]
    assert "20260103T000000-adopt" in lines[2] and "succeeded" in lines[2] and "42 s" in lines[2]


def test_history_tells_a_run_at_work_from_one_that_was_cut_off(folder: Path) -> None:
    """The newest run is running while the process that began it holds the folder, and was interrupted afterwards."""
    with folder_lock(folder, "anna@laptop (process 7)", FakeClock()):
        a_run(folder, *BEGIN, name="20990101T000000-v1.37.1", clock=SystemClock())
        assert "is running" in upgrader(folder, "history").stdout
        a_run(folder, *BEGIN, name="20990102T000000-v1.37.1", clock=SystemClock())
        listed = json.loads(upgrader(folder, "history", "--json").stdout)
        assert [run["outcome"] for run in listed] == ["interrupted", "running"]
        assert json.loads(upgrader(folder, "status", "-o", "json").stdout)["now"]["step"] == "kube-apiserver"
    assert "was interrupted" in upgrader(folder, "history").stdout


def test_history_for_machines(folder: Path) -> None:
    """The JSON has a report for each run."""
    a_run(folder, BEGIN[0], RunEnded("r", "succeeded", 42.0))
    (run,) = json.loads(upgrader(folder, "history", "--json").stdout)
    assert (run["run"], run["outcome"], run["target"], run["seconds"]) == (NAME, "succeeded", "v1.37.1", 42.0)


def test_no_runs_yet(folder: Path) -> None:
    """A new cluster folder has no runs, which is no error; without a kubeconfig, others' are not known."""
    assert upgrader(folder, "history").stdout.startswith("no run was found; ")
    assert json.loads(upgrader(folder, "history", "--json").stdout) == []


@pytest.mark.parametrize("command", ["status", "history"])
def test_any_other_folder_is_refused(tmp_path: Path, command: str) -> None:
    """Where there is no upgrader.yaml there is no cluster, and the remedy is -C."""
    with pytest.raises(UsageError, match=r"no upgrader\.yaml") as caught:
        upgrader(tmp_path, command)
    assert "-C" in caught.value.remedy
