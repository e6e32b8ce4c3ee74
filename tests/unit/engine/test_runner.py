"""The run loop: order, gates and rollback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import pytest

from tests.unit.engine.conftest import Bench, ScriptedGate, ScriptedStep, run
from upgrader.engine.execution.runner import UNDO_ATTEMPTS, RunResult
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.errors import (
    ApiError,
    ApiLost,
    ApiUnavailable,
    CredentialsRefused,
    HelmError,
    HelmUnfinished,
    RollbackFailed,
    StepFailed,
    UpgraderError,
)
from upgrader.gates.kubernetes_kinds import SECRETS
from upgrader.model.event import (
    Note,
    RecoveryEnded,
    RecoveryStarted,
    RollbackRequested,
    RunResumed,
    RunStarted,
    StepApplied,
    StepEnded,
    StepStarted,
    UndoEnded,
    UndoStarted,
)
from upgrader.model.outcome import broken, holds, pending, unknown
from upgrader.model.release import RECOVERED_RELEASE, RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import OnFailure
from upgrader.pipeline import Inspection, Pipeline, PipelineStep, Step
from upgrader.steps.verify import VerifyStep


def test_steps_are_applied_in_order(bench: Bench) -> None:
    """A pipeline's order is the order of its steps, and all passing makes the run a success."""
    result = run(bench.runner(), bench.step("a"), bench.step("b"))
    assert result == RunResult("succeeded")
    assert bench.diary == ["apply a", "apply b"]


def test_next_step_waits_for_the_gate(bench: Bench) -> None:
    """A step is begun only after the gate of the one before has held three times in a row."""
    gate = ScriptedGate(
        "g", iter([pending("1 of 2"), holds("ok"), pending("flap"), holds("ok"), holds("ok"), holds("ok")])
    )
    run(bench.runner(), bench.step("a", gate), bench.step("b"))
    began = [event.step for event in bench.recorder.events if isinstance(event, StepStarted)]
    assert began == ["a", "b"]
    assert bench.clock.monotonic() >= 5.0, "six checks, one second apart"


def test_failed_step_takes_the_run_back_in_reverse(bench: Bench) -> None:
    """A step that fails is undone first, then the earlier ones of this run, newest first."""
    bad = bench.step("b", apply_error=StepFailed("bad flag"))
    result = run(bench.runner(), bench.step("a"), bad, bench.step("c"))
    assert result == RunResult("rolled-back", "bad flag")
    assert bench.diary == ["apply a", "apply b", "undo b to 1", "undo a to 1"]


def test_gate_that_never_holds_takes_both_steps_back(bench: Bench) -> None:
    """A gate on the second step that never holds undoes the second step, then the first, with the gate's reason."""
    never = ScriptedGate("deployment/never", last=pending("0 of 1 ready"))
    result = run(bench.runner(), bench.step("a"), bench.step("b", never))
    assert result.outcome == "rolled-back"
    assert "deployment/never" in result.reason and "0 of 1 ready" in result.reason
    assert bench.diary[-2:] == ["undo b to 1", "undo a to 1"]


def test_unknown_is_not_healthy(bench: Bench) -> None:
    """A gate whose verdict stays unknown fails, and reports that it is unknown."""
    blind = ScriptedGate("nodes", last=unknown("the API does not answer"))
    result = run(bench.runner(), bench.step("a", blind))
    assert result.outcome == "rolled-back"
    assert "does not answer" in result.reason


def test_broken_gate_does_not_wait_for_its_deadline(bench: Bench) -> None:
    """A gate that is `broken` three times in a row ends the wait at once, with the evidence in the message."""
    crash = ScriptedGate("deployment/x", last=broken("exits with 1", "Error: unknown flag: --nonsense"))
    result = run(bench.runner(), bench.step("a", crash))
    assert "unknown flag: --nonsense" in result.reason
    assert bench.clock.monotonic() < 10.0


def test_one_broken_glimpse_is_forgiven(bench: Bench) -> None:
    """A single `broken` check, as at a container's first restart, fails nothing."""
    gate = ScriptedGate("g", iter([broken("restarted once"), pending("starting")]), last=holds("ok"))
    gate.verdicts = iter([broken("restarted once"), pending("starting"), holds("ok")])
    assert run(bench.runner(), bench.step("a", gate)) == RunResult("succeeded")


def test_no_step_is_undone_under_a_later_one_that_is_still_in(bench: Bench) -> None:
    """If the undo of a step fails, the steps before it stay: an old API server under newer components is no option.

    The run says which ones, and why.
    """
    stuck = bench.step("kubernetes", undo_error=RollbackFailed("no such revision", remedy="check"))
    bad = bench.step("app", apply_error=StepFailed("bad flag"))
    result = run(bench.runner(), bench.step("kube-apiserver"), stuck, bad)
    assert (result.outcome, result.remedy) == ("failed", "check")
    assert "bad flag" in result.reason and "no such revision" in result.reason
    assert "because the later step kubernetes is still in place: kube-apiserver" in result.reason
    assert bench.diary[-2:] == ["undo app to 1", "undo kubernetes to 1"]


