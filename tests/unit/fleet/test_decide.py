"""The decision's words and limits: what is waited for, until when, and what a person has to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from upgrader.fleet.coordinator import goes_on
from upgrader.fleet.cron import Cron
from upgrader.fleet.decide import ANSWER_SECONDS, Decision, Held, Skip, Start, Wait, decide, needed_seconds
from upgrader.fleet.events import (
    CampaignContinued,
    CampaignEnded,
    CampaignEvent,
    CampaignStarted,
    ChosenPod,
    ClusterChecked,
    ClusterEnded,
    ClusterInputs,
    ClusterSkipped,
    ClusterStarting,
    InputsApproved,
    Outcome,
    Paused,
    Pins,
    PodChosen,
    PodRestarted,
    Problem,
    RetryRequested,
    SoakChecked,
    SoakGateChecked,
    StageApproved,
    Unpaused,
)
from upgrader.fleet.model import Domains, Fleet, FleetCluster, MaxFailures, OnUnreachable, Stage
from upgrader.fleet.selectors import Requirement, Selector
from upgrader.fleet.state import CampaignState, fold
from upgrader.fleet.windows import Exclusion, Window
from upgrader.model.health_before import IntOrPercent
from upgrader.model.version import KubernetesVersion

BEGIN = datetime(2026, 12, 1, tzinfo=UTC)
TARGET = KubernetesVersion.release("v1.37.1")


def stage(name: str, **more: object) -> Stage:
    whole: dict[str, object] = {"max_concurrency": IntOrPercent(2), **more}
    return Stage(name, Selector((Requirement("ring", "In", (name,)),)), **whole)  # type: ignore[arg-type]


def fleet(*stages: Stage, clusters: str = "a1 a2 a3 b1 b2", **more: object) -> Fleet:
    members = tuple(
        FleetCluster(name, Path("/none"), name, {"ring": name[0], "region": name[1]}) for name in clusters.split()
    )
    return Fleet(TARGET, stages, members, **more)  # type: ignore[arg-type]


class Campaign:
    """A campaign that a test plays; minutes pass between its events."""

    def __init__(self, of: Fleet) -> None:
        self.fleet, self.now = of, BEGIN
        self.state = CampaignState()
        self.tell(
            CampaignStarted("c", TARGET, Pins("1", "c", "p"), tuple(ClusterInputs(n, "d") for n in of.by_name), "me")
        )

    def tell(self, *events: CampaignEvent, minutes: float = 0) -> Campaign:
        self.now += timedelta(minutes=minutes)
        self.state = fold([(self.now, each) for each in events], self.state)
        return self

    def ran(self, name: str, outcome: Outcome = "succeeded", cause: str = "", run: str = "r") -> Campaign:
        attempt = self.state.clusters[name].attempt + 1
        self.tell(ClusterStarting(name, attempt, resume=self.state.clusters[name].active))
        return self.tell(
            ClusterEnded(name, attempt, outcome, 600.0, run, cause, cause, outcome == "interrupted" and run != ""),
            minutes=10,
        )

    def decide(self, held: str = "") -> Decision:
        return decide(self.fleet, self.state, self.now, Held(held))

    @property
    def starts(self) -> list[str]:
        return [each.cluster for each in self.decide().starts]


def test_stages_and_concurrency() -> None:
    """A stage begins as many clusters as it may; the next one waits for it; at the end the campaign is done."""
    played = Campaign(fleet(stage("a"), stage("b")))
    decision = played.decide()
    assert [each.cluster for each in decision.starts] == ["a1", "a2"]
    assert decision.waits == {"a3": Wait("its turn: 2 at a time (maxConcurrency 2)")}
    assert decision.stages == {"a": Wait("its clusters: a1, a2, a3"), "b": Wait("the stages before it")}
    played.ran("a1").ran("a2").ran("a3")
    assert played.starts == ["b1", "b2"] and not played.decide().done
    assert played.ran("b1").ran("b2").decide() == Decision(done=True)


def test_an_old_success_completes_nothing() -> None:
    """Only runs of this campaign count, and a stage whose clusters were all skipped proves nothing."""
    played = Campaign(fleet(stage("a"), stage("b"), clusters="a1 b1"))
    played.tell(ClusterSkipped("a1", "me", "old"))
    assert played.decide().stages["a"] == Wait(
        "none of its clusters has succeeded: upgrader fleet retry CLUSTER", person=True
    )
    assert played.tell(RetryRequested("a1", "me")).starts == ["a1"]


def test_soak_ends_by_time_and_an_answer() -> None:
    """After its time, each cluster must answer at the target; an answer from before counts for nothing."""
    played = Campaign(fleet(stage("a", soak_seconds=3600.0), stage("b"), clusters="a1 a2 b1"))
    played.ran("a1").ran("a2")
    over = played.now + timedelta(hours=1)
    assert played.decide().stages["a"] == Wait("soak", over) and played.decide().stages["a"].gate == ""
    played.tell(SoakChecked("a1", passed=True), minutes=60)
    decision = played.decide()
    assert decision.soaks == ("a2",) and decision.starts == ()
    played.tell(SoakChecked("a2", passed=False, reason="no answer"), minutes=1)
    blind = Wait(
        "the end of its soak: 1 of its clusters must report the target version: a2: no answer",
        over + timedelta(hours=1),
    )
    assert played.decide().stages["a"] == blind
    played.tell(minutes=ANSWER_SECONDS / 60)
    late = played.decide().stages["a"]
    assert (
        late.person
        and late.reason == f"{blind.reason}; to skip a lost cluster: upgrader fleet skip CLUSTER --reason TEXT"
    )
    assert played.tell(SoakChecked("a2", passed=True)).starts == ["b1"]


def test_soak_by_requests_alone() -> None:
    """Without a time, each cluster must still say that it has answered enough of them."""
    played = Campaign(fleet(stage("a", soak_requests=1000), stage("b"), clusters="a1 b1")).ran("a1")
    assert played.decide().soaks == ("a1",) and played.decide().starts == ()
    assert played.tell(SoakChecked("a1", passed=True)).starts == ["b1"]


def test_soak_with_gates() -> None:
    """Gates are asked from each run's end on, also while the stage goes on; the soak doesn't end while one doesn't
    pass, or wasn't asked, whatever else was answered.
    """
    soaking = stage("a", soak_seconds=3600.0, soak_gates=("errors",))
    played = Campaign(fleet(soaking, stage("b"), clusters="a1 a2 b1")).ran("a1")
    assert played.decide().gates == ("a1",) and played.starts == ["a2"]
    played.ran("a2").tell(SoakGateChecked("a2"), SoakGateChecked("a1", "errors", "0.4"))
    assert played.decide().stages["a"].reason == "soak, and a1: gate errors doesn't pass: 0.4"
    assert played.decide().stages["a"].gate == "a1: gate errors doesn't pass: 0.4"
    played = Campaign(played.fleet).ran("a1").ran("a2").tell(SoakGateChecked("a2"))
    assert played.decide().gates == ("a1", "a2") and played.decide().soaks == ()
    played.tell(SoakChecked("a1", passed=True), SoakChecked("a2", passed=True), minutes=60)
    assert (played.decide().gates, played.decide().soaks, played.starts) == (("a1",), ("a1",), [])
    assert played.tell(SoakGateChecked("a1", "errors", "0.3")).starts == []
    assert "must report the target version: a1: gate errors doesn't pass: 0.3" in played.decide().stages["a"].reason
    assert played.tell(SoakGateChecked("a1")).starts == ["b1"] and played.decide().gates == ()


def test_gate_that_has_failed_in_a_soak() -> None:
    """It stops all starts, names cluster, gate and reason, and isn't asked again, until a person retries the cluster,
    which is not run for it, or skips it.
    """
    soaking = stage("a", max_concurrency=IntOrPercent(1), soak_gates=("errors",))
    played = Campaign(fleet(soaking, clusters="a1 a2")).ran("a1")
    played.tell(SoakGateChecked("a1", "errors", "`errors` was 0.3"))
    assert played.starts == ["a2"], "it may pass yet, as behind a step"
    played.tell(SoakGateChecked("a1", "errors", "`errors` was 0.4", failed=True))
    decision = played.decide()
    assert (decision.starts, decision.gates, decision.waits["a2"].person) == ((), (), True)
    assert decision.stop == (
        "stage a: gate errors of a1 has not passed by its deadline: `errors` was 0.4; to check it again: upgrader "
        "fleet retry a1; or upgrader fleet skip a1 --reason TEXT"
    )
    before = played.state
    assert played.tell(RetryRequested("a1", "me")).starts == ["a2"] and played.decide().gates == ("a1",)
    played.state = before
    assert played.tell(ClusterSkipped("a1", "me", "errors")).starts == ["a2"]
    assert played.tell(RetryRequested("a1", "me")).starts == ["a1"], "one that was skipped is run again"


def test_soak_with_a_restart() -> None:
    """A pod of each upgraded cluster is restarted once the stage's runs have ended, in as many clusters at once as are
    upgraded, those that have begun first; the soak doesn't end before. A pause begins none.
    """
    soaking = stage("a", max_concurrency=IntOrPercent(1), soak_seconds=3600.0, soak_restart=True)
    played = Campaign(fleet(soaking, stage("b"), clusters="a1 a2 b1")).ran("a1")
    assert played.decide().restarts == ()
    played.ran("a2")
    assert played.decide().restarts == ("a1",) and played.decide().stages["a"].reason == "soak"
    chosen = PodChosen("a2", ChosenPod("kube-scheduler", "kube-scheduler-1", "u"))
    assert played.tell(chosen).decide().restarts == ("a2",)
    played.tell(Paused("me", "lunch"))
    assert played.decide().restarts == ()
    played.tell(Unpaused("me"), PodRestarted("a2"))
    played.tell(SoakChecked("a1", passed=False, reason="no follower"), minutes=1)
    assert played.decide().restarts == ("a1",)
    played.tell(SoakChecked("a2", passed=True), minutes=59)
    decision = played.decide()
    assert decision.soaks == (), "it has yet to be restarted"
    assert decision.starts == () and decision.stages["a"].reason.endswith(
        "must report the target version: a1: no follower"
    )
    assert played.tell(PodRestarted("a1"), SoakChecked("a1", passed=True)).starts == ["b1"]


def test_restart_in_a_window() -> None:
    """It is a change of the cluster: outside of its windows and in exclusions it doesn't begin. Where a pod was chosen,
    only whether it was replaced is asked there: a budget may have refused its eviction.
    """
    closed = Exclusion(Selector(), date(2026, 12, 1), date(2026, 12, 1), ZoneInfo("UTC"))
    soaking = stage("a", soak_seconds=60.0, soak_restart=True)
    played = Campaign(fleet(soaking, clusters="a1 a2", exclusions=(closed,))).ran("a1").ran("a2")
    played.tell(minutes=5)
    opens = datetime(2026, 12, 2, tzinfo=UTC)
    assert played.decide().stages["a"] == Wait("the restart of a pod, in its window", opens)
    played.tell(PodChosen("a2", ChosenPod("kube-scheduler", "kube-scheduler-1", "u")))
    assert played.decide().restarts == ("a2",) and played.decide().evictions == ()
    before, played.now = played.now, opens
    assert played.decide().evictions == ("a2", "a1")
    played.now = before
    played.tell(PodRestarted("a2")).now = opens
    assert played.decide().restarts == played.decide().evictions == ("a1",)


def test_restart_in_a_window_long_after_the_soak() -> None:
    """The hour after which a person is called begins with the restart, and not with the end of a soak whose window was
    closed: `fleet run` doesn't end where it could go on.
    """
    closed = Exclusion(Selector(), date(2026, 12, 1), date(2026, 12, 3), ZoneInfo("UTC"))
    soaking = stage("a", max_concurrency=IntOrPercent(1), soak_seconds=60.0, soak_restart=True)
    played = Campaign(fleet(soaking, clusters="a1 a2", exclusions=(closed,))).ran("a1").ran("a2")
    played.now = datetime(2026, 12, 4, tzinfo=UTC)
    for name in ("a1", "a2"):
        assert played.decide().restarts == (name,) and played.decide().stages["a"].timed
        played.tell(PodChosen(name, ChosenPod("kube-scheduler", "kube-scheduler-1", "u")), minutes=1)
        assert played.decide().restarts == (name,) and played.decide().stages["a"].timed
        played.tell(PodRestarted(name), minutes=59)
    assert played.decide().soaks == ("a1", "a2") and played.decide().stages["a"].timed
    assert played.tell(minutes=120).decide().stages["a"].person, "one that never answers is a person's"


def test_cluster_in_which_no_pod_can_be_chosen() -> None:
    """It keeps no other cluster waiting for its restart, and after an hour holds no place at all: a person is called,
    with what to do, while it is asked on; the campaign goes on once it is left out.
    """
    soaking = stage("a", max_concurrency=IntOrPercent(1), soak_seconds=60.0, soak_restart=True)
    played = Campaign(fleet(soaking, stage("b"), clusters="a1 a2 b1")).ran("a1").ran("a2").tell(minutes=1)
    played.tell(SoakChecked("a1", passed=False, reason="no follower"))
    assert played.decide().restarts == ("a2",)
    played.tell(SoakChecked("a2", passed=False, reason="no follower"), minutes=1)
    assert played.decide().restarts == ("a1",) and played.decide().stages["a"].timed
    played.tell(minutes=60)
    decision = played.decide()
    assert decision.restarts == decision.evictions == ("a1", "a2") and decision.soaks == ()
    wait = Wait("an operator: no follower; to leave it out: upgrader fleet skip a2 --reason TEXT", person=True)
    assert decision.waits["a2"] == wait and decision.stages["a"].person and not goes_on(decision, played.state)
    played.tell(PodChosen("a2", ChosenPod("kube-scheduler", "kube-scheduler-1", "u")))
    assert played.decide().restarts == ("a2", "a1") and played.decide().stages["a"].timed
    played.tell(PodRestarted("a2"), SoakChecked("a2", passed=True), minutes=1)
    assert played.decide().stages["a"].person and "a1: no follower" in played.decide().stages["a"].reason
    assert played.tell(ClusterSkipped("a1", "me", "one replica")).starts == ["b1"]


def test_windows_that_are_too_short_for_a_restart() -> None:
    """It is said at once which cluster's windows leave no time for it, and a person is called after the soak."""
    short = Window(Selector(), Cron.parse("0 0 * * *"), 300.0, ZoneInfo("UTC"))
    soaking = stage("a", soak_seconds=600.0, soak_restart=True)
    played = Campaign(fleet(soaking, stage("b"), clusters="a1 b1", windows=(short,))).ran("a1")
    said = "its windows and exclusions leave no time for the restart of a pod, which takes 10 min"
    assert played.decide().unrestartable == {"a1": said} and said in played.decide().waits["a1"].reason
    assert played.decide().stages["a"].timed
    played.tell(SoakChecked("a1", passed=False, reason=said), minutes=10)
    decision = played.decide()
    assert (decision.soaks, decision.restarts) == ((), ()) and decision.stages["a"].person
    assert f"a1: {said}" in decision.stages["a"].reason
    assert not played.tell(ClusterSkipped("a1", "me", "short")).decide().unrestartable


