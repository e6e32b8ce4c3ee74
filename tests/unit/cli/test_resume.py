"""`upgrader resume` and `upgrader rollback` as commands: the run, what they refuse, what they show before they act."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from testkit.fakes.clock import FakeClock
from tests.unit.engine.killing import FROM, TO, World, manifest
from upgrader.app import existing_run, left_out, resume, resume_or_start, rollback
from upgrader.app.execution import FinishedRun
from upgrader.app.existing_run import ExistingRun
from upgrader.app.observe_cluster import observe
from upgrader.cli.main import cli
from upgrader.engine.history.journal_replicas import LocalJournals
from upgrader.engine.history.run_discovery import DiscoveredRuns, find_runs
from upgrader.engine.journal.journal_file import Journal
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import ApiUnavailable, Blocked, Interrupted, UsageError
from upgrader.fleet.inputs import folder_digest
from upgrader.model.cluster import Cluster, Host
from upgrader.model.event import (
    Event,
    LockTakenOver,
    RollbackRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    StepApplied,
    StepEnded,
    StepInput,
    StepStarted,
    UndoEnded,
    UndoStarted,
)
from upgrader.model.left_out import LeftOut
from upgrader.model.observed import Observed
from upgrader.model.outcome import RunOutcome
from upgrader.model.release import ReleaseSpec, RestorePoint, Revision
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import PlaybookSettings, ReleaseSettings, Settings
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import Pipeline
from upgrader.ports import Tools
from upgrader.steps.intended import wanted_steps
from upgrader.steps.pipeline_builder import PipelineBuilder
from upgrader.steps.playbook.undone_by_hand import UndoneByHandStep
from upgrader.steps.release.plan import IntendedRelease

OLDER, NEWER = "20260101T000000-v1.37.1", "20260102T000000-v1.37.1"
POINT = RestorePoint("a", "kube-system", 1)
BEGUN = StepStarted("a", "v1 → v2", POINT)
"""An interrupted step."""


@dataclass
class Site:
    """A cluster folder with runs, whose cluster is a world in memory."""

    folder: Path
    world: World
    values: str = "new"
    names: tuple[str, ...] = ("a", "b", "c")
    done: list[tuple[tuple[str, ...], Any]] = field(default_factory=list)
    """Pipelines that would be continued: their steps, and why."""
    api_away: bool = False
    taken_over: LockTakenOver | None = None
    unsearched: tuple[str, ...] = ()
    """Places whose runs can't be known, and why."""
    damaged: tuple[str, ...] = ()
    """Runs whose journal in the cluster isn't valid."""
    elsewhere: tuple[str, ...] = ()
    """Runs that only a controller has the journal of."""
    inputs: tuple[StepInput, ...] = ()
    goal: KubernetesVersion | None = None
    bake_seconds: float = 0.0
    playbooks: tuple[str, ...] = ()
    """Which of the steps are playbooks."""
    pipelines: list[Pipeline] = field(default_factory=list)

    def run(self, name: str, *events: Event, kind: RunKind = RunKind.UPGRADE) -> None:
        """A run of this folder."""
        home = self.folder / "runs" / name
        home.mkdir(parents=True)
        journal = Journal(home / "journal.jsonl", FakeClock())
        upgrade = kind is RunKind.UPGRADE
        target, current = (TO, FROM) if upgrade else (None, None)
        began = RunStarted(name, kind, ("a", "b", "c"), "", target, current, inputs=self.inputs, goal=self.goal)
        for event in (began, *events):
            journal.emit(event)
        journal.close()

    def refused(self, *arguments: str) -> UsageError:
        """The error of a command that is refused; nothing was done."""
        error = self.invoke(*arguments).exception
        assert isinstance(error, UsageError), error
        assert self.done == []
        return error

    def invoke(self, *arguments: str, answer: str = "") -> Result:
        """Run a command."""
        return CliRunner().invoke(cli, ["-C", str(self.folder), *arguments], input=answer)

    @property
    def session(self) -> Any:
        """What the commands need from a session."""
        host = Host("controller-1", "10.0.0.2")
        steps = tuple(
            PlaybookSettings(name, Path(f"/plays/{name}.yml"))
            if name in self.playbooks
            else ReleaseSettings(name, "kube-system", Path("/charts") / name, manifest(name, self.values))
            for name in self.names
        )
        tools = Tools(self.world.helm, self.world.kube, self.world.playbooks, self.world.clock, self.world.hosts)
        folder, unsearched, damaged, elsewhere = self.folder, self.unsearched, self.damaged, self.elsewhere

        class FakeSession(SimpleNamespace):
            settings: Settings
            cluster: Cluster
            left_out: Mapping[str, LeftOut] = MappingProxyType({})

            def find_runs(self) -> DiscoveredRuns:
                found = find_runs((LocalJournals(folder / "runs"),))
                return replace(found, problems=(*found.problems, *unsearched), may_hide=(*found.may_hide, *unsearched))

            def find_brief_runs(self) -> DiscoveredRuns:
                found = find_runs((LocalJournals(folder / "runs"),))
                there = tuple(run for run in found.runs if run.name not in (*damaged, *elsewhere))
                return replace(found, runs=there, damaged=dict.fromkeys(damaged, "no journal"))

            def telling(self, _doing: object) -> Any:
                return self

            def as_marked(self) -> Any:
                return self

            def at(self, target: KubernetesVersion) -> Any:
                self.settings = replace(self.settings, target=target)
                return self

            def _specs(self) -> list[ReleaseSpec]:
                return [item for item in wanted_steps(self.settings, Path()) if isinstance(item, ReleaseSpec)]

            def observe(self) -> Observed:
                return observe(tools.kube, tools.helm, self._specs())

            def intended(self, _emulated: object = None) -> tuple[IntendedRelease, ...]:
                return tuple(IntendedRelease(spec, tools.helm.render(spec)) for spec in self._specs())

            @property
            def builder(self) -> PipelineBuilder:
                return PipelineBuilder(self.settings, self.cluster, tools)

        return FakeSession(
            settings=Settings(
                folder, FROM, folder / "kubeconfig", folder / "hosts.yml", steps, bake_seconds=self.bake_seconds
            ),
            cluster=Cluster(folder, folder / "kubeconfig", "demo", folder / "hosts.yml", (host,)),
            tools=tools,
        )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A cluster without runs."""
    site = Site(tmp_path, World(tmp_path / "journal.jsonl"))

    @contextmanager
    def opened(_folder: Path) -> Iterator[Any]:
        yield site.session

    @contextmanager
    def locked(_session: object, _front_end: object, *, take_over: bool) -> Iterator[Any]:
        if site.api_away:
            raise ApiUnavailable("refused")
        yield SimpleNamespace(lock=SimpleNamespace(taken_over=site.taken_over))

    def continued(run: ExistingRun, pipeline: Pipeline, *, why: object, plan: object) -> FinishedRun:
        site.pipelines.append(pipeline)
        site.done.append((tuple(item.step.name for item in pipeline.steps), why))
        return FinishedRun(RunState(), run.folder)

    for use_case in (existing_run, left_out, resume_or_start):
        monkeypatch.setattr(use_case, "open_session", opened)
    monkeypatch.setattr(existing_run, "cluster_lock", locked)
    for use_case in (resume, rollback):
        monkeypatch.setattr(use_case, "continue_run", continued)
    return site


def test_resume_says_what_is_next_and_asks(site: Site) -> None:
    """The run, its steps and the next action are shown, and without a yes nothing is done."""
    site.run(OLDER, BEGUN)
    output = site.invoke("resume", answer="n\n")
    assert "inspect a, which was interrupted" in output.stderr and OLDER in output.stderr
    assert site.done == []
    assert site.invoke("resume", answer="y\n").exit_code == 0
    steps, why = site.done[0]
    assert steps == ("a", "b", "c") and isinstance(why, RunResumed)


@pytest.fixture
def planned(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Has an entry for each new run that `upgrader run` would plan."""
    begun: list[bool] = []

    @contextmanager
    def propose(*_arguments: object, **_named: object) -> Iterator[None]:
        begun.append(True)
        if begun:
            raise Blocked("a new run")
        yield

    monkeypatch.setattr("upgrader.app.upgrade.propose_upgrade", propose)
    (site.folder / "upgrader.yaml").write_text(f"kubernetesVersion: {TO}\n")
    (site.folder / "hosts.yml").write_text("controllers: {hosts: {a: }}\n")
    return begun