def test_rollback_goes_on_where_it_was_stuck(bench: Bench) -> None:
    """Once the cause is fixed, resuming the failed run undoes the step that was stuck, then those before it."""
    stuck = bench.step("kubernetes", apply_error=StepFailed("bad"), undo_error=RollbackFailed("no such revision"))
    run(bench.runner(), bench.step("kube-apiserver"), stuck)
    state = RunState()
    for event in bench.recorder.events:
        state = follow(state, event, bench.clock.now())
    bench.diary.clear()
    rest = Pipeline((bench.step("kubernetes"), bench.step("kube-apiserver")))
    assert bench.runner().resume(rest, state, RunResumed("r1", "me")) == RunResult("rolled-back", "bad")
    assert bench.diary == ["undo kubernetes to 1", "undo kube-apiserver to 1"]


def test_undone_step_is_gated_again(bench: Bench) -> None:
    """A rollback counts only when the old revision is healthy afterwards."""
    sick = ScriptedGate("nodes", last=pending("NotReady"))
    result = run(bench.runner(), bench.step("a", undo_gates=(sick,), apply_error=StepFailed("bad")))
    assert result.outcome == "failed"
    ended = [event for event in bench.recorder.events if isinstance(event, UndoEnded)]
    assert not ended[0].succeeded and "NotReady" in ended[0].reason


@pytest.mark.parametrize(("policy", "undone"), [("rollback-step", ["undo b to 1"]), ("stop", [])])
def test_policy_says_how_far_back(bench: Bench, policy: str, undone: list[str]) -> None:
    """Policy can keep the earlier steps, or leave everything as the failure left it."""
    bad = bench.step("b", apply_error=StepFailed("bad"))
    result = run(bench.runner(), bench.step("a"), bad, on_failure=policy)  # type: ignore[arg-type]
    assert result.outcome == ("rolled-back" if undone else "failed")
    assert bench.diary[2:] == undone


def test_an_undo_that_restores_the_api_does_not_wait_for_it(bench: Bench) -> None:
    """It is tried at once, without an API and without a recovery; the steps before it wait for what it restored."""

    def back() -> None:
        bench.kube.raw_answers["/readyz"] = "ok"

    bench.kube.raw_answers["/readyz"] = ApiUnavailable("refused")
    lost = bench.step("b", apply_error=ApiLost("the API server went away"), on_undo=back)
    result = run(bench.runner(), bench.step("a"), replace(lost, undo_needs_api=False))
    assert result.outcome == "rolled-back"
    assert bench.diary == ["apply a", "apply b", "undo b to 1", "undo a to 1"]
    assert (bench.recovery.calls, bench.clock.monotonic()) == (0, 0.0)


def test_way_back_waits_for_the_api(bench: Bench) -> None:
    """With the API unreachable after a failed step, the undo waits until it answers instead of failing at once."""
    answers: list[str | Exception] = [ApiUnavailable("refused"), ApiUnavailable("refused"), "ok"]
    bench.kube.raw_answers["/readyz"] = iter(answers)
    result = run(bench.runner(), bench.step("a", apply_error=StepFailed("API went away")))
    assert result.outcome == "rolled-back"
    assert bench.diary == ["apply a", "undo a to 1"]


def test_stop_lets_the_current_step_finish(bench: Bench) -> None:
    """A stop requested during a step takes effect after its gates, and undoes nothing."""

    def ask() -> None:
        bench.stop.requested = True

    result = run(bench.runner(), bench.step("a", ScriptedGate("g"), on_apply=ask), bench.step("b"))
    assert result.outcome == "interrupted"
    assert bench.diary == ["apply a"]
    assert [event.outcome for event in bench.recorder.events if isinstance(event, StepEnded)] == ["passed"]


def test_way_back_is_told_before_the_change(bench: Bench) -> None:
    """The event with a step's restore point comes before the step changes anything."""
    seen: list[int] = []
    step = bench.step("a", on_apply=lambda: seen.append(len(bench.recorder.events)))
    run(bench.runner(), step)
    before = bench.recorder.events[: seen[0]]
    started = [event for event in before if isinstance(event, StepStarted)]
    assert [event.restore_point and event.restore_point.revision for event in started] == [1]


def test_step_with_nothing_to_take_back_is_not_undone(bench: Bench) -> None:
    """A step that changed nothing is left out of the rollback."""
    unchanged = PipelineStep(VerifyStep("a"), (), ())
    result = run(bench.runner(), unchanged, bench.step("b", apply_error=StepFailed("bad")))
    assert result == RunResult("rolled-back", "bad")
    assert [event.step for event in bench.recorder.events if isinstance(event, UndoEnded)] == ["b"]


def lose_api(bench: Bench) -> PipelineStep:
    """A step that makes the API unreachable and fails."""

    def lose() -> None:
        bench.kube.unavailable = True

    return bench.step("b", on_apply=lose, apply_error=StepFailed("cluster unreachable"))