def test_gates_that_were_not_asked() -> None:
    """It is unknown whether they pass: the soak doesn't end, none of them is named, and if that lasts, starts stop."""
    soaking = stage("a", max_concurrency=IntOrPercent(1), soak_gates=("errors", "orders"))
    played = Campaign(fleet(soaking, stage("b"), clusters="a1 a2 b1")).ran("a1").ran("a2")
    played.tell(SoakGateChecked("a1"), SoakGateChecked("a2"))
    played.tell(SoakGateChecked("a1", reason="not read", unknown=True))
    played.tell(SoakChecked("a1", passed=True), SoakChecked("a2", passed=True))
    assert played.starts == [] and played.decide().gates == ("a1",)
    assert "a1: its gates are unknown: not read" in played.decide().stages["a"].reason
    before = played.state
    assert played.tell(ClusterSkipped("a1", "me", "not read")).state.clusters["a1"].phase == "skipped"
    played.state = before
    played.tell(SoakGateChecked("a1", reason="not read", failed=True, unknown=True))
    said = "stage a: it has been unknown for too long whether the gates of a1 pass: not read; to check them again"
    assert played.decide().stop.startswith(said)
    assert played.tell(RetryRequested("a1", "me")).decide().gates == ("a1",)
    assert played.tell(SoakGateChecked("a1")).starts == ["b1"]


