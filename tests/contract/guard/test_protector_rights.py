"""What the chart gives each role of PodProtectors, on a real API server: it is enough, and each right is needed."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from testkit.guard_process import GuardProcess, guard_process
from tests.contract.guard.chart_rights import (
    AGGREGATOR,
    AGGREGATOR_OF_CORE,
    GENERATOR,
    OWN_CELL,
    PROTECTOR_WEBHOOK,
    Right,
    complaints,
)
from tests.contract.guard.conftest import Pair
from tests.contract.guard.protected import PODS, PROTECTORS, Protected, becomes, chart, install_definition
from tests.contract.guard.test_chart import FLAGS, rights
from tests.contract.guard.test_protector import FINALIZER, asked_directly, deployment, least
from tests.contract.guard.webhooks import applied
from tests.contract.guard.zone_budgets import asked
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError
from upgrader.ports import Kind, KubeObject

DEPLOYMENTS = Kind("apps/v1", "deployments")
LEASES = Kind("coordination.k8s.io/v1", "leases")


@pytest.fixture(scope="module")
def objects(pair: Pair) -> list[KubeObject]:
    """What Helm renders; PodProtectors are served."""
    install_definition(pair.kube)
    return chart()


def test_the_generators_rights_are_enough(pair: Pair, objects: list[KubeObject], tmp_path: Path) -> None:
    """From a Deployment's first protector to its last."""
    with rights(pair, objects), guard_process(tmp_path, pair.roles["generator"], "-roles=generator") as guard:
        guard.wait_ready()
        name = lives(pair)
        becomes("7 to be kept", lambda: least(pair, name) == 7)
        pair.kube.patch(DEPLOYMENTS, name, {"spec": {"replicas": 20}}, "shop")
        becomes("14 to be kept", lambda: least(pair, name) == 14)
        pair.kube.delete(DEPLOYMENTS, name, "shop")
        becomes("both to go", lambda: pair.kube.get(DEPLOYMENTS, name, "shop") is None)
        assert least(pair, name) is None and complaints(guard) == []
    pair.kube.delete(LEASES, "guard-generator", "ops")


_POLICIES = {
    f"ValidatingAdmissionPolicy{kind}": Kind(
        "admissionregistration.k8s.io/v1", f"validatingadmissionpolic{plural}", namespaced=False
    )
    for kind, plural in (("", "ies"), ("Binding", "ybindings"))
}


def test_the_generators_account_may_change_nothing_but_its_finalizer(
    pair: Pair, objects: list[KubeObject], tmp_path: Path
) -> None:
    """By the chart's policy: neither the image, nor replicas, labels, annotations or others' finalizers; the generator
    works with it from the first protector to the last.
    """
    account = KubeAdapter(pair.roles["generator"])
    generator = guard_process(tmp_path, pair.roles["generator"], "-roles=generator")
    with rights(pair, objects), ExitStack() as stack:
        for kind, resource in _POLICIES.items():
            (manifest,) = (each for each in objects if each["kind"] == kind)
            stack.enter_context(applied(pair.kube, manifest, resource))
        name = lives(pair)
        others = {"metadata": {"finalizers": ["shop.example/kept"], "annotations": {"a": "b"}}}
        pair.kube.patch(DEPLOYMENTS, name, others, "shop")
        container = {"name": "x", "image": "another"}
        changes: list[dict[str, Any]] = [
            {"spec": {"replicas": 9}},
            {"spec": {"template": {"spec": {"containers": [container]}}}},
            {"metadata": {"labels": {"podseidon.kubewharf.io/protect": "false"}}},
            {"metadata": {"annotations": {"a": None}}},
            {"metadata": {"finalizers": ["shop.example/another"]}},
            {"metadata": {"finalizers": [FINALIZER]}},
        ]
        # Until it is, each is done; and what is as it was before is never refused.
        tries = ({"spec": {"replicas": number}} for number in itertools.count(11))
        becomes("the policy to be in force", lambda: "may only add" in refusal(account, name, next(tries)))
        for change in changes:
            assert "may only add or remove the finalizer" in refusal(account, name, change), change
        assert refusal(pair.kube, name, changes[0]) == "", "of others nothing is asked"
        guard = stack.enter_context(generator)
        guard.wait_ready()
        becomes("it to be protected", lambda: least(pair, name) is not None)
        found: Any = pair.kube.get(DEPLOYMENTS, name, "shop")
        assert found["metadata"]["finalizers"] == ["shop.example/kept", FINALIZER]
        pair.kube.delete(DEPLOYMENTS, name, "shop")
        becomes("its protector to go", lambda: least(pair, name) is None)
        becomes("its finalizer to go", lambda: finalizers(pair, name) == ["shop.example/kept"])
        assert complaints(guard) == []
    unfinished(pair, DEPLOYMENTS, name)
    pair.kube.delete(LEASES, "guard-generator", "ops")