def test_api_that_does_not_come_back_is_brought_back_and_the_run_rolled_back(bench: Bench) -> None:
    """An API that a step made unreachable is waited for, then recovered over SSH; then every step is undone."""
    result = run(bench.runner(), bench.step("a"), lose_api(bench))
    assert result == RunResult("rolled-back", "cluster unreachable")
    assert bench.diary[2:] == ["undo b to 1", "undo a to 1"]
    assert bench.recovery.calls == 1
    assert bench.clock.monotonic() == 60.0, "it had its time to come back by itself"
    order = [type(event) for event in bench.recorder.events]
    assert order.index(UndoStarted) < order.index(RecoveryStarted) < order.index(RecoveryEnded) < order.index(UndoEnded)


def test_api_that_was_waited_for_already_is_brought_back_at_once(bench: Bench) -> None:
    """When the step's own wait ended because the API was lost, there is no second wait."""
    bench.kube.unavailable = True
    result = run(bench.runner(), bench.step("a", apply_error=ApiLost("away for 60 s")))
    assert result == RunResult("rolled-back", "away for 60 s")
    assert (bench.recovery.calls, bench.clock.monotonic()) == (1, 0.0)


def test_gates_notice_that_the_api_is_lost(bench: Bench) -> None:
    """A step that makes the API unreachable after it was applied fails as soon as that is certain, and is undone."""

    def lose() -> None:
        bench.kube.unavailable = True

    gate = ScriptedGate("nodes", last=unknown("the API does not answer"))
    result = run(bench.runner(patience_seconds=4.0), bench.step("a", gate, on_apply=lose))
    assert (result.outcome, bench.recovery.calls) == ("rolled-back", 1)
    assert "has not been ready for 4 s" in result.reason


def test_api_that_cannot_be_brought_back_needs_a_person(bench: Bench) -> None:
    """A recovery that fails ends the run as failed, with its cause and remedy; nothing is undone blindly."""
    bench.recovery.error = RollbackFailed("etcd has lost its data", remedy="restore the backup")
    result = run(bench.runner(), bench.step("a"), lose_api(bench))
    assert (result.outcome, result.remedy) == ("failed", "restore the backup")
    assert "etcd has lost its data" in result.reason
    assert bench.diary == ["apply a", "apply b"]
    ended = [event for event in bench.recorder.events if isinstance(event, RecoveryEnded)]
    assert not any(event.succeeded for event in ended) and "etcd" in ended[0].reason


def test_policy_can_leave_the_api_to_a_person(bench: Bench) -> None:
    """Without recovery the run waits for as long as a reboot takes, touches nothing, and asks for manual action."""
    result = run(bench.runner(patience_seconds=inf), lose_api(bench))
    assert result.outcome == "failed"
    assert "has not been ready for 300 s" in result.reason and "upgrader recover" in result.remedy
    assert (bench.recovery.calls, bench.clock.monotonic()) == (0, 300.0)


def test_api_that_is_lost_on_the_way_back_is_brought_back_and_the_undo_repeated(bench: Bench) -> None:
    """A rollback can make the API unreachable again: the undo is retried, and its second success counts."""

    def lose_once() -> None:
        if bench.recovery.calls == 0:
            bench.kube.unavailable = True
            raise HelmError("context deadline exceeded")

    result = run(bench.runner(), bench.step("a", apply_error=StepFailed("bad flag"), on_undo=lose_once))
    assert result == RunResult("rolled-back", "bad flag")
    assert bench.recovery.calls == 1
    assert bench.diary == ["apply a", "undo a to 1", "undo a to 1"]


@pytest.mark.parametrize("undo", [False, True])
def test_a_step_whose_lock_is_taken_ends_while_it_waits(bench: Bench, undo: bool) -> None:
    """As of a laptop that slept: another machine works on the run by now, and what this one would go on with, an
    eviction or Helm's own rollback, would be against that. Nothing is undone either. A stop that an operator requests
    waits for the step's end.
    """

    def watched(check: Callable[[], None]) -> ScriptedStep:
        def wait() -> None:
            bench.stop.requested = True
            check()
            bench.diary.append("goes on")
            bench.stop.forbid("the cluster's lock was taken over by other@laptop")
            check()
            bench.diary.append("goes on")

        if undo:
            return ScriptedStep("a", bench.diary, apply_error=StepFailed("bad flag"), on_undo=wait)
        return ScriptedStep("a", bench.diary, on_apply=wait)

    step = replace(bench.step("a", apply_error=StepFailed("bad flag")), watched=watched, undo_watched=watched)
    result = run(bench.runner(), step)
    assert (result.outcome, result.reason) == ("interrupted", "the cluster's lock was taken over by other@laptop")
    assert bench.diary == ["apply a", *(["undo a to 1"] if undo else []), "goes on"]


