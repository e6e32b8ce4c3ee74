"""What is left of a run that raised an error."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.fakes.playbooks import FakePlaybooks
from tests.unit.gates.availability.server import ApiServer
from tests.unit.gates.builders import add_down_node, add_node
from upgrader.adapters.clock import SystemClock
from upgrader.app import execution
from upgrader.app.execution import FinishedRun, NewRun, execute_run
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import HeldLock
from upgrader.app.wiring import Session
from upgrader.engine.execution.runner import RunResult
from upgrader.engine.execution.stop_request import StopRequest
from upgrader.engine.history.past_runs import past_runs
from upgrader.engine.history.step_times import usual_seconds
from upgrader.engine.journal import journal_file
from upgrader.engine.journal.journal_file import JOURNAL, Journal, read_journal
from upgrader.engine.locks.cluster_lock import acquire
from upgrader.engine.locks.fence import Fence
from upgrader.engine.locks.lease_object import Holder
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import JournalError, MachineFailed, RollbackFailed, UsageError
from upgrader.gates.availability.series_file import SERIES, SeriesWriter
from upgrader.gates.continuity.api_services import REPAIR
from upgrader.gates.kubernetes_kinds import EVENTS, WORKLOADS
from upgrader.gates.rollout_gate import RolloutGate
from upgrader.model.cluster import Cluster, Host
from upgrader.model.event import LockTakenOver, RunStarted, StepApplied, StepEnded, StepStarted
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.observability import ObservabilitySettings
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import AvailabilitySettings, ReleaseSettings, Settings
from upgrader.model.version import KubernetesVersion
from upgrader.model.workload import WorkloadRef
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.ports import Clock, CommandResult, Tools
from upgrader.reporting.report import formats
from upgrader.reporting.report.headline import headline
from upgrader.steps.verify import VerifyStep


def session(folder: Path) -> Any:
    """No more than a run's folder needs."""
    settings = SimpleNamespace(folder=folder, keep_runs=5, on_failure="stop")
    return SimpleNamespace(settings=settings, tools=SimpleNamespace(clock=FakeClock()))


@pytest.mark.parametrize("full", [False, True], ids=["room for a report", "disk full"])
def test_what_ended_the_run_is_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    """A journal that couldn't be written ends the run, and `resume` is the remedy, even if the report fails too."""

    def broken_off(*_: object) -> None:
        raise JournalError("the journal can't be written", remedy="Free disk space: `upgrader resume` continues.")

    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(execution, "_run", broken_off)
    if full:
        monkeypatch.setattr(formats, "write_atomic", no_room)
    with pytest.raises(JournalError, match="the journal can't be written") as caught:
        execute_run(session(tmp_path), FrontEnd(), NewRun(RunKind.UPGRADE, Pipeline(())), held=None)
    assert "upgrader resume" in caught.value.remedy
    reports = [json.loads(path.read_text())["outcome"] for path in tmp_path.glob("runs/*/report.json")]
    assert reports == ([] if full else ["interrupted"])