def refusal(kube: KubeAdapter, name: str, change: dict[str, Any]) -> str:
    """Of a change of a Deployment; "" where it is done."""
    try:
        kube.patch(DEPLOYMENTS, name, change, "shop")
    except ApiError as error:
        return error.message
    return ""


def finalizers(pair: Pair, name: str) -> list[str]:
    """Of a Deployment that is being deleted."""
    found: Any = pair.kube.get(DEPLOYMENTS, name, "shop")
    return list(found["metadata"]["finalizers"])


@pytest.mark.parametrize("vanished", [False, True])
def test_uninstalling_releases_everything(
    pair: Pair, objects: list[KubeObject], tmp_path: Path, vanished: bool
) -> None:
    """As the chart's hook does it, beside a generator that leads, with its rights: nothing keeps the finalizer, also
    the protector of a Deployment that has vanished; and both can be deleted without guard.
    """
    command = [sys.executable, "-m", "upgrader.in_cluster.guard", "release", "-protector.namespace=shop"]
    command += ["-kubernetes.namespace=ops", f"-kubernetes.config-file={pair.roles['generator']}"]
    with rights(pair, objects), guard_process(tmp_path, pair.roles["generator"], "-roles=generator") as guard:
        guard.wait_ready()
        name = lives(pair)
        becomes("7 to be kept", lambda: least(pair, name) == 7)
        if vanished:
            unfinished(pair, DEPLOYMENTS, name)
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "POD_NAMESPACE": "ops"}
        )
        assert done.returncode == 0, done.stderr
        assert least(pair, name) is None
        found = pair.kube.get(DEPLOYMENTS, name, "shop")
        assert vanished or (found is not None and not found["metadata"].get("finalizers"))
        pair.kube.delete(DEPLOYMENTS, name, "shop")
        assert pair.kube.get(DEPLOYMENTS, name, "shop") is None
    pair.kube.delete(LEASES, "guard-generator", "ops")


def lives(pair: Pair) -> str:
    """A new protected Deployment."""
    name = f"web-{uuid.uuid4().hex[:6]}"
    pair.kube.create(DEPLOYMENTS, deployment(name, 10), "shop")
    return name


@pytest.mark.parametrize("right", GENERATOR, ids=str)
def test_a_right_that_the_generator_lacks_is_named(
    pair: Pair, objects: list[KubeObject], tmp_path: Path, right: Right
) -> None:
    """In its log, as soon as it is needed."""
    guard_ = guard_process(tmp_path, pair.roles["generator"], "-roles=generator")
    with rights(pair, objects, right), guard_ as guard:
        name = lives(pair)
        if str(right) == "update podprotectors":
            becomes("7 to be kept", lambda: least(pair, name) == 7)
            pair.kube.patch(DEPLOYMENTS, name, {"spec": {"replicas": 20}}, "shop")
        elif str(right) == "delete podprotectors":
            becomes("7 to be kept", lambda: least(pair, name) == 7)
            pair.kube.delete(DEPLOYMENTS, name, "shop")
        becomes(f"it to name {right}", lambda: complaints(guard, right) != [])
    for kind, made in ((DEPLOYMENTS, name), (PROTECTORS, f"deployment-{name}")):
        unfinished(pair, kind, made)
    pair.kube.delete(LEASES, "guard-generator", "ops")


def unfinished(pair: Pair, kind: Kind, name: str) -> None:
    """Delete it without its finalizer."""
    if pair.kube.get(kind, name, "shop") is not None:
        pair.kube.patch(kind, name, {"metadata": {"finalizers": None}}, "shop")
        pair.kube.delete(kind, name, "shop")