@pytest.mark.parametrize("recovered", [True, False])
def test_controllers_are_examined_while_an_undo_waits(bench: Bench, recovered: bool) -> None:
    """In place of a wrong instance that was replaced, its Deployment makes another one, which may keep the rollback
    from being read: it is replaced as well, while Helm waits. Without a recovery before, nobody is asked.
    """
    waited = 0.0

    def watched(check: Callable[[], None]) -> ScriptedStep:
        def wait() -> None:
            nonlocal waited
            for _ in range(20):
                bench.clock.sleep(1.0)
                check()
            waited += 20.0

        return ScriptedStep("b", bench.diary, on_undo=wait)

    failing = lose_api(bench) if recovered else bench.step("b", apply_error=StepFailed("bad flag"))
    assert run(bench.runner(), replace(failing, undo_watched=watched)).outcome == "rolled-back"
    assert (bench.recovery.calls, waited) == (1 + 3 if recovered else 0, 20.0)


def test_undo_that_one_of_two_instances_refused_is_repeated(bench: Bench) -> None:
    """While a wrong instance shares the address with the one before, the same question gets two answers."""
    refusals = [HelmError('secrets is forbidden: User "a" cannot list')]

    def refuse_once() -> None:
        if refusals:
            raise refusals.pop()

    result = run(bench.runner(), bench.step("a", apply_error=StepFailed("bad flag"), on_undo=refuse_once))
    assert result == RunResult("rolled-back", "bad flag")
    assert bench.diary == ["apply a", "undo a to 1", "undo a to 1"]


def test_undo_that_was_refused_has_the_controllers_examined_at_once(bench: Bench) -> None:
    """Seen from here a right instance's answers hide a wrong one; the controllers tell them apart, without a pause."""

    def refuse_until_replaced() -> None:
        if not bench.recovery.calls:
            raise HelmError('secrets is forbidden: User "a" cannot list')

    step = bench.step("a", apply_error=StepFailed("bad CA"), on_undo=refuse_until_replaced)
    assert run(bench.runner(), step) == RunResult("rolled-back", "bad CA")
    assert (bench.recovery.calls, bench.clock.monotonic() < 5) == (1, True)


def test_refusal_after_a_loss_is_examined_too(bench: Bench) -> None:
    """A rollback loses the API first, as it usually does, and then meets a wrong instance beside a right one."""
    failures: list[Exception] = [ApiUnavailable("EOF"), *[HelmError("secrets is forbidden")] * 3]

    def fail() -> None:
        if failures and not bench.recovery.calls:
            raise failures.pop(0)

    step = bench.step("a", apply_error=StepFailed("bad CA"), on_undo=fail)
    assert run(bench.runner(), step).outcome == "rolled-back"
    assert bench.recovery.calls == 1


def test_recovery_runs_once_where_the_refusal_lasts(bench: Bench) -> None:
    """What failed for minutes isn't begun again at once."""
    error = ApiError("secrets is forbidden")
    error.status = 403
    bench.recovery.error = RollbackFailed("still wrong after 300 s")

    def refuse() -> None:
        def refused(*_: object, **__: object) -> object:
            raise error

        bench.kube.list = bench.kube.count = refused  # type: ignore[assignment,method-assign]
        raise HelmError(error.message)

    run(bench.runner(), bench.step("a", apply_error=StepFailed("x"), on_undo=refuse))
    assert bench.recovery.calls == 1


def test_recovery_that_fails_leaves_the_other_attempts(bench: Bench) -> None:
    """A controller out of SSH's reach is no reason to give up an undo that an instance may accept a little later."""
    refusals = [HelmError("secrets is forbidden")] * 2
    bench.recovery.error = RollbackFailed("no controller can be examined")

    def refuse_twice() -> None:
        if refusals:
            raise refusals.pop()

    step = bench.step("a", apply_error=StepFailed("bad CA"), on_undo=refuse_twice)
    assert run(bench.runner(), step) == RunResult("rolled-back", "bad CA")
    assert bench.recovery.calls == 1


def test_undo_that_fails_while_the_api_answers_is_not_repeated(bench: Bench) -> None:
    """An undo that was refused would be refused again."""
    step = bench.step("a", apply_error=StepFailed("bad flag"), undo_error=HelmError("no such revision"))
    run(bench.runner(), step)
    assert bench.diary == ["apply a", "undo a to 1"]


def test_undo_that_helm_does_not_finish_in_time_is_repeated(bench: Bench) -> None:
    """An API server that is too slow for Helm may be what the rollback replaces, and be gone at the second attempt."""

    def slow_once() -> None:
        if bench.diary.count("undo a to 1") == 1:
            raise HelmUnfinished("Helm did not complete release 'a' within 330 s")

    step = bench.step("a", apply_error=StepFailed("slow"), on_undo=slow_once)
    assert run(bench.runner(), step) == RunResult("rolled-back", "slow")
    (told,) = [event.text for event in bench.recorder.events if isinstance(event, Note) and "330 s" in event.text]
    assert told == "Helm did not complete release 'a' within 330 s; Helm is run once more"