def test_approval() -> None:
    """A stage that needs an approval says how to give it, and waits for a person."""
    played = Campaign(fleet(stage("a", approval=True), clusters="a1"))
    wait = Wait("an approval: upgrader fleet approve a --reason TEXT", person=True)
    assert played.decide().waits == {"a1": wait} and played.decide().stages == {"a": wait}
    assert played.tell(StageApproved("a", "me", "fine")).starts == ["a1"]


@pytest.mark.parametrize(
    ("outcome", "limits", "said"),
    [
        ("blocked", MaxFailures(), "stage a: blocked: a1; maxFailures.blocked is 0"),
        ("rolled-back", MaxFailures(), "stage a: rolled-back: a1; maxFailures.rolledBack is 0"),
        ("broken", MaxFailures(), "stage a: broken: a1; maxFailures.broken is 0"),
        ("broken", MaxFailures(broken=IntOrPercent(percent=10)), "maxFailures.broken is 10%, which is 0"),
    ],
)
def test_failures_are_counted_by_outcome(outcome: Outcome, limits: MaxFailures, said: str) -> None:
    """Each outcome has its own limit; percentages round down; a person retries or skips."""
    played = Campaign(fleet(stage("a", max_failures=limits), clusters="a1 a2"))
    played.ran("a1", outcome, "cause")
    decision = played.decide()
    assert said in decision.stop and decision.starts == () and decision.waits["a2"] == Wait(decision.stop, person=True)
    assert decision.stages["a"] == Wait("an operator: a2", person=True)
    assert played.tell(RetryRequested("a1", "me")).starts == ["a1", "a2"]