@pytest.mark.parametrize("right", [None, *AGGREGATOR, *AGGREGATOR_OF_CORE], ids=str)
def test_a_right_that_the_aggregator_lacks_is_named(
    pair: Pair, objects: list[KubeObject], tmp_path: Path, right: Right | None
) -> None:
    """And none is missing by the chart's rights."""
    app = Protected(pair.kube, {"default": pair.kube})
    guard_ = guard_process(tmp_path, pair.roles["aggregator"], "-roles=aggregator")
    without = [right]
    if str(right) == "get podprotectors":
        # It reads one that somebody has written meanwhile. Where it may not watch, that is its own first write.
        without += [each for each in AGGREGATOR_OF_CORE if each.verb == "watch"]
    app.create(1)
    with rights(pair, objects, *without), guard_ as guard:
        if len(without) > 1:
            app.wait(0, 0)
        app.pods(default=2)
        app.ready(default=2)
        if right is None or str(right) == "get pods":
            app.wait(2, 2)
            bucket(app)
        if right:
            becomes(f"it to name {right}", lambda: complaints(guard, right) != [])
        else:
            becomes("it to be struck off", lambda: app.cell("default")["admissionHistory"]["buckets"] == [])
            assert complaints(guard) == []
    app.remove()
    pair.kube.delete(LEASES, "guard-aggregator", "ops")


def bucket(app: Protected) -> None:
    """A deletion that was allowed, of a pod that nobody knows."""
    change = {"startTime": "2026-01-01T00:00:00.000000Z", "podUID": "nobody's", "podName": "nobody"}

    def written() -> bool:
        found: Any = app.item()
        found["status"]["cells"][0]["admissionHistory"] = {"buckets": [change]}
        path = f"/apis/podseidon.kubewharf.io/v1alpha1/namespaces/shop/podprotectors/{app.name}/status"
        try:
            app.core._json("PUT", path, "put a bucket", {}, found)
        except ApiError:
            return False  # somebody else was first
        return True

    becomes("a bucket to be written", written)


@pytest.mark.parametrize("right", [None, *PROTECTOR_WEBHOOK, *OWN_CELL], ids=str)
def test_a_right_that_the_webhook_lacks_is_named(
    pair: Pair, objects: list[KubeObject], tmp_path: Path, right: Right | None
) -> None:
    """Nothing is allowed without it: HTTP 500, so that failurePolicy decides. Only PodDisruptionBudgets needn't be
    read, as the API server does that itself. A protector is read before it refuses.
    """
    optional = right is not None and right.resource == "poddisruptionbudgets"
    app = Protected(pair.kube, {"default": pair.kube})
    flags = (*FLAGS, "-protector.cells=default")
    with rights(pair, objects, right), guard_process(tmp_path, pair.account, *flags) as guard:
        app.create(2 if str(right) == "get podprotectors" else 1)
        app.pods(default=1)
        app.ready(default=1)
        counted(app)
        if right is None or optional or right.verb not in ("list", "watch"):
            guard.wait_ready()
            known(guard, pair, app)
            status, allowed = asked_directly(guard, "default", pair.kube.get(PODS, f"{app.name}-0", "shop"))
            assert (status, allowed) == ((500, False) if right and not optional else (200, True))

        def named() -> bool:
            if right is None or optional:
                assert asked(guard, f"{app.name}-0", path="/protector/default") == (0, "")
            return right is not None and complaints(guard, right) != []

        if right:
            becomes(f"it to name {right}", named)
        else:
            assert not named()
            assert complaints(guard) == []
    app.remove()


def counted(app: Protected) -> None:
    """Two available pods, as an aggregator would write it."""
    kinds = ("total", "available", "ready", "scheduled", "running")
    cell = {"cellID": "default", "aggregation": {f"{kind}Replicas": 2 for kind in kinds}}
    path = f"/apis/podseidon.kubewharf.io/v1alpha1/namespaces/shop/podprotectors/{app.name}/status"
    found = app.item()
    app.core._json("PUT", path, "count", {}, {**found, "status": {"cells": [cell]}})


def known(guard: GuardProcess, pair: Pair, app: Protected) -> None:
    """Until it has the protector in its cache, and asks about the pods that this selects."""
    found: Any = pair.kube.get(PODS, f"{app.name}-0", "shop")
    other = {**found, "metadata": {**found["metadata"], "uid": "another one's"}}

    def asks() -> bool:
        asked_directly(guard, "default", other)
        text = guard.get("/metrics")[1]
        return 'status="NotFound"' in text or 'status="Error"' in text

    becomes("it to know the protector", asks)
