"""Use cases as a library: called without a command line, by a Job, a server or a test."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testkit.fakes.recovery import FakeRecovery
from tests.unit.engine.journals import RUN, STARTED, journal_of
from tests.unit.engine.killing import FROM, TO, World, broken, manifest
from tests.unit.gates.builders import add_node, add_pod, running
from upgrader.app import execution, existing_run, trial_check, upgrade
from upgrader.app.execution import FinishedRun
from upgrader.app.front_end import FrontEnd, SilentDisplay
from upgrader.app.hops import skips_of
from upgrader.app.locking import HeldLock
from upgrader.app.resume import resumable_run
from upgrader.app.rollback import run_to_roll_back
from upgrader.app.trial_check import check_and_try
from upgrader.app.upgrade import check_upgrade, plan_upgrade, propose_upgrade
from upgrader.app.wiring import Session
from upgrader.cli.approved_inputs import with_approved_inputs
from upgrader.cli.ui.plain_log import PlainReporter
from upgrader.cli.ui.plan import print_plan
from upgrader.engine.execution.runner import Runner
from upgrader.engine.history.journal_in_secrets import SECRETS, ClusterReplicas, secret_name
from upgrader.engine.journal.journal_file import JOURNAL, Journal, read_journal
from upgrader.engine.locks.fence import Fence
from upgrader.engine.locks.lease_object import LEASES, NAME, NAMESPACE
from upgrader.engine.state.event_fold import fold, follow
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ApiError, Blocked, ChartRefused, HelmError, Interrupted, Locked, StepFailed, UsageError
from upgrader.gates.continuity.continuity import Continuity
from upgrader.gates.continuity.served_groups import PRERELEASES
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.model.cluster import Cluster, Host
from upgrader.model.event import ChangedSeverity, Event, RunStarted, SkippedCheck, StepEnded, StepStarted, UndoEnded
from upgrader.model.finding import Finding
from upgrader.model.health_before import HealthBefore
from upgrader.model.observed import Observed, ObservedRelease
from upgrader.model.release import ReleaseSpec, RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import AvailabilitySettings, ReleaseSettings, Settings
from upgrader.model.skips import Skips
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind, Recovery, Tools
from upgrader.reporting.report.headline import headline
from upgrader.reporting.report.plan_diffs import DIFFS, read_diffs
from upgrader.steps.plan import Plan
from upgrader.steps.plan_document import PlanDocument
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.trial import step
from upgrader.steps.trial.pod import LABELS
from upgrader.steps.trial.programs import PlannedProgram
from upgrader.steps.trial.trial import Trial


class FakeSession(Session):
    """A session on a world in memory, whose checks find what `findings` says."""

    findings: tuple[Finding, ...] = ()

    def preflight(self, observed: Observed, plan: Plan, families: Collection[str] = ()) -> tuple[Finding, ...]:
        return self.findings

    def recovery(self, admitted: Callable[[], bool]) -> Recovery:
        return FakeRecovery(self.tools.kube)  # type: ignore[arg-type]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A cluster with releases a and c, whose pipeline is a, b, c."""
    world = World(tmp_path / "journal.jsonl")
    steps = tuple(
        ReleaseSettings(name, "kube-system", Path("/charts") / name, manifest(name, "new")) for name in ("a", "b", "c")
    )
    settings = Settings(
        tmp_path, TO, tmp_path / "kubeconfig", tmp_path / "hosts.yml", steps, availability=AvailabilitySettings(0.0)
    )
    host = Host("controller-1", "10.0.0.2")
    cluster = Cluster(tmp_path, settings.kubeconfig, "demo", settings.inventory, (host,))
    tools = Tools(world.helm, world.kube, world.playbooks, world.clock, world.hosts)

    @contextmanager
    def opened(
        _folder: Path, _target: KubernetesVersion | None = None, _kubeconfig: Path | None = None
    ) -> Iterator[Session]:
        yield FakeSession(settings, cluster, tools, world.kube, Fence(tools.hosts, (), tools.clock))

    monkeypatch.setattr(upgrade, "open_session", opened)
    monkeypatch.setattr(trial_check, "open_session", opened)
    monkeypatch.setattr(existing_run, "open_session", opened)
    monkeypatch.setattr(FakeSession, "findings", ())
    return world