def test_a_failure_within_its_limit_does_not_hold_the_stage() -> None:
    """What is tolerated is left behind; the stage is complete without it."""
    played = Campaign(fleet(stage("a", max_failures=MaxFailures(rolled_back=IntOrPercent(1))), stage("b")))
    played.ran("a1").ran("a2", "rolled-back", "x").ran("a3")
    assert played.starts == ["b1", "b2"]


def test_second_failure_of_one_cause_stops_all_starts() -> None:
    """Two different causes are tolerated where the second identical one isn't."""
    limits = MaxFailures(blocked=IntOrPercent(5), rolled_back=IntOrPercent(5))
    played = Campaign(fleet(stage("a", max_failures=limits), clusters="a1 a2 a3 a4"))
    played.ran("a1", "blocked", "flag").ran("a2", "rolled-back", "disk")
    assert played.decide().stop == ""
    played.ran("a3", "rolled-back", "flag")
    assert played.decide().stop == "a1, a3 failed for the same cause: flag; maxFailures.sameCause is 1"
    assert played.starts == []
    assert played.tell(ClusterSkipped("a3", "me", "later")).starts == ["a4"]


def test_domains_take_turns() -> None:
    """Clusters of two domains are never upgraded at once; an interrupted run holds its domain."""
    played = Campaign(fleet(stage("a"), clusters="a1 a2", domains=Domains("region")))
    assert played.starts == ["a1"] and played.decide().waits == {"a2": Wait("domain 1: a1 is being upgraded")}
    played.ran("a1", "interrupted", "away")
    assert "a2" in played.decide().waits and played.starts == []
    apart = Campaign(fleet(stage("a"), clusters="a1 a2", domains=Domains("region", one_at_a_time=False)))
    assert apart.starts == ["a1", "a2"]


