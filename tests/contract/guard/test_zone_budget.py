"""ZoneAwarePodDisruptionBudgets on a real API server: upstream's TestZoneAwarePodDisruptionBudget…, and more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from testkit.guard_process import GuardProcess, guard_process
from testkit.lab_cluster import until
from tests.contract.checking import checked
from tests.contract.guard.chart_rights import ZONE_BUDGETS, Right, complaints
from tests.contract.guard.conftest import Pair
from tests.contract.guard.looks import look_again
from tests.contract.guard.test_chart import rights
from tests.contract.guard.test_rollout import is_gone
from tests.contract.guard.webhooks import applied, bundles
from tests.contract.guard.zone_budgets import (
    CRD,
    CRDS,
    WEBHOOK,
    asked,
    budget,
    configuration,
    crd,
    evicted,
    installed,
    made,
    rendered,
    reserved,
    webhooks,
)
from tests.contract.guard.zones import zones
from upgrader.ports import Kind
from upgrader.preflight.webhooks import check_webhooks

PODS = Kind("v1", "pods")
SELECTOR = {"matchLabels": {"rollout-group": "none"}}
PARTITIONS = "group-[0-9a-f]+-[a-z]-([0-9]+)"


@pytest.fixture(scope="module")
def kind(pair: Pair) -> Iterator[None]:
    """The CustomResourceDefinition."""
    with installed(pair.kube):
        yield


@pytest.fixture(scope="module")
def answering(pair: Pair, kind: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardProcess]:
    """A replica that answers evictions."""
    with guard_process(tmp_path_factory.mktemp("zpdb"), pair.kubeconfig, *WEBHOOK) as guard:
        guard.wait_ready()
        yield guard


@pytest.fixture
def called(pair: Pair, answering: GuardProcess) -> Iterator[GuardProcess]:
    """…and that the API server asks."""
    with webhooks(pair.kube, answering):
        yield answering


def goes_soon(pair: Pair, pod: str) -> None:
    """Its eviction is allowed as soon as guard's watch has told what has become of others: long before the minute."""
    until(f"{pod} to go", lambda: evicted(pair.kube, pod) == "", timeout_seconds=20, interval_seconds=0.2)


def test_max_unavailable_eq_1(pair: Pair, called: GuardProcess) -> None:
    """TestZoneAwarePodDisruptionBudgetMaxUnavailableEq1: a-0 is evicted; a-1 and b-0 are denied, with the 429 that
    drains wait for; once a-0 is Ready again, b-0 goes.
    """
    with zones(pair.kube, replicas=2, count=2) as group, budget(pair.kube, group.group, maxUnavailable=1) as name:
        a, b = group.names
        assert evicted(pair.kube, f"{a}-0") == ""
        assert reserved(pair.kube, name) == [f"{a}-0"]
        for pod in (f"{a}-1", f"{b}-0"):
            said = evicted(pair.kube, pod)
            assert said.startswith("429: ") and f"denied the request: 1 pod not ready in {a}" in said
        group.controller(a)
        assert f"1 pod not ready in {a}" in evicted(pair.kube, f"{b}-0")
        group.make_ready(a)
        goes_soon(pair, f"{b}-0")
        assert 'zpdb_eviction_requests_total{reason="denied",status="429"}' in called.get("/metrics")[1]


def test_max_unavailable_eq_2(pair: Pair, called: GuardProcess) -> None:
    """TestZoneAwarePodDisruptionBudgetMaxUnavailableEq2: b-0 is denied as a lacks one; a-1 is allowed, a-2 isn't."""
    with zones(pair.kube, replicas=3, count=2) as group, budget(pair.kube, group.group, maxUnavailable=2):
        a, b = group.names
        assert evicted(pair.kube, f"{a}-0") == ""
        assert f"1 pod not ready in {a}" in evicted(pair.kube, f"{b}-0")
        assert evicted(pair.kube, f"{a}-1") == ""
        assert f"2 pods not ready in {a}" in evicted(pair.kube, f"{a}-2")


def test_partition_mode(pair: Pair, called: GuardProcess) -> None:
    """TestZoneAwarePodDisruptionBudgetPartitionMode: the other pod of a-0's partition stays, one of another partition
    goes.
    """
    spec = {"maxUnavailable": 1, "podNamePartitionRegex": PARTITIONS, "podNameRegexGroup": 1}
    with zones(pair.kube, replicas=2, count=2) as group, budget(pair.kube, group.group, **spec):
        a, b = group.names
        assert evicted(pair.kube, f"{a}-0") == ""
        said = evicted(pair.kube, f"{b}-0")
        assert said.startswith("429: ") and "denied the request: 1 pod not ready in partition 0" in said
        assert evicted(pair.kube, f"{b}-1") == ""
        assert "1 pod not ready in partition 1" in evicted(pair.kube, f"{a}-1")
        group.controller(a)
        group.make_ready(a)
        goes_soon(pair, f"{b}-0")