def test_undo_of_the_api_that_helm_does_not_finish_says_why_again(bench: Bench) -> None:
    """Only the API's own release may have made Helm slow."""
    error = HelmUnfinished(f"Helm did not complete release '{RECOVERED_RELEASE}' within 330 s")
    run(bench.runner(), bench.step(RECOVERED_RELEASE, apply_error=StepFailed("slow"), undo_error=error))
    assert "Helm is run once more, because the replacement of kube-apiserver may have slowed it down" in str(
        bench.recorder.events
    )


def test_undo_that_helm_never_finishes_ends(bench: Bench) -> None:
    """Each attempt takes minutes: a second one that changes nothing is the last."""
    step = bench.step("a", apply_error=StepFailed("slow"), undo_error=HelmUnfinished("not within 330 s"))
    assert run(bench.runner(), step).outcome == "failed"
    assert bench.diary.count("undo a to 1") == 2


def test_undo_that_keeps_losing_the_api_ends(bench: Bench) -> None:
    """An undo that makes the API unreachable every time is not retried for ever."""
    step = bench.step("a", apply_error=StepFailed("bad"), undo_error=ApiUnavailable("refused"))
    result = run(bench.runner(), step)
    assert result.outcome == "failed"
    assert bench.diary.count("undo a to 1") == UNDO_ATTEMPTS


def test_undo_outlasts_what_passes(bench: Bench) -> None:
    """An API that answers us, but not Helm, until a load balancer notices, is not given up on."""

    def lost_for_a_while() -> None:
        if bench.clock.monotonic() < 25:
            raise ApiUnavailable("unexpected end of JSON input")

    step = bench.step("a", apply_error=StepFailed("bad flag"), on_undo=lost_for_a_while)
    assert run(bench.runner(), step) == RunResult("rolled-back", "bad flag")


def test_api_that_does_not_accept_the_run_any_more_is_not_waited_for(bench: Bench) -> None:
    """A 401 is an answer: after three of them the API is recovered, without the patience for one that is away."""
    error = ApiError("HTTP 401 Unauthorized")
    error.status = 401
    lists = bench.kube.list

    def refuse() -> None:
        bench.kube.raw_answers["/readyz"] = error

        def refused(*args: object, **kwargs: object) -> object:
            if bench.recovery.calls:
                return lists(*args, **kwargs)  # type: ignore[arg-type]
            raise error

        bench.kube.list = refused  # type: ignore[assignment,method-assign]

    step = bench.step("a", apply_error=StepFailed("bad CA"), on_apply=refuse)
    result = run(bench.runner(patience_seconds=60.0), step)
    assert (result.outcome, bench.recovery.calls) == ("rolled-back", 1)
    assert bench.clock.monotonic() < 10


@pytest.mark.parametrize("policy", ["rollback-run", "rollback-step", "stop"])
def test_preparation_that_fails_leaves_nothing_to_undo(bench: Bench, policy: OnFailure) -> None:
    """The cluster is as it was: the run ends as one that was rolled back, and needs no person."""
    images = replace(
        bench.step("images", apply_error=StepFailed("no such image", remedy="fix its name")), prepares=True
    )
    images = replace(images, step=WithoutRestorePoint(images.step))
    result = run(bench.runner(), images, bench.step("a"), on_failure=policy)
    assert result == RunResult("rolled-back", "no such image", "fix its name")
    assert bench.diary == ["apply images"]


def test_preparation_is_no_reason_to_be_content_after_a_change(bench: Bench) -> None:
    """What was prepared before a change that can't be undone doesn't make that change undone."""
    images = replace(bench.step("images"), prepares=True)
    images = replace(images, step=WithoutRestorePoint(images.step))
    verified = replace(bench.step("b", apply_error=StepFailed("unhealthy")))
    verified = replace(verified, step=WithoutRestorePoint(verified.step))
    assert run(bench.runner(), images, verified).outcome == "failed"