@pytest.mark.parametrize("end", [(), (RunEnded(OLDER, "interrupted", 1.0),)])
def test_retried_job_resumes(site: Site, planned: list[bool], end: tuple[Event, ...]) -> None:
    """`run --resume` continues the upgrade that was cut off, or stopped, and plans no new one."""
    site.run(OLDER, BEGUN, *end)
    ended = site.invoke("run", "--resume", "--yes")
    assert ended.exit_code == 0, ended.output
    assert f"Run {OLDER} was interrupted" in ended.stderr and len(site.done) == 1 and not planned


@pytest.mark.parametrize("end", ["succeeded", "rolled-back", "failed", None])
def test_retried_job_begins(site: Site, planned: list[bool], end: RunOutcome | None) -> None:
    """Without an upgrade that was interrupted, `--resume` changes nothing: one that failed is for a person."""
    if end:
        site.run(OLDER, BEGUN, StepEnded("a", "failed", 1.0, "bad flag"), RunEnded(OLDER, end, 1.0))
    ended = site.invoke("run", "--resume", "--yes")
    assert planned == [True] and not site.done and "a new run" in str(ended.exception)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(("by", "late"), [("2026-01-01T00:00:00+0000", True), ("9000-01-01T00:00:00+0000", False)])
def test_job_that_has_waited_too_long(site: Site, planned: list[bool], by: str, late: bool, begun: bool) -> None:
    """Its cluster's window has closed: no new run begins, but an interrupted one is resumed at any time."""
    if begun:
        site.run(OLDER, BEGUN)
    ended = site.invoke("run", "--resume", "--yes", "--begin-by", by)
    assert len(site.done) == begun and bool(planned) == (not begun and not late)
    if late and not begun:
        assert isinstance(ended.exception, Interrupted) and "too late: after 2026-01-01 00:00Z" in str(ended.exception)


