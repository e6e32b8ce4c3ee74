"""Cases of zones: rollouts, zone-aware budgets, and downscales."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import groupby, pairwise
from typing import Any

import urllib3

from bench.guard.originals.api import said
from bench.guard.originals.case import Case
from bench.guard.originals.side import Side
from bench.guard.programs import ADMISSION, ROLLER, Replica
from bench.guard.sets import Sets
from bench.guard.site import SETS
from upgrader.ports import Kind

__all__ = ["ZONE_CASES"]

_BUDGETS = Kind("rollout-operator.grafana.com/v1", "zoneawarepoddisruptionbudgets")
_EVICTION = "/admission/pod-eviction"
_PATIENCE = 20.0
"""How long something may take until it counts as "not at all", in seconds."""
_ROUNDS = 10
_KNOWN_SECONDS = 3.0
"""Until a new budget, or a new webhook, is known to who has to know it: neither of the two says so."""


@contextmanager
def _sets(side: Side, zones: str, replicas: int = 1, *, named: bool = True) -> Iterator[Sets]:
    made = Sets(side.site, f"db-{uuid.uuid4().hex[:4]}", zones, replicas, named=named)
    made.create()
    try:
        yield made
    finally:
        made.remove()


@contextmanager
def _budget(side: Side, sets: Sets, **spec: Any) -> Iterator[None]:
    meta = {"name": sets.group}
    manifest = {"apiVersion": _BUDGETS.api_version, "kind": "ZoneAwarePodDisruptionBudget", "metadata": meta}
    selector = {"matchLabels": {"rollout-group": sets.group}}
    side.site.kube.create(_BUDGETS, {**manifest, "spec": {"selector": selector, **spec}}, "shop")
    try:
        yield
    finally:
        side.site.kube.delete(_BUDGETS, sets.group, "shop")


@contextmanager
def _evictions(side: Side) -> Iterator[Replica]:
    with side.site.started("evictions", ADMISSION) as replica, side.asked(replica, _EVICTION):
        time.sleep(_KNOWN_SECONDS)
        yield replica


def _order(side: Side) -> str:
    seen, took = [], []
    with _sets(side, "abc") as sets, side.site.started("order", ROLLER):
        sets.template("v2")
        first = time.monotonic()
        sets.wait_gone(sets.names[0])
        seen.append("a")
        first = time.monotonic() - first
        for name, following in pairwise(sets.names):
            time.sleep(1)  # in which nothing may happen
            if not sets.pods(following):
                return f"{following[-1]} before {name[-1]} was Ready"
            ready = sets.refill(name)
            sets.wait_gone(following)
            took.append(time.monotonic() - ready)
            seen.append(following[-1])
    times = ", ".join(f"{each:.1f}" for each in took)
    return f"{' → '.join(seen)}; first deletion after {first:.1f} s, the next ones {times} s after Ready"


def _bad_template(side: Side) -> str:
    with _sets(side, "abc") as sets, side.site.started("bad", ROLLER):
        sets.template("v2")
        sets.wait_gone(sets.names[0])
        sets.refill(sets.names[0], ready=False)
        sets.template("v3")
        try:
            took = sets.wait_gone(sets.names[0], seconds=_PATIENCE)
        except TimeoutError:
            return f"it stays: not replaced within {_PATIENCE:.0f} s"
        return f"replaced after {took:.1f} s"


def _unnamed(side: Side) -> str:
    with _sets(side, "abc", named=False) as sets, side.site.started("unnamed", ROLLER):
        sets.template("v2")
        try:
            sets.wait_gone(sets.names[0], seconds=_PATIENCE)
        except TimeoutError:
            return f"nothing rolls within {_PATIENCE:.0f} s"
        return "rolls"


def _no_downscale(side: Side) -> str:
    answers = {}
    with (
        _sets(side, "ab", 3) as sets,
        side.site.started("scales", ADMISSION) as replica,
        side.asked(replica, "/admission/no-downscale"),
    ):
        free, kept = sets.names
        label = {"metadata": {"labels": {"grafana.com/no-downscale": "true"}}}
        side.site.kube.patch(SETS, kept, label, "shop")
        time.sleep(_KNOWN_SECONDS)
        answers["fewer of the labelled set, in the object"] = side.api.scaled(kept, 1)
        answers["by `scale`"] = side.api.scaled(kept, 1, subresource="scale")
        answers["on a dry run"] = side.api.scaled(kept, 1, dry_run=True)
        answers["more of the labelled set"] = side.api.scaled(kept, 4)
        path = f"/apis/apps/v1/namespaces/shop/statefulsets/{kept}"
        taken = {"metadata": {"labels": {"grafana.com/no-downscale": None}}, "spec": {"replicas": 1}}
        answers["fewer, and the label removed in the same request"] = side.api.ask("PATCH", path, taken)
        answers["fewer of a set without the label"] = side.api.scaled(free, 1)
    return _listed({name: answer.replace(f"{sets.group}-", "") for name, answer in answers.items()})


def _budget_of_one(side: Side) -> str:
    answers = {}
    with _sets(side, "ab", 2) as sets, _budget(side, sets, maxUnavailable=1), _evictions(side):
        a, b = sets.names
        for pod in (f"{a}-0", f"{a}-1", f"{b}-0"):
            answers[pod.removeprefix(f"{sets.group}-")] = side.api.evicted(pod).replace(f"{sets.group}-", "")
        sets.refill(a)
        time.sleep(_KNOWN_SECONDS)
        answers["b-0 once a-0 is Ready again"] = side.api.evicted(f"{b}-0").replace(f"{sets.group}-", "")
    return _listed(answers)


def _dry_run_of_an_eviction(side: Side) -> str:
    with _sets(side, "ab") as sets, _budget(side, sets, maxUnavailable=1), _evictions(side):
        a, b = sets.names
        answers = {"dry run of a-0": side.api.evicted(f"{a}-0", dry_run=True), "b-0": side.api.evicted(f"{b}-0")}
    return _listed({name: answer.replace(f"{sets.group}-", "") for name, answer in answers.items()})


def _both(side: Side, replicas: tuple[Replica, Replica], sets: Sets) -> bool:
    """Whether two evictions at the same time, of two zones, are both allowed."""
    with ThreadPoolExecutor(2) as threads:
        asked = zip(replicas, sets.names, strict=True)
        answers = list(threads.map(lambda each: _asked(side, each[0], f"{each[1]}-0"), asked))
    return answers == ["", ""]


def _race(side: Side) -> str:
    with side.site.started("race", ADMISSION) as replica:
        return _raced(side, (replica, replica))


def _race_of_two(side: Side) -> str:
    with side.site.started("race-a", ADMISSION) as one, side.site.started("race-b", ADMISSION) as other:
        return _raced(side, (one, other))


def _raced(side: Side, replicas: tuple[Replica, Replica]) -> str:
    with ExitStack() as stack:
        groups = [stack.enter_context(_sets(side, "ab")) for _ in range(_ROUNDS)]
        for sets in groups:
            stack.enter_context(_budget(side, sets, maxUnavailable=1))
        time.sleep(_KNOWN_SECONDS)
        both = sum(_both(side, replicas, sets) for sets in groups)
    return f"both allowed {both} times of {_ROUNDS}"


def _restart(side: Side) -> str:
    with _sets(side, "ab") as sets, _budget(side, sets, maxUnavailable=1):
        a, b = sets.names
        with side.site.started("before", ADMISSION) as replica:
            time.sleep(_KNOWN_SECONDS)
            first = _asked(side, replica, f"{a}-0")
            replica.kill()
        with side.site.started("after", ADMISSION) as replica:
            time.sleep(_KNOWN_SECONDS)
            second = _asked(side, replica, f"{b}-0").replace(f"{sets.group}-", "")
    return _listed({"a-0": first, "b-0 after the restart": second})


def _invalid_budget(side: Side) -> str:
    answers = {}
    wrong = {"podNamePartitionRegex": "(a)(b)"}  # which of the two groups it means isn't said
    with _sets(side, "ab") as sets, _budget(side, sets, maxUnavailable=1, **wrong), _evictions(side):
        for zone, name in zip("ab", sets.names, strict=True):
            answers[f"{zone}-0"] = side.api.evicted(f"{name}-0").replace(f"{sets.group}-", "")
    return _listed(answers)


def _nobody(side: Side) -> str:
    answers = {}
    with _sets(side, "ab", 3) as sets:
        free, kept = sets.names
        label = {"metadata": {"labels": {"grafana.com/no-downscale": "true"}}}
        side.site.kube.patch(SETS, kept, label, "shop")
        with side.site.started("nobody", ADMISSION) as replica, side.asked(replica, "/admission/no-downscale"):
            time.sleep(_KNOWN_SECONDS)
            replica.kill()
            path = f"/apis/apps/v1/namespaces/shop/statefulsets/{free}"
            template = {"spec": {"template": {"metadata": {"annotations": {"new": "1"}}}}}
            answers["a new template of a set without the label"] = side.api.ask("PATCH", path, template)
            answers["more replicas of it"] = side.api.scaled(free, 4)
            answers["fewer replicas of it"] = side.api.scaled(free, 2)
            answers["fewer of the labelled set"] = side.api.scaled(kept, 2)
    return _listed({name: answer and "refused" for name, answer in answers.items()})


def _prepare_annotation(side: Side) -> str:
    annotation = {"metadata": {"annotations": {"grafana.com/prepare-downscale": "true"}}}
    with (
        _sets(side, "ab", 3) as sets,
        side.site.started("prepare", ADMISSION) as replica,
        side.asked(replica, "/admission/prepare-downscale"),
    ):
        side.site.kube.patch(SETS, sets.names[0], annotation, "shop")
        time.sleep(_KNOWN_SECONDS)
        answer = side.api.scaled(sets.names[0], 2)
    return answer.replace(f"{sets.group}-", "") or "allowed, no pod was told"


def _asked(side: Side, replica: Replica, pod: str) -> str:
    """What a replica itself says to an eviction: as Api.ask."""
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": "policy", "version": "v1", "kind": "Eviction"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "eviction",
        "operation": "CREATE",
        "name": pod,
        "namespace": "shop",
        "object": {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": "shop"},
        },
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    headers = {"Content-Type": "application/json"}
    with urllib3.PoolManager(ca_certs=str(side.tls.certificate), retries=False, timeout=30) as pool:
        answer = pool.request("POST", replica.url(_EVICTION), body=json.dumps(review), headers=headers)
    if answer.status != 200:
        return said(answer.status, answer.data)
    response = json.loads(answer.data)["response"]
    return "" if response["allowed"] else f"{response['status']['code']}: {response['status']['message']}"


def _listed(answers: Mapping[str, str]) -> str:
    """Those that follow each other and are answered alike are put together."""
    grouped = groupby(answers.items(), key=lambda each: each[1])
    return "; ".join(f"{', '.join(name for name, _ in each)}: {answer or 'allowed'}" for answer, each in grouped)


ZONE_CASES = (
    Case("order", "v2 for three zones of one pod each (TestRolloutHappyCase)", _order),
    Case("bad-template", "v2 never gets Ready in zone a; v3 would fix it (rollout-operator#339)", _bad_template),
    Case("unnamed", "the same, if pods don't have the label `name`", _unnamed),
    Case("no-downscale", "fewer replicas of a set with `grafana.com/no-downscale` (TestNoDownscale…)", _no_downscale),
    Case("budget", "evictions; two zones of two pods, `maxUnavailable: 1` (…BudgetMaxUnavailableEq1)", _budget_of_one),
    Case("budget-dry-run", "an eviction's dry run in zone a, then an eviction in zone b", _dry_run_of_an_eviction),
    Case("race", "evictions in two zones at the same moment, answered by one replica", _race),
    Case("race-of-two", "the same, answered by two replicas", _race_of_two),
    Case(
        "restart", "an eviction in zone a is allowed; the process is killed before the pod goes; then zone b", _restart
    ),
    Case("invalid-budget", "evictions in both zones; an invalid budget that was stored earlier", _invalid_budget),
    Case("nobody", "no webhook answers no-downscale, with the project's own configuration (`Fail`)", _nobody),
    Case("prepare", "`prepare-downscale` as an annotation, without a port (rollout-operator#306)", _prepare_annotation),
)