def test_partition_mode_with_cross_zone_eviction_delay(pair: Pair, called: GuardProcess) -> None:
    """TestZoneAwarePodDisruptionBudgetPartitionModeWithCrossZoneEvictionDelay: b-0 goes once a-0 has been Ready for
    long enough, and not before.
    """
    spec = {"maxUnavailable": 1, "podNamePartitionRegex": PARTITIONS, "crossZoneEvictionDelay": "4s"}
    with zones(pair.kube, replicas=1, count=2) as group, budget(pair.kube, group.group, **spec):
        a, b = group.names
        goes_soon(pair, f"{a}-0")  # b-0 was just seen to become Ready, whatever its condition says
        group.controller(a)
        ready = time.time()
        group.make_ready(a, since=f"{datetime.fromtimestamp(ready, UTC):%Y-%m-%dT%H:%M:%SZ}")
        said = evicted(pair.kube, f"{b}-0")
        assert "1 pod not ready in partition 0" in said or time.time() - ready > 3
        until("b-0 to go", lambda: evicted(pair.kube, f"{b}-0") == "", timeout_seconds=120, interval_seconds=0.2)
        assert time.time() - int(ready) >= 4


def test_a_pod_that_goes_without_its_eviction_frees_no_place(pair: Pair, called: GuardProcess) -> None:
    """a-0 is deleted while its eviction, which guard has allowed, waits in another webhook, and may take the next a-0:
    b-0 stays although that one is Ready.
    """
    with zones(pair.kube, replicas=1, count=2) as group, budget(pair.kube, group.group) as name:
        a, b = group.names
        assert asked(called, f"{a}-0") == (0, "")  # of which the API server knows nothing
        pair.kube.delete(PODS, f"{a}-0", "shop")
        until(f"{a}-0 to be gone", lambda: not group.pods(a), timeout_seconds=20, interval_seconds=0.1)
        group.controller(a)
        group.make_ready(a)
        assert f"1 pod not ready in {a}" in evicted(pair.kube, f"{b}-0")
        assert reserved(pair.kube, name) == [f"{a}-0"]


def test_rollout_with_a_budget(pair: Pair, called: GuardProcess, tmp_path: Path) -> None:
    """TestRolloutHappyCaseWithZpdb: a, b and c one after the other, though the budget says 0, which denies evictions.
    Each deletion is in the budget's ledger, which another process has, too.
    """
    flags = ("-roles=rollout", "-kubernetes.namespace=shop")
    with (
        guard_process(tmp_path / "roller", pair.kubeconfig, *flags) as roller,
        zones(pair.kube) as group,
        budget(pair.kube, group.group, maxUnavailable=0) as name,
    ):
        roller.wait_ready()
        a, b, c = group.names
        said = evicted(pair.kube, f"{a}-0")
        assert said.startswith("403: ") and f"{name} allows no pod to be unavailable" in said
        for each in group.names:
            group.template(each, "v2")
        for each in group.names:
            # The leader of an earlier test may have been killed: its Lease ends by itself.
            until(f"{each} to be deleted", is_gone(group, each), timeout_seconds=45, interval_seconds=0.05)
            assert f"{each}-0" in reserved(pair.kube, name)
            group.controller(each)
            others = [other for other in group.names if other != each]
            assert all(group.pods(other) for other in others)
            group.make_ready(each)
        assert group.revisions() == [f"{each}-0:v2" for each in (a, b, c)]