@pytest.mark.parametrize("end", ["succeeded", "rolled-back", "failed"])
@pytest.mark.parametrize(
    ("after", "begins"), [("none", False), (OLDER, False), ("20250101T000000-gone", False), (NEWER, True), (None, True)]
)
def test_job_that_is_started_again(
    site: Site, planned: list[bool], end: RunOutcome, after: str | None, begins: bool
) -> None:
    """A management cluster that was restored from a backup runs a Job again, and so does one that lost its pod: where
    the run of that Job, or a newer one, has ended, no second one begins, not even late in its window.
    """
    site.run(OLDER, BEGUN, RunEnded(OLDER, "rolled-back", 1.0))
    site.run(NEWER, BEGUN, RunEnded(NEWER, end, 1.0))
    given = ["--after", after] if after else []
    late = ["--begin-by", "2026-01-01T00:00:00+0000"] if not begins else []
    error = site.invoke("run", "--resume", "--yes", "--to", str(TO), *given, *late).exception
    assert bool(planned) == begins and not site.done and isinstance(error, Blocked)
    if not begins:
        assert f"run {NEWER} of this cluster has ended ({end}) since" in error.message
        assert "upgrader fleet retry" in error.remedy


def test_job_that_is_started_again_where_its_journal_is_damaged(site: Site, planned: list[bool]) -> None:
    """A controller's copy tells that the run has ended; but a run that only a controller has, as it is of before the
    cluster was restored, is one that the campaign can't know: it keeps no Job from its run.
    """
    site.run(OLDER, BEGUN, RunEnded(OLDER, "rolled-back", 1.0))
    site.run(NEWER, BEGUN, RunEnded(NEWER, "rolled-back", 1.0))
    asked = ("run", "--resume", "--yes", "--to", str(TO), "--after", OLDER)
    site.damaged = (NEWER,)
    assert isinstance(site.invoke(*asked).exception, Blocked) and planned == []
    site.damaged, site.elsewhere = (), (NEWER,)
    site.invoke(*asked)
    assert planned == [True]