def test_interrupted_runs_go_on_three_times() -> None:
    """Each retry waits longer; a pause keeps none back; after three, a person is needed, and the cluster counts."""
    played = Campaign(fleet(stage("a"), clusters="a1 a2"))
    for number in range(3):
        played.ran("a1", "interrupted", "away").tell(Paused("me", "lunch"))
        due = played.now + timedelta(minutes=2**number)
        assert played.decide().waits["a1"] == Wait("retried after an interruption: away", due)
        assert played.tell(minutes=2**number).decide().starts == (Start("a1", resume=True),)
    played.ran("a1", "interrupted", "away")
    assert played.decide().stop == "paused by me: lunch"
    assert played.tell(Unpaused("me")).decide().stop == "stage a: interrupted: a1; maxFailures.interrupted is 0"
    played.tell(RetryRequested("a1", "me")).tell(minutes=1)
    assert played.decide().starts[0] == Start("a1", resume=True)


@pytest.mark.parametrize(
    ("approval", "said"),
    [(False, "waits: paused by me: lunch"), (True, "waits for an approval: upgrader fleet approve a --reason TEXT")],
)
def test_what_is_said_of_a_wait_is_a_sentence(approval: bool, said: str) -> None:
    """Something that is to come is waited for; a reason that says how things are isn't."""
    played = Campaign(fleet(stage("a", approval=approval), clusters="a1")).tell(Paused("me", "lunch"))
    assert played.decide().waits["a1"].said("waits") == said


def test_interrupted_before_its_run_had_begun() -> None:
    """Nothing was changed: it begins again as any other cluster does."""
    played = Campaign(fleet(stage("a"), clusters="a1")).ran("a1", "interrupted", "locked", run="")
    assert played.starts == []
    assert played.tell(minutes=1).decide().starts == (Start("a1"),)
    assert played.tell(Paused("me", "")).decide().waits == {"a1": Wait("paused by me", person=True)}


