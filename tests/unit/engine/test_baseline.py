"""When a run takes its baseline, keeps it and gives it up."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.unit.engine.conftest import TARGET, Bench
from upgrader.engine.execution.runner import Runner
from upgrader.engine.journal.decode import event_from
from upgrader.engine.journal.record import checked, encode
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.report import report_json
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ApiError, ApiUnavailable, RollbackFailed, StepFailed
from upgrader.gates.continuity.continuity import Continuity
from upgrader.gates.kubernetes_kinds import SECRETS
from upgrader.model.baseline import Baseline, Count, Latency99, NotCompared, RefusedShare, ServerBaseline
from upgrader.model.event import (
    BaselineTaken,
    Note,
    RollbackRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    StepStarted,
    UndoEnded,
)
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.pipeline import Pipeline

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BEGAN = RunStarted("r1", RunKind.UPGRADE, ("a",), "/tmp/r1", TARGET)
FULL = Baseline(
    "v1.36.3",
    secret_digest="0123456789abcdef" * 4,
    token_seconds=86400,
    servers=("https://10.0.0.1:6443",),
    groups=("apps/v1",),
    counts=(Count("secrets", 4),),
    clients=(ServerBaseline("", (RefusedShare("403 secrets", 0.25),), (Latency99("LIST", 0.1),)),),
    not_compared=(NotCompared("a new Deployment", "no image"),),
)


@pytest.fixture
def continuity(bench: Bench) -> Continuity:
    """Continuity on a bench whose API has its version and nothing else."""
    bench.kube.raw_answers["/version"] = '{"gitVersion": "v1.36.3"}'
    return Continuity(bench.kube, bench.clock, ("controller-1",), (), policy=GatePolicy())


def runner(bench: Bench, continuity: Continuity) -> Runner:
    """A runner with that continuity."""
    return bench.runner(continuity=continuity)


def baselines(bench: Bench) -> list[int]:
    """Where in the events a baseline was taken."""
    return [index for index, event in enumerate(bench.recorder.events) if isinstance(event, BaselineTaken)]


def test_baseline_comes_before_the_first_step(bench: Bench, continuity: Continuity) -> None:
    """It is taken once, after the run is recorded and before anything changes, and its sentinel goes with a success."""
    had: list[bool] = []
    step = bench.step("a", on_apply=lambda: had.append(sentinel(bench)))
    runner(bench, continuity).run(Pipeline((step,)), BEGAN)
    started = [index for index, event in enumerate(bench.recorder.events) if isinstance(event, StepStarted)]
    (taken,) = baselines(bench)
    assert 0 < taken < started[0]
    assert had == [True] and not sentinel(bench)


def test_sentinel_stays_for_a_run_that_can_be_resumed(bench: Bench, continuity: Continuity) -> None:
    """A run that failed can be resumed, and is then compared with what worked before it."""
    stuck = bench.step("a", apply_error=StepFailed("bad"), undo_error=RollbackFailed("stuck", remedy="check"))
    runner(bench, continuity).run(Pipeline((stuck,)), BEGAN)
    assert sentinel(bench)


def test_resumed_run_has_its_first_baseline(bench: Bench, continuity: Continuity) -> None:
    """Another process compares with the journal's baseline, and takes no second one."""
    state = follow(follow(RunState(), BEGAN, NOW), BaselineTaken(FULL), NOW)
    runner(bench, continuity).resume(Pipeline((bench.step("a"),)), state, RunResumed("r1", "me"))
    assert baselines(bench) == [] and continuity.baseline == FULL and continuity.taken == NOW


def test_finished_run_that_is_rolled_back_has_another(bench: Bench) -> None:
    """The sentinel of a run that has ended is gone: its rollback is compared with what works then."""
    state = RunState()
    for event in (BEGAN, BaselineTaken(FULL), RunEnded("r1", "succeeded", 1.0)):
        state = follow(state, event, NOW)
    assert state.baseline == FULL, "it is reported"
    assert follow(state, RollbackRequested("r1", "me"), NOW).baseline is None


def test_api_that_is_lost_at_the_end_is_no_failure(bench: Bench, continuity: Continuity) -> None:
    """What can't be removed is left to the next run, with a note."""
    step = bench.step("a", on_apply=lambda: setattr(bench.kube, "unavailable", True))
    result = runner(bench, continuity).run(Pipeline((step,)), BEGAN)
    assert result.outcome == "succeeded"
    assert any(isinstance(event, Note) and "next run" in event.text for event in bench.recorder.events)


def test_baseline_survives_its_journal() -> None:
    """What is read from a journal is what was written: nothing in it looks like a secret."""
    line, checksum = encode(0, NOW, BaselineTaken(FULL), "")
    assert checked(line.rstrip(b"\n"), 0, "")[0].event == BaselineTaken(FULL)
    assert checksum


def test_older_readers_know_what_to_skip() -> None:
    """A type that a reader doesn't know is recorded as unknown, and no error."""
    assert type(event_from("BaselineTakenOtherwise", {})).__name__ == "UnknownEvent"


def test_report_says_what_was_compared() -> None:
    """What was compared, and what wasn't and why, is in the report."""
    state = follow(follow(RunState(), BEGAN, NOW), BaselineTaken(FULL), NOW)
    found = report_json(state)["continuity"]
    assert found["not_compared"] == {"a new Deployment": "no image"}
    assert found["compared"]["groups"] == ("apps/v1",) and "templates" not in found["compared"]
    assert report_json(RunState())["continuity"] == {}


def sentinel(bench: Bench) -> bool:
    """Whether the Secret is in the cluster."""
    try:
        return bench.kube.get(SECRETS, "upgrader-continuity", "kube-system") is not None
    except ApiUnavailable:
        return False


def test_what_fails_behind_a_rollback_is_told_with_its_end(bench: Bench, continuity: Continuity) -> None:
    """A webhook that converts and has ended is repaired by no rollback: the step went back, and that is not all."""
    path, refused = "/apis/example.com/v2/things/one", ApiError("conversion webhook failed: no such host")
    refused.status = 500
    bench.kube.raw_answers[f"{path}?timeout=2s"] = refused
    state = RunState()
    baseline = BaselineTaken(Baseline("v1.36.3", conversions=(path,)))
    for event in (BEGAN, baseline, StepStarted("a", "change", RestorePoint("a", "kube-system", 1))):
        state = follow(state, event, NOW)
    pipeline = Pipeline((bench.step("a"),))
    assert runner(bench, continuity).resume(pipeline, state, RollbackRequested("r1", "me")).outcome == "rolled-back"
    (ended,) = (event for event in bench.recorder.events if isinstance(event, UndoEnded))
    assert ended.succeeded and ended.reason.startswith(f"reading {path} worked before this run and fails now")
    assert "conversion webhook" in ended.remedy