def test_job_that_is_started_again_between_two_minors(site: Site, planned: list[bool]) -> None:
    """A run that has only reached a version on the way is gone on from; one that has no end is resumed."""
    site.run(OLDER, BEGUN, RunEnded(OLDER, "succeeded", 1.0))
    site.invoke("run", "--resume", "--yes", "--to", "v1.38.0", "--after", "none")
    assert planned == [True]
    site.run(NEWER, BEGUN)
    assert site.invoke("run", "--resume", "--yes", "--to", str(TO), "--after", OLDER).exit_code == 0
    assert len(site.done) == 1 and planned == [True]


@pytest.mark.parametrize("end", ["succeeded", "rolled-back", None])
def test_retried_job_that_can_t_know(site: Site, planned: list[bool], end: RunOutcome | None) -> None:
    """Where a place with a newer journal can't be read, `--resume` begins nothing on top of what may be half done."""
    site.unsearched = ("the cluster could not be searched for runs: timed out",)
    if end:
        site.run(OLDER, BEGUN, RunEnded(OLDER, end, 1.0))
    error = site.invoke("run", "--resume", "--yes").exception
    assert isinstance(error, Blocked) and "the cluster could not be searched" in error.message
    assert error.remedy.endswith("upgrader run --new") and not planned and not site.done
    site.invoke("run", "--new", "--yes")
    assert planned == [True], "a person's word that nothing was interrupted"


def test_retried_job_of_an_upgrade_that_is_known(site: Site, planned: list[bool]) -> None:
    """An upgrade that is known to have no end is resumed, as `resume` does, whatever can't be read besides."""
    site.unsearched = ("controller-2 could not be searched for runs: timed out",)
    site.run(OLDER, BEGUN)
    assert site.invoke("run", "--resume", "--yes").exit_code == 0
    assert len(site.done) == 1 and not planned


def test_retried_job_of_another_target(site: Site, planned: list[bool]) -> None:
    """What was interrupted is completed, and what is asked for now is not taken for done."""
    site.run(OLDER, BEGUN)
    error = site.invoke("run", "--resume", "--to", "v1.38.0", "--yes").exception
    assert isinstance(error, Blocked) and "v1.38.0 was not started" in str(error) and "plan" in error.remedy
    assert len(site.done) == 1 and not planned


@pytest.mark.parametrize("wrong", ["", "target", "goal", "folder"])
def test_resumed_run_of_a_campaign(site: Site, planned: list[bool], wrong: str) -> None:
    """It goes on only in the folder that was approved and to the campaign's version, whatever its journal says."""
    site.goal = KubernetesVersion(1, 39, 0) if wrong == "goal" else None
    site.run(OLDER, BEGUN)
    approved = folder_digest(site.folder)
    if wrong == "folder":
        (site.folder / "values.yaml").write_text("a: 1\n")
    target = "v1.38.0" if wrong == "target" else str(TO)
    error = site.invoke("run", "--resume", "--to", target, "--yes", "--approved-inputs", approved).exception
    assert len(site.done) == (0 if wrong else 1) and not planned
    if wrong:
        said = "the cluster folder has changed since" if wrong == "folder" else "but the campaign is for"
        assert isinstance(error, Blocked) and said in str(error)


@pytest.mark.parametrize(("saved", "code"), [(TO, 0), (KubernetesVersion(1, 38, 0), 1)])
def test_retried_job_with_the_plan_that_was_approved(
    site: Site, planned: list[bool], monkeypatch: pytest.MonkeyPatch, saved: KubernetesVersion, code: int
) -> None:
    """The saved plan is stale once the run was resumed: done if that was to the same version, refused if not."""
    file = site.folder / "plan.json"
    file.write_text("{}")
    monkeypatch.setattr(resume_or_start, "read_plan", lambda _: SimpleNamespace(target=saved))
    site.run(OLDER, BEGUN)
    ended = site.invoke("run", "--resume", "--plan", str(file), "--yes")
    assert ended.exit_code == code and len(site.done) == 1 and not planned


def test_run_that_goes_back_needs_only_its_journal_and_the_steps_names(site: Site) -> None:
    """With other values and another pipeline, which still names the step, its restore point is used."""
    site.run(OLDER, BEGUN, StepEnded("a", "failed", 1.0, "bad flag"))
    site.names, site.values = ("c", "a"), "edited since"
    assert site.invoke("resume", "--yes").exit_code == 0
    assert site.done[0][0] == ("a",)


