"""Webhooks of guard's that a run switches off: on again at its end, or by whoever goes on after it was killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.playbooks import FakePlaybooks
from tests.unit.recover.webhook_bypass.test_switch import SELECTOR, VALIDATING, Cluster
from upgrader.app.execution import FinishedRun, NewRun, continue_run, execute_run
from upgrader.app.existing_run import ExistingRun
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import HeldLock
from upgrader.app.wiring import Session
from upgrader.engine.execution.stop_request import StopRequest
from upgrader.engine.journal.journal_file import JOURNAL, read_journal
from upgrader.engine.locks.cluster_lock import acquire
from upgrader.engine.locks.fence import Fence
from upgrader.engine.locks.lease_object import Holder
from upgrader.engine.state.event_fold import fold
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ApiError, StepFailed
from upgrader.model.cluster import Cluster as Machines
from upgrader.model.event import RollbackRequested, RunEnded, RunResumed, WebhookSwitched
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import AvailabilitySettings, Settings
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import Pipeline, PipelineStep
from upgrader.ports import Tools
from upgrader.recover.webhook_bypass.bypassing_tools import BypassingKube
from upgrader.recover.webhook_bypass.configurations import NOTHING
from upgrader.recover.webhook_bypass.unreachable import UnreachableWebhooks
from upgrader.reporting.report.headline import headline


class Killed(BaseException):
    """kill -9: nothing of the process's runs after it."""


class Site:
    """A folder and a cluster whose webhook `one` is down; each process has a session of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cluster = folder, Cluster()
        self.cluster.raw_answers["/readyz"] = "ok"
        self.cluster.configuration("a", "one", one=SELECTOR)
        self.cluster.patch(VALIDATING, "a", {"metadata": {"labels": {"grafana.com/namespace": "ops"}}})
        self.then: Callable[[], None] = lambda: None
        """What happens in the step, once it is done."""

    def is_on(self) -> bool:
        """Whether it selects what it did at first."""
        return self.cluster.selectors("a") == [SELECTOR]

    def run(self, kind: RunKind = RunKind.RECOVER) -> FinishedRun:
        """A run of one step."""
        return execute_run(self._session(), FrontEnd(), NewRun(kind, self._pipeline()), held=None)

    def go_on(self, why: type[RunResumed | RollbackRequested]) -> FinishedRun:
        """The only run, by another process."""
        (folder,) = (self.folder / "runs").glob("2*")
        session = self._session()
        lock = acquire(session.tools.kube, session.tools.clock, Holder("ben"), take_over=True, note=lambda _: None)
        held = HeldLock(lock, StopRequest())
        event = why(folder.name, "ben")
        run = ExistingRun(session, FrontEnd(), held, RunState(), folder)
        return continue_run(run, self._pipeline(), why=event, plan=None)

    def _session(self) -> Session:
        clock = self.cluster.clock
        self.webhooks = UnreachableWebhooks(self.cluster, clock)
        kube = BypassingKube(self.cluster, self.webhooks)
        tools = Tools(FakeHelm(), kube, FakePlaybooks(), clock, FakeHosts())
        files = (self.folder / "kubeconfig", self.folder / "hosts.yml")
        settings = Settings(self.folder, VERSION, *files, (), availability=AvailabilitySettings(0.0))
        machines = Machines(self.folder, files[0], "demo", files[1], ())
        return Session(settings, machines, tools, kube, Fence(tools.hosts, (), clock), unreachable=self.webhooks)

    def _pipeline(self) -> Pipeline:
        return Pipeline((PipelineStep(NeedyStep(self), (), ()),))


VERSION = KubernetesVersion(1, 37, 1)


class NeedyStep:
    """What it writes is refused as long as the webhook is on."""

    name = "web"

    def __init__(self, site: Site) -> None:
        self._site = site

    def summary(self) -> str:
        return "change"

    def capture(self) -> RestorePoint:
        return RestorePoint("web", "apps", 1)

    def apply(self, note: Callable[[str], None]) -> None:
        self._site.webhooks.needed(self._write)
        self._site.then()

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        self._site.webhooks.needed(self._write)

    def _write(self) -> None:
        if self._site.cluster.selectors("a") != [NOTHING]:
            raise ApiError('failed calling webhook "one.example": failed to call webhook: Post "https://x": refused')


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """With nothing in its folder."""
    return Site(tmp_path)


def fails() -> None:
    """As a step does."""
    raise StepFailed("it didn't become ready")


def is_killed() -> None:
    """As a process is."""
    raise Killed


@pytest.mark.parametrize(("then", "outcome"), [(lambda: None, "succeeded"), (fails, "rolled-back")])
def test_it_is_on_at_the_end(site: Site, then: Callable[[], None], outcome: str) -> None:
    """Of a run that succeeds, and of one that is rolled back; before the end is recorded, so that no run is over with
    a webhook off that nobody looks at.
    """
    site.then = then
    finished = site.run(RunKind.ADOPT)
    assert (finished.state.outcome, finished.state.webhooks_off, site.is_on()) == (outcome, (), True)
    events = [record.event for record in read_journal(finished.folder / JOURNAL)]
    ended = next(number for number, event in enumerate(events) if isinstance(event, RunEnded))
    switched = [number for number, event in enumerate(events) if isinstance(event, WebhookSwitched)]
    assert len(switched) == 2 and max(switched) < ended


def test_one_that_does_not_answer_is_what_the_result_says(site: Site) -> None:
    """The run did what it was to do, and its outcome stays; what is off is said, with the command."""
    site.cluster.silent = {"/one"}
    finished = site.run()
    assert finished.error is None and finished.state.outcome == "succeeded" and not site.is_on()
    (left,) = finished.state.webhooks_off
    assert left.webhook == "one.example"
    assert "upgrader guard on" in finished.state.notes[-1].text
    said = headline(finished.state)
    assert "one.example" in said.advice and said.commands[-1] == "upgrader guard on"
    site.cluster.silent = set()
    site.then = lambda: None
    assert site.run().state.webhooks_off == () and site.is_on(), "the next run switches it on"


@pytest.mark.parametrize("why", [RunResumed, RollbackRequested])
def test_after_a_kill_whoever_goes_on_switches_it_on(site: Site, why: type[RunResumed | RollbackRequested]) -> None:
    """From the journal alone: the process that switched it off is gone."""
    site.then = is_killed
    with pytest.raises(Killed):
        site.run(RunKind.UPGRADE)
    assert not site.is_on()
    site.then = lambda: None
    finished = site.go_on(why)
    assert finished.state.webhooks_off == () and site.is_on()


def test_a_recovery_that_was_killed_is_run_again(site: Site) -> None:
    """It isn't resumed: the next run of the folder switches on what it left off, whatever it does itself."""
    site.then = is_killed
    with pytest.raises(Killed):
        site.run()
    assert not site.is_on()
    site.then = lambda: None
    site.cluster.clock.sleep(1)  # a run is named after the second that it began in
    finished = site.run()
    assert site.is_on() and finished.state.outcome == "succeeded"


