"""A rollback of kube-apiserver that has to go through the very instance that is too slow for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any

import pytest

from testkit.command import REPOSITORY
from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.kube import FakeKube
from testkit.fakes.recovery import FakeRecovery
from tests.unit.engine.conftest import Recorder, ScriptedGate
from upgrader.engine.execution.rollback_progress import SLOW_ANSWERS, SLOW_SECONDS, STALLED_SECONDS
from upgrader.engine.execution.runner import REPLACEMENTS, Runner, RunResult
from upgrader.engine.execution.stop_request import StopRequest
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ApiUnavailable, HelmError, HelmUnfinished, RollbackFailed, UpgraderError
from upgrader.gates.kubernetes_kinds import SECRETS, WORKLOADS
from upgrader.model.event import Event, RecoveryStarted, RollbackRequested, RunStarted, StepStarted, UndoEnded
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.outcome import Verdict, broken, holds, pending
from upgrader.model.release import RECOVERED_RELEASE as API
from upgrader.model.release import ReleaseSpec, Revision
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import OnFailure
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.steps.release.helm_release import ChartStep

HELM_SECONDS = 300.0
GRACE_SECONDS = 30.0
"""After which Helm is ended that exceeds its timeout, and also a read by Helm."""
DEPLOYMENT = WORKLOADS["Deployment"]


class Timed(Recorder):
    """A Reporter that remembers, also when."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock, self.at = clock, list[datetime]()

    def emit(self, event: Event) -> None:
        super().emit(event)
        self.at.append(self.clock.now())


@dataclass
class World:
    """A controller whose new kube-apiserver is Ready, and slow: see the fields. A standby pod in its place is fast."""

    answers_after: float = 0.5
    """How long each request takes, from here."""
    answers: bool = True
    """Whether there is an answer after that time."""
    connects_after: float = 0.0
    """How long a new connection takes."""
    silent_seconds: float = inf
    """For how long there is none."""
    helm_reads: bool = True
    """Whether a read by Helm ends within its 30 s."""
    writes_after: float = 5.0
    """How long Helm takes to write the Deployment."""
    observed_after: float = inf
    """How long kube-controller-manager takes to observe what Helm wrote."""
    pods_after: float = 20.0
    """How long the pods then take."""
    back_off: float = 1.0
    """How long kube-controller-manager takes to begin again once the API server is fast again."""
    times_out: bool = False
    """Whether Helm ends by itself at its timeout, as it does where the API answers it."""
    fast_since: float = 0.0
    replacing_helps: bool = True
    """Whether all of that is fast once pods were replaced on the controllers."""
    clock: FakeClock = field(default_factory=FakeClock)
    slow: bool = False

    def __post_init__(self) -> None:
        self.kube, self.helm, self.recorder = SlowKube(self), SlowHelm(self), Timed(self.clock)
        self.recovery = Replaces(self)
        self.stop = StopRequest()
        self.kube.raw_answers["/readyz"] = "ok"
        labels = {"owner": "helm", "name": API}
        self.kube.put(SECRETS, {"metadata": {"name": "sh.helm.release.v1.x.v1", "labels": labels}}, "kube-system")
        self.helm.install(API, "version: old\n")
        self.generation = self.observed = 1
        self.put()

    def put(self) -> None:
        """The Deployment as the API has it."""
        status = {"observedGeneration": self.observed}
        item = {"metadata": {"name": API, "generation": self.generation}, "spec": {}, "status": status}
        self.kube.put(DEPLOYMENT, item, "kube-system")

    def run(
        self,
        *,
        patience_seconds: float = 60.0,
        on_failure: OnFailure = "rollback-run",
        clock: FakeClock | None = None,
    ) -> RunResult:
        """Run the pipeline."""
        target = KubernetesVersion(1, 37, 1)
        began = RunStarted("r1", RunKind.UPGRADE, (API,), "/tmp/r1", target, on_failure=on_failure)
        return self.runner(patience_seconds=patience_seconds, clock=clock).run(self.pipeline(), began)

    def pipeline(self) -> Pipeline:
        """A step that brings the slow instance, with a gate that finds it out."""
        chart = ChartStep(
            ReleaseSpec(API, "kube-system", Path("chart"), {"version": "new"}),
            "50m",
            self.helm,
            HELM_SECONDS,
            Watches,
            after="version: new\n",
        )
        policy = GatePolicy(consecutive=1, interval_seconds=1.0, deadline_seconds=60.0)
        item = PipelineStep(
            chart,
            (GateRun(ScriptedGate("clients", last=broken("99 % of GET requests take up to 8 s")), policy),),
            (GateRun(Back(self), policy),),
            undo_watched=chart.undo_watched,
        )
        return Pipeline((item,))

    def runner(self, *, patience_seconds: float = 60.0, clock: FakeClock | None = None) -> Runner:
        """On this machine, or on one with another clock."""
        return Runner(
            kube=self.kube,
            clock=clock or self.clock,
            reporter=self.recorder,
            stop=self.stop,
            recovery=self.recovery,
            patience_seconds=patience_seconds,
        )

    @property
    def replaced(self) -> list[str]:
        """Why the new pods were replaced on the controllers, each time."""
        return [event.reason for event in self.recorder.events if isinstance(event, RecoveryStarted)]

    @property
    def undone_within(self) -> float:
        """Seconds from the failure to the end of the undo."""
        (ended,) = [event for event in self.recorder.events if isinstance(event, UndoEnded)]
        return ended.seconds


