"""What the chart gives guard, on a real API server: its rights are enough, and each of them is needed."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.guard_process import GuardProcess, guard_process
from testkit.lab_cluster import until
from tests.contract.checking import checked
from tests.contract.guard.chart_rights import (
    CERTIFICATES,
    CONFIGURATIONS,
    NO_DOWNSCALE,
    ROLLOUTS,
    Right,
    complaints,
)
from tests.contract.guard.conftest import Pair
from tests.contract.guard.webhooks import (
    MUTATING,
    PROTECTED,
    VALIDATING,
    applied,
    bundles,
    no_downscale,
    scaled,
    stateful_set,
    wait_refused,
)
from tests.contract.guard.zones import zones
from tests.contract.rbac import RBAC, allowed, rights_but
from upgrader.adapters.helm import find_helm
from upgrader.ports import Kind, KubeObject
from upgrader.preflight.webhooks import check_webhooks

CHART = Path(__file__).parents[3] / "charts" / "guard"
FLAGS = ("-server-tls.self-signed-cert.secret-name=guard-certificate",)


@pytest.fixture(scope="module")
def objects() -> list[KubeObject]:
    """With groups that are rolled in `shop`."""
    return _rendered(rollouts={"enabled": True, "namespaces": ["shop"]})


def _rendered(**values: Any) -> list[KubeObject]:
    """What Helm renders for the namespace `ops`."""
    command = [str(find_helm()), "template", "guard", str(CHART), "--namespace=ops", "--values=-"]
    given = json.dumps({"image": {"repository": "x"}, **values})
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@contextmanager
def rights(pair: Pair, objects: list[KubeObject], *without: Right | None) -> Iterator[None]:
    """Those of the chart, but for some, until the end of the block."""

    def lost(place: str, verb: str, resource: str) -> bool:
        return any(r and r.namespace in ("", place) and (r.verb, r.resource) == (verb, resource) for r in without)

    given = rights_but(objects, lost)
    try:
        for each in given:
            pair.kube.create(RBAC[each["kind"]], each, each["metadata"].get("namespace", ""))
        wait_in_force(pair, given)
        yield
    finally:
        for each in reversed(given):
            pair.kube.delete(RBAC[each["kind"]], each["metadata"]["name"], each["metadata"].get("namespace", ""))
        pair.kube.delete(Kind("v1", "secrets"), "guard-certificate", "ops")
        pair.kube.delete(Kind("coordination.k8s.io/v1", "leases"), "guard-rollout", "ops")


def wait_in_force(pair: Pair, given: Sequence[KubeObject]) -> None:
    """Until the API server's authorizer, which watches them, goes by each binding: guard would log what it lacks."""
    roles = {(each["kind"], each["metadata"]["name"]): each["rules"] for each in given if each.get("rules")}
    for binding in given:
        rules = roles.get((binding["roleRef"]["kind"], binding["roleRef"]["name"]), []) if "roleRef" in binding else []
        for rule in [each for each in rules if each.get("resources")][-1:]:
            (subject,) = binding["subjects"]
            resource, _, subresource = rule["resources"][0].partition("/")
            attributes = {
                "verb": rule["verbs"][0],
                "group": rule["apiGroups"][0],
                "resource": resource,
                "subresource": subresource,
                "namespace": binding["metadata"].get("namespace", ""),
                "name": (rule.get("resourceNames") or [""])[0],
            }
            user = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
            in_force = partial(allowed, pair.kube, user, attributes)
            until(f"{binding['metadata']['name']} to be in force", in_force, timeout_seconds=60, interval_seconds=0.1)


def configuration(objects: list[KubeObject], guard: GuardProcess) -> dict[str, Any]:
    """The chart's, with guard's URL instead of its Service."""
    (found,) = (copy.deepcopy(dict(each)) for each in objects if each["kind"] == "ValidatingWebhookConfiguration")
    for webhook in found["webhooks"]:
        webhook["clientConfig"] = {"url": guard.url(webhook["clientConfig"]["service"]["path"])}
    return found


def wait_known(pair: Pair, name: str, says: str) -> None:
    """Until the API server says so to a downscale."""
    until(f"{name} to be injected", lambda: all(bundles(pair.kube, name)), timeout_seconds=120, interval_seconds=0.1)
    with stateful_set(pair.kube, PROTECTED) as probe:
        wait_refused(pair.kube, probe, 2, says)