_STUCK = (
    BEGUN,
    StepApplied("a", 1.0),
    StepEnded("a", "passed", 2.0),
    StepStarted("b", "ansible-playbook b.yml", RestorePoint()),
    StepEnded("b", "failed", 1.0, "disk full"),
    UndoStarted("b", "nothing"),
    UndoEnded("b", False, 1.0, "upgrader.yaml names no playbook that undoes b.yml"),
    RunEnded(OLDER, "failed", 5.0),
)
"""A run that stands still, as its playbook has no undo."""


def test_playbook_that_was_taken_back_by_hand(site: Site) -> None:
    """`--done` says plainly that nothing is run for it; then the steps before it are rolled back."""
    site.playbooks = ("b",)
    site.run(OLDER, *_STUCK)
    output = site.invoke("resume", "--done", "b", answer="n\n")
    assert "only check the gates of b, whose changes were reverted by hand (--done)" in output.stderr
    assert site.done == []
    assert site.invoke("resume", "--done", "b", "--yes").exit_code == 0
    taken_back, before = site.pipelines[0].steps
    assert isinstance(taken_back.step, UndoneByHandStep) and taken_back.undo_gates
    assert before.step.name == "a" and not isinstance(before.step, UndoneByHandStep)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("a", "it isn't a playbook"),
        ("c", "the run doesn't have this step, or has not started it"),
        ("nope", "doesn't have this step"),
    ],
)
def test_nothing_else_is_called_done(site: Site, step: str, why: str) -> None:
    """A person's word counts for the playbook that upgrader could not undo, and the error names that one."""
    site.playbooks = ("b",)
    site.run(OLDER, *_STUCK)
    refused = site.refused("resume", "--done", step, "--yes")
    assert why in refused.message and refused.remedy.endswith("whose rollback has failed: b.")


def test_undo_is_tried_before_it_is_called_done(site: Site) -> None:
    """A playbook that failed, and whose rollback hasn't been tried, is not for a person yet."""
    site.playbooks = ("b",)
    site.run(OLDER, *_STUCK[:5])
    refused = site.refused("resume", "--done", "b", "--yes")
    assert "its rollback has not failed" in refused.message and refused.remedy == "Resume without `--done`."


def test_release_is_never_called_done(site: Site) -> None:
    """Helm's records say what a release is, and its rollback can be repeated from any state."""
    failed = (StepEnded("a", "failed", 1.0, "bad flag"), UndoStarted("a", "revision 1"))
    site.run(OLDER, BEGUN, *failed, UndoEnded("a", False, 1.0, "no quorum"), RunEnded(OLDER, "failed", 5.0))
    refused = site.refused("resume", "--done", "a", "--yes")
    assert "it isn't a playbook" in refused.message and refused.remedy == "Resume without `--done`."


_FOREIGN = {
    "a release that upgrader.yaml doesn't name": StepStarted("etcd", "x", RestorePoint("etcd", "kube-system", None)),
    "another release under a step's name": StepStarted("a", "x", RestorePoint("etcd", "kube-system", None)),
    "the same name in another namespace": StepStarted("a", "x", RestorePoint("a", "payments", 1)),
    "a playbook under a release's name": StepStarted("a", "x", RestorePoint(playbook="/tmp/evil.yml")),
    "a playbook that upgrader.yaml doesn't name": StepStarted("evil", "x", RestorePoint(playbook="/tmp/evil.yml")),
}


@pytest.mark.parametrize("begun", _FOREIGN.values(), ids=_FOREIGN)
@pytest.mark.parametrize("command", ["resume", "rollback"])
def test_journal_is_followed_only_where_the_folder_names_the_same(site: Site, begun: StepStarted, command: str) -> None:
    """A planted journal can neither have a release removed or rolled back, nor a file run here."""
    site.run(OLDER, begun, StepEnded(begun.step, "failed", 1.0, "bad flag"))
    error = site.refused(command, "--yes")
    assert "upgrader.yaml has no such step" in error.message and "pipeline" in error.remedy


def test_journal_that_goes_forward_is_checked_too(site: Site) -> None:
    """A step that has begun is undone if a later one fails: what it goes back to is checked before."""
    site.run(OLDER, StepStarted("a", "x", RestorePoint("etcd", "kube-system", None)))
    assert "upgrader.yaml has no such step" in site.refused("resume", "--yes").message