class SlowKube(FakeKube):
    """Its requests take their time while the new instance serves."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.silent_since: float | None = None
        self.connected = True
        self.times_untold = 0
        """How often it doesn't tell what time it is."""

    def reconnect(self) -> None:
        super().reconnect()
        self.connected = False

    def server_time(self) -> datetime:
        if self.times_untold:
            self.times_untold -= 1
            raise ApiUnavailable("no answer (get /version)")
        self._check("get /version")
        return self.world.clock.now().replace(microsecond=0)

    def _check(self, what: str) -> None:
        if self.world.slow and not self._is_back():
            self.world.clock.sleep(self.world.answers_after + (0.0 if self.connected else self.world.connects_after))
            self.connected = True
            if not self.world.answers:
                raise ApiUnavailable(f"no answer ({what})")
        super()._check(what)

    def _is_back(self) -> bool:
        if not self.world.answers and self.silent_since is None:
            self.silent_since = self.world.clock.monotonic()
        since = self.silent_since
        return since is not None and self.world.clock.monotonic() - since >= self.world.silent_seconds


class SlowHelm(FakeHelm):
    """Helm as it is at such an API server: it writes, and waits for what kube-controller-manager makes of it."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.whole = 0
        """How many of its rollbacks had their whole time."""

    def history(self, release: str, namespace: str) -> tuple[Revision, ...]:
        if self.world.slow and not self.world.helm_reads:
            self.world.clock.sleep(GRACE_SECONDS)
            raise HelmUnfinished(f"Helm did not complete release '{release}' within 30 s")
        return super().history(release, namespace)

    def _add(self, release: str, status: object, manifest: str, **fields: object) -> Revision:
        added = super()._add(release, status, manifest, **fields)  # type: ignore[arg-type]
        if "new" in manifest:
            self.world.generation = self.world.observed = 2
            self.world.put()
            self.world.slow = True
        return added

    def rollback(
        self,
        release: str,
        namespace: str,
        revision: int,
        *,
        timeout_seconds: float,
        wait: bool = True,
        watch: Callable[[], None] = lambda: None,
    ) -> Revision:
        self.calls.append(f"rollback {release} {revision}")
        world, begun = self.world, self.world.clock.monotonic()
        while (spent := world.clock.monotonic() - begun) < timeout_seconds + GRACE_SECONDS:
            if spent >= (world.writes_after if world.slow else 1.0) and world.generation == 2:
                world.generation = 3
                world.put()
            seen_after = world.writes_after + world.observed_after if world.slow else 2.0
            if not world.slow and world.clock.monotonic() < world.fast_since + world.back_off:
                seen_after = inf
            if spent >= seen_after and world.generation == 3:
                world.observed = 3
                world.put()
            if world.observed == 3 and spent >= seen_after + world.pods_after:
                world.slow = False
                return self._add(release, "deployed", self.manifests[release, revision])
            if world.times_out and spent >= timeout_seconds:
                raise HelmError("context deadline exceeded")
            world.clock.sleep(1.0)
            watch()
        self.whole += 1
        raise HelmUnfinished(f"Helm did not complete release '{release}' within {timeout_seconds + 30:.0f} s")


class Replaces(FakeRecovery):
    """Half a minute later a standby pod serves in place of the new pods."""

    def __init__(self, world: World) -> None:
        super().__init__(world.kube)
        self.world = world

    def bring_api_back(self, note: Callable[[str], None]) -> None:
        super().bring_api_back(note)
        self.world.clock.sleep(30.0)
        if not self.world.answers:
            self.world.slow = False

    def replace_newer(self, since: datetime, why: str, note: Callable[[str], None], *, compared: bool = False) -> bool:
        found = super().replace_newer(since, why, note, compared=compared)
        if self.world.slow and self.world.replacing_helps:
            self.world.slow, self.world.fast_since = False, self.world.clock.monotonic()
        return found


@dataclass
class Back:
    """Whether the pods are those of before."""

    world: World
    name: str = "deployment"

    def check(self) -> Verdict:
        return holds("back") if self.world.observed == 3 and not self.world.slow else pending("2 of 3")


class Watches:
    """Sees nothing while Helm upgrades: the new instance is Ready."""

    last: tuple[Verdict, ...] = ()

    def __call__(self) -> None:
        """Look."""


def test_rollback_that_is_not_observed_begins_on_the_controllers() -> None:
    """Helm has written the Deployment, and kube-controller-manager never sees it: what serves is replaced, then Helm
    gets through. The run ends with exit code 4, minutes before Helm's timeout.
    """
    world = World()
    assert world.run().outcome == "rolled-back"
    (why,) = world.replaced
    assert "has not started after" in why and "kube-controller-manager has not observed it" in why
    assert world.helm.calls == [f"upgrade {API}", f"rollback {API} 1", f"rollback {API} 1"]
    assert world.undone_within < STALLED_SECONDS + 120


def test_pods_are_replaced_that_the_step_brought() -> None:
    """Those that were created before the step began stay."""
    world = World()
    world.clock.sleep(1000.0)
    before = world.clock.now()
    world.run()
    assert any(isinstance(event, StepStarted) for event in world.recorder.events)
    assert world.recovery.replaced == [before]


class Elsewhere(FakeClock):
    """The clock of another machine: the same time passes, and it says so many seconds more."""

    def __init__(self, clock: FakeClock, ahead_seconds: float) -> None:
        super().__init__()
        self.clock, self.ahead = clock, timedelta(seconds=ahead_seconds)

    def now(self) -> datetime:
        return self.clock.now() + self.ahead

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)


@pytest.mark.parametrize("ahead_seconds", [7200.0, -7200.0, 0.5])
def test_pods_of_before_stay_if_another_machine_rolls_back(ahead_seconds: float) -> None:
    """Its clock may be ahead of the first machine's by more than these pods are old, or behind: when the step began is
    told by the clock of the machine that rolls back, and small differences are none.
    """
    world = World()
    world.clock.sleep(1000.0)
    began = world.clock.now()
    world.run(on_failure="stop")
    state = RunState()
    for event, at in zip(world.recorder.events, world.recorder.at, strict=True):
        state = follow(state, event, at)
    world.recorder.clock = other = Elsewhere(world.clock, ahead_seconds)
    asked = RollbackRequested("r1", "ben")
    result = world.runner(clock=other).resume(world.pipeline(), state, asked)
    assert result.outcome == "rolled-back"
    (since,) = world.recovery.replaced
    off = since - (began + (other.ahead if abs(ahead_seconds) > 1 else timedelta()))
    assert abs(off) < timedelta(seconds=1)  # an API server tells its time to the second


@pytest.mark.parametrize("ahead_seconds", [0.0, 3600.0])
def test_a_slow_answer_is_no_difference_of_clocks(ahead_seconds: float) -> None:
    """The API server that a rollback replaces takes its time to say what time it is: by that much, pods that are older
    than the step would count as its own. Both machines' clocks are the same here, right or not.
    """
    world = World()
    world.clock.sleep(1000.0)
    world.recorder.clock = same = Elsewhere(world.clock, ahead_seconds)
    began = same.now()
    world.run(on_failure="stop", clock=same)
    state = RunState()
    for event, at in zip(world.recorder.events, world.recorder.at, strict=True):
        state = follow(state, event, at)
    world.answers_after = 12.0
    result = world.runner(clock=same).resume(world.pipeline(), state, RollbackRequested("r1", "ben"))
    assert result.outcome == "rolled-back"
    assert world.recovery.replaced == [began]


def test_an_api_that_is_silent_at_first_tells_the_time_later() -> None:
    """Another machine resumes while the API doesn't answer: the clocks are compared once it does."""
    world = World()
    world.clock.sleep(1000.0)
    began = world.clock.now()
    world.run(on_failure="stop")
    state = RunState()
    for event, at in zip(world.recorder.events, world.recorder.at, strict=True):
        state = follow(state, event, at)
    world.recorder.clock = other = Elsewhere(world.clock, 7200.0)
    world.kube.times_untold = 1
    result = world.runner(clock=other).resume(world.pipeline(), state, RollbackRequested("r1", "ben"))
    assert result.outcome == "rolled-back"
    (since,) = world.recovery.replaced
    assert abs((since - began - other.ahead).total_seconds()) < 1, "an API server tells its time to the second"