@pytest.mark.parametrize("then", ["skip", "stop"])
def test_unreachable_is_neither_failed_nor_done(then: str) -> None:
    """It is asked again until its time is over; then it is skipped, or a person is needed."""
    rule = OnUnreachable(3600.0, then)  # type: ignore[arg-type]
    played = Campaign(fleet(stage("a", on_unreachable=rule), clusters="a1"))
    played.tell(ClusterChecked("a1", "unreachable", "refused"))
    over = played.now + timedelta(hours=1)
    decision = played.decide()
    assert decision.waits == {"a1": Wait("its API to answer: refused", over)} and decision.checks == ("a1",)
    assert decision.stages == {"a": Wait("its clusters: a1", over)}
    played.tell(ClusterChecked("a1", "unreachable", "timed out"), minutes=60)
    decision = played.decide()
    if then == "skip":
        assert decision.skips == (Skip("a1", "unreachable since 2026-12-01 00:00Z"),)
    else:
        assert decision.waits["a1"].person and "upgrader fleet retry a1, or" in decision.waits["a1"].reason
    assert played.tell(ClusterChecked("a1", "")).starts == ["a1"]


@pytest.mark.parametrize("problem", ["identity", "changed"])
def test_another_cluster_or_other_values_are_never_begun(problem: Problem) -> None:
    """It waits for a person, and is begun once it is as it was approved."""
    played = Campaign(fleet(stage("a"), clusters="a1")).tell(ClusterChecked("a1", problem, "so"))
    decision = played.decide()
    assert decision.waits == {"a1": Wait("so", person=True)} and decision.checks == ("a1",) and not decision.starts
    played.tell(InputsApproved("a1", "e", "me", "seen"))
    assert played.starts == (["a1"] if problem == "changed" else [])
    assert played.state.clusters["a1"].digest == "e"


def test_interrupted_run_of_another_cluster_does_not_go_on() -> None:
    """A kubeconfig that was swapped meanwhile leads to no other cluster."""
    played = Campaign(fleet(stage("a"), clusters="a1")).ran("a1", "interrupted", "away")
    played.tell(ClusterChecked("a1", "identity", "other"), minutes=5)
    decision = played.decide()
    assert decision.starts == () and decision.checks == ("a1",) and decision.waits == {"a1": Wait("other", person=True)}


def test_pause_and_held_stop_starts() -> None:
    """A pause names who and why; so does what the coordinator holds them for."""
    played = Campaign(fleet(stage("a"), clusters="a1"))
    assert played.decide("fleet.yaml:3: has changed").stop == "fleet.yaml:3: has changed"
    assert played.tell(Paused("me", "audit")).decide().waits == {"a1": Wait("paused by me: audit", person=True)}
    done = Campaign(fleet(stage("a"), clusters="a1")).ran("a1").tell(Paused("me", "audit"))
    assert done.decide().stages == {"a": Wait("paused by me: audit", person=True)}


def test_stop_leaves_stages_that_are_over() -> None:
    """A stop holds up the stage that has begun: those before it, which have soaked, wait for nothing."""
    played = Campaign(fleet(stage("a", soak_seconds=60.0), stage("b"), clusters="a1 b1 b2 b3")).ran("a1")
    played.tell(SoakChecked("a1", passed=True), minutes=1)
    stopped = {"a": Wait("fleet.yaml:3: has changed", person=True), "b": Wait("the stages before it")}
    assert played.decide("fleet.yaml:3: has changed").stages == stopped, "the next one has not begun"
    played.tell(ClusterStarting("b1", 1))
    assert played.decide("fleet.yaml:3: has changed").stages == {"b": Wait("its clusters: b1, b2, b3")}
    played.tell(Paused("me", "lunch"))
    assert played.decide().stages == {"b": Wait("its clusters: b1, b2, b3")}
    played.tell(ClusterSkipped("a1", "me", "odd"), RetryRequested("a1", "me"), Unpaused("me")).ran("a1")
    assert played.decide("held").stages == {"a": Wait("held", person=True), "b": Wait("the stages before it")}


def test_needed_time_is_measured() -> None:
    """Twice the 95th percentile of the campaign's runs, and never less than what the file expects: those that had
    nothing to change, or that were rolled back at their first step, say nothing of one that is complete.
    """
    of = fleet(stage("a"))
    assert needed_seconds(of, CampaignState()) == 3600.0
    assert needed_seconds(of, CampaignState(seconds=tuple(float(each) for each in range(1, 21)))) == 3600.0
    assert needed_seconds(of, CampaignState(seconds=tuple(100.0 * each for each in range(1, 21)))) == 3800.0