@pytest.mark.parametrize("chart", [None, Path("charts/vendored")])
@pytest.mark.parametrize("name", ["pod-checkpointer", "kube-apiserver", "kubernetes"])
def test_no_journal_removes_the_control_plane(site: Site, name: str, chart: Path | None) -> None:
    """A restore point that says that it was not installed before is refused for what a run only upgrades."""
    made = site.session.builder
    made = replace(made, settings=replace(made.settings, pipeline=(ReleaseSettings(name, "kube-system", chart),)))
    new = StepState(name, "passed", restore_point=RestorePoint(name, "kube-system", None))
    with pytest.raises(UsageError, match="would remove a part of the control plane"):
        made.undo(new, FROM, TO)
    site.world.helm.releases[name], site.world.helm.manifests[name, 3] = [Revision(3, "deployed")], ""
    known = StepState(name, "passed", restore_point=RestorePoint(name, "kube-system", 3))
    assert made.undo(known, FROM, TO).step.name == name


def test_other_steps_are_refused(site: Site) -> None:
    """A run whose pipeline has changed is not continued; the error names both pipelines."""
    site.run(OLDER, BEGUN)
    site.names = ("a", "c")
    assert "from a, b, c to a, c" in site.refused("resume", "--yes").message


def test_bake_that_was_switched_is_named(site: Site) -> None:
    """Not the pipeline has changed then, and restoring that would not help."""
    site.run(OLDER, BEGUN)
    site.bake_seconds = 60.0
    refused = site.invoke("resume", answer="y\n")
    assert "`policy.bake` in upgrader.yaml was switched on after run" in str(refused.exception)
    assert site.done == []


def test_other_inputs_are_refused_unless_they_are_accepted(site: Site) -> None:
    """A step whose chart, values or playbook has changed is named; --accept-changes continues."""
    site.inputs = (StepInput("b", "what it was"),)
    site.run(OLDER, BEGUN)
    error = site.refused("resume", "--yes")
    assert error.message.endswith("began: b") and "--accept-changes" in error.remedy
    assert site.invoke("resume", "--yes", "--accept-changes").exit_code == 0
    assert len(site.done) == 1


@pytest.mark.parametrize(("outcome", "also"), [("succeeded", "rollback"), ("rolled-back", "run")])
def test_nothing_to_go_on_with(site: Site, outcome: Any, also: str) -> None:
    """A run that has ended isn't resumed, and the error says what to run instead."""
    site.run(OLDER, RunEnded(OLDER, outcome, 1.0))
    assert f"upgrader {also}" in site.refused("resume", "--yes").remedy


def test_between_two_hops_a_new_run_goes_on(site: Site) -> None:
    """Ctrl-C in the pause: the hop has succeeded, and the error names the way on rather than only the way back."""
    site.goal = KubernetesVersion(1, 39, 0)
    site.run(OLDER, RunEnded(OLDER, "succeeded", 1.0))
    assert site.refused("resume", "--yes").remedy.endswith("Run `upgrader run --to v1.39.0` to continue.")


@pytest.mark.parametrize(("goal", "said"), [(KubernetesVersion(1, 39, 0), True), (None, False)])
def test_goal_of_the_run_is_said_where_the_folder_asks_for_less(
    site: Site, goal: KubernetesVersion | None, said: bool
) -> None:
    """Whoever has set an older version since then would not expect the later hops; `--to` may be why it differs."""
    site.goal = goal
    site.run(OLDER, BEGUN)
    output = site.invoke("resume", answer="n\n")
    assert ("continues to v1.39.0, its original target, although upgrader.yaml now has" in output.stderr) == said


def test_newest_upgrade_is_meant(site: Site) -> None:
    """Adoptions and recoveries are continued with their own commands, and are skipped."""
    site.run(OLDER, BEGUN)
    site.run("20260103T000000-recover", kind=RunKind.RECOVER)
    assert site.invoke("resume", "--yes").exit_code == 0
    assert site.done[0][1].run == OLDER
    site.done.clear()
    assert "upgrader recover" in site.refused("resume", "--yes", "--run", "20260103T000000-recover").remedy
    assert "no run nowhere" in site.refused("resume", "--run", "nowhere").message