def test_back_off_of_kube_controller_manager_is_waited_for() -> None:
    """It has restarted again and again, and begins up to five minutes after the API server is fast again: that is no
    reason to end Helm, or to replace anything else.
    """
    world = World(back_off=200.0)
    assert world.run().outcome == "rolled-back"
    assert (len(world.replaced), len(world.helm.calls)) == (1, 3)


def test_back_off_that_outlasts_helm() -> None:
    """Helm gives up on pods that nothing has begun to replace: it is run again, until an attempt gets through."""
    world = World(back_off=400.0, times_out=True)
    assert world.run().outcome == "rolled-back"
    assert len(world.helm.calls) == 4


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("answers_after", [1.5, 10.0])
def test_api_that_takes_seconds_for_each_request_is_replaced_before_helm_is_run(
    answers_after: float, *, answers: bool
) -> None:
    """Helm sends dozens: it is run once, behind the replacement, and the run ends with exit code 4."""
    world = World(answers_after=answers_after, answers=answers)
    assert world.run().outcome == "rolled-back"
    (why,) = world.replaced
    assert "requests in a row took 1 s or more each" in why
    assert world.helm.calls == [f"upgrade {API}", f"rollback {API} 1"]
    assert world.undone_within < 150


def test_api_that_does_not_answer_has_the_time_that_was_set() -> None:
    """Behind a load balancer that needs minutes, `policy.recovery.after` says so: nothing is replaced sooner, neither
    before Helm is run, nor while it waits.
    """
    world = World(answers_after=10.0, answers=False, silent_seconds=200.0, observed_after=2.0)
    assert world.run(patience_seconds=300.0).outcome == "rolled-back"
    assert world.replaced == []


