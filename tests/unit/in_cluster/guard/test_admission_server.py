"""What API servers get over HTTP, and what people and Prometheus read beside it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.unit.in_cluster.guard.fake_api import FakeApi
from upgrader.in_cluster.guard.core.admission import AdmissionRequest, Answer, allow, deny
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused
from upgrader.in_cluster.guard.roles.admission_server import Decide, admission_app
from upgrader.in_cluster.guard.roles.no_downscale import NoDownscale
from upgrader.in_cluster.guard.roles.run_lease import RunLease
from upgrader.in_cluster.guard.runtime.metrics import Metrics
from upgrader.in_cluster.guard.runtime.resource import Resource
from upgrader.in_cluster.guard.runtime.status_server import status_app

PATH = "/admission/test"


def review(**request: Any) -> dict[str, Any]:
    """A well-formed one about a Scale of a StatefulSet."""
    asked = {
        "uid": "u-1",
        "operation": "UPDATE",
        "resource": {"group": "apps", "version": "v1", "resource": "statefulsets"},
        "subResource": "scale",
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "namespace": "shop",
        "name": "db",
        "object": {"spec": {"replicas": 1}},
        "oldObject": {"spec": {"replicas": 3}},
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def asked(decide: Decide, body: bytes | None = None, *, timeout_seconds: float = 10, dry_run: bool = False) -> Any:
    """(status, body) of one request, and the metrics afterwards."""

    async def run() -> tuple[int, str, str]:
        metrics = Metrics()
        app = admission_app({PATH: decide}, metrics, timeout_seconds=timeout_seconds, dry_run=dry_run)
        async with TestClient(TestServer(app)) as client:
            answer = await client.post(PATH, data=json.dumps(review()).encode() if body is None else body)
            return answer.status, await answer.text(), metrics.text()

    return asyncio.run(run())


def always(answer: Answer | Exception) -> Decide:
    """Decides so."""

    async def decide(_: AdmissionRequest) -> Answer:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return decide


def counted(metrics: str, answer: str) -> bool:
    """Whether one such answer was counted."""
    return f'guard_admission_requests_total{{answer="{answer}",path="{PATH}"}} 1.0' in metrics


def test_a_decision_is_a_review() -> None:
    """HTTP 200, allowed or not, with the request's UID."""
    status, text, metrics = asked(always(deny(429, "not now")))
    answer = json.loads(text)
    assert status == 200 and answer["response"]["uid"] == "u-1" and not answer["response"]["allowed"]
    assert answer["response"]["status"]["code"] == 429
    assert counted(metrics, "denied")
    assert counted(asked(always(allow()))[2], "allowed")


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b'{"kind": "AdmissionReview"}', b"\xff"])
def test_what_is_no_review_is_a_bad_request(body: bytes) -> None:
    """400, which failurePolicy decides on, and says why."""
    status, text, metrics = asked(always(AssertionError("it is asked nothing")), body)
    assert status == 400 and text.strip() and counted(metrics, "bad_request")


def test_who_cannot_know_says_so() -> None:
    """500, so that failurePolicy decides; counted."""
    status, text, metrics = asked(always(ApiAway("GET /api: refused")))
    assert (status, text) == (500, "GET /api: refused\n") and counted(metrics, "failed")


def test_an_answer_comes_in_time() -> None:
    """After 90 % of what the API server waits, it is told that there is none."""

    async def never(_: AdmissionRequest) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    status, text, metrics = asked(never, timeout_seconds=0.01)
    assert (status, text) == (500, "no decision within 0.009 s\n") and counted(metrics, "failed")


def test_a_dry_run_of_guard_denies_nothing() -> None:
    """It warns, and counts what it would deny."""
    _, text, metrics = asked(always(deny(403, "no")), dry_run=True)
    assert json.loads(text)["response"] == {"uid": "u-1", "allowed": True, "warnings": ["would be denied: no"]}
    assert counted(metrics, "would_deny")


def no_downscale(api: FakeApi, **request: Any) -> dict[str, Any]:
    """Its response."""

    async def run() -> dict[str, Any]:
        app = admission_app({PATH: NoDownscale(api)}, Metrics(), timeout_seconds=10)
        async with TestClient(TestServer(app)) as client:
            answer = await client.post(PATH, json=review(**request))
            response: dict[str, Any] = (await answer.json())["response"]
            return response

    return asyncio.run(run())


@pytest.mark.parametrize(("labels", "allowed"), [({"grafana.com/no-downscale": "true"}, False), ({}, True)])
def test_a_scale_is_judged_by_the_object_that_it_scales(labels: dict[str, str], allowed: bool) -> None:
    """Which is read, as a Scale has no labels."""
    api = FakeApi()
    api.put(Resource("apps/v1", "statefulsets"), {"metadata": {"name": "db", "labels": labels}}, "shop")
    response = no_downscale(api)
    assert response["allowed"] is allowed
    if not allowed:
        assert response["status"]["message"].startswith(
            "downscale of statefulsets/db in shop from 3 to 1 replicas is not allowed because it has the label"
        )


@pytest.mark.parametrize(
    ("prepare", "request_", "why"),
    [
        (lambda api: None, {}, "it doesn't exist"),
        (lambda api: api.next_answer("get", ApiAway("GET: refused")), {}, "GET: refused"),
        (
            lambda api: None,
            {"resource": {"group": "example.org", "version": "v1", "resource": "databases"}},
            "it is none of",
        ),
    ],
)
def test_a_parent_that_cannot_be_read_is_no_reason_to_be_stuck(
    prepare: Callable[[FakeApi], None], request_: dict[str, Any], why: str
) -> None:
    """Allowed, with a warning that says why; only what it has rights for is asked for."""
    api = FakeApi()
    prepare(api)
    response = no_downscale(api, **request_)
    assert response["allowed"] and why in response["warnings"][0]