def test_the_charts_webhooks_ask_about_downscales_alone(pair: Pair, objects: list[KubeObject], tmp_path: Path) -> None:
    """With the chart's own rights: a labelled object doesn't shrink, by itself or by `/scale`, nor loses its first pod.
    With no guard at all, what grows does, and what isn't labelled shrinks by itself; a labelled one stays.
    """
    with rights(pair, objects), guard_process(tmp_path, pair.account, *FLAGS) as guard:
        guard.wait_ready()
        with (
            applied(pair.kube, configuration(objects, guard)) as name,
            stateful_set(pair.kube, PROTECTED) as kept,
            stateful_set(pair.kube, {}) as free,
        ):
            wait_known(pair, name, "is not allowed")
            for subresource in ("", "scale"):
                assert scaled(pair.kube, kept, 0, subresource=subresource).startswith("403: ")
                assert scaled(pair.kube, free, 2, subresource=subresource) == ""
                assert scaled(pair.kube, free, 3, subresource=subresource) == ""
            assert "spec.ordinals.start" in scaled(pair.kube, kept, 9, start=1)
            assert scaled(pair.kube, free, 3, start=1) == "" == scaled(pair.kube, free, 3, start=0)
            guard.kill()
            for subresource in ("", "scale"):
                assert "failed calling webhook" in scaled(pair.kube, kept, 1, subresource=subresource)
                assert scaled(pair.kube, kept, 4, subresource=subresource) == ""
            assert scaled(pair.kube, free, 1) == ""
            assert not list(check_webhooks(checked(pair.kube, controllers=[])))


def wait_named(guard: GuardProcess, right: Right) -> None:
    """Until its log says that it lacks this right."""
    until(f"it to name {right}", lambda: complaints(guard, right) != [], timeout_seconds=120, interval_seconds=0.1)


@pytest.mark.parametrize("right", CERTIFICATES, ids=str)
def test_a_right_that_is_missing_is_named(pair: Pair, objects: list[KubeObject], tmp_path: Path, right: Right) -> None:
    """Without what it needs to begin it isn't ready, and its log says which right; so it does without a watch."""
    if right.verb == "update":  # which a Secret needs that can't be used
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "guard-certificate"}}
        pair.kube.create(Kind("v1", "secrets"), secret, "ops")
    with rights(pair, objects, right), guard_process(tmp_path, pair.account, *FLAGS) as guard:
        wait_named(guard, right)
        if right.verb == "watch":
            guard.wait_ready()
        else:
            assert guard.get("/ready")[0] == 503


ROLLOUT = (*FLAGS, "-roles=rollout", "-kubernetes.namespace=shop")


def test_the_charts_rights_are_enough_to_roll(pair: Pair, objects: list[KubeObject], tmp_path: Path) -> None:
    """A pod is deleted, and the status written at the end; no right is missing."""
    with (
        rights(pair, objects),
        zones(pair.kube, count=1) as group,
        guard_process(tmp_path, pair.account, *ROLLOUT) as guard,
    ):
        guard.wait_ready()
        (name,) = group.names
        group.template(name, "v2")
        until("the pod to be deleted", lambda: not group.pods(name), timeout_seconds=120, interval_seconds=0.1)
        group.controller(name)
        group.make_ready(name)
        until("v2 to be current", lambda: group.current(name) == "v2", timeout_seconds=120, interval_seconds=0.1)
        assert complaints(guard) == []


@pytest.mark.parametrize("right", ROLLOUTS, ids=str)
def test_a_right_that_rollouts_lack_is_named(
    pair: Pair, objects: list[KubeObject], tmp_path: Path, right: Right
) -> None:
    """Each of them, in the log, as soon as it is needed."""
    with (
        rights(pair, objects, right),
        zones(pair.kube, count=1) as group,
        guard_process(tmp_path, pair.account, *ROLLOUT) as guard,
    ):
        (name,) = group.names
        if right.resource == "events":
            annotations = {"annotations": {"rollout-max-unavailable": "abc"}}
            pair.kube.patch(Kind("apps/v1", "statefulsets"), name, {"metadata": annotations}, "shop")
        if str(right) in ("get statefulsets", "update statefulsets/status"):  # at the end
            group.controller(name, "v2")
            for pod in group.pods(name):
                pair.kube.delete(Kind("v1", "pods"), pod, "shop")
            group.controller(name)
            group.make_ready(name)
        else:
            group.template(name, "v2")
        wait_named(guard, right)