def test_api_that_goes_away_while_helm_waits_has_the_time_that_was_set() -> None:
    """As before Helm is run."""
    world = World(silent_seconds=100.0, observed_after=110.0)
    roll_back = world.helm.rollback

    def then_silent(*arguments: object, **named: object) -> Revision:
        world.answers = False
        return roll_back(*arguments, **named)  # type: ignore[arg-type]

    world.helm.rollback = then_silent  # type: ignore[method-assign]
    assert world.run(patience_seconds=300.0).outcome == "rolled-back"
    assert world.replaced == []


def test_controllers_are_left_alone_once_the_lock_is_lost() -> None:
    """Another machine works on the cluster by then: its pods are not this run's to replace."""
    world = World(answers_after=4.0)
    get = world.kube.get

    def lost_meanwhile(*arguments: object) -> object:
        world.stop.forbid("the cluster's lock was taken over by laptop-2")
        return get(*arguments)  # type: ignore[arg-type]

    world.kube.get = lost_meanwhile  # type: ignore[method-assign,assignment]
    assert world.run().outcome == "interrupted"
    assert (world.replaced, world.helm.calls) == ([], [f"upgrade {API}"])


def test_api_that_is_far_away() -> None:
    """A new connection takes several round trips, by satellite more than a second: the API server isn't slow for it."""
    world = World(connects_after=1.8, answers_after=0.6, observed_after=2.0)
    assert world.run().outcome == "rolled-back"
    assert world.replaced == []