@pytest.mark.parametrize("silent", [False, True], ids=["killed", "it doesn't answer"])
def test_what_an_earlier_run_left_off_is_in_the_journal_of_the_next_one(site: Site, silent: bool) -> None:
    """So that it is on in the end where that one, too, is killed, or ends before the webhook answers."""
    site.then = is_killed
    with pytest.raises(Killed):
        site.run()
    site.cluster.clock.sleep(1)
    if silent:
        site.then, site.cluster.silent = lambda: None, {"/one"}
        finished = site.run()
        assert len(finished.state.webhooks_off) == 1 and "one.example" in headline(finished.state).advice
    else:
        with pytest.raises(Killed):
            site.run()
    assert not site.is_on()
    site.then, site.cluster.silent = lambda: None, set()
    site.cluster.clock.sleep(1)
    assert site.run().state.webhooks_off == () and site.is_on()


def test_a_run_that_is_interrupted_leaves_it_to_who_resumes_it(site: Site) -> None:
    """And says so."""
    site.then = lambda: None
    session = site._session()
    steps = (PipelineStep(NeedyStep(site), (), ()), PipelineStep(Second(), (), ()))
    stop = StopRequest()
    lock = acquire(session.tools.kube, session.tools.clock, Holder("anna"), take_over=True, note=lambda _: None)
    site.then = lambda: stop.forbid("another process has the lock")
    held = HeldLock(lock, stop)
    finished = execute_run(session, FrontEnd(), NewRun(RunKind.ADOPT, Pipeline(steps)), held=held)
    state = fold(read_journal(finished.folder / JOURNAL))
    assert (state.outcome, len(state.webhooks_off), site.is_on()) == ("interrupted", 1, False)
    assert "stays off until the run is resumed" in state.notes[-1].text


class Second(NeedyStep):
    """One that isn't begun."""

    name = "second"

    def __init__(self) -> None:
        """It needs nothing."""