@dataclass
class WithoutRestorePoint:
    """A step that has nothing to undo."""

    step: Step

    @property
    def name(self) -> str:
        return self.step.name

    def summary(self) -> str:
        return self.step.summary()

    def capture(self) -> None:
        return None

    def apply(self, note: Callable[[str], None]) -> int | None:
        return self.step.apply(note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        raise AssertionError("there is nothing to undo")


def test_preparation_that_was_interrupted_is_repeated(bench: Bench) -> None:
    """It can be repeated from any state: nothing else tells how far it got."""
    images = replace(bench.step("images"), prepares=True)
    images = replace(images, step=WithoutRestorePoint(images.step))
    started = RunStarted("r1", RunKind.UPGRADE, ("images", "a"), "/tmp/r1")
    state = RunState()
    for event in (started, StepStarted("images", "change", None, prepares=True)):
        state = follow(state, event, bench.clock.now())
    result = bench.runner().resume(Pipeline((images, bench.step("a"))), state, RunResumed("r1", "me"))
    assert result == RunResult("succeeded")
    assert bench.diary == ["apply images", "apply a"]


class Written(ScriptedStep):
    """A step that writes revision 7 of its release."""

    def apply(self, note: Callable[[str], None]) -> int:  # type: ignore[override]
        super().apply(note)
        return 7


def replaced(revision: int) -> None:
    """What a step says once others have replaced its revision."""
    raise StepFailed(f"another Helm has changed it after revision {revision}", remedy="pause it")


def test_step_whose_revision_others_have_replaced_goes_back(bench: Bench) -> None:
    """However healthy what they made of it is: the run is not at its target."""
    written = PipelineStep(Written("a", bench.diary), (), (), confirm=replaced)
    result = run(bench.runner(), written, bench.step("b"))
    assert result == RunResult("rolled-back", "another Helm has changed it after revision 7", "pause it")
    assert bench.diary == ["apply a", "undo a to 1"]


def test_gate_that_fails_for_what_others_did_names_them_first(bench: Bench) -> None:
    """The gate only sees what came of it."""
    never = bench.step("", ScriptedGate("apiserver", last=broken("serves v1.36.3"))).gates
    written = PipelineStep(Written("a", bench.diary), never, (), confirm=replaced)
    result = run(bench.runner(), written)
    first, second = result.reason.splitlines()[:2]
    assert first.startswith("another Helm") and "serves v1.36.3" in second
    assert result.remedy == "pause it"


def test_release_that_cant_be_read_behind_its_gates_is_taken_for_its_own(bench: Bench) -> None:
    """All of its gates held: no rollback for an answer that is missing."""

    def unknown_now(_: int) -> None:
        raise ApiUnavailable("Helm could not reach the API server")

    written = PipelineStep(Written("a", bench.diary), (), (), confirm=unknown_now)
    assert run(bench.runner(), written) == RunResult("succeeded")


def test_others_change_of_an_earlier_step_is_told_as_it_goes_back(bench: Bench) -> None:
    """The rollback takes it back, too; their values stay in Helm's history."""
    changed = False

    def confirm(revision: int) -> None:
        if changed:
            replaced(revision)

    def change() -> None:
        nonlocal changed
        changed = True

    written = PipelineStep(Written("a", bench.diary), (), (), confirm=confirm)
    bad = bench.step("b", apply_error=StepFailed("bad flag"), on_apply=change)
    assert run(bench.runner(), written, bad).outcome == "rolled-back"
    notes = [event.text for event in bench.recorder.events if isinstance(event, Note)]
    assert any("another Helm has changed it" in text and "rolled back as well" in text for text in notes)


def test_what_a_first_attempt_to_go_back_wrote_is_nobody_elses(bench: Bench) -> None:
    """It lost the API behind `helm rollback`: the revision that it left is upgrader's own, in its second attempt and in
    the rollback that is asked for later.
    """
    went_back = False

    def confirm(revision: int) -> None:
        if went_back:
            replaced(revision)

    class LosesTheApi(Written):
        def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
            nonlocal went_back
            went_back = True
            super().undo(point, note)

    written = PipelineStep(
        LosesTheApi("a", bench.diary, undo_error=ApiUnavailable("the API does not answer")), (), (), confirm=confirm
    )
    bad = bench.step("b", apply_error=StepFailed("bad flag"))
    runner = bench.runner()
    assert run(runner, written, bad).outcome == "failed"
    assert bench.diary.count("undo a to 1") == UNDO_ATTEMPTS
    state = RunState()
    for event in bench.recorder.events:
        state = follow(state, event, bench.clock.now())
    bench.runner().resume(Pipeline((written, bad)), state, RollbackRequested("r1", "me"))
    assert bench.diary.count("undo a to 1") == 2 * UNDO_ATTEMPTS
    assert not [event for event in bench.recorder.events if isinstance(event, Note) and "another Helm" in event.text]


@pytest.mark.parametrize(("release", "told"), [("kube-apiserver", False), ("addons", True)])
def test_what_a_recovery_wrote_is_nobody_elses(bench: Bench, release: str, told: bool) -> None:
    """It may have rolled kube-apiserver's release back before the step itself goes back, and no other: what another
    Helm made of those is told as ever.
    """

    def confirm(revision: int) -> None:
        if bench.recovery.calls:
            replaced(revision)

    def lose_api() -> None:
        bench.kube.unavailable = True

    written = PipelineStep(Written(release, bench.diary), (), (), confirm=confirm)
    bad = bench.step("b", apply_error=ApiLost("the API does not answer"), on_apply=lose_api)
    runner = bench.runner()
    assert run(runner, written, bad).outcome == "rolled-back" and bench.recovery.calls
    notes = [event.text for event in bench.recorder.events if isinstance(event, Note)]
    assert any("another Helm" in text for text in notes) is told


@pytest.mark.parametrize(("release", "told"), [("kube-apiserver", False), ("addons", True)])
def test_what_a_recovery_of_an_earlier_process_wrote_is_nobody_elses(bench: Bench, release: str, told: bool) -> None:
    """The journal has it, whatever became of the process."""
    written = PipelineStep(Written(release, bench.diary), (), (), confirm=replaced)
    state = RunState()
    for event in (
        RunStarted("r1", RunKind.UPGRADE, (release,), "runs/r1"),
        StepStarted(release, "change", RestorePoint(release, "kube-system", 1)),
        StepApplied(release, 1.0, 7),
        StepEnded(release, "passed", 1.0),
        RecoveryStarted("the API does not answer"),
        RecoveryEnded(True, 1.0),
    ):
        state = follow(state, event, bench.clock.now())
    bench.runner().resume(Pipeline((written,)), state, RollbackRequested("r1", "me"))
    notes = [event.text for event in bench.recorder.events if isinstance(event, Note)]
    assert any("another Helm" in text for text in notes) is told


def test_undo_waits_for_another_helm_at_work(bench: Bench) -> None:
    """A step that has written its revision has no Helm of its own any more: whose works on it now is another's."""

    class Inspector:
        def await_idle(self, point: RestorePoint | None, note: Callable[[str], None]) -> None:
            bench.diary.append("waited")

        def inspect(self, point: RestorePoint | None) -> Inspection:
            raise AssertionError("nothing was interrupted")

    gate = ScriptedGate("g", last=broken("down"))
    written = PipelineStep(Written("a", bench.diary), bench.step("", gate).gates, (), Inspector())
    assert run(bench.runner(), written).outcome == "rolled-back"
    failed = PipelineStep(ScriptedStep("b", bench.diary, apply_error=StepFailed("bad flag")), (), (), Inspector())
    assert run(bench.runner(), failed).outcome == "rolled-back"
    assert bench.diary == ["apply a", "waited", "undo a to 1", "apply b", "undo b to 1"]


def test_undo_that_lost_the_api_doesnt_wait_for_its_own_helm(bench: Bench) -> None:
    """What the first attempt has left pending is its own, and has ended with it: waiting would be for nothing."""

    class Inspector:
        def await_idle(self, point: RestorePoint | None, note: Callable[[str], None]) -> None:
            bench.diary.append("waited")

        def inspect(self, point: RestorePoint | None) -> Inspection:
            raise AssertionError("nothing was interrupted")

    gate = ScriptedGate("g", last=broken("down"))
    step = Written("a", bench.diary, undo_error=ApiUnavailable("the API does not answer"))
    assert run(bench.runner(), PipelineStep(step, bench.step("", gate).gates, (), Inspector())).outcome == "failed"
    assert bench.diary == ["apply a", "waited", *["undo a to 1"] * UNDO_ATTEMPTS]


@pytest.mark.parametrize("fails", [False, True])
def test_no_step_begins_or_goes_back_under_a_lost_lock(bench: Bench, fails: bool) -> None:
    """A machine that slept until its lock was taken asks for it first: neither is the next step begun, nor a failed one
    undone.
    """
    error = StepFailed("timed out while asleep") if fails else None

    def lose() -> None:
        lost.append("other@laptop")

    def confirm() -> None:
        for other in lost:
            bench.stop.forbid(f"the cluster's lock was taken over by {other}")

    lost: list[str] = []
    runner = bench.runner(confirm_lock=confirm)
    result = run(runner, bench.step("a", on_apply=lose, apply_error=error), bench.step("b"))
    assert result.outcome == "interrupted" and "other@laptop" in result.reason
    assert bench.diary == ["apply a"]


REFUSED = "the API server at https://api refused 'get /readyz': HTTP 401 Unauthorized: user 'ann' of /home/ann/config"


def end_credentials(bench: Bench) -> None:
    """From now on, the API server refuses the kubeconfig's credentials, and no other client."""
    bench.kube.refuses_all = CredentialsRefused(REFUSED)
    bench.recovery.credentials = True


def stopped_for_credentials(bench: Bench, result: RunResult) -> None:
    """Asserts that the run stopped as it was, and says why and what to do."""
    assert result.outcome == "interrupted" and REFUSED in result.reason
    assert "`upgrader resume`" in result.remedy
    assert "--authentication-config" in result.remedy, "the step may have broken this kind of login alone"
    assert bench.recovery.calls == 0
    assert not any(isinstance(event, RecoveryStarted) for event in bench.recorder.events)


@pytest.mark.parametrize("why", [StepFailed("no answer in time"), HelmError("Unauthorized"), CredentialsRefused("401")])
def test_credentials_that_end_during_a_change_undo_nothing(bench: Bench, why: UpgraderError) -> None:
    """The API works: nobody is served better by a rollback, and none would be accepted. The run is resumed."""
    result = run(bench.runner(), bench.step("a", apply_error=why, on_apply=lambda: end_credentials(bench)))
    stopped_for_credentials(bench, result)
    assert bench.diary == ["apply a"]
    assert not any(isinstance(event, StepEnded) for event in bench.recorder.events)


@pytest.mark.parametrize("patience_seconds", [60.0, inf])
def test_credentials_that_end_while_gates_are_checked_undo_nothing(bench: Bench, patience_seconds: float) -> None:
    """What a gate can't see is unknown, and an API server that refuses one user is not an API that is down."""
    gate = ScriptedGate("g", last=unknown(REFUSED))
    step = bench.step("a", gate, on_apply=lambda: end_credentials(bench))
    stopped_for_credentials(bench, run(bench.runner(patience_seconds=patience_seconds), step))
    assert bench.diary == ["apply a"]


def test_credentials_that_end_during_a_rollback_leave_it_to_be_resumed(bench: Bench) -> None:
    """The undo was begun, and isn't over: it is repeated with other credentials, not given up."""
    undo_error = HelmError("Unauthorized")
    step = bench.step("a", apply_error=StepFailed("bad"), undo_error=undo_error, on_undo=lambda: end_credentials(bench))
    stopped_for_credentials(bench, run(bench.runner(), step))
    assert bench.diary == ["apply a", "undo a to 1"]
    assert not any(isinstance(event, UndoEnded) for event in bench.recorder.events)


def accepted_again(bench: Bench) -> None:
    """From now on, an earlier generation of kube-apiserver would accept the same credentials."""
    labels = {"owner": "helm", "name": RECOVERED_RELEASE}
    bench.kube.put(SECRETS, {"metadata": {"name": "sh.helm.release.v1.x.v1", "labels": labels}}, "kube-system")
    end_credentials(bench)
    bench.recovery.refused_too = False


@pytest.mark.parametrize("why", [StepFailed("no answer in time"), HelmError("Unauthorized")])
def test_logins_that_the_step_broke_are_rolled_back(bench: Bench, why: UpgraderError) -> None:
    """A wrong --oidc-client-id: the API works for the cluster, and refuses the run. The instances of before the step
    accept it, so that the step is to blame: they take the place of its own, and it is rolled back through them.
    """
    step = bench.step(RECOVERED_RELEASE, apply_error=why, on_apply=lambda: accepted_again(bench))
    result = run(bench.runner(), bench.step("a"), step)
    assert result == RunResult("rolled-back", why.message)
    assert bench.diary == ["apply a", f"apply {RECOVERED_RELEASE}", f"undo {RECOVERED_RELEASE} to 1", "undo a to 1"]
    (started,) = (event for event in bench.recorder.events if isinstance(event, RecoveryStarted))
    assert REFUSED in started.reason and "accepts the cluster's own" in started.reason


def test_logins_that_are_broken_again_during_the_rollback_are_brought_back_again(bench: Bench) -> None:
    """Until the rollback is written, kube-apiserver's Deployment brings another instance that refuses the run."""
    undo_errors = iter([HelmError("Unauthorized"), None])

    def undo() -> None:
        if (error := next(undo_errors)) is not None:
            accepted_again(bench)
            raise error

    broken_by = StepFailed("no answer in time")
    step = bench.step(RECOVERED_RELEASE, apply_error=broken_by, on_apply=lambda: accepted_again(bench), on_undo=undo)
    assert run(bench.runner(), step) == RunResult("rolled-back", "no answer in time")
    assert len(bench.recovery.replaced) == 2


@pytest.mark.parametrize(
    ("name", "refused_too", "newer", "patience_seconds"),
    [
        (RECOVERED_RELEASE, True, True, 60.0),
        (RECOVERED_RELEASE, False, False, 60.0),
        (RECOVERED_RELEASE, False, True, inf),
        ("kube-scheduler", False, True, 60.0),
    ],
    ids=["refused before, too", "the step has brought no pod", "nothing may be recovered", "another step"],
)
def test_credentials_are_to_blame_where_an_earlier_kube_apiserver_does_not_prove_the_contrary(
    bench: Bench, name: str, *, refused_too: bool, newer: bool, patience_seconds: float
) -> None:
    """What can't be compared is no evidence against the step: nothing is rolled back, and the run can be resumed."""

    def end() -> None:
        end_credentials(bench)
        bench.recovery.refused_too, bench.recovery.newer = refused_too, newer

    step = bench.step(name, apply_error=StepFailed("no answer in time"), on_apply=end)
    result = run(bench.runner(patience_seconds=patience_seconds), step)
    assert result.outcome == "interrupted" and REFUSED in result.reason
    assert bench.diary == [f"apply {name}"]


def test_an_api_that_refuses_the_cluster_too_is_recovered(bench: Bench) -> None:
    """A wrong client CA refuses the operator's credentials as well: that one is a fault of the step."""

    def wrong() -> None:
        end_credentials(bench)
        bench.recovery.credentials = False

    step = bench.step("a", apply_error=StepFailed("bad CA"), on_apply=wrong)
    run(bench.runner(), step)
    assert bench.recovery.calls == 1


def test_one_refusal_does_not_end_a_run(bench: Bench) -> None:
    """Of several instances behind an address one may be starting, or wrong: only what is refused again and again is
    the credentials' fault.
    """
    answers: list[str | Exception] = [CredentialsRefused(REFUSED), *["ok"] * 9]
    bench.kube.raw_answers["/readyz"] = iter(answers)
    bench.recovery.credentials = True
    assert run(bench.runner(), bench.step("a", apply_error=StepFailed("bad flag"))).outcome == "rolled-back"