def test_api_that_was_slow_once() -> None:
    """A single slow answer is no reason: Helm is run, and gets through."""
    world = World(observed_after=2.0)
    get = world.kube.get
    asked: list[float] = []

    def slow_at_first(*arguments: object) -> object:
        if world.slow and not asked:
            asked.append(world.clock.monotonic())
            world.clock.sleep(9.0)
        return get(*arguments)  # type: ignore[arg-type]

    world.kube.get = slow_at_first  # type: ignore[method-assign,assignment]
    assert world.run().outcome == "rolled-back"
    assert (world.replaced, len(asked)) == ([], 1)


def test_api_that_no_longer_answers_while_helm_waits() -> None:
    """It counts as well as one that has not been observed."""
    world = World()
    observe = world.helm.rollback

    def then_silent(*arguments: object, **named: object) -> Revision:
        world.answers = not world.slow
        return observe(*arguments, **named)  # type: ignore[arg-type]

    world.helm.rollback = then_silent  # type: ignore[method-assign]
    assert world.run().outcome == "rolled-back"
    assert any("the API server does not answer" in why for why in world.replaced)
    assert world.undone_within < 600


def test_api_that_becomes_slow_while_helm_waits() -> None:
    """What it answers is as before, but Helm, which sends dozens of requests, doesn't get to its write."""
    world = World(writes_after=inf)
    roll_back = world.helm.rollback

    def then_slow(*arguments: object, **named: object) -> Revision:
        world.answers_after = 5.0
        return roll_back(*arguments, **named)  # type: ignore[arg-type]

    world.helm.rollback = then_slow  # type: ignore[method-assign]
    assert world.run().outcome == "rolled-back"
    (why,) = world.replaced
    assert "each request takes 1 s or more" in why
    assert world.undone_within < 180


def test_helm_that_can_not_even_read() -> None:
    """Nothing was written yet, and the second attempt would end the same: what serves is replaced first."""
    world = World(helm_reads=False)
    assert world.run().outcome == "rolled-back"
    (why,) = world.replaced
    assert "within 30 s" in why
    assert world.undone_within < 180


def test_slow_write_is_waited_for() -> None:
    """While kube-controller-manager keeps up with what is written, Helm has its whole timeout to write it."""
    world = World(writes_after=200.0, observed_after=2.0)
    assert world.run().outcome == "rolled-back"
    assert (world.replaced, len(world.helm.calls)) == ([], 2)


def test_slow_pods_are_waited_for() -> None:
    """A rollback that was observed is under way: nothing is replaced, although it takes minutes."""
    world = World(observed_after=40.0, pods_after=200.0)
    assert world.run().outcome == "rolled-back"
    assert (world.replaced, len(world.helm.calls)) == ([], 2)