def test_an_eviction_of_another_zone_stops_a_rollout(pair: Pair, called: GuardProcess, tmp_path: Path) -> None:
    """b-0 may go at any time, as its eviction was allowed: a-0 isn't deleted as long as that is so."""
    flags = ("-roles=rollout", "-kubernetes.namespace=shop")
    with (
        guard_process(tmp_path / "roller", pair.kubeconfig, *flags) as roller,
        zones(pair.kube, count=2) as group,
        budget(pair.kube, group.group),
    ):
        roller.wait_ready()
        a, b = group.names
        assert asked(called, f"{b}-0") == (0, "")  # of which the API server knows nothing
        for each in group.names:
            group.template(each, "v2")
        look_again(roller, pair.kube, group)
        assert group.revisions() == [f"{a}-0:v1", f"{b}-0:v1"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"maxUnavailable": -1}, "greater than or equal to 0"),
        ({"maxUnavailable": "1"}, "must be of type integer"),
        ({"maxUnavailablePercentage": 101}, "less than or equal to 100"),
        ({"maxUnavailable": 1, "maxUnavailablePercentage": 1}, "only one of maxUnavailable and"),
        ({"maxUnavailablePercentage": 1, "podNamePartitionRegex": "(a)"}, "can't be used with podNamePartitionRegex"),
        ({"podNamePartitionRegex": "("}, "podNamePartitionRegex"),
        ({"podNamePartitionRegex": "abc"}, "it has no group in parentheses"),
        ({"podNamePartitionRegex": "(a)", "podNameRegexGroup": 0}, "greater than or equal to 1"),
        ({"crossZoneEvictionDelay": "20m"}, "crossZoneEvictionDelay needs podNamePartitionRegex"),
        ({"crossZoneEvictionDelay": "20 minutes", "podNamePartitionRegex": "(a)"}, "crossZoneEvictionDelay"),
        ({"crossZoneEvictionDelay": "-5m", "podNamePartitionRegex": "(a)"}, "it must not be negative"),
        ({"selector": {}}, "spec.selector.matchLabels"),
    ],
)
def test_the_api_server_refuses_what_contradicts_itself(pair: Pair, kind: None, spec: Any, why: str) -> None:
    """By itself, with no guard at all: it is never stored."""
    said = made(pair.kube, "wrong", **{"selector": SELECTOR, **spec})
    assert said.startswith("422: ") and "is invalid" in said and why in said


UPSTREAMS: tuple[dict[str, Any], ...] = (
    {},
    {"maxUnavailable": 0},
    {"maxUnavailablePercentage": 50},
    {"podNamePartitionRegex": "", "crossZoneEvictionDelay": ""},
    {"maxUnavailablePercentage": 0, "podNamePartitionRegex": "(a)"},
    {"crossZoneEvictionDelay": "0s"},
    {
        "maxUnavailable": 1,
        "podNamePartitionRegex": "[a-z\\-]+-zone-[a-z]-([0-9]+)",
        "podNameRegexGroup": 1,
        "crossZoneEvictionDelay": "1h20m",
    },
)


def test_the_webhook_takes_upstreams_budgets_and_refuses_the_rest(pair: Pair, called: GuardProcess) -> None:
    """It takes those of upstream's examples, and what its own validation lets through. What no rule of the API server's
    can see: 400.
    """
    taken = [made(pair.kube, "right", dry_run=True, **{"selector": SELECTOR, **spec}) for spec in UPSTREAMS]
    assert taken == [""] * len(UPSTREAMS)
    for regex in ("(a)(b)", "(a*)*"):
        said = made(pair.kube, "wrong", selector=SELECTOR, podNamePartitionRegex=regex)
        assert said.startswith("400: ") and "ZoneAwarePodDisruptionBudget shop/wrong: podNamePartitionRegex" in said


def test_what_is_stored_and_wrong_denies(pair: Pair, answering: GuardProcess) -> None:
    """A budget from before the webhook denies its pods' evictions, with its name; so do two of them."""
    with zones(pair.kube, count=2) as group:
        with budget(pair.kube, group.group, podNamePartitionRegex="(a)(b)") as name:
            invalid = f"ZoneAwarePodDisruptionBudget shop/{name} is invalid"
            until("it to be known", lambda: invalid in asked(answering, f"{group.names[0]}-0")[1], timeout_seconds=120)
        with budget(pair.kube, group.group) as one, budget(pair.kube, group.group) as other:

            def said() -> str:
                return asked(answering, f"{group.names[0]}-0", dry_run=True)[1]

            until("both to be known", lambda: one in said() and other in said(), timeout_seconds=120)


def test_what_does_not_go_by_a_budget(pair: Pair, called: GuardProcess) -> None:
    """A dry run reserves nothing; a pod that isn't running goes, one that isn't there is told as the API server does;
    one zone alone is a mistake, and says so.
    """
    with zones(pair.kube, count=2) as group, budget(pair.kube, group.group) as name:
        a, b = group.names
        assert evicted(pair.kube, f"{a}-0", dry_run=True) == ""
        assert evicted(pair.kube, f"{b}-0", dry_run=True) == ""
        assert reserved(pair.kube, name) == [] and len(group.pods(a)) == 1
        assert evicted(pair.kube, f"{a}-0") == ""
        group.controller(a)
        assert evicted(pair.kube, f"{a}-0") == ""
        assert reserved(pair.kube, name) == [f"{a}-0"] * 2, "the one that is Pending goes, and is reserved"
        gone = (404, "pod shop/made-up doesn't exist")
        assert asked(called, "made-up") == gone and reserved(pair.kube, name) == [f"{a}-0"] * 2
    with zones(pair.kube, count=1) as alone, budget(pair.kube, alone.group):
        said = evicted(pair.kube, f"{alone.names[0]}-0")
        assert said.startswith("400: ") and "needs two or more" in said


