"""What worked before works after: the baseline, each way in which it can be contradicted, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from tests.unit.gates.builders import NAMESPACE, add_pod
from tests.unit.gates.continuity.living_cluster import CONTROLLERS, SERVERS, LivingKube, refusal
from upgrader.engine.execution.gatekeeper import hold_all
from upgrader.errors import ApiError, ApiUnavailable, GateFailed
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.continuity.api_services import ApiServiceWatch
from upgrader.gates.continuity.continuity import Continuity
from upgrader.gates.continuity.host_names import HostNames, not_asked
from upgrader.gates.continuity.leader_leases import held_leases
from upgrader.gates.continuity.object_counts import fell
from upgrader.gates.continuity.restarts import Lost, Restarts, RestartWatch
from upgrader.gates.continuity.running_instances import FollowedInstances, running_instances
from upgrader.gates.continuity.take_baseline import take_baseline
from upgrader.gates.kubernetes_kinds import (
    API_SERVICES,
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    LEASES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    WORKLOADS,
)
from upgrader.gates.shared_reads import ReadMemory, SharedReads
from upgrader.model.baseline import Baseline, Count, NotCompared
from upgrader.model.cluster import Host
from upgrader.model.event import Event, GateChecked
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.json_values import from_json, to_json
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.pipeline import Gate, Pipeline, PipelineStep
from upgrader.ports import CommandResult, Kind, KubeObject
from upgrader.steps.verify import VerifyStep

SECRET = "/api/v1/namespaces/kube-system/secrets/upgrader-continuity"
CHECKS = 12


class FirstFailure:
    """Remembers when a gate first said that something fails which worked before."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.at = inf

    def emit(self, event: Event) -> None:
        if (
            isinstance(event, GateChecked)
            and event.gate == "continuity"
            and event.verdict.kind is not VerdictKind.HOLDS
        ):
            self.at = min(self.at, self._clock.monotonic())


def gates(continuity: Continuity) -> list[Gate]:
    """The gates of a step, as each wait makes them."""
    step = PipelineStep(VerifyStep("kube-apiserver"), (), ())
    (item,) = continuity.around(Pipeline((step,))).steps
    return [run.again() for run in item.gates if run.again]


def check(continuity: Continuity, clock: FakeClock, checks: int = CHECKS) -> list[Verdict]:
    """The last verdict of each gate, after so many rounds that are a second apart."""
    asked, last = gates(continuity), []
    for _ in range(checks):
        last = [gate.check() for gate in asked]
        clock.sleep(1)
    return last


def first_problem(continuity: Continuity, clock: FakeClock) -> Verdict:
    """The first verdict, round by round, that doesn't hold and stays so for three rounds."""
    asked = gates(continuity)
    rows: dict[str, list[Verdict]] = {gate.name: [] for gate in asked}
    for _ in range(CHECKS):
        for gate in asked:
            rows[gate.name].append(gate.check())
            last = rows[gate.name][-3:]
            failing = len(last) == 3 and all(seen.kind is not VerdictKind.HOLDS for seen in last)
            if failing and (last[-1].kind is not VerdictKind.PENDING or len(rows[gate.name]) == CHECKS):
                return last[-1]
        clock.sleep(1)
    raise AssertionError("nothing was found")


@pytest.mark.parametrize("answer", ["<html>log in</html>", '{"data": {"val', '{"data": {"value": 1}}', "[]", "null"])
def test_secret_that_is_answered_with_something_else(
    continuity: Continuity, kube: LivingKube, clock: FakeClock, answer: str
) -> None:
    """A proxy's page, or an answer that was cut off, is what the gate reports, and no end of the run."""
    continuity.compare_with(continuity.take(print, begun=False), clock.now())
    kube.raw_answers[SERVERS[0] + SECRET] = answer
    problem = first_problem(continuity, clock)
    assert problem.kind is VerdictKind.PENDING and "the response is not a Secret" in problem.reason


def test_all_that_works_is_compared(continuity: Continuity) -> None:
    """On a cluster where everything works, nothing is left out of the baseline."""
    baseline = continuity.baseline
    assert baseline is not None
    assert baseline.not_compared == ()
    assert baseline.servers == SERVERS
    assert baseline.new_workload and baseline.secret_digest and baseline.token_seconds == 24 * 3600
    assert len(baseline.templates) == 5 and len(baseline.leases) == 2 and len(baseline.clients) == 2


def test_instances_are_found_by_their_pods(kube: LivingKube) -> None:
    """Their own port counts, and the address of their node, of either family; a pod without an address has none."""
    kube.instance("10.0.0.12", "--secure-port=7443")
    kube.instance("fd00::1")
    kube.instance("")
    assert running_instances(kube) == ("https://10.0.0.11:6443", "https://10.0.0.12:7443", "https://[fd00::1]:6443")


def test_an_instance_on_a_port_that_only_the_kubelet_knows_is_left_out(kube: LivingKube) -> None:
    """It can't be asked; a check refuses such a cluster, and whoever lowers that check has a run without an error."""
    kube.instance("10.0.0.12", "--secure-port=$(PORT)")
    assert running_instances(kube) == ("https://10.0.0.11:6443",)