def test_requests_that_come_too_late_change_nothing() -> None:
    """A skip of a run in progress, a retry of a success, and an event of a cluster that isn't known."""
    played = Campaign(fleet(stage("a"), clusters="a1"))
    played.tell(CampaignContinued("you"), ClusterStarting("a1", 1), ClusterSkipped("a1", "me", "no"))
    assert played.state.clusters["a1"].phase == "running"
    before = played.ran("a1").state
    assert played.tell(RetryRequested("a1", "me"), RetryRequested("z", "me")).state == before


def test_another_upgrader_resumes_nothing() -> None:
    """An edited file lets interrupted runs go on; another program doesn't."""
    played = Campaign(fleet(stage("a"), clusters="a1")).ran("a1", "interrupted", "away").tell(minutes=1)
    assert played.decide("fleet.yaml:3: has changed").starts == (Start("a1", resume=True),)
    decision = decide(played.fleet, played.state, played.now, Held(everything="other"))
    assert decision.starts == () and decision.waits == {"a1": Wait("other", person=True)}


def test_person_is_called_where_others_only_wait_for_a_turn() -> None:
    """A cluster that keeps its place until a person comes is named, although others wait for that place only."""
    limits = MaxFailures(interrupted=IntOrPercent(1))
    played = Campaign(fleet(stage("a", max_concurrency=IntOrPercent(1), max_failures=limits), clusters="a1 a2"))
    for _ in range(4):
        played.ran("a1", "interrupted", "away")
    decision = played.decide()
    assert not decision.waits["a2"].person and decision.stages == {"a": Wait("an operator: a1", person=True)}
    played = Campaign(fleet(stage("a", max_concurrency=IntOrPercent(1)), clusters="a1 a2"))
    played.ran("a1", "interrupted", "away").tell(ClusterChecked("a1", "identity", "other"), minutes=5)
    assert played.decide().stages == {"a": Wait("an operator: a1", person=True)}


def test_run_of_which_nothing_is_known_needs_a_person() -> None:
    """Not for an hour, in which it is asked again. It keeps its place among those that run at once, and no time ends
    that.
    """
    played = Campaign(fleet(stage("a", max_concurrency=IntOrPercent(1)), clusters="a1 a2"))
    played.tell(ClusterStarting("a1", 1), ClusterChecked("a1", "unknown", "unreadable"))
    decision = played.tell(minutes=59).decide()
    assert goes_on(decision, played.state) and decision.starts == ()
    decision = played.tell(minutes=2).decide()
    assert decision.waits["a1"] == Wait("unreadable", person=True) and decision.starts == ()
    assert not goes_on(decision, played.state)


def test_retry_in_each_phase() -> None:
    """A problem is asked about anew, an open run is resumed, also after it was skipped, and anything else begins."""
    played = Campaign(fleet(stage("a"), clusters="a1")).tell(ClusterChecked("a1", "unreachable", "refused"))
    assert played.tell(RetryRequested("a1", "me"), minutes=9).starts == ["a1"]
    played.ran("a1", "interrupted", "away").tell(ClusterSkipped("a1", "me", "later"))
    assert played.state.clusters["a1"].active
    assert played.tell(RetryRequested("a1", "me")).tell(minutes=1).decide().starts == (Start("a1", resume=True),)
    played.ran("a1", "interrupted", "locked", run="").tell(ClusterSkipped("a1", "me", "later"))
    assert played.tell(RetryRequested("a1", "me")).decide().starts == (Start("a1"),)


@pytest.mark.parametrize("limit", [1, 2])
def test_open_run_holds_its_place_whatever_is_said_of_it(limit: int) -> None:
    """A cluster that is skipped in the middle of its run keeps its domain, and counts for maxConcurrency, until a
    person has ended the run; what to do is said, and a person is called.
    """
    of = fleet(stage("a", max_concurrency=IntOrPercent(limit)), clusters="a1 a2", domains=Domains("region"))
    played = Campaign(of).ran("a1", "interrupted", "away").tell(ClusterSkipped("a1", "me", "later"), minutes=1)
    decision = played.decide()
    assert decision.starts == () and decision.waits["a2"] == Wait("domain 1: the run of a1 has not ended")
    assert decision.waits["a1"].person and "upgrader -C /none resume, or rollback" in decision.waits["a1"].reason
    assert decision.stages == {"a": Wait("an operator: a1", person=True)} and not goes_on(decision, played.state)
    assert played.tell(RetryRequested("a1", "me")).tell(minutes=1).decide().starts == (Start("a1", resume=True),)
    played.tell(ClusterSkipped("a1", "me", "later"), ClusterEnded("a1", 1, "succeeded", 0.0, "r"))
    assert played.state.clusters["a1"].phase == "skipped" and played.state.seconds == ()
    assert played.starts == ["a2"]