@pytest.mark.parametrize("number", [28, 30], ids=["disk full", "read-only"])
def test_run_that_the_machine_ends_is_left_to_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A step needs a temporary file, and there is no room: that is no traceback, and no error of the command line."""

    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number), "/tmp/upgrader-ansible-1")

    monkeypatch.setattr(execution, "_run", fails)
    with pytest.raises(MachineFailed, match="upgrader-ansible-1 can't be used") as caught:
        execute_run(session(tmp_path), FrontEnd(), NewRun(RunKind.UPGRADE, Pipeline(())), held=None)
    assert "`upgrader resume`" in caught.value.remedy and caught.value.exit_code == 5


def test_run_whose_folder_can_not_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk ends it before anything is changed, and not with a traceback."""

    def no_room(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", no_room)
    with pytest.raises(UsageError, match="can't be created: No space left on device; nothing was changed") as caught:
        execute_run(session(tmp_path), FrontEnd(), NewRun(RunKind.UPGRADE, Pipeline(())), held=None)
    assert f"df {tmp_path / 'runs'}" in caught.value.remedy


def test_run_whose_journal_can_not_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does one that had room left for its folder alone, or whose quota of files is reached."""

    def no_room(*_: object, **__: object) -> None:
        raise OSError(122, "Disk quota exceeded")

    monkeypatch.setattr(journal_file, "_new", no_room)
    with pytest.raises(
        UsageError, match=r"journal\.jsonl can't be created: Disk quota exceeded; nothing was"
    ) as caught:
        execute_run(session(tmp_path), FrontEnd(), NewRun(RunKind.UPGRADE, Pipeline(())), held=None)
    assert f"df {tmp_path / 'runs'}" in caught.value.remedy


def test_run_that_changed_nothing_says_so() -> None:
    """Nobody has to look at a cluster that is as it was; it ends as a run that was rolled back does."""
    images = StepState("images", "failed", prepares=True)
    state = RunState("r1", RunKind.UPGRADE, steps=(images,), failure=images, target=TARGET)
    result, settings = RunResult("rolled-back", "no such image", "fix its name"), settings_in(Path("/c"))
    error = execution._error(result, state, settings)
    after_a_change = execution._error(result, replace(state, steps=(CHANGED,)), settings)
    assert error is not None and after_a_change is not None
    assert "before it changed anything" in error.message and "no such image" in error.message
    assert (error.exit_code, error.remedy) == (4, "fix its name\nThen: upgrader run --to v1.37.1")
    assert "and was rolled back" in after_a_change.message


@pytest.mark.parametrize("told", ["", REPAIR + " If it still fails after the rollback, the run did not cause this."])
def test_what_a_rollback_could_not_repair_is_said(told: str) -> None:
    """A cluster whose custom resources can't be read isn't healthy, whatever the gates of the control plane say; the
    report says so, too, and how to repair it, once.
    """
    unread = "reading /apis/example.com/v2/things/one worked before this run and fails now: no such host"
    undone = StepState("kube-apiserver", "undone", reason="gate continuity", undo_reason=unread, undo_remedy=REPAIR)
    state = RunState("r1", RunKind.UPGRADE, steps=(undone,), failure=undone, target=TARGET, outcome="rolled-back")
    state = replace(state, current=KubernetesVersion(1, 36, 3))
    error = execution._error(RunResult("rolled-back", "gate continuity", told), state, settings_in(Path("/c")))
    assert error is not None and error.exit_code == 4
    first = error.message.splitlines()[0]
    assert first == f"The run failed and was rolled back; the control plane is healthy at v1.36.3, but {unread}."
    assert error.remedy.count(REPAIR) == 1
    sentence = headline(state).sentence
    assert "The cluster is healthy" not in sentence and sentence.endswith(f"healthy at v1.36.3, but {unread}.")


def test_controller_that_died_in_the_run_is_named_with_the_way_on() -> None:
    """No gate passes without it, neither forward nor back, and `resume` fails as often as it is run. What comes after
    that way is tested with the removal of controllers.
    """
    kube, hosts = FakeKube(), FakeHosts()
    cluster = Cluster(
        Path("/c"), Path("/c/k"), "demo", Path("/c/h"), tuple(Host(f"c{n}", f"10.0.0.{n}") for n in (1, 2))
    )
    site: Any = SimpleNamespace(
        settings=settings_in(Path("/c")), cluster=cluster, tools=SimpleNamespace(kube=kube, hosts=hosts)
    )
    hosts.commands["true"] = CommandResult(0, "", "")
    for name in ("c1", "c2"):
        add_node(kube, name)
    state = RunState("r1", RunKind.UPGRADE, target=TARGET)

    def remedy() -> str:
        failed = execution._error(RunResult("failed", "node c2 is not Ready", "describe it"), state, site.settings)
        error = execution._past_the_dead(site, state, failed)
        assert isinstance(error, RollbackFailed)
        return error.remedy

    assert "--dead" not in remedy()
    add_down_node(kube, "c2")
    assert "--dead" not in remedy(), "it answers over SSH"
    hosts.down.add("c2")
    assert "upgrader controllers remove c2 --dead" in remedy() and "upgrader resume" in remedy()
    kube.unavailable = True
    assert "--dead" not in remedy(), "without the API nothing is known of it"


def test_file_of_the_release_that_failed_is_named(tmp_path: Path) -> None:
    """What is to be changed is there; a run over several minors is started again for its last one."""
    (tmp_path / "web.yaml").write_text("a: 1\n")
    goal = KubernetesVersion(1, 38, 0)
    state = RunState("r1", RunKind.UPGRADE, failure=StepState("web", "undone"), target=TARGET, goal=goal)
    web = ReleaseSettings("web", "apps", values_file=tmp_path / "web.yaml")
    error = execution._error(RunResult("rolled-back", "why", ""), state, settings_in(tmp_path, web))
    assert error is not None
    assert error.remedy.splitlines() == [
        f"Its values are in {tmp_path / 'web.yaml'}.",
        "Then: upgrader run --to v1.38.0",
    ]


def settings_in(folder: Path, *pipeline: ReleaseSettings, **more: Any) -> Settings:
    """Of a folder; the API isn't probed."""
    files = (folder / "kubeconfig", folder / "hosts.yml")
    return Settings(folder, TARGET, *files, pipeline, availability=AvailabilitySettings(0.0), **more)


TARGET = KubernetesVersion(1, 37, 1)
CHANGED = StepState("kube-apiserver", "undone")


def test_expected_time_is_that_of_earlier_runs(tmp_path: Path) -> None:
    """All steps that change something have to have a time; those whose gates alone are checked need none."""
    home = tmp_path / "20260101T000000-v1.37.1"
    home.mkdir()
    journal = Journal(home / "journal.jsonl", FakeClock())
    for event in (
        RunStarted(home.name, RunKind.UPGRADE, ("web",), "", TARGET, TARGET),
        StepStarted("web", "change", RestorePoint("web", "apps", 1)),
        StepApplied("web", 40.0),
        StepEnded("web", "passed", 65.0),
    ):
        journal.emit(event)
    journal.close()
    web = PipelineStep(WebStep(), (), ())
    other = PipelineStep(VerifyStep("other"), (), (), changes=False)
    usual = usual_seconds(run.state for run in past_runs(tmp_path))
    assert execution._expected_seconds(Pipeline((web, other)), usual) == 65.0
    assert execution._expected_seconds(Pipeline((web, replace(other, changes=True))), usual) is None


class WebStep:
    """A step that changes the release `web`, and succeeds."""

    name = "web"

    def summary(self) -> str:
        return "change"

    def capture(self) -> RestorePoint:
        return RestorePoint("web", "apps", 1)

    def apply(self, note: Callable[[str], None]) -> None:
        note("changed")

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        raise AssertionError("nothing has failed")


def finished_run(
    settings: Settings, kube: FakeKube, clock: Clock, context: str = "demo", held: HeldLock | None = None
) -> FinishedRun:
    """A run of one step, whose gate passes."""
    folder = settings.folder
    cluster = Cluster(folder, settings.kubeconfig, context, folder / "hosts.yml", ())
    tools = Tools(FakeHelm(), kube, FakePlaybooks(), clock, FakeHosts())
    opened = Session(settings, cluster, tools, kube, Fence(tools.hosts, (), clock))
    web = RolloutGate(kube, WorkloadRef("Deployment", "apps", "web"))
    step = PipelineStep(WebStep(), (), (GateRun(web, GatePolicy()),))
    return execute_run(opened, FrontEnd(), NewRun(RunKind.ADOPT, Pipeline((step,))), held=held)


@pytest.mark.parametrize("full", [False, True], ids=["room", "disk full"])
def test_run_keeps_what_clients_saw(
    tmp_path: Path, api: ApiServer, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """A run with a prober leaves samples of all its requests, and curves; where they can't be written, it succeeds
    all the same, and the report says why it has none."""
    kube = FakeKube()
    kube.put(WORKLOADS["Deployment"], {"metadata": {"name": "web", "namespace": "apps"}}, "apps")
    if full:

        def no_room(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(SeriesWriter, "_write", no_room)
    settings = replace(settings_in(tmp_path), availability=AvailabilitySettings(50.0))
    finished = finished_run(settings, kube, SystemClock(), "test")
    assert finished.error is None and finished.state.outcome == "succeeded"
    assert finished.state.availability is not None
    report = json.loads((finished.folder / "report.json").read_text())
    page = (finished.folder / "report.html").read_text()
    if full:
        assert report["availability_series"] == {}
        assert "There are no curves over time: the run&#39;s folder has no availability.jsonl." in page
    else:
        samples = report["availability_series"]
        assert samples["requests"] - samples["unanswered"] == finished.state.availability.requests > 0
        assert "Answered requests over time." in page
        assert (finished.folder / SERIES).stat().st_mode & 0o777 == 0o600


def test_run_is_told_to_whom_the_folder_names(tmp_path: Path) -> None:
    """From the first event to the outcome, through everything that a run is made of: metrics and Events are there."""
    metrics, kube, clock = tmp_path / "metrics", FakeKube(), FakeClock()
    metrics.mkdir()
    kube.raw_answers["/readyz"] = "ok"
    kube.put(WORKLOADS["Deployment"], {"metadata": {"name": "web", "namespace": "apps"}}, "apps")
    wanted = ObservabilitySettings("one", textfile_folder=metrics, object_events=True)
    finished = finished_run(settings_in(tmp_path, observability=wanted), kube, clock)
    assert finished.error is None and finished.state.outcome == "succeeded"
    (file,) = metrics.iterdir()
    assert 'kind="adopt",outcome="succeeded"} 1.0' in file.read_text()
    assert {event["reason"] for event in kube.list(EVENTS)} == {"UpgradeStarted", "UpgradePassed"}


def test_lock_that_was_taken_over_is_in_the_journal(tmp_path: Path) -> None:
    """Whoever reads of the run later learns, once, from whom and why: that process may have left a change half done."""
    kube, clock, folder = FakeKube(), FakeClock(), "boot:1:2"
    kube.raw_answers["/readyz"] = "ok"
    kube.put(WORKLOADS["Deployment"], {"metadata": {"name": "web", "namespace": "apps"}}, "apps")
    for process in ("killed", "again"):
        lock = acquire(kube, clock, Holder(process, folder), take_over=False, note=lambda _: None)
    finished = finished_run(settings_in(tmp_path), kube, clock, held=HeldLock(lock, StopRequest()))
    events = [record.event for record in read_journal(finished.folder / JOURNAL)]
    assert [event.holder for event in events if isinstance(event, LockTakenOver)] == ["killed"]
    assert finished.error is None and finished.state.lock_taken_from == "killed (its process has ended)"
    assert any("was taken over from killed" in note.text for note in finished.state.notes)