def test_a_crd_that_drops_reservations_allows_nothing(pair: Pair, answering: GuardProcess) -> None:
    """rollout-operator's own has no status: what would be reserved vanishes without an error, which is noticed."""
    other = crd()
    del other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    with zones(pair.kube, count=2) as group, budget(pair.kube, group.group) as name, _instead(pair, other):
        pod = f"{group.names[0]}-0"

        def refused() -> bool:
            code, said = asked(answering, pod)
            return code == 500 and "apply the definition of the chart" in said

        until("it to be noticed", refused, timeout_seconds=120, interval_seconds=0.2)
        assert asked(answering, pod)[0] == 500 and reserved(pair.kube, name) == []


@contextmanager
def _instead(pair: Pair, definition: dict[str, Any]) -> Iterator[None]:
    """Another definition of the kind, until the end of the block."""
    for each in (definition, None):
        found: Any = pair.kube.get(CRDS, CRD)
        pair.kube.replace(CRDS, {**found, "spec": (each or crd())["spec"]})
        if each:
            yield


@pytest.mark.parametrize("number", [1, *(pytest.param(each, marks=pytest.mark.soak) for each in (0, 2))])
def test_never_more_than_allowed_whoever_is_killed(pair: Pair, kind: None, tmp_path: Path, number: int) -> None:
    """Twelve pods of one zone, each asked for at both replicas at once, three of which may go; one replica is killed
    meanwhile. Who is told "allowed" are three at most, and all of them are in the ledger, from which the other one goes
    on.
    """
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(guard_process(tmp_path / name, pair.kubeconfig, *WEBHOOK)) for name in ("one", "two")
        )
        group = stack.enter_context(zones(pair.kube, replicas=12, count=2))
        name = stack.enter_context(budget(pair.kube, group.group, maxUnavailable=3))
        one.wait_ready(), other.wait_ready()
        pods = [f"{group.names[0]}-{ordinal}" for ordinal in range(12)]
        with ThreadPoolExecutor(25) as pool:
            asking = [(pod, pool.submit(asked, guard, pod)) for pod in pods for guard in (one, other)]
            time.sleep(0.03 * number)
            one.kill()
            allowed = {pod for pod, said in asking if said.result()[0] == 0}
        assert len(allowed) <= 3 and allowed <= set(reserved(pair.kube, name))
        allowed |= {pod for pod in pods if asked(other, pod)[0] == 0}
        assert len(allowed) == 3 and allowed == set(reserved(pair.kube, name))


FLAGS = (
    "-server-tls.self-signed-cert.secret-name=guard-certificate",
    "-roles=webhook",
    "-kubernetes.namespace=ops",
    "-zpdb.namespace=shop",
)


def test_the_charts_rights_are_enough(pair: Pair, kind: None, tmp_path: Path) -> None:
    """With nothing but budgets switched on; its webhooks stand in no control plane's way."""
    with (
        rights(pair, list(rendered())),
        guard_process(tmp_path, pair.account, *FLAGS) as guard,
        zones(pair.kube, count=2) as group,
        budget(pair.kube, group.group) as name,
    ):
        guard.wait_ready()
        with applied(pair.kube, configuration(guard)) as webhook:
            until("the authority to be there", lambda: all(bundles(pair.kube, webhook)), timeout_seconds=120)
            assert not list(check_webhooks(checked(pair.kube, controllers=[])))
        # Not by the API server: other replicas of these tests give the webhooks another authority.
        assert asked(guard, f"{group.names[0]}-0") == (0, "") and reserved(pair.kube, name)
        assert complaints(guard) == []


@pytest.mark.parametrize("right", ZONE_BUDGETS, ids=str)
def test_a_right_that_budgets_lack_is_named(pair: Pair, kind: None, tmp_path: Path, right: Right) -> None:
    """In the log, and nothing is allowed without it. Only PodDisruptionBudgets needn't be read, as the API server does
    that itself.
    """
    with (
        rights(pair, list(rendered()), right),
        guard_process(tmp_path, pair.account, *FLAGS) as guard,
        zones(pair.kube, count=2) as group,
        budget(pair.kube, group.group),
    ):

        def said() -> bool:
            if guard.get("/ready")[0] == 200:
                asked(guard, f"{group.names[0]}-0")
            return complaints(guard, right) != []

        until(f"it to name {right}", said, timeout_seconds=120, interval_seconds=0.2)
        if right.verb == "watch":
            return
        code = 0 if right.resource == "poddisruptionbudgets" else 500
        assert guard.get("/ready")[0] == 503 or asked(guard, f"{group.names[0]}-0")[0] == code