def run(folder: Path, front_end: FrontEnd | None = None) -> FinishedRun:
    """An upgrade, from the plan to its end."""
    with propose_upgrade(folder, TO, front_end or FrontEnd(), take_over=False) as proposed:
        return proposed.execute()


def test_upgrade_in_any_thread(world: World, tmp_path: Path) -> None:
    """A server runs an upgrade in a thread of its own, and gets its state and its folder; the lock is free after it."""
    with ThreadPoolExecutor(1) as pool:
        finished = pool.submit(run, tmp_path).result()
    assert (finished.error, finished.state.outcome) == (None, "succeeded")
    assert [step.phase for step in finished.state.steps] == ["passed"] * 3
    assert json.loads((finished.folder / "report.json").read_text())["target"] == str(TO)
    assert [item.step for item in read_diffs(finished.folder / DIFFS).steps] == ["a", "b", "c"], "what it was to change"
    assert set(world.deployed) == {"a", "b", "c"} and all("new" in text for text in world.deployed.values())
    lease = world.kube.get(LEASES, NAME, NAMESPACE)
    assert lease is not None and not lease["spec"].get("holderIdentity")


def test_gates_of_a_run_count_their_requests(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its runner paces them by is what they all have asked."""
    asked = list[Callable[[], int]]()

    class Counting(Runner):
        def __init__(self, **parts: Any) -> None:
            asked.append(parts["asked"])
            super().__init__(**parts)

    monkeypatch.setattr(execution, "Runner", Counting)
    assert run(tmp_path).error is None
    assert asked[0]() > 10


@pytest.mark.parametrize(("release", "refusal"), [("kube-apiserver", Blocked), ("other", ChartRefused)])
def test_chart_that_lacks_what_an_adoption_writes(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, refusal: type[Exception]
) -> None:
    """Where kube-apiserver has no release, the remedy is to adopt; any other chart's refusal is told as it is."""

    def not_adopted(self: Session) -> Observed:
        return Observed(FROM, {}, {release: ObservedRelease((), "")})

    def refused(*_: object) -> Plan:
        raise ChartRefused("endpoints.addresses: needs the controller's address")

    monkeypatch.setattr(FakeSession, "observe", not_adopted)
    monkeypatch.setattr(FakeSession, "upgrade_plan", refused)
    with pytest.raises(refusal, match=r"endpoints\.addresses") as raised:
        check_upgrade(tmp_path, TO)
    assert ("upgrader adopt" in (raised.value.remedy or "")) is (refusal is Blocked)  # type: ignore[attr-defined]


def test_campaign_is_in_the_journal(world: World, tmp_path: Path) -> None:
    """A fleet's coordinator knows a run of its campaign by that."""
    proposed = propose_upgrade(tmp_path, TO, FrontEnd(), take_over=False)
    with with_approved_inputs(tmp_path, None, proposed, "20260101T000000-fleet-v1.37.1") as found:
        finished = found.execute()
    assert fold(read_journal(finished.folder / JOURNAL)).campaign == "20260101T000000-fleet-v1.37.1"


def test_health_before_the_run_is_in_the_journal(world: World, tmp_path: Path) -> None:
    """Another process that continues the run compares with the cluster as it was when the run began."""
    add_node(world.kube, "worker-1")
    worker = dict(world.kube.get(NODES, "worker-1") or {})
    worker["status"] = {**worker["status"], "nodeInfo": {"kubeletVersion": str(FROM)}}
    world.kube.put(NODES, worker)
    add_pod(world.kube, "dns", running(ready=False), priority_class="system-cluster-critical")
    finished = run(tmp_path)
    assert finished.state.outcome == "succeeded"
    assert fold(read_journal(finished.folder / JOURNAL)).health_before == HealthBefore(
        ("worker-1",), ("Deployment dns",)
    )


def test_failed_upgrade_is_a_value(world: World, tmp_path: Path) -> None:
    """What a failure means is in the result: nothing is printed, and the caller decides what to raise."""
    broken(world, "c")
    finished = run(tmp_path)
    assert isinstance(finished.error, StepFailed) and finished.state.outcome == "rolled-back"
    assert finished.state.failure is not None and finished.state.failure.name == "c"
    assert "b" not in world.deployed


def test_plan_changes_nothing(world: World, tmp_path: Path) -> None:
    """A plan has every step with what it would do, takes no lock and leaves no folder behind."""
    before = world.deployed
    checked = plan_upgrade(tmp_path, TO)
    assert [(step.name, step.action) for step in checked.plan.steps] == [
        ("a", "upgrade"),
        ("b", "install"),
        ("c", "upgrade"),
    ]
    assert (checked.plan.current, checked.plan.target) == (FROM, TO)
    assert world.deployed == before and list(tmp_path.iterdir()) == []


def test_plan_knows_how_long_steps_took(world: World, tmp_path: Path) -> None:
    """The journals of this folder tell; before its first run nothing does."""
    assert plan_upgrade(tmp_path, TO).usual_seconds == {}
    finished = run(tmp_path)
    took = {step.name: step.seconds for step in finished.state.steps}
    assert plan_upgrade(tmp_path, TO).usual_seconds == took and all(took.values())


def test_what_is_being_done_is_said_until_there_is_a_plan(world: World, tmp_path: Path) -> None:
    """From the first moment; and nothing is said any more when the plan is shown, or an error."""
    said: list[str] = []
    front_end = FrontEnd(doing=said.append)
    with propose_upgrade(tmp_path, TO, front_end, take_over=False):
        assert said[0] == "reading the cluster's folder…" and said[-1] == ""
        assert [text for text in said if "rendering the charts" in text]
    for ask in (check_upgrade, plan_upgrade):
        said.clear()
        ask(tmp_path, TO, front_end=front_end)
        assert len(said) > 2 and said[-1] == ""


@pytest.mark.parametrize("use", [propose_upgrade, plan_upgrade, check_upgrade])
def test_something_is_said_before_the_first_request(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[..., object]
) -> None:
    """An API that takes seconds to answer doesn't leave the operator before an empty screen."""
    order, check = list[str](), world.kube._check

    def asked(what: str) -> None:
        order.append(what)
        check(what)

    monkeypatch.setattr(world.kube, "_check", asked)
    front_end = FrontEnd(doing=order.append)
    if use is propose_upgrade:
        with propose_upgrade(tmp_path, TO, front_end, take_over=False):
            pass
    else:
        use(tmp_path, TO, front_end=front_end)
    assert order[0] == "reading the cluster's folder…"
    assert len(order) > len([each for each in order if each.endswith("…")]) > 1


def test_check_that_forbids_an_upgrade(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library's caller can't execute by mistake what a check forbids."""
    before = world.deployed
    monkeypatch.setattr(FakeSession, "findings", (Finding("nodes.ready", "unknown", "node x was not read"),))
    with propose_upgrade(tmp_path, TO, FrontEnd(), take_over=False) as proposed:
        assert proposed.checked.blocked
        with pytest.raises(Blocked):
            proposed.execute()
    assert world.deployed == before


def test_check_that_is_skipped_does_not_forbid_an_upgrade(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run starts in spite of it; its journal and log say what was found, and why the operator went on."""
    found = Finding("webhooks.no-backend", "error", "webhook x refuses pods")
    monkeypatch.setattr(FakeSession, "findings", (found,))
    skips = Skips.of([found.id], "x is gone on Monday")
    assert not check_upgrade(tmp_path, TO, skips).blocked and check_upgrade(tmp_path, TO).blocked
    with propose_upgrade(tmp_path, TO, FrontEnd(), take_over=False, skips=skips) as proposed:
        finished = proposed.execute()
    assert finished.state.outcome == "succeeded"
    began = read_journal(finished.folder / JOURNAL)[0].event
    assert isinstance(began, RunStarted)
    assert began.skipped == (SkippedCheck(found.id, found.title, "x is gone on Monday"),)
    log = io.StringIO()
    PlainReporter(log).emit(began)
    assert "skipped: webhooks.no-backend (webhook x refuses pods): x is gone on Monday" in log.getvalue()


def test_severity_that_policy_changed_is_recorded(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's journal and log say what was found, and what the check itself would have made of it."""
    found = Finding("webhooks.no-backend", "warning", "webhook x refuses pods", changed_from="error")
    monkeypatch.setattr(FakeSession, "findings", (found,))
    with propose_upgrade(tmp_path, TO, FrontEnd(), take_over=False) as proposed:
        finished = proposed.execute()
    began = read_journal(finished.folder / JOURNAL)[0].event
    assert isinstance(began, RunStarted)
    assert began.severities == (ChangedSeverity(found.id, found.title, "error", "warning"),)
    log = io.StringIO()
    PlainReporter(log).emit(began)
    assert "warning, not error: webhooks.no-backend (webhook x refuses pods)" in log.getvalue()


def test_rollback_of_an_upgrade(world: World, tmp_path: Path) -> None:
    """A rollback is proposed step by step, and ends without an error, as it was requested."""
    run(tmp_path)
    with run_to_roll_back(tmp_path, None, FrontEnd(), take_over=False) as found:
        proposed = found.propose("")
        assert [step.name for step in proposed.steps] == ["c", "b", "a"]
        finished = proposed.execute()
    assert (finished.error, finished.state.outcome) == (None, "rolled-back")
    assert set(world.deployed) == {"a", "c"} and not any("new" in text for text in world.deployed.values())


def test_rollback_knows_the_apis_that_the_run_changed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gates expect an API to be missing that the run turned off, until that step is undone."""
    run(tmp_path)
    (first, *_) = world.helm.releases["a"]
    world.helm.manifests["a", first.number] += "# --runtime-config=resource.k8s.io/v1beta1=true\n"
    expected: list[Collection[str]] = []

    def noted(kube: Any, clock: Any, *, removed: Collection[str], **named: Any) -> Continuity:
        expected.append(removed)
        return Continuity(kube, clock, removed=removed, **named)

    monkeypatch.setattr(execution, "Continuity", noted)
    with run_to_roll_back(tmp_path, None, FrontEnd(), take_over=False) as found:
        found.propose("").execute()
    assert expected == [{PRERELEASES}]


def test_nothing_to_resume(world: World, tmp_path: Path) -> None:
    """An upgrade that ended is not resumed, and the remedy names what can be done with it."""
    run(tmp_path)
    with (
        pytest.raises(UsageError, match="nothing to resume") as caught,
        resumable_run(tmp_path, None, FrontEnd(), take_over=False),
    ):
        pass
    assert "upgrader rollback" in caught.value.remedy


def stopped_at_c(world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> FinishedRun:
    """An upgrade whose operator interrupted it before its last step."""

    class Impatient(SilentDisplay):
        def emit(self, event: Event) -> None:
            if isinstance(event, StepEnded) and event.step == "b":
                held[0].stop.requested = True

    held: list[HeldLock] = []
    with propose_upgrade(folder, TO, FrontEnd(display=Impatient), take_over=False) as proposed:
        held.append(proposed.held)
        finished = proposed.execute()
    assert isinstance(finished.error, Interrupted)
    world.clock.sleep(60)
    return finished


@dataclass(frozen=True)
class StepSuspended:
    """What a later version may record."""

    step: str


def test_what_a_newer_version_has_recorded_is_not_resumed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What that did is unknown here; but a rollback isn't refused, and says so."""
    finished = stopped_at_c(world, tmp_path, monkeypatch)
    journal = Journal.reopen(finished.folder / JOURNAL, world.clock)
    journal.emit(StepSuspended("c"))
    journal.close()
    notes: list[str] = []
    with (
        pytest.raises(UsageError, match="doesn't know, because a newer one wrote them: StepSuspended") as caught,
        resumable_run(tmp_path, None, FrontEnd(), take_over=False),
    ):
        pass
    assert "version of upgrader that wrote them" in caught.value.remedy
    with run_to_roll_back(tmp_path, None, FrontEnd(notify=notes.append), take_over=False) as found:
        assert any("StepSuspended" in note for note in notes)
        assert found.propose("").execute().state.outcome == "rolled-back"


def test_older_run_is_rolled_back_after_a_newer_one(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the newer run removed at its end, the Secret of continuity's gate, is no reason for that gate to fail."""
    before = world.deployed
    oldest = stopped_at_c(world, tmp_path, monkeypatch)
    with propose_upgrade(tmp_path, TO, FrontEnd(), take_over=False, anew=True) as proposed:
        newer = proposed.execute()
    assert newer.state.outcome == "succeeded"
    world.clock.sleep(60)
    for each in (newer, oldest):
        with run_to_roll_back(tmp_path, each.folder.name, FrontEnd(), take_over=False) as found:
            finished = found.propose("").execute()
        assert (finished.error, finished.state.outcome) == (None, "rolled-back")
        world.clock.sleep(60)
    assert world.deployed == before


def test_new_run_over_an_interrupted_one_is_an_explicit_choice(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would roll back to what the interrupted one left: each way on is named, and nothing is begun without one."""
    finished = stopped_at_c(world, tmp_path, monkeypatch)
    with (
        pytest.raises(Blocked, match=f"run {finished.folder.name} was interrupted") as caught,
        propose_upgrade(tmp_path, TO, FrontEnd(), take_over=False),
    ):
        pass
    assert [line.partition(": ")[2] for line in caught.value.remedy.splitlines()] == [
        "upgrader run --resume",
        "upgrader rollback",
        "upgrader run --new",
    ]
    with propose_upgrade(tmp_path, TO, FrontEnd(), take_over=False, anew=True):
        pass


PROXY = (
    "kind: DaemonSet\nmetadata: {name: p}\n"
    "spec: {template: {spec: {containers: [{name: c, image: registry.example/kube-proxy:%s}]}}}\n"
)


def test_mixed_cluster_is_called_so(world: World, tmp_path: Path) -> None:
    """A component that an interrupted upgrade left behind is in the plan's title, and in what a rollback leads back to.

    The API server's version alone would pass for the cluster's.
    """
    release = ReleaseSpec("a", "kube-system", tmp_path)
    plan = Plan(TO, TO, (PlannedRelease(release, "upgrade", "", PROXY % FROM, PROXY % TO, ()),))
    text = io.StringIO()
    print_plan(PlanDocument.of(plan, (), {}), diff=False, stream=text)
    assert "Kubernetes v1.37.1, mixed with kube-proxy v1.36.3 → v1.37.1" in text.getvalue()
    began = RunStarted("r1", RunKind.UPGRADE, ("a",), "", TO, TO, mixed=plan.mixed)
    assert follow(RunState(), began, world.clock.now()).left_at == "v1.37.1 with kube-proxy v1.36.3"


@pytest.mark.parametrize(
    ("target", "asked", "title"),
    [
        (TO, None, "upgrade to v1.37.1"),
        (KubernetesVersion(1, 35, 9), None, "downgrade to v1.35.9"),
        (TO, "", "rollback of the upgrade to v1.37.1"),
    ],
)
def test_run_is_called_what_it_does(target: KubernetesVersion, asked: str | None, title: str) -> None:
    """A downgrade is no upgrade, and a run that was asked to go back is not undone once more."""
    state = RunState("r1", RunKind.UPGRADE, target=target, current=FROM, rollback_to=asked)
    assert state.title == title
    assert ("upgrader rollback" in headline(state).commands) is (asked is None)


BEGUN = StepStarted("a", "v1 → v2", RestorePoint("a", "kube-system", 1))


@pytest.mark.parametrize(
    ("steps", "refused"), [((BEGUN,), True), ((), False), ((replace(BEGUN, prepares=True),), False)]
)
def test_new_run_over_one_that_another_machine_left(
    world: World, tmp_path: Path, steps: tuple[Event, ...], refused: bool
) -> None:
    """As in a job, whose machine has no runs: the cluster knows of it. One that changed nothing is in no one's way."""
    ClusterReplicas(world.kube).write(RUN, journal_of(tmp_path / "elsewhere", RUN, STARTED, *steps))
    with (
        pytest.raises(Blocked, match=RUN) if refused else nullcontext(),
        propose_upgrade(tmp_path, TO, FrontEnd(), take_over=False),
    ):
        pass


def test_new_run_where_it_is_unknown_whether_one_was_interrupted(world: World, tmp_path: Path) -> None:
    """A journal in the cluster that can't be read is named before a new run is planned."""
    ClusterReplicas(world.kube).write(RUN, journal_of(tmp_path / "elsewhere", RUN, STARTED))
    notes: list[str] = []
    damaged = world.kube.get(SECRETS, secret_name(RUN), "kube-system")
    assert damaged is not None
    world.kube.put(SECRETS, {**damaged, "data": {}}, "kube-system")
    with propose_upgrade(tmp_path, TO, FrontEnd(notify=notes.append), take_over=False):
        assert [note for note in notes if note.startswith("An interrupted upgrade may have been missed")]


def test_resumed_rollback_ends_as_was_requested(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether `rollback` or the `resume` after it has carried it out: it is what was asked for, and no failure."""
    run(tmp_path)

    class Impatient(SilentDisplay):
        def emit(self, event: Event) -> None:
            if isinstance(event, UndoEnded):
                held[0].stop.forbid("stopped on request")

    held: list[HeldLock] = []
    with run_to_roll_back(tmp_path, None, FrontEnd(display=Impatient), take_over=False) as found:
        held.append(found.run.held)
        assert isinstance(found.propose("").execute().error, Interrupted)
    world.clock.sleep(60)
    with resumable_run(tmp_path, None, FrontEnd(), take_over=False) as resumable:
        finished = resumable.prepare(accept_changes=False).execute()
    assert (finished.error, finished.state.outcome) == (None, "rolled-back")


def test_remedy_of_an_older_run_names_it(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`resume` and `rollback` mean the newest upgrade where they name none, which has ended."""
    oldest = stopped_at_c(world, tmp_path, monkeypatch)
    broken(world, "c")
    with propose_upgrade(tmp_path, TO, FrontEnd(), take_over=False, anew=True) as proposed:
        assert proposed.execute().state.outcome == "rolled-back"
    world.clock.sleep(60)

    def refuse(*_: object, **__: object) -> None:
        raise HelmError("no quorum")

    with (
        monkeypatch.context() as patched,
        run_to_roll_back(tmp_path, oldest.folder.name, FrontEnd(), take_over=False) as found,
    ):
        patched.setattr(type(world.helm), "rollback", refuse)
        error = found.propose("").execute().error
    assert error is not None and f"`upgrader resume --run {oldest.folder.name}`" in error.remedy
    world.clock.sleep(60)
    with resumable_run(tmp_path, oldest.folder.name, FrontEnd(), take_over=False) as resumable:
        assert resumable.prepare(accept_changes=False).next


REFUSED = Finding("trial.refused", "error", "kube-apiserver rejects its flags or files", "Error: unknown flag")


@pytest.fixture
def component(monkeypatch: pytest.MonkeyPatch) -> None:
    """Release a starts a kube-scheduler, which refuses its flags."""
    program = (
        "kind: Deployment\nmetadata: {name: s}\nspec: {template: {spec: {containers: [{name: kube-scheduler}]}}}\n"
    )
    planned = FakeSession.plan

    def plan(session: Session, observed: Observed, then: KubernetesVersion | None = None) -> Plan:
        made = planned(session, observed, then)
        steps = (replace(each, after=program) if isinstance(each, PlannedRelease) else each for each in made.steps[:1])
        return replace(made, steps=(*steps, *made.steps[1:]))

    def refuse(_: Trial, programs: tuple[PlannedProgram, ...], __: Callable[[str], None]) -> tuple[Finding, ...]:
        assert [each.command.component for each in programs] == ["kube-scheduler"]
        return (REFUSED,)

    monkeypatch.setattr(FakeSession, "plan", plan)
    monkeypatch.setattr(Trial, "run", refuse)


@pytest.mark.usefixtures("component", "world")
def test_check_may_try_the_components(tmp_path: Path) -> None:
    """What they refuse blocks the run, as in the run itself, beside what the checks find; a skip holds for it."""
    checked = check_and_try(tmp_path, TO, FrontEnd())
    assert checked.findings == (REFUSED,) and checked.blocked
    assert not check_upgrade(tmp_path, TO).blocked
    assert not check_and_try(tmp_path, TO, FrontEnd(), Skips(("trial.refused",), "known")).blocked


@pytest.mark.usefixtures("component")
def test_run_ends_where_a_component_refuses(world: World, tmp_path: Path) -> None:
    """Before its first change; one that was told to go on has the reason in its journal."""
    finished = run(tmp_path)
    assert isinstance(finished.error, StepFailed) and "trial.refused" in finished.error.message
    assert [step.name for step in finished.state.steps if step.phase == "failed"] == ["trial"]
    world.clock.sleep(1)
    with propose_upgrade(tmp_path, TO, FrontEnd(), take_over=False, skips=Skips((REFUSED.id,), "known")) as proposed:
        finished = proposed.execute()
    assert "trial.refused (skipped: known)" in (finished.folder / JOURNAL).read_text()
    assert finished.state.steps[0].phase == "passed"
    assert skips_of(finished.state) == Skips((REFUSED.id,), "known")


@pytest.mark.usefixtures("world")
def test_run_that_is_interrupted_while_components_are_tried_goes_on_as_it_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`resume` has no --skip: what the run was started in spite of doesn't stop it later."""

    class Killed(BaseException):
        pass

    def killed(*_: object) -> tuple[Finding, ...]:
        raise Killed

    program = SimpleNamespace(command=SimpleNamespace(component="kube-scheduler", version=TO))
    monkeypatch.setattr(step, "planned_programs", lambda plan: (program,))
    monkeypatch.setattr(Trial, "run", lambda *_: (REFUSED,))
    skips = Skips((REFUSED.id,), "known")
    with (
        monkeypatch.context() as patched,
        propose_upgrade(tmp_path, TO, FrontEnd(), take_over=False, skips=skips) as begun,
    ):
        patched.setattr(Trial, "run", killed)
        with pytest.raises(Killed):
            begun.execute()
    with resumable_run(tmp_path, None, FrontEnd(), take_over=False) as resumable:
        resumed = resumable.prepare(accept_changes=True).execute()
    assert [step.phase for step in resumed.state.steps if step.name == "trial"] == ["passed"]


@pytest.mark.usefixtures("component", "world")
def test_components_that_can_not_be_tried_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API that answers no more hides nothing of what the checks found; another process's run isn't disturbed."""

    def fail(*_: object) -> tuple[Finding, ...]:
        raise ApiError("no answer")

    monkeypatch.setattr(Trial, "run", fail)
    (found,) = check_and_try(tmp_path, TO, FrontEnd()).findings
    assert (found.id, found.severity, found.diagnosis) == ("trial.unknown", "unknown", "no answer")
    with propose_upgrade(tmp_path, TO, FrontEnd(), take_over=False), pytest.raises(Locked):
        check_and_try(tmp_path, TO, FrontEnd())


def test_check_that_has_no_component_to_try(world: World, tmp_path: Path) -> None:
    """Nothing is created, and the checks' findings are all there are; what a killed one left is removed."""
    pods = Kind("v1", "pods")
    world.kube.put(pods, {"metadata": {"name": "left", "namespace": "kube-system", "labels": LABELS}})
    assert check_and_try(tmp_path, TO, FrontEnd()).findings == ()
    assert world.kube.get(pods, "left", "kube-system") is None