def test_instances_are_looked_for_on_the_controllers_first(kube: LivingKube) -> None:
    """With a kube-proxy on each of thousands of nodes, all pods are read only where one isn't found there."""
    real = kube.list

    def listing(kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[KubeObject, ...]:
        kube.refused = {} if fields else {"list pods": refusal(500, "all of them")}
        return real(kind, namespace, labels=labels, fields=fields)

    kube.list = listing  # type: ignore[method-assign]
    assert FollowedInstances(kube, CONTROLLERS).now(SERVERS) == SERVERS
    kube.list = real  # type: ignore[method-assign]
    kube.refused = {}
    assert FollowedInstances(kube, ("elsewhere",)).now(SERVERS) == SERVERS


def test_instances_may_move_to_another_port(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """A step that changes the API's port is compared at the new one, once each instance is there."""
    for server in SERVERS:
        for path in ("/readyz", "/api", "/apis", "/version", "/metrics", SECRET):
            kube.raw_answers[f"{server}{path}"] = ApiUnavailable("connection refused")
    kube.instance("10.0.0.11", "--secure-port=7443")
    assert check(continuity, clock)[0].kind is VerdictKind.UNKNOWN, "one of them has not moved yet"
    kube.instance("10.0.0.12", "--secure-port=7443")
    assert [verdict.kind for verdict in check(continuity, clock)] == [VerdictKind.HOLDS] * 3


def test_instances_are_asked_where_they_were_if_none_is_found(
    continuity: Continuity, kube: LivingKube, clock: FakeClock
) -> None:
    """Without a Ready pod there, the old address says what is wrong; an API that can't list them is unknown."""
    for address in ("10.0.0.11", "10.0.0.12"):
        kube.delete(PODS, f"kube-apiserver-{address}", NAMESPACE)
    assert [verdict.kind for verdict in check(continuity, clock)] == [VerdictKind.HOLDS] * 3
    kube.refused["list pods"] = refusal(500)
    assert check(continuity, clock)[0].kind is VerdictKind.PENDING


def test_nothing_changed_holds(continuity: Continuity, clock: FakeClock) -> None:
    """A cluster as it was passes every gate, with the workload that was tried gone again."""
    found = check(continuity, clock)
    assert [verdict.kind for verdict in found] == [VerdictKind.HOLDS] * 3, found
    left = [item["metadata"]["name"] for item in continuity.kube.list(WORKLOADS["Deployment"], "kube-system")]
    assert not any(name.startswith("upgrader") for name in left)


DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
THING = "/apis/example.com/v2/namespaces/shop/things/one?timeout=2s"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com?timeout=2s"


@pytest.fixture
def converted(kube: LivingKube, clock: FakeClock) -> Continuity:
    """The continuity of a cluster with a custom resource that a webhook converts, and others that nothing does."""
    url = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://convert.example"}}}
    for plural, conversion in (("things", url), ("widgets", url), ("plain", {"strategy": "None"}), ("none", {})):
        versions = [{"name": name, "served": True, "storage": name == "v1"} for name in ("v1", "v2")]
        spec = {"group": "example.com", "names": {"plural": plural}, "versions": versions, "conversion": conversion}
        kube.put(DEFINITIONS, {"metadata": {"name": f"{plural}.example.com"}, "spec": spec})
        listed = '{"items": [{"metadata": {"namespace": "shop", "name": "one"}}]}'
        kube.raw_answers[f"/apis/example.com/v2/{plural}?limit=1&timeout=2s"] = listed
        kube.raw_answers[f"/apis/example.com/v2/namespaces/shop/{plural}/one?timeout=2s"] = "{}"
    kube.raw_answers[DEFINITION] = "{}"
    made = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    made.compare_with(made.take(lambda text: None, begun=False), clock.now())
    return made


def kinds_of(gate: Gate, clock: FakeClock, seconds: int) -> list[VerdictKind]:
    """What a gate says, each second."""
    found = []
    for _ in range(seconds):
        found.append(gate.check().kind)
        clock.sleep(1)
    return found


def left_failing(continuity: Continuity, gates_take: float = 0.0, *, restarted: bool = False) -> str:
    """What a rollback says with its end, so many seconds after its undo is in place; "" for nothing."""
    continuity.restore_services(lambda note: None, restarted=restarted)
    continuity.clock.sleep(gates_take)
    left = continuity.left_failing()
    return left.reason if left else ""


def test_conversion_that_fails(converted: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """One read for each webhook. One that restarts has half a minute; one that has ended is repaired by no undo."""
    assert converted.baseline is not None and converted.baseline.conversions == (THING.partition("?")[0],)
    kube.raw_answers[THING] = refusal(500, "conversion webhook failed: no such host")
    found = kinds_of(gates(converted)[0], clock, 60)
    assert VerdictKind.HOLDS not in found[3:] and found[:30].count(VerdictKind.BROKEN) == 0
    assert found[40:].count(VerdictKind.BROKEN) == 20, "three checks in a row fail a gate"
    step = PipelineStep(VerifyStep("kube-apiserver"), (), ())
    (item,) = converted.around(Pipeline((step,))).steps
    undo = item.undo_gates[0].again
    assert undo is not None and kinds_of(undo(), clock, 12)[-1] is VerdictKind.HOLDS
    begun = clock.monotonic()
    assert f"{THING.partition('?')[0]} worked before this run and fails now" in left_failing(converted)
    assert clock.monotonic() == begun + 6, "it had its half minute"
    kube.raw_answers[THING] = refusal(404, "it was deleted")
    assert left_failing(converted) == ""
    assert kinds_of(gates(converted)[0], clock, 12)[-1] is VerdictKind.HOLDS


@pytest.mark.parametrize(
    ("fails", "seconds"), [("conversion", 30), ("aggregated API", 65)], ids=["conversion", "aggregated API"]
)
def test_what_has_ended_fails_the_gate_as_soon_as_its_time_is_over(
    converted: Continuity, kube: LivingKube, clock: FakeClock, fails: str, seconds: int
) -> None:
    """Neither the rarer rounds of a long wait nor further checks add to its time; the turn of what fails may."""
    if fails == "conversion":
        kube.raw_answers[THING] = refusal(500, "conversion webhook failed: no such host")
    else:
        kube.api_service(AGGREGATED, available=False, reason="FailedDiscoveryCheck")
    (item,) = converted.around(Pipeline((PipelineStep(VerifyStep("kube-apiserver"), (), ()),))).steps
    seen, absence = FirstFailure(clock), ApiAbsence(kube, clock, inf)
    with pytest.raises(GateFailed, match="gate continuity failed after"):
        hold_all("a", item.gates, clock=clock, reporter=seen, absence=absence, asked=lambda: 3 * kube.requests)
    assert seconds <= clock.monotonic() - seen.at <= seconds + 2


def test_two_answers_far_apart_prove_little(clock: FakeClock) -> None:
    """Where it was seen to fail only at the beginning and at the end of its time, it may have worked in between."""
    watch, lost = RestartWatch(clock, 30.0, 6.0), Lost("v1.example", "it fails", "Repair it.")
    watch.fails(lost)
    clock.sleep(31)
    verdicts = [watch.fails(lost) for _ in range(3)]
    assert {verdict.kind for verdict in verdicts} == {VerdictKind.BROKEN}
    assert [verdict.certain for verdict in verdicts] == [False, False, True]


def test_conversion_that_has_no_answer(converted: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """A webhook whose name the API server can't resolve costs the request's whole time: unknown, as if the API were
    away, and certain after half a minute in which it answered everything else. One instance is enough.
    """
    kube.raw_answers[f"{SERVERS[0]}{THING}"] = no_service(504, "request did not complete within the allotted timeout")
    found = kinds_of(gates(converted)[0], clock, 60)
    assert VerdictKind.UNKNOWN in found[:30] and VerdictKind.BROKEN not in found[:30]
    assert found[-3:] == [VerdictKind.BROKEN] * 3, "three checks in a row fail a gate"


def no_service(status: int, message: str = "") -> ApiUnavailable:
    """What the API doesn't process."""
    error = ApiUnavailable(message)
    error.status = status
    return error


@pytest.mark.parametrize("status", [0, 429, 503, 504])
def test_overloaded_api_is_no_conversion_webhook(
    converted: Continuity, kube: LivingKube, clock: FakeClock, status: int
) -> None:
    """An instance that answers late or rejects requests stays unknown, also where it answers some; one that names the
    webhook doesn't.
    """
    kube.raw_answers[THING] = no_service(status, "it is busy")
    if status == 504:
        kube.raw_answers[DEFINITION] = no_service(status)
    assert set(kinds_of(gates(converted)[0], clock, 90)[3:]) == {VerdictKind.UNKNOWN}
    kube.raw_answers[THING] = no_service(status, "conversion webhook for example.com/v1, Kind=Thing failed")
    assert VerdictKind.BROKEN in kinds_of(gates(converted)[0], clock, 60)


def test_conversion_webhook_whose_pods_are_not_ready(converted: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """Pods that restart, as on a node that was drained, have as long as the gate has; once one is Ready, its webhook
    has half a minute. Where the API doesn't say whether one is, nothing is certain.
    """
    definition = kube.get(DEFINITIONS, "things.example.com")
    assert definition is not None
    spec = {**definition["spec"]}
    client = {"service": {"namespace": NAMESPACE, "name": "convert"}}
    spec["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": client}}
    kube.put(DEFINITIONS, {**definition, "spec": spec})
    kube.raw_answers[THING] = refusal(500, "conversion webhook failed: connection refused")
    kube.endpoint("convert", ready=False)
    gate = gates(converted)[0]
    assert set(kinds_of(gate, clock, 60)[3:]) == {VerdictKind.PENDING}
    assert f"Service {NAMESPACE}/convert has no ready endpoint" in gate.check().reason
    kube.refused["list endpointslices"] = refusal(500)
    assert set(kinds_of(gate, clock, 60)) == {VerdictKind.UNKNOWN}
    kube.refused.clear()
    kube.endpoint("convert", ready=True)
    assert VerdictKind.BROKEN not in kinds_of(gate, clock, 30)
    assert gate.check().kind is VerdictKind.BROKEN


AGGREGATED = "v1beta1.metrics.k8s.io"
DISCOVERY = "/apis/metrics.k8s.io/v1beta1?timeout=6s"


def test_what_fails_first_behind_a_rollback_has_its_time(
    continuity: Continuity, kube: LivingKube, clock: FakeClock
) -> None:
    """No gate has given it up, so it may just restart; behind the next undo only its condition may be late."""
    kube.api_service(AGGREGATED, available=False)
    for seconds in (65, 35):
        begun = clock.monotonic()
        assert f"APIService {AGGREGATED} was Available before this run" in left_failing(continuity)
        assert seconds <= clock.monotonic() - begun < seconds + 3


@pytest.mark.parametrize("gates_take", [3.0, 27.0])
def test_gates_of_an_undo_are_part_of_the_time_behind_it(
    converted: Continuity, kube: LivingKube, clock: FakeClock, gates_take: float
) -> None:
    """What was given up and fails behind a rollback is found again while its gates wait for the replaced instance's
    end, or isn't; a few looks behind them are enough.
    """
    kube.raw_answers[THING] = refusal(500, "conversion webhook failed: no such host")
    assert VerdictKind.BROKEN in kinds_of(gates(converted)[0], clock, 50)
    begun = clock.monotonic()
    assert "fails now" in left_failing(converted, gates_take)
    assert clock.monotonic() - begun == max(7.0, gates_take + 4)
    kube.raw_answers[THING] = "{}"
    kube.api_service(AGGREGATED, available=False, reason="FailedDiscoveryCheck")
    assert VerdictKind.BROKEN in kinds_of(gates(converted)[0], clock, 90)
    begun = clock.monotonic()
    assert AGGREGATED in left_failing(converted, gates_take)
    assert 35 <= clock.monotonic() - begun < 38


def test_kube_apiserver_that_an_undo_has_started_asks_each_backend_itself(
    continuity: Continuity, kube: LivingKube, clock: FakeClock
) -> None:
    """Its first questions are seconds apart, so that only the condition of an older one follows late."""
    kube.api_service(AGGREGATED, available=False, reason="FailedDiscoveryCheck")
    assert VerdictKind.BROKEN in kinds_of(gates(continuity)[0], clock, 90)
    begun = clock.monotonic()
    assert AGGREGATED in left_failing(continuity, 25.0, restarted=True)
    assert clock.monotonic() - begun == 29, "a few looks after the gates"
    begun = clock.monotonic()
    assert AGGREGATED in left_failing(continuity, 25.0)
    assert 35 <= clock.monotonic() - begun < 38, "after another release's undo, the older one is asked"


def test_each_thing_has_its_own_time_behind_a_rollback(
    converted: Continuity, kube: LivingKube, clock: FakeClock
) -> None:
    """A conversion that a gate has given up takes no time from an aggregated API that restarts; nor does one that works
    again from itself.
    """
    kube.raw_answers[THING] = refusal(500, "conversion webhook failed: no such host")
    assert VerdictKind.BROKEN in kinds_of(gates(converted)[0], clock, 50)
    kube.raw_answers[THING] = "{}"
    kube.api_service(AGGREGATED, available=False)
    begun = clock.monotonic()
    assert AGGREGATED in left_failing(converted)
    assert clock.monotonic() - begun >= 65
    kube.api_service(AGGREGATED, available=True)
    kinds_of(gates(converted)[0], clock, 12)
    kube.raw_answers[THING] = refusal(500, "conversion webhook failed: no such host")
    begun = clock.monotonic()
    assert "fails now" in left_failing(converted)
    assert clock.monotonic() - begun >= 30


def api_is_away(kube: LivingKube, away: bool) -> None:
    kube.unavailable = away


def secret_is_pending(kube: LivingKube, away: bool) -> None:
    kube.refused = {f"get {SECRET}": refusal(500)} if away else {}


def pods_are_refused(kube: LivingKube, away: bool) -> None:
    kube.refused = {"list pods": refusal(500)} if away else {}


def list_is_refused(kube: LivingKube, away: bool) -> None:
    kube.refused = {"list apiservices": refusal(500)} if away else {}


def admission_is_unknown(kube: LivingKube, away: bool) -> None:
    kube.refused = {"create pods": ApiUnavailable("no answer")} if away else {}


@pytest.mark.parametrize(
    ("what", "others"),
    [
        *(("conversion", each) for each in (api_is_away, secret_is_pending, pods_are_refused)),
        *(("aggregated API", each) for each in (api_is_away, list_is_refused, admission_is_unknown)),
    ],
)
def test_time_in_which_others_fail_is_not_counted(
    converted: Continuity, kube: LivingKube, clock: FakeClock, what: str, others: Callable[[LivingKube, bool], None]
) -> None:
    """What failed once, long before, may have been back meanwhile: its time begins when it is asked again."""
    kube.raw_answers[THING] = refusal(500, "conversion webhook failed") if what == "conversion" else "{}"
    kube.api_service(AGGREGATED, available=what == "conversion", reason="FailedDiscoveryCheck")
    gate = gates(converted)[0]
    kinds_of(gate, clock, 4)
    others(kube, True)
    kinds_of(gate, clock, 80)
    others(kube, False)
    assert VerdictKind.BROKEN not in kinds_of(gate, clock, 25)
    assert VerdictKind.BROKEN in kinds_of(gate, clock, 50)


def test_each_conversion_has_its_own_time(converted: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """One that was read again while another one failed hasn't failed all the time since."""
    assert converted.baseline is not None
    (first,) = converted.baseline.conversions
    second = first.replace("things", "widgets")
    converted.compare_with(replace(converted.baseline, conversions=(first, second)), clock.now())
    broken, works, gate = refusal(500, "conversion webhook failed"), "{}", gates(converted)[0]
    kinds_of(gate, clock, 4)
    for at_first, at_second, seconds in ((works, broken, 2), (broken, works, 28), (works, broken, 20)):
        kube.raw_answers[f"{first}?timeout=2s"], kube.raw_answers[f"{second}?timeout=2s"] = at_first, at_second
        assert VerdictKind.BROKEN not in kinds_of(gate, clock, seconds)


def test_aggregated_api_that_ends(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """One that doesn't answer has a minute: if it answers after half of it, Kubernetes may need the rest to see it. One
    that has ended by itself is repaired by no undo, which ends well, and says so, until it answers or is deleted.
    """
    kube.api_service(AGGREGATED, available=False, reason="FailedDiscoveryCheck")
    found = kinds_of(gates(continuity)[0], clock, 90)
    assert VerdictKind.HOLDS not in found[3:] and VerdictKind.BROKEN not in found[:65]
    assert found[72:75] == [VerdictKind.BROKEN] * 3, "three checks in a row fail a gate"
    step = PipelineStep(VerifyStep("kube-apiserver"), (), ())
    (item,) = continuity.around(Pipeline((step,))).steps
    undo = item.undo_gates[0].again
    assert undo is not None and kinds_of(undo(), clock, 12)[-1] is VerdictKind.HOLDS
    begun = clock.monotonic()
    assert f"APIService {AGGREGATED} was Available before this run" in left_failing(continuity)
    assert 35 <= clock.monotonic() - begun < 38, "it had its minute; its condition follows late"
    kube.unavailable = True
    assert "it is unknown" in left_failing(continuity)
    kube.unavailable = False
    kube.api_service(AGGREGATED, available=True)
    assert left_failing(continuity) == ""
    kube.delete(API_SERVICES, AGGREGATED)
    assert left_failing(continuity) == ""


def test_aggregated_api_that_is_still_called_available(
    continuity: Continuity, kube: LivingKube, clock: FakeClock
) -> None:
    """kube-apiserver looks at a backend every half minute: one that ended just now is found by asking it."""
    kube.raw_answers[DISCOVERY] = no_service(0, "HTTP 503 error trying to reach service: connection refused")
    found = kinds_of(gates(continuity)[0], clock, 80)
    assert VerdictKind.HOLDS not in found[3:]
    assert found[70:73] == [VerdictKind.BROKEN] * 3, "three checks in a row fail a gate"
    assert "connection refused" in left_failing(continuity)


def test_aggregated_api_that_one_instance_does_not_reach(
    continuity: Continuity, kube: LivingKube, clock: FakeClock
) -> None:
    """Each kube-apiserver has its own way to a backend: where one of two has lost it, half of the clients have, and the
    condition is the other's. It is named.
    """
    kube.raw_answers[f"{SERVERS[1]}{DISCOVERY}"] = no_service(0, "HTTP 503 error trying to reach service: no route")
    gate, found = gates(continuity)[0], []
    for _ in range(80):
        found.append(gate.check())
        clock.sleep(1)
    assert VerdictKind.HOLDS not in [verdict.kind for verdict in found[3:]]
    assert [verdict.kind for verdict in found[70:73]] == [VerdictKind.BROKEN] * 3, "three checks in a row fail a gate"
    assert f"no longer is at {SERVERS[1]}: HTTP 503" in found[72].reason
    kube.raw_answers[f"{SERVERS[1]}{DISCOVERY}"] = "{}"
    assert kinds_of(gate, clock, 6)[-1] is VerdictKind.HOLDS


def test_aggregated_api_that_one_instance_has_never_reached(kube: LivingKube, clock: FakeClock) -> None:
    """What didn't answer before the run is no step's fault, also at another port: the run says so, and asks the other
    instances.
    """
    kube.raw_answers[f"{SERVERS[1]}{DISCOVERY}"] = no_service(0, "HTTP 503 error trying to reach service: no route")
    continuity = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    continuity.compare_with(continuity.take(print, begun=False), clock.now())
    kube.raw_answers[f"https://10.0.0.12:7443{DISCOVERY}"] = kube.raw_answers[f"{SERVERS[1]}{DISCOVERY}"]
    kube.instance("10.0.0.12", "--secure-port=7443")
    gate = gates(continuity)[0]
    assert kinds_of(gate, clock, 80)[-1] is VerdictKind.HOLDS
    assert f"not compared: APIService {AGGREGATED} at {SERVERS[1]} (HTTP 503" in gate.check().reason
    kube.raw_answers[f"{SERVERS[0]}{DISCOVERY}"] = no_service(0, "HTTP 503 service unavailable")
    assert VerdictKind.BROKEN in kinds_of(gate, clock, 80)


def compared_with_the_condition_alone(kube: LivingKube, clock: FakeClock, baseline: Baseline) -> None:
    """Only the instance at the kubeconfig's address is asked, as the others may never have reached the backend."""
    kube.raw_answers[f"{SERVERS[1]}{DISCOVERY}"] = no_service(0, "HTTP 503 error trying to reach service: no route")
    continuity = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    continuity.compare_with(baseline, clock.now())
    gate = gates(continuity)[0]
    assert kinds_of(gate, clock, 80)[-1] is VerdictKind.HOLDS
    kube.raw_answers[DISCOVERY] = no_service(0, "HTTP 503 service unavailable")
    assert VerdictKind.BROKEN in kinds_of(gate, clock, 80)


def test_aggregated_api_in_a_run_that_an_earlier_build_began(
    continuity: Continuity, kube: LivingKube, clock: FakeClock
) -> None:
    """Its journal doesn't say which instance didn't reach which backend: that isn't taken for none."""
    taken = continuity.take(print, begun=False)
    written = {name: value for name, value in to_json(taken).items() if name != "silent_backends"}
    compared_with_the_condition_alone(kube, clock, from_json(Baseline, written, ""))


def test_aggregated_apis_that_could_not_be_asked_before(kube: LivingKube, clock: FakeClock) -> None:
    """Where the list of APIServices failed meanwhile, the run says so, and no instance is taken for one that reached
    all of them.
    """
    listed: list[Kind] = []
    real = kube.list

    def fails_once(kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[KubeObject, ...]:
        listed.extend([kind] if kind == API_SERVICES else [])
        if kind == API_SERVICES and len(listed) == 2:
            raise ApiError("HTTP 500 etcd leader changed")
        return real(kind, namespace, labels=labels, fields=fields)

    kube.list = fails_once  # type: ignore[method-assign]
    taken = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy()).take(print, begun=False)
    assert NotCompared("aggregated APIs", "HTTP 500 etcd leader changed") in taken.not_compared
    compared_with_the_condition_alone(kube, clock, taken)


def test_overloaded_api_is_not_asked_for_every_backend(
    continuity: Continuity, kube: LivingKube, clock: FakeClock
) -> None:
    """Where an instance rejects one such request, the others would only add to its load; and a backend that failed
    before hasn't failed all the time in which it wasn't asked.
    """
    kube.api_service("v1beta2.custom.example.com", available=True)
    rejected, last = (f"/apis/{group}?timeout=6s" for group in ("metrics.k8s.io/v1beta1", "custom.example.com/v1beta2"))
    continuity.compare_with(continuity.take(print, begun=False), clock.now())
    gate, lost = gates(continuity)[0], no_service(0, "HTTP 503 service unavailable")
    kube.raw_answers[last] = lost
    kinds_of(gate, clock, 4)
    kube.raw_answers[rejected] = no_service(429, "too many requests")
    asked, real = [], kube.raw

    def raw(path: str, *, server: str = "", token: str = "") -> str:
        asked.extend([path] if path.endswith("?timeout=6s") else [])
        return real(path, server=server, token=token)

    kube.raw = raw  # type: ignore[method-assign]
    assert kinds_of(gate, clock, 70)[-1] is VerdictKind.UNKNOWN
    assert set(asked[-60:]) == {rejected}
    kube.raw_answers[rejected] = "{}"
    assert VerdictKind.BROKEN not in kinds_of(gate, clock, 60)
    assert VerdictKind.BROKEN in kinds_of(gate, clock, 20)


def test_aggregated_api_that_is_slow_works(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """A backend that needs 3 s for each answer is Available to Kubernetes, before the run and after each step."""
    discovery = "/apis/metrics.k8s.io/v1beta1?timeout"
    late = no_service(0, "HTTP 503 error trying to reach service: context deadline exceeded")
    kube.raw_answers |= {f"{discovery}={seconds}s": "{}" if seconds > 3 else late for seconds in range(1, 11)}
    assert set(kinds_of(gates(continuity)[0], clock, 80)[3:]) == {VerdictKind.HOLDS}
    assert left_failing(continuity) == ""


@pytest.mark.parametrize(
    ("status", "message"),
    [(0, "connection refused"), (0, "HTTP 503 Service Unavailable"), (429, "busy"), (504, "late")],
)
def test_overloaded_api_is_no_lost_backend(
    continuity: Continuity, kube: LivingKube, clock: FakeClock, status: int, message: str
) -> None:
    """An API server that is late, rejects requests or isn't reached says nothing of a backend: it is unknown."""
    discovery = DISCOVERY
    kube.raw_answers[discovery] = no_service(status, message)
    assert set(kinds_of(gates(continuity)[0], clock, 90)[3:]) == {VerdictKind.UNKNOWN}
    assert "it is unknown" in left_failing(continuity)
    kube.raw_answers[discovery] = no_service(0, "HTTP 503 service unavailable")
    assert VerdictKind.BROKEN in kinds_of(gates(continuity)[0], clock, 80)


def test_aggregated_api_whose_pods_are_not_ready(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """Pods that restart, as on a node that was drained, have as long as the gate has; another one that doesn't answer
    isn't hidden by them.
    """
    kube.api_service("v1beta1.custom.example.com", available=True)
    continuity.compare_with(continuity.take(print, begun=False), clock.now())
    kube.api_service("v1beta1.custom.example.com", available=False, reason="MissingEndpoints")
    assert set(kinds_of(gates(continuity)[0], clock, 60)[3:]) == {VerdictKind.PENDING}
    kube.api_service(AGGREGATED, available=False, reason="FailedDiscoveryCheck")
    assert VerdictKind.BROKEN in kinds_of(gates(continuity)[0], clock, 75)


def backend(kube: LivingKube, *, name: str = "backend", namespace: str = "default") -> str:
    """A Service with a selector, and its name; `add_pod` of that owner makes one that it selects."""
    spec = {"selector": {"app": name}, "clusterIP": "10.96.0.7"}
    kube.put(SERVICES, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})
    return name


@pytest.mark.parametrize("deleting", [False, True], ids=["starts", "ends"])
def test_aggregated_api_whose_pods_are_gone(
    continuity: Continuity, kube: LivingKube, clock: FakeClock, deleting: bool
) -> None:
    """No pod starts behind its Service, so that there is nothing to wait for, once kube-controller-manager has had the
    time to make one. One that starts, or whose end another one waits for, has as long as the gate has.
    """
    owner = backend(kube)
    kube.api_service(AGGREGATED, available=False, reason="MissingEndpoints")
    pod = add_pod(kube, owner, namespace="default", phase="Pending", deleting=deleting)
    gate = gates(continuity)[0]
    assert set(kinds_of(gate, clock, 90)[3:]) == {VerdictKind.PENDING}
    kube.delete(PODS, pod, "default")
    assert VerdictKind.BROKEN not in kinds_of(gate, clock, 59)
    clock.sleep(3)
    found = [gate.check() for _ in range(3)]
    assert [verdict.kind for verdict in found] == [VerdictKind.BROKEN] * 3, "three checks in a row fail a gate"
    assert "Service default/backend has no pods" in found[0].reason
    kube.refused["list pods"] = refusal(403)
    asked = ApiServiceWatch(Restarts(clock).services)
    assert continuity.baseline is not None
    verdict = asked.check(kube, continuity.baseline, ())
    assert verdict is not None and "has no pods" not in verdict.reason, "where they can't be read, it isn't said"


def test_service_without_a_selector_may_get_endpoints(
    continuity: Continuity, kube: LivingKube, clock: FakeClock
) -> None:
    """Whether something starts behind it is not known to Kubernetes: it is waited for."""
    kube.put(SERVICES, {"metadata": {"name": "backend", "namespace": "default"}, "spec": {"clusterIP": "10.96.0.7"}})
    kube.api_service(AGGREGATED, available=False, reason="MissingEndpoints")
    assert set(kinds_of(gates(continuity)[0], clock, 90)[3:]) == {VerdictKind.PENDING}


@pytest.mark.parametrize("reason", ["ServiceNotFound", "ServicePortError"])
def test_aggregated_api_whose_service_is_gone(
    continuity: Continuity, kube: LivingKube, clock: FakeClock, reason: str
) -> None:
    """Kubernetes sees at once that a Service is there again: nothing is to be added to the half minute for that."""
    kube.api_service(AGGREGATED, available=False, reason=reason)
    found = kinds_of(gates(continuity)[0], clock, 60)
    assert VerdictKind.BROKEN not in found[:30]
    assert found[35:38] == [VerdictKind.BROKEN] * 3, "three checks in a row fail a gate"


def test_conversion_webhook_whose_pods_are_gone(converted: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """As of an aggregated API: no pod of its Service starts."""
    definition = kube.get(DEFINITIONS, "things.example.com")
    assert definition is not None
    client = {"service": {"namespace": NAMESPACE, "name": backend(kube, name="convert", namespace=NAMESPACE)}}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client}}
    kube.put(DEFINITIONS, {**definition, "spec": {**definition["spec"], "conversion": conversion}})
    kube.raw_answers[THING] = refusal(500, "conversion webhook failed: no endpoints available")
    kube.endpoint("convert", ready=False)
    pod = add_pod(kube, "convert", phase="Pending")
    gate = gates(converted)[0]
    assert set(kinds_of(gate, clock, 90)[3:]) == {VerdictKind.PENDING}
    kube.delete(PODS, pod, NAMESPACE)
    assert VerdictKind.BROKEN not in kinds_of(gate, clock, 60)
    verdict = gate.check()
    assert verdict.kind is VerdictKind.BROKEN and f"Service {NAMESPACE}/convert has no pods" in verdict.reason


def test_webhook_that_starts_has_its_time_after_one_without_pods(
    converted: Continuity, kube: LivingKube, clock: FakeClock
) -> None:
    """Its pod came late and was Ready between two checks: kube-apiserver still has to reach it, for which that has half
    a minute, and not what is left of it since the pods were gone.
    """
    definition = kube.get(DEFINITIONS, "things.example.com")
    assert definition is not None
    client = {"service": {"namespace": NAMESPACE, "name": backend(kube, name="convert", namespace=NAMESPACE)}}
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client}}
    kube.put(DEFINITIONS, {**definition, "spec": {**definition["spec"], "conversion": conversion}})
    kube.raw_answers[THING] = refusal(500, "conversion webhook failed: no endpoints available")
    kube.endpoint("convert", ready=False)
    gate = gates(converted)[0]
    assert VerdictKind.BROKEN not in kinds_of(gate, clock, 45)
    add_pod(kube, "convert")
    kube.endpoint("convert", ready=True)
    kube.raw_answers[THING] = refusal(500, "conversion webhook failed: connection refused")
    assert VerdictKind.BROKEN not in kinds_of(gate, clock, 29)
    assert VerdictKind.BROKEN in kinds_of(gate, clock, 4)


@pytest.mark.parametrize("answer", ['{"items": []}', None])
def test_conversion_that_was_not_needed_or_failed_before(
    converted: Continuity, kube: LivingKube, answer: str | None
) -> None:
    """Of nothing, a conversion proves nothing; one that fails before the run is no step's fault."""
    for plural in ("things", "widgets"):
        path = f"/apis/example.com/v2/{plural}?limit=1&timeout=2s"
        kube.raw_answers[path] = refusal(500, "no backend") if answer is None else answer
    assert converted.take(lambda text: None, begun=False).conversions == ()


def test_token_that_the_controller_manager_signs(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """With another key than kube-apiserver knows, no token in a Secret is accepted; none at all is waited for."""
    kube.knows_the_key = False
    problem = first_problem(continuity, clock)
    assert problem.kind is VerdictKind.BROKEN and "service-account-private-key-file" in problem.reason
    kube.signs = False
    problem = first_problem(continuity, clock)
    assert problem.kind is VerdictKind.PENDING and "has put no token into the new Secret" in problem.reason
    continuity.end(keep_sentinel=True)
    kinds = [item.get("type") for item in kube.list(SECRETS, NAMESPACE)]
    assert "kubernetes.io/service-account-token" not in kinds and kinds, "only the sentinel is left"


@pytest.mark.parametrize("broken", ["signs", "knows_the_key"])
def test_token_that_was_not_signed_before(kube: LivingKube, clock: FakeClock, broken: str) -> None:
    """Where no Secret gets a token that is accepted, the run says so, compares all else, and leaves no Secret."""
    setattr(kube, broken, False)
    continuity = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    continuity.compare_with(continuity.take(lambda text: None, begun=False), clock.now())
    baseline = continuity.baseline
    assert baseline is not None and baseline.new_workload and not baseline.signed_token
    assert [item.what for item in baseline.not_compared] == ["a token of a new Secret"]
    assert all("token" not in item.get("type", "") for item in kube.list(SECRETS, NAMESPACE))
    assert [verdict.kind for verdict in check(continuity, clock)] == [VerdictKind.HOLDS] * 3


def test_checks_are_cheap(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """No round of checks of all these gates makes more than 22 requests, and each three rounds, in which they may pass,
    ask for the aggregated API once at each instance: all of that in the round that has the fewest other questions.
    """
    asked = gates(replace(continuity, kube=SharedReads(kube, clock, ReadMemory())))
    real, servers, rounds = kube.raw, [], []

    def raw(path: str, *, server: str = "", token: str = "") -> str:
        servers.extend([server] if path == DISCOVERY else [])
        return real(path, server=server, token=token)

    kube.raw = raw  # type: ignore[method-assign]
    for _ in range(CHECKS):
        kube.requests = 0
        servers.clear()
        for gate in asked:
            gate.check()
        assert kube.requests <= 22
        rounds.append(tuple(servers))
        clock.sleep(1)
    assert rounds == [(), (), SERVERS] * (CHECKS // 3)


def test_no_secret_leaves_the_cluster(continuity: Continuity, kube: LivingKube) -> None:
    """The baseline goes into the journal: neither the value nor the token is in it."""
    found = kube.get(SECRETS, "upgrader-continuity", "kube-system")
    assert found is not None
    for value in found["data"].values():
        assert value not in str(continuity.baseline)


def test_sentinel_is_removed(continuity: Continuity, kube: LivingKube) -> None:
    """The end of a run that can't be resumed leaves nothing; one that can keeps its sentinel."""
    continuity.end(keep_sentinel=True)
    assert kube.get(SECRETS, "upgrader-continuity", "kube-system") is not None
    continuity.end(keep_sentinel=False)
    assert kube.get(SECRETS, "upgrader-continuity", "kube-system") is None


def tokens_revoked(kube: LivingKube) -> None:
    kube.revoke_tokens()


def token_forbidden(kube: LivingKube) -> None:
    for server in SERVERS:
        kube.raw_answers[f"{server}/api"] = refusal(403)


def credentials_refused(kube: LivingKube) -> None:
    kube.refused[f"get {SECRET}"] = refusal(401)


def key_lost(kube: LivingKube) -> None:
    message = 'Internal error occurred: unable to transform key "/registry/secrets/…": no matching key was found'
    kube.refused[f"get {SECRET}"] = refusal(500, message)


def another_store(kube: LivingKube) -> None:
    kube.delete(SECRETS, "upgrader-continuity", "kube-system")


def value_changed(kube: LivingKube) -> None:
    found = kube.get(SECRETS, "upgrader-continuity", "kube-system")
    assert found is not None
    kube.put(SECRETS, {**found, "data": {**found["data"], "value": "b3RoZXI="}})


def token_lost(kube: LivingKube) -> None:
    found = kube.get(SECRETS, "upgrader-continuity", "kube-system")
    assert found is not None
    kube.put(SECRETS, {**found, "data": {"value": found["data"]["value"]}})


def group_gone(kube: LivingKube) -> None:
    kube.serve(without=("apps/v1",))


def group_gone_at_one_instance(kube: LivingKube) -> None:
    kube.serve(without=("apps/v1",), server=SERVERS[1])


def objects_gone(kube: LivingKube) -> None:
    for number in range(11):
        kube.delete(CONFIG_MAPS, f"map-{number}", "default")


def pods_refused(kube: LivingKube) -> None:
    kube.refused["create pods coredns"] = refusal(403, "admission webhook denied the request")


def cluster_ip_changed(kube: LivingKube) -> None:
    kube.put(SERVICES, {"metadata": {"name": "kubernetes", "namespace": "default"}, "spec": {"clusterIP": "10.97.0.1"}})


def service_gone(kube: LivingKube) -> None:
    kube.delete(SERVICES, "kubernetes", "default")


def range_inconsistent(kube: LivingKube) -> None:
    kube.service_range("False")


def deployments_not_served(kube: LivingKube) -> None:
    kube.refused["list deployments"] = refusal(404, "the server could not find the requested resource")


DEFINITE: list[tuple[Callable[[LivingKube], None], str]] = [
    (tokens_revoked, "service-account-issuer"),
    (token_forbidden, "authorization-mode"),
    (credentials_refused, "client-ca-file"),
    (key_lost, "encryption-provider-config"),
    (another_store, "etcd-prefix"),
    (value_changed, "etcd"),
    (token_lost, "etcd"),
    (group_gone, "runtime-config"),
    (group_gone_at_one_instance, "runtime-config"),
    (objects_gone, "etcd-servers"),
    (pods_refused, "enable-admission-plugins"),
    (cluster_ip_changed, "service-cluster-ip-range"),
    (service_gone, "service-cluster-ip-range"),
    (range_inconsistent, "service-cluster-ip-range"),
    (deployments_not_served, "kube-apiserver"),
]


@pytest.mark.parametrize(("change", "flag"), DEFINITE, ids=[change.__name__ for change, _ in DEFINITE])
def test_contradiction_is_broken(
    continuity: Continuity, kube: LivingKube, clock: FakeClock, change: Callable[[LivingKube], None], flag: str
) -> None:
    """What worked and is refused now fails a gate within seconds, and the remedy names the likely flag."""
    change(kube)
    begun = clock.monotonic()
    found = first_problem(continuity, clock)
    assert found.kind is VerdictKind.BROKEN, found
    assert flag in found.remedy
    assert "uninstall" not in found.remedy
    assert clock.monotonic() - begun <= 6


def leases_not_renewed(kube: LivingKube) -> None:
    kube.renews = False


def lease_of_nobody(kube: LivingKube) -> None:
    kube.renews = False
    lease = {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": {}}
    kube.put(LEASES, lease)


def lease_of_another(kube: LivingKube) -> None:
    kube.renews = False
    spec = {"holderIdentity": "controller-9_1"}
    kube.put(LEASES, {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": spec})


def test_waiting_hides_nothing_definite(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """Leases that aren't renewed, by an API server that denies every write, don't keep the denial from being found."""
    leases_not_renewed(kube)
    pods_refused(kube)
    begun = clock.monotonic()
    assert first_problem(continuity, clock).kind is VerdictKind.BROKEN
    assert clock.monotonic() - begun <= 4


def test_instance_that_waits_hides_nothing_definite(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """One whose list of groups can't be read doesn't keep a refusal from being found elsewhere."""
    kube.raw_answers[f"{SERVERS[0]}/apis"] = "<html>"
    pods_refused(kube)
    assert first_problem(continuity, clock).kind is VerdictKind.BROKEN


@pytest.mark.parametrize("host", ["controller-1", "kube-scheduler-1-controller-1"])
def test_holder_of_a_lease_is_found_without_the_pods_of_all_nodes(kube: LivingKube, host: str) -> None:
    """On the host's network its host is its node, and on a network of its own its pod."""
    kube.renews = False
    spec = {"holderIdentity": f"{host}_8d2f", "renewTime": "now"}
    kube.put(LEASES, {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": spec})
    add_pod(kube, "kube-proxy", node="worker-1", daemon=True)
    read: list[KubeObject] = []
    real = kube.list

    def listing(kind: Kind, namespace: str = "", **selectors: str) -> tuple[KubeObject, ...]:
        found = real(kind, namespace, **selectors)
        read.extend(found)
        return found

    kube.list = listing  # type: ignore[method-assign]
    assert held_leases(kube, not_asked)[0]["kube-scheduler"] == "now"
    assert {pod["spec"]["nodeName"] for pod in read} == {"controller-1"}


@pytest.mark.parametrize("host", ["ip-10-0-0-7", "controller-1.example.com"])
def test_holder_on_a_host_with_another_name_than_its_node(kube: LivingKube, host: str) -> None:
    """A static pod has its host's own name, which isn't its node's where the kubelet was given one."""
    _hold(kube, host)
    called = _hosts_called({"controller-1": host})
    assert "is not a running pod of this component" in held_leases(kube, called)[1]["kube-scheduler"], "no pod has it"
    _put_on_the_hosts_network(kube)
    assert held_leases(kube, called)[0]["kube-scheduler"] == "now"


def test_holder_on_a_host_whose_name_has_capitals(kube: LivingKube) -> None:
    """The kubelet names its node in lower case, and the Lease has the host's own name: no host is asked for that."""
    _hold(kube, "Controller-1")
    _put_on_the_hosts_network(kube)
    assert held_leases(kube, not_asked)[0]["kube-scheduler"] == "now"
    kube.put(NODES, {"metadata": {"name": "controller-2"}})
    _hold(kube, "Controller-2")
    called = _hosts_called({"controller-1": "Controller-2"})
    assert "is not a running pod of this component" in held_leases(kube, called)[1]["kube-scheduler"], "it has its node"


@pytest.mark.parametrize("others", [("controller-2",), ("controller-0", "controller-2")], ids=["behind", "between"])
def test_holder_on_one_of_several_hosts_of_the_same_name(kube: LivingKube, others: tuple[str, ...]) -> None:
    """Machines of one image may all call themselves `localhost`: any of them may be the one with the instance."""
    _hold(kube, "localhost")
    _put_on_the_hosts_network(kube)
    called = _hosts_called(dict.fromkeys(("controller-1", *others), "localhost"))
    assert held_leases(kube, called)[0]["kube-scheduler"] == "now"


def test_holder_on_a_machine_that_was_removed_leads_nothing(kube: LivingKube) -> None:
    """Its program was left running, and renews the Lease: the API has no Node of it, as of a host of another name."""
    _hold(kube, "controller-9")
    _put_on_the_hosts_network(kube)
    called = _hosts_called({"controller-1": "ip-10-0-0-7"})
    assert "is not a running pod of this component" in held_leases(kube, called)[1]["kube-scheduler"]


def test_holder_on_a_controller_without_an_instance_leads_nothing(kube: LivingKube) -> None:
    """Its pod is gone, and its program still runs: it is a controller's own name, but not of one that has a pod."""
    _hold(kube, "ip-10-0-0-8")
    _put_on_the_hosts_network(kube)
    called = _hosts_called({"controller-1": "ip-10-0-0-7", "controller-2": "ip-10-0-0-8"})
    assert "is not a running pod of this component" in held_leases(kube, called)[1]["kube-scheduler"]


def test_holder_is_unknown_where_a_controller_cant_be_asked(kube: LivingKube) -> None:
    """It may be that one's own name, or not; where another controller has the name, nothing is unknown."""
    _hold(kube, "ip-10-0-0-7")
    _put_on_the_hosts_network(kube)
    called = _hosts_called({"controller-2": "ip-10-0-0-8"}, silent="controller-1")
    assert "it is unknown whether its holder ip-10-0-0-7_8d2f is" in held_leases(kube, called)[1]["kube-scheduler"]
    called = _hosts_called({"controller-1": "ip-10-0-0-7"}, silent="controller-2")
    assert held_leases(kube, called)[0]["kube-scheduler"] == "now"


def test_hosts_are_asked_for_their_names_once(kube: LivingKube) -> None:
    """A gate is checked every second, and each question is a command over SSH; where pods tell it, there is none."""
    _put_on_the_hosts_network(kube)
    called = _hosts_called({"controller-1": "ip-10-0-0-7"})
    held_leases(kube, called)
    assert isinstance(called.hosts, FakeHosts) and called.hosts.ran == []
    _hold(kube, "ip-10-0-0-7")
    for _ in range(3):
        held_leases(kube, called)
    assert called.hosts.ran == [("controller-1", ("uname", "-n"))]


def _hold(kube: LivingKube, host: str) -> None:
    """The Lease of kube-scheduler is held from there."""
    kube.renews = False
    spec = {"holderIdentity": f"{host}_8d2f", "renewTime": "now"}
    kube.put(LEASES, {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": spec})


def _hosts_called(names: Mapping[str, str], silent: str = "") -> HostNames:
    """Controllers whose hosts call themselves so."""
    hosts = FakeHosts()
    hosts.down = {silent} - {""}
    hosts.commands["uname"] = lambda host, *_: CommandResult(0, f"{names[host.name]}\n", "")
    controllers = [Host(name, "192.0.2.1") for name in sorted({*names, *hosts.down})]
    return HostNames(hosts, controllers)


@pytest.mark.parametrize("host", ["controller-2", "kube-scheduler-5d8c-x7x2q"])
def test_holder_that_has_gone_is_not_taken_for_such_a_host(kube: LivingKube, host: str) -> None:
    """Neither a node on which no instance runs, nor a pod that doesn't exist any more, is the name of a host."""
    kube.put(NODES, {"metadata": {"name": "controller-2"}})
    _hold(kube, host)
    _put_on_the_hosts_network(kube)
    called = _hosts_called({"controller-1": host})
    assert "is not a running pod of this component" in held_leases(kube, called)[1]["kube-scheduler"]


def _put_on_the_hosts_network(kube: LivingKube) -> None:
    for pod in kube.list(PODS, "kube-system"):
        kube.put(PODS, {**pod, "spec": {**pod["spec"], "hostNetwork": True}})


def test_pods_are_listed_only(kube: LivingKube) -> None:
    """The checks ask whether the user may list pods, as the gates do; `get` may be missing where they are limited."""
    kube.renews = False
    spec = {"holderIdentity": "controller-1.example.com_8d2f", "renewTime": "now"}
    kube.put(LEASES, {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": spec})
    real = kube.get

    def limited(kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        assert kind != PODS, "get pods: Forbidden"
        return real(kind, name, namespace)

    kube.get = limited  # type: ignore[method-assign]
    assert "is not a running pod of this component" in held_leases(kube, not_asked)[1]["kube-scheduler"]


def test_lease_that_nobody_renews_is_not_compared(clock: FakeClock) -> None:
    """With leader election off, the Lease of former times still names this node: no run would ever pass."""
    kube = LivingKube()
    kube.renews = False
    taken = take_baseline(kube, clock, lambda _: None)
    assert taken.leases == ()
    assert [item.why for item in taken.not_compared if "Lease" in item.what] == ["no process renews it"] * 2


def test_groups_that_a_replaced_server_has_delisted_are_restored(continuity: Continuity, kube: LivingKube) -> None:
    """They are still served, and no client finds them; a group that isn't served isn't listed either."""
    kube.serve(without=("apps/v1", "batch/v1"))
    for name in ("v1.apps", "v1.batch"):
        kube.delete(API_SERVICES, name)
    kube.raw_answers["/apis/apps/v1"] = "{}"
    kube.raw_answers["/apis/batch/v1"] = refusal(404)
    notes: list[str] = []
    continuity.restore_services(notes.append, restarted=True)
    found = kube.get(API_SERVICES, "v1.apps")
    assert found is not None and found["spec"]["group"] == "apps" and found["spec"]["version"] == "v1"
    assert len(notes) == 1 and notes[0].startswith("apps/v1 was served")


def api_service_unavailable(kube: LivingKube) -> None:
    kube.api_service("v1beta1.metrics.k8s.io", available=False)


def api_service_without_status(kube: LivingKube) -> None:
    kube.put(API_SERVICES, {"metadata": {"name": "v1beta1.metrics.k8s.io"}})


def foreign_group_gone(kube: LivingKube) -> None:
    kube.serve(without=("metrics.k8s.io/v1beta1",))


def server_error(kube: LivingKube) -> None:
    kube.refused[f"get {SECRET}"] = refusal(500, "etcdserver: request timed out")


def no_json(kube: LivingKube) -> None:
    kube.raw_answers[f"{SERVERS[0]}/apis"] = "<html>"


def no_new_pods(kube: LivingKube) -> None:
    kube.rolls_out = False


PASSING: list[tuple[Callable[[LivingKube], None], str]] = [
    (leases_not_renewed, "has not been renewed"),
    (lease_of_nobody, "it has no holder"),
    (lease_of_another, "not a running pod of this component"),
    (api_service_unavailable, "Why: because"),
    (api_service_without_status, "no Available condition"),
    (foreign_group_gone, "metrics.k8s.io/v1beta1"),
    (server_error, "timed out"),
    (no_json, "can't be read"),
    (no_new_pods, "Deployment kube-system/upgrader-continuity"),
]


@pytest.mark.parametrize(("change", "words"), PASSING, ids=[change.__name__ for change, _ in PASSING])
def test_what_may_pass_is_waited_for(
    continuity: Continuity, kube: LivingKube, clock: FakeClock, change: Callable[[LivingKube], None], words: str
) -> None:
    """What a restart may cause is pending: only the deadline fails it."""
    change(kube)
    found = first_problem(continuity, clock)
    assert found.kind is VerdictKind.PENDING and words in found.reason, found


def test_no_answer_is_unknown(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """An API that doesn't answer contradicts nothing, and proves nothing."""
    kube.unavailable = True
    assert [verdict.kind for verdict in check(continuity, clock)] == [VerdictKind.UNKNOWN] * 3


def test_expected_removals_are_no_loss(kube: LivingKube, clock: FakeClock) -> None:
    """What the plan removes may go, its APIService with it."""
    removed = ("widgets.example.com/v1", "metrics.k8s.io/v1beta1")
    continuity = Continuity(kube, clock, CONTROLLERS, removed, policy=GatePolicy())
    continuity.compare_with(continuity.take(lambda text: None, begun=False), clock.now())
    kube.serve(without=removed)
    kube.delete(API_SERVICES, "v1beta1.metrics.k8s.io")
    assert {verdict.kind for verdict in check(continuity, clock)} == {VerdictKind.HOLDS}


def test_api_service_of_a_built_in_version_goes_with_it(kube: LivingKube, clock: FakeClock) -> None:
    """Whether Kubernetes may stop serving a version of its own is judged by the groups, which know the versions."""
    kube.api_service("v1alpha1.storage.k8s.io", available=True)
    continuity = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    continuity.compare_with(continuity.take(lambda text: None, begun=False), clock.now())
    kube.delete(API_SERVICES, "v1alpha1.storage.k8s.io")
    assert {verdict.kind for verdict in check(continuity, clock)} == {VerdictKind.HOLDS}


def test_api_that_an_operator_removes_meanwhile_is_said(
    continuity: Continuity, kube: LivingKube, clock: FakeClock
) -> None:
    """A CustomResourceDefinition or APIService that is deleted during the run doesn't fail it for ever."""
    kube.delete(API_SERVICES, "v1beta1.metrics.k8s.io")
    kube.serve(without=("metrics.k8s.io/v1beta1",))
    (gate, *_) = gates(continuity)
    first = gate.check()
    assert first.kind is VerdictKind.PENDING
    verdicts = [gate.check() for _ in range(9)]
    assert {verdict.kind for verdict in verdicts[-4:]} == {VerdictKind.HOLDS}
    assert "deleted during the run: metrics.k8s.io/v1beta1" in verdicts[-1].reason
    kube.api_service("v1beta1.metrics.k8s.io", available=False)
    assert VerdictKind.PENDING in [gate.check().kind for _ in range(3)], "it is back, and doesn't work"


def test_api_is_not_removed_as_long_as_it_is_unknown(
    continuity: Continuity, kube: LivingKube, clock: FakeClock
) -> None:
    """Where the APIServices can't be listed, a group that is missing stays missing."""
    kube.delete(API_SERVICES, "v1beta1.metrics.k8s.io")
    kube.serve(without=("metrics.k8s.io/v1beta1",))
    kube.refused["list apiservices"] = refusal(500)
    (gate, *_) = gates(continuity)
    assert {gate.check().kind for _ in range(4)} == {VerdictKind.PENDING}


def test_old_token_is_not_compared(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """A run that is resumed the next day is not failed for a token that has ended."""
    clock.sleep(23 * 3600)
    kube.revoke_tokens()
    assert {verdict.kind for verdict in check(continuity, clock)} == {VerdictKind.HOLDS}


def test_webhook_without_dry_run_can_not_tell(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """A webhook that refuses dry runs only says nothing about pods."""
    kube.refused["create pods"] = refusal(400, 'admission webhook "x" does not support dry run')
    assert {verdict.kind for verdict in check(continuity, clock)} == {VerdictKind.HOLDS}


def test_few_objects_may_go() -> None:
    """Half of a few objects is the ordinary course of things; all of them never is."""
    assert not fell(9, 1) and fell(9, 0) and not fell(0, 0)
    assert not fell(20, 10) and fell(20, 9)


def test_helms_records_go_with_their_release(kube: LivingKube, clock: FakeClock) -> None:
    """An uninstalled release takes ten Secrets along, which may be most that there are; others that go are a loss."""
    for number in range(30):
        labels = {"owner": "helm"} if number < 18 else {}
        kube.put(SECRETS, {"metadata": {"name": f"s{number}", "namespace": "kube-system", "labels": labels}})
    continuity = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    continuity.compare_with(continuity.take(lambda _: None, begun=False), clock.now())
    for number in range(18):
        kube.delete(SECRETS, f"s{number}", "kube-system")
    assert check(continuity, clock)[0].kind is VerdictKind.HOLDS
    for number in range(18, 28):
        kube.delete(SECRETS, f"s{number}", "kube-system")
    assert "secrets (without Helm's records)" in first_problem(continuity, clock).reason


@pytest.mark.parametrize("kind", ["nodes", "namespaces"])
def test_nodes_and_namespaces_come_and_go(
    continuity: Continuity, kube: LivingKube, clock: FakeClock, kind: str
) -> None:
    """An autoscaler takes most nodes and a CI most namespaces within minutes; that none is left is a loss."""
    baseline = continuity.baseline
    assert baseline is not None
    counts = tuple(item for item in baseline.counts if item.kind != kind)
    continuity.compare_with(replace(baseline, counts=(*counts, Count(kind, 40))), clock.now())
    kube.put(Kind("v1", kind, namespaced=False), {"metadata": {"name": "left"}})
    assert check(continuity, clock)[0].kind is VerdictKind.HOLDS
    for item in kube.list(Kind("v1", kind, namespaced=False)):
        kube.delete(Kind("v1", kind, namespaced=False), item["metadata"]["name"])
    assert kind in first_problem(continuity, clock).reason


def test_what_did_not_work_is_not_compared(clock: FakeClock) -> None:
    """A cluster where little works has a baseline that says why, and gates that hold it against no step."""
    kube = LivingKube()
    kube.rolls_out = False
    kube.renews = False
    kube.delete(LEASES, "kube-scheduler", "kube-system")
    kube.refused = {
        "create pods": refusal(403, "quota exceeded"),
        "list servicecidrs": refusal(404),
        f"get {SERVERS[1]}": refusal(500),
    }
    kube.raw_answers[f"{SERVERS[1]}/readyz"] = ApiUnavailable("refused")
    kube.raw_answers[f"{SERVERS[0]}/metrics"] = "nothing here"
    notes: list[str] = []
    continuity = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    baseline = continuity.take(notes.append, begun=False)
    continuity.compare_with(baseline, clock.now())
    missing = {item.what: item.why for item in baseline.not_compared}
    assert baseline.servers == SERVERS[:1]
    assert "quota" in missing["a pod of Deployment kube-system/coredns"]
    assert {"Lease kube-scheduler", "a new Deployment", "ranges of Services", SERVERS[1]} <= set(missing)
    assert any("baseline" in note for note in notes)
    kube.renews = True
    found = check(continuity, clock)
    assert [verdict.kind for verdict in found] == [VerdictKind.HOLDS] * 3
    assert "quota" in found[0].reason


def tokens_never_accepted(kube: LivingKube) -> None:
    for server in SERVERS:
        kube.raw_answers[f"{server}/api"] = refusal(401)


def secret_never_read(kube: LivingKube) -> None:
    kube.refused[f"get {SECRET}"] = refusal(403)


@pytest.mark.parametrize("change", [tokens_never_accepted, secret_never_read], ids=["token", "secret"])
def test_sentinel_that_never_worked_is_not_compared(clock: FakeClock, change: Callable[[LivingKube], None]) -> None:
    """A token that is refused from the start, or a Secret that can't be read, is held against no step."""
    kube = LivingKube()
    change(kube)
    continuity = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    continuity.compare_with(continuity.take(lambda text: None, begun=False), clock.now())
    assert continuity.baseline is not None and continuity.baseline.not_compared
    assert {verdict.kind for verdict in check(continuity, clock)} == {VerdictKind.HOLDS}


def test_nothing_works(clock: FakeClock) -> None:
    """With no API at all a baseline is taken, too: a run may be meant to fix it."""
    kube = LivingKube()
    kube.unavailable = True
    continuity = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    baseline = continuity.take(lambda text: None, begun=False)
    continuity.compare_with(baseline, clock.now())
    assert baseline.groups == () and baseline.not_compared
    kube.unavailable = False
    assert {verdict.kind for verdict in check(continuity, clock)} == {VerdictKind.HOLDS}


def test_baseline_of_a_run_that_has_begun_has_only_kubernetes_own(kube: LivingKube, clock: FakeClock) -> None:
    """What the run itself installed may go with its rollback."""
    continuity = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    kube.api_service("v1.widgets.example.com", available=True)
    found = continuity.take(lambda text: None, begun=True)
    assert "widgets.example.com/v1" not in found.groups and "apps/v1" in found.groups
    assert found.api_services == ("v1.apps",)


def test_missing_checkpointer(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """A rollback that removes the pod-checkpointer leaves no image to try a pod with: not compared, and said."""
    kube.delete(WORKLOADS["DaemonSet"], "pod-checkpointer", "kube-system")
    workload = gates(continuity)[1].check()
    assert workload.kind is VerdictKind.HOLDS and "not compared" in workload.reason
    baseline = continuity.take(lambda text: None, begun=False)
    assert not baseline.new_workload
    assert any("pod-checkpointer" in item.why for item in baseline.not_compared)


def test_workload_that_comes_to_nothing_is_replaced(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """A pod that got its token from the instance that is being replaced never works; one that is made later does."""
    gate = gates(continuity)[1]
    kube.rolls_out = False
    for _ in range(15):
        assert gate.check().kind is VerdictKind.PENDING
        clock.sleep(1)
    kube.rolls_out = True
    kube.refused["delete deployments"] = ApiUnavailable("refused")
    assert gate.check().kind is VerdictKind.PENDING, "the first can't be removed"
    kube.refused.clear()
    assert [gate.check().kind for _ in range(4)] == [VerdictKind.PENDING] * 3 + [VerdictKind.HOLDS]
    left = [item["metadata"]["name"] for item in kube.list(WORKLOADS["Deployment"], "kube-system")]
    assert not any(name.startswith("upgrader") for name in left)


def test_endpoints_must_follow(continuity: Continuity, kube: LivingKube, clock: FakeClock) -> None:
    """A ready pod that its Service doesn't get, and a deleted one that it keeps, are both waited for."""
    gate = gates(continuity)[1]
    gate.check()
    (slice_,) = [
        item for item in kube.list(ENDPOINT_SLICES, "kube-system") if item["endpoints"][0]["conditions"]["ready"]
    ]
    name = slice_["metadata"]["name"]
    kube.endpoint(name, ready=False)
    assert "is not among its Service's endpoints" in gate.check().reason
    kube.endpoint(name, ready=True)
    kube_delete, kube.delete = kube.delete, super(LivingKube, kube).delete  # type: ignore[method-assign]
    assert "is still among its Service's endpoints" in gate.check().reason
    kube.delete = kube_delete  # type: ignore[method-assign]
    kube.endpoint(name, ready=False)
    assert [gate.check().kind for _ in range(3)][-1] is VerdictKind.HOLDS, "with a token in a new Secret, too"


def test_steps_without_change_have_no_such_gates(continuity: Continuity) -> None:
    """A release that is only verified can't have broken anything; an undo is compared, but for what clients see."""
    verify = PipelineStep(VerifyStep("a"), (), (), changes=False)
    change = replace(verify, changes=True)
    first, second = continuity.around(Pipeline((verify, change))).steps
    assert first == verify
    assert [run.gate.name for run in second.gates] == ["continuity", "continuity/workload", "continuity/clients"]
    assert [run.gate.name for run in second.undo_gates] == ["continuity", "continuity/workload"]