@pytest.mark.parametrize("right", [None, *CONFIGURATIONS], ids=str)
def test_a_configuration_that_it_may_not_patch_is_named(pair: Pair, tmp_path: Path, right: Right | None) -> None:
    """Each of the chart's own, and others' of both kinds, get its authority. Where one right is missing, those of the
    other kind do, and the rest are named; it is ready all the same, as somebody else may inject it.
    """
    on, shop = {"enabled": True}, {"enabled": True, "namespaces": ["shop"]}
    others = {"configurations": ["theirs"]}
    objects = _rendered(rollouts=shop, downscale=on, zoneBudget=shop, protector=on, certificate=others)
    found = [(VALIDATING, each) for each in objects if each["kind"] == "ValidatingWebhookConfiguration"]
    assert len(found) == 4
    for kind in (VALIDATING, MUTATING):
        its = no_downscale("https://127.0.0.1")
        found.append((kind, {**its, "kind": _CONFIGURATIONS[kind], "metadata": {**its["metadata"], "name": "theirs"}}))
    with rights(pair, objects, right), guard_process(tmp_path, pair.account, *FLAGS) as guard, ExitStack() as stack:
        guard.wait_ready()
        for kind, manifest in found:
            # They are asked about nothing: what they are asked about is for other tests.
            hooks = [{**each, "clientConfig": {"url": guard.url("/")}, "rules": []} for each in manifest["webhooks"]]
            name = stack.enter_context(applied(pair.kube, {**manifest, "webhooks": hooks}, kind))
            if right and right.resource == kind.plural:
                what, told = f"it to name {name}", partial(_refused, guard, right, name)
            else:
                what, told = f"{name} to have its authority", partial(_injected, pair, name, kind)
            until(what, told, timeout_seconds=120, interval_seconds=0.1)
        assert guard.get("/ready")[0] == 200
        assert right or not complaints(guard)


_CONFIGURATIONS = {VALIDATING: "ValidatingWebhookConfiguration", MUTATING: "MutatingWebhookConfiguration"}


def _refused(guard: GuardProcess, right: Right, name: str) -> bool:
    """Whether its log says that it lacks this right to a configuration."""
    return any(f'"{name}" is forbidden' in each for each in complaints(guard, right))


def _injected(pair: Pair, name: str, kind: Kind) -> bool:
    return all(bundles(pair.kube, name, kind))


SCALED = ("deployments", "replicasets", "statefulsets")


def scale_review(resource: str) -> dict[str, Any]:
    """What the API server asks about a scale from 3 to 1."""
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "db", "namespace": "shop"}}
    request = {
        "uid": "1",
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": "apps", "version": "v1", "resource": resource},
        "subResource": "scale",
        "name": "db",
        "namespace": "shop",
        "operation": "UPDATE",
        "object": {**scale, "spec": {"replicas": 1}},
        "oldObject": {**scale, "spec": {"replicas": 3}},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


@pytest.mark.parametrize("right", NO_DOWNSCALE, ids=str)
def test_a_right_to_read_what_is_scaled_is_named(
    pair: Pair, objects: list[KubeObject], tmp_path: Path, right: Right
) -> None:
    """It is let through with a warning; what that may have no room for is in the log. Other kinds are read."""
    with rights(pair, objects, right), guard_process(tmp_path, pair.account, *FLAGS) as guard:
        guard.wait_ready()
        for resource in SCALED:
            status, text = guard.post("/admission/no-downscale", scale_review(resource))
            response = json.loads(text)["response"]
            assert (status, response["allowed"]) == (200, True)
            (warning,) = response["warnings"]
            assert (": 403: " in warning) is (resource == right.resource)
        assert len(complaints(guard, right)) == len(complaints(guard)) == 1


def test_without_the_right_to_read_what_is_scaled_it_warns(
    pair: Pair, objects: list[KubeObject], tmp_path: Path
) -> None:
    """The scale is let through, as a label that can't be read must keep nobody stuck."""
    without = [right for right in NO_DOWNSCALE if right.resource == "statefulsets"]
    with rights(pair, objects, *without), guard_process(tmp_path, pair.account, *FLAGS) as guard:
        guard.wait_ready()
        with applied(pair.kube, configuration(objects, guard)) as name, stateful_set(pair.kube, PROTECTED) as kept:
            wait_known(pair, name, "is not allowed")
            assert scaled(pair.kube, kept, 1, subresource="scale") == ""
    assert pair.kube.get(VALIDATING, name) is None