def test_pods_of_a_rollback_that_was_observed_are_not_replaced() -> None:
    """Helm exceeds its timeout: by then, the newest pods are those of the rollback. Helm is run once more."""
    world = World(observed_after=2.0, pods_after=inf)
    assert world.run().outcome == "failed"
    assert (world.replaced, len(world.helm.calls)) == ([], 3)


def test_replacement_that_fails_leaves_helm_its_time() -> None:
    """Without SSH, or a generation to start, Helm is all that there is: it gets its whole timeout, twice, and the run
    ends with exit code 5 and what to do.
    """
    world = World()
    world.recovery.error = RollbackFailed("controller-1 can't be examined", remedy="ssh controller-1")
    result = world.run()
    assert (result.outcome, len(world.helm.calls)) == ("failed", 4)
    assert len(world.replaced) == 1
    assert "within 330 s" in result.reason
    assert world.undone_within < STALLED_SECONDS + 2 * (HELM_SECONDS + GRACE_SECONDS) + 120


@pytest.mark.parametrize("failing", [1, 2])
def test_no_replacement_follows_one_that_fails(failing: int) -> None:
    """Whether that is the first, before Helm is run, or the next: the controllers are left alone, and Helm gets its
    whole time, as often as it has attempts left.
    """
    world = World(answers_after=1.5, replacing_helps=False)
    replace_newer = world.recovery.replace_newer

    def fails(*arguments: Any, compared: bool) -> bool:
        if len(world.replaced) == failing:
            world.recovery.error = RollbackFailed("controller-1 can't be examined", remedy="ssh controller-1")
        return replace_newer(*arguments, compared=compared)

    world.recovery.replace_newer = fails  # type: ignore[assignment, method-assign]
    result = world.run()
    assert (result.outcome, len(world.replaced)) == ("failed", failing)
    assert "within 330 s" in result.reason
    assert world.helm.whole == 2


def test_pods_that_stay_slow_are_replaced_twice_at_most() -> None:
    """What is started in their place is as slow: something else makes it so, and Helm gets its whole time."""
    world = World(answers_after=1.5, replacing_helps=False)
    world.run()
    assert len(world.replaced) == 2


@pytest.mark.parametrize("newer", [True, False])
def test_controller_manager_that_returns_minutes_later(*, newer: bool) -> None:
    """While the kubelet waits before it starts kube-controller-manager again, replaced pods help nothing: Helm still
    gets its whole timeout, and the rollback succeeds.
    """
    world = World(observed_after=200.0, replacing_helps=False)
    world.recovery.newer = newer
    assert world.run().outcome == "rolled-back"
    assert len(world.replaced) == 1


def test_rollback_is_not_given_up_early_where_nothing_may_be_replaced() -> None:
    """With `recovery.enabled: false`, Helm has its whole timeout, as for any other release."""
    world = World()
    assert world.run(patience_seconds=inf).outcome == "failed"
    assert (world.replaced, len(world.helm.calls)) == ([], 3)


def test_refusal_of_helm_is_no_stall() -> None:
    """What Helm fails on at once isn't for the controllers to repair."""
    world = World()
    world.helm.rollback = _raises(HelmError("no such revision"))  # type: ignore[method-assign]
    assert world.run().outcome == "failed"
    assert world.replaced == []


def test_limits_are_those_of_the_page() -> None:
    """docs/recovery.md tells an operator when pods are replaced during a rollback: by the same numbers."""
    page = " ".join((REPOSITORY / "docs/recovery.md").read_text().split())
    words = {2: "twice", 3: "three"}
    assert (
        f"{words[SLOW_ANSWERS]} requests in a row take {SLOW_SECONDS:.0f} s or more each, or kube-controller-manager "
        f"takes {STALLED_SECONDS:.0f} s to observe the Deployment. It does so {words[REPLACEMENTS]} at most."
    ) in page


def _raises(error: UpgraderError) -> Callable[..., Revision]:
    def rollback(*_: object, **__: object) -> Revision:
        raise error

    return rollback