@pytest.mark.parametrize("command", ["resume", "rollback"])
def test_later_runs_come_first(site: Site, command: str) -> None:
    """A later run's changes build on those of an older run, which can't be continued before."""
    site.run(OLDER, BEGUN)
    site.run(NEWER, BEGUN)
    assert f"upgrader rollback --run {NEWER}" in site.refused(command, "--yes", "--run", OLDER).remedy


def test_adoption_since_is_no_run_to_take_back(site: Site) -> None:
    """Where the control plane was adopted again since, no command is named that would be refused."""
    site.run(OLDER, BEGUN)
    site.run("20260102T000000-adopt", BEGUN, kind=RunKind.ADOPT)
    remedy = site.refused("resume", "--yes").remedy
    assert "upgrader adopt" in remedy and "rollback" not in remedy


def test_nothing_has_run_yet(site: Site) -> None:
    """A cluster without upgrades has nothing to resume."""
    assert "no upgrade yet" in site.refused("resume").message


@pytest.mark.parametrize("command", ["resume", "rollback"])
@pytest.mark.parametrize("named", [(), ("--run", OLDER)])
def test_unsearched_places_may_have_the_run(site: Site, command: str, named: tuple[str, ...]) -> None:
    """Where the cluster can't be asked for runs, nobody is told that there is none, nor to start a new one."""
    site.unsearched = ("the cluster could not be searched for runs: Connection refused",)
    error = site.refused(command, *named)
    assert "not every place could be searched" in error.message
    assert "upgrader recover --dry-run" in error.remedy and "upgrader run" not in error.remedy


def test_rollback_shows_its_steps_and_asks(site: Site) -> None:
    """Each step that would be undone is shown with its goal; without a yes nothing is done."""
    site.run(OLDER, BEGUN, StepApplied("a", 1.0), StepEnded("a", "passed", 2.0), RunEnded(OLDER, "succeeded", 3.0))
    output = site.invoke("rollback", answer="n\n")
    assert "roll back to revision 1" in output.stderr
    assert site.done == []
    assert site.invoke("rollback", "--yes").exit_code == 0
    steps, why = site.done[0]
    assert steps == ("a",) and isinstance(why, RollbackRequested)


def test_run_that_died_before_its_first_record_is_not_the_one_before(site: Site) -> None:
    """Taking a dead run's lock means that run: an earlier successful run is rolled back only by its name."""
    site.run(OLDER, BEGUN, StepApplied("a", 1.0), StepEnded("a", "passed", 2.0), RunEnded(OLDER, "succeeded", 3.0))
    site.taken_over = LockTakenOver("somebody", "", "", "forced")
    assert f"--run {OLDER}" in site.refused("rollback", "--yes").remedy
    assert site.invoke("rollback", "--yes", "--run", OLDER).exit_code == 0
    assert len(site.done) == 1


def test_rollback_to_a_step(site: Site) -> None:
    """A step that the run never began is refused; with the last one there is nothing to undo."""
    site.run(OLDER, BEGUN)
    assert "Name one of the steps that it has started: a" in site.refused("rollback", "--to", "b", "--yes").remedy
    assert "Nothing to roll back" in site.invoke("rollback", "--to", "a", "--yes").stderr
    assert site.done == []


def test_api_that_is_away_comes_first(site: Site) -> None:
    """Without an API there is no lock and nothing to inspect: `upgrader recover` is named."""
    site.run(OLDER, BEGUN)
    site.api_away = True
    error = site.invoke("resume", "--yes").exception
    assert isinstance(error, ApiUnavailable) and "upgrader recover" in error.remedy


@pytest.mark.parametrize("command", ["resume", "rollback"])
def test_run_is_named_with_or_without_its_option(site: Site, command: str) -> None:
    """`rollback RUN` is `rollback --run RUN`; two different runs are a contradiction."""
    site.run(OLDER, BEGUN)
    assert site.invoke(command, OLDER, "--yes").exit_code == 0
    assert site.done.pop()[1].run == OLDER
    assert "were given" in site.refused(command, NEWER, "--run", OLDER).message