def test_cluster_that_is_gone_after_its_success() -> None:
    """One that holds up the soak of its stage, as it doesn't answer any more, can be left out; any other can't."""
    played = Campaign(fleet(stage("a", soak_seconds=60.0), stage("b"), clusters="a1 a2 b1")).ran("a1").ran("a2")
    played.tell(ClusterSkipped("a1", "me", "no")).tell(SoakChecked("a1", passed=True), minutes=1)
    assert played.state.clusters["a1"].phase == "succeeded"
    played.tell(SoakChecked("a2", passed=False, reason="no answer"))
    assert played.starts == []
    assert played.tell(ClusterSkipped("a2", "me", "decommissioned")).starts == ["b1"]


def test_clock_that_is_behind_the_journal() -> None:
    """No time can be judged while the journal has a line of a time to come: nothing begins, and both times are said."""
    played = Campaign(fleet(stage("a"), clusters="a1"))
    played.now -= timedelta(minutes=5)
    assert played.starts == ["a1"], "clocks that are kept in time differ by less"
    played.now -= timedelta(minutes=1)
    decision = played.decide()
    assert decision.starts == () and decision.waits["a1"].person
    assert "clock shows 2026-11-30 23:54Z" in decision.stop and "an entry of 2026-12-01 00:00Z" in decision.stop
    assert "fleet run --new" in decision.stop


def test_run_that_is_silent() -> None:
    """It has the time of a run and its rollback; after that, a person is called, and the wait says what for."""
    played = Campaign(fleet(stage("a"), clusters="a1"))
    played.tell(ClusterStarting("a1", 1)).tell(ClusterChecked("a1", "silent", "it to go on"), minutes=59)
    assert played.decide().waits["a1"].said("waits") == "waits for it to go on"
    decision = played.decide()
    assert decision.waits == {"a1": Wait("it to go on", BEGIN + timedelta(hours=1))}
    assert goes_on(decision, played.state)
    decision = played.tell(minutes=1).decide()
    assert decision.waits == {"a1": Wait("it to go on", person=True)} and not goes_on(decision, played.state)
    assert decision.stages == {"a": Wait("an operator: a1", person=True)}
    assert goes_on(played.tell(ClusterChecked("a1", "")).decide(), played.state)


def test_no_time_is_ever_left() -> None:
    """An exclusion without an end is named, with what to do."""
    whole = Exclusion(Selector(), date.min, date.max, ZoneInfo("UTC"))
    played = Campaign(fleet(stage("a"), clusters="a1", exclusions=(whole,)))
    wait = played.decide().waits["a1"]
    assert wait.person and wait.reason.startswith("its windows and exclusions leave no time for a run")


def test_retry_opens_a_campaign_again() -> None:
    """A cluster that is to be run again is something to do; a request that changes nothing isn't."""
    limits = MaxFailures(blocked=IntOrPercent(1))
    played = Campaign(fleet(stage("a", max_failures=limits), clusters="a1 a2")).ran("a1").ran("a2", "blocked", "x")
    played.tell(CampaignEnded("c"))
    assert not played.tell(RetryRequested("a1", "me")).state.open
    assert played.tell(RetryRequested("a2", "me")).state.open and played.starts == ["a2"]


def test_start_says_until_when_it_may_begin() -> None:
    """A Job may wait for long before its pod runs: then its window, or an exclusion, leaves no more room. What goes on
    needs none.
    """
    window = Window(Selector(), Cron.parse("0 0 * * *"), 4 * 3600.0, ZoneInfo("UTC"))
    exclusion = Exclusion(Selector(), date(2026, 12, 2), date(2026, 12, 3), ZoneInfo("UTC"))
    one = fleet(stage("a"), clusters="a1", expected_seconds=1800.0)
    assert Campaign(one).decide().starts == (Start("a1"),)
    played = Campaign(replace(one, windows=(window,)))
    assert played.decide().starts == (Start("a1", by=BEGIN + timedelta(hours=3)),)
    assert Campaign(replace(one, exclusions=(exclusion,))).decide().starts == (
        Start("a1", by=BEGIN + timedelta(hours=23)),
    )
    played.ran("a1", "interrupted", "away")
    assert played.tell(minutes=1).decide().starts == (Start("a1", resume=True),)