def test_why_a_parent_cannot_be_read_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """All of it, as with long names a warning has no room for the right that is missing."""
    api, name = FakeApi(), "long-" * 50
    why = f'GET {name}: 403: "{name}" is forbidden: cannot get resource "statefulsets"'
    api.next_answer("get", ApiRefused(why, 403))
    with caplog.at_level(logging.WARNING, "guard"):
        response = no_downscale(api, name=name)
    assert response["allowed"] and "cannot get" not in response["warnings"][0]
    assert [vars(record)["reason"] for record in caplog.records] == [why]


def status(questions: dict[str, Callable[[], str]]) -> tuple[int, str, str]:
    """(status of /ready, its text, metrics)."""

    async def run() -> tuple[int, str, str]:
        async with TestClient(TestServer(status_app(questions, metrics))) as client:
            ready, shown = await client.get("/ready"), await client.get("/metrics")
            return ready.status, await ready.text(), await shown.text()

    metrics = Metrics()
    metrics.webhooks({("ValidatingWebhook", "a.example"): "Ignore"})
    return asyncio.run(run())


def test_ready_only_when_all_is() -> None:
    """Else 503, with each reason."""
    assert status({"certificate": lambda: "", "cache": lambda: ""})[:2] == (200, "ready\n")
    assert status({"certificate": lambda: "there is none yet", "cache": lambda: ""})[:2] == (
        503,
        "certificate: there is none yet\n",
    )


def test_metrics_have_the_names_that_dashboards_know() -> None:
    """rollout-operator's series of failure policies, with its labels."""
    expected = (
        'kube_validating_webhook_failure_policy{policy="Ignore",type="ValidatingWebhook",webhook="a.example"} 1.0'
    )
    assert expected in status({})[2]


LEASES = Resource("coordination.k8s.io/v1", "leases")
SETS = Resource("apps/v1", "statefulsets")


def asked_while_held(
    prepare: Callable[[FakeApi], object] = lambda api: None, *, holder: str = "anna", **request: Any
) -> tuple[int, Any]:
    """(status, response or text) of a downscale of a set of the group `db`, with the Lease of a run."""

    async def run() -> tuple[int, Any]:
        api = FakeApi()
        spec = {"holderIdentity": holder, "renewTime": "t1", "leaseDurationSeconds": 60}
        notes = {"upgrader.io/run": "run-7"}
        api.put(LEASES, {"metadata": {"name": "upgrader", "annotations": notes}, "spec": spec}, "kube-system")
        api.put(SETS, {"metadata": {"name": "db", "labels": {"rollout-group": "db"}}}, "shop")
        prepare(api)
        app = admission_app({PATH: NoDownscale(api, RunLease(api))}, Metrics(), timeout_seconds=10)
        async with TestClient(TestServer(app)) as client:
            answer = await client.post(PATH, json=review(**request))
            return answer.status, (await answer.json())["response"] if answer.status == 200 else await answer.text()

    return asyncio.run(run())


BY_OBJECT = {
    "subResource": "",
    "kind": {"group": "apps", "version": "v1", "kind": "StatefulSet"},
    "oldObject": {"metadata": {"labels": {"rollout-group": "db"}}, "spec": {"replicas": 3}},
}


@pytest.mark.parametrize("request_", [{}, BY_OBJECT, {"dryRun": True}], ids=["scale", "object", "dry run"])
def test_a_group_that_a_run_holds_does_not_shrink(request_: dict[str, Any]) -> None:
    """By itself, by `/scale`, and on a dry run: refused with the run's name. Without a run it is done."""
    status, response = asked_while_held(**request_)
    assert (status, response["allowed"], response["status"]["code"]) == (200, False, 403)
    assert response["status"]["message"] == (
        "downscale of statefulsets/db in shop from 3 to 1 replicas is not allowed while the upgrade run-7 holds the "
        "group db"
    )
    assert asked_while_held(holder="", **request_)[1]["allowed"]


@pytest.mark.parametrize(
    "request_",
    [
        {"object": {"spec": {"replicas": 4}}},
        {**BY_OBJECT, "oldObject": {"metadata": {"labels": {}}, "spec": {"replicas": 3}}},
        {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}},
    ],
    ids=["grows", "in no group", "no StatefulSet"],
)
def test_nothing_else_is_held(request_: dict[str, Any]) -> None:
    """Nor does it need the Lease."""

    def without_lease(api: FakeApi) -> None:
        del api.objects[LEASES.path("kube-system", "upgrader")]
        api.put(Resource("apps/v1", "deployments"), {"metadata": {"name": "db"}}, "shop")

    assert asked_while_held(without_lease, **request_)[1]["allowed"]


@pytest.mark.parametrize(
    ("answers", "why"),
    [([None, ApiAway("GET: refused")], "GET: refused"), ([ApiAway("GET: refused"), None], "can't be read")],
    ids=["the Lease", "the set"],
)
def test_what_is_unknown_while_a_run_may_hold_is_no_answer(answers: list[Exception | None], why: str) -> None:
    """HTTP 500, so that failurePolicy decides."""
    status, text = asked_while_held(lambda api: api.next_answer("get", *answers))
    assert status == 500 and why in text


def test_a_set_that_cannot_be_read_shrinks_where_no_run_is_alive() -> None:
    """With a warning, as ever."""
    away = ApiAway("GET: refused")
    status, response = asked_while_held(lambda api: api.next_answer("get", away), holder="")
    assert status == 200 and response["allowed"] and "GET: refused" in response["warnings"][0]
