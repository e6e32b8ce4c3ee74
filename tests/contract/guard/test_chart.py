"""What the chart gives guard, on a real API server: its rights are enough, and each of them is needed."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.guard_process import GuardProcess, guard_process
from testkit.lab_cluster import until
from tests.contract.checking import checked
from tests.contract.guard.conftest import Pair
from tests.contract.guard.webhooks import VALIDATING, applied, bundles, scaled, stateful_set, wait_refused
from tests.contract.guard.zones import zones
from upgrader.adapters.helm import find_helm
from upgrader.ports import Kind, KubeObject
from upgrader.preflight.webhooks import check_webhooks

CHART = Path(__file__).parents[3] / "charts" / "guard"
PROTECTED = {"grafana.com/no-downscale": "true"}
_RBAC = {
    "Role": Kind("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": Kind("rbac.authorization.k8s.io/v1", "rolebindings"),
    "ClusterRole": Kind("rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False),
    "ClusterRoleBinding": Kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False),
}
FLAGS = ("-server-tls.self-signed-cert.secret-name=guard-certificate",)


@pytest.fixture(scope="module")
def objects() -> list[KubeObject]:
    """What Helm renders for the namespace `ops`."""
    command = [str(find_helm()), "template", "guard", str(CHART), "--namespace=ops", "--values=-"]
    values = json.dumps({"image": {"repository": "x"}, "rollouts": {"enabled": True, "namespaces": ["shop"]}})
    done = subprocess.run(command, input=values, capture_output=True, text=True, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@contextmanager
def rights(pair: Pair, objects: list[KubeObject], without: str = "") -> Iterator[None]:
    """Those of the chart, but for one, such as `get secrets`, until the end of the block."""
    given = [copy.deepcopy(dict(each)) for each in objects if each["kind"] in _RBAC]
    for each in given:
        for rule in each.get("rules") or ():
            rule["verbs"] = [v for v in rule["verbs"] if not any(f"{v} {r}" == without for r in rule["resources"])]
        if "rules" in each:
            each["rules"] = [rule for rule in each["rules"] if rule["verbs"]]
    try:
        for each in given:
            pair.kube.create(_RBAC[each["kind"]], each, each["metadata"].get("namespace", ""))
        yield
    finally:
        for each in reversed(given):
            pair.kube.delete(_RBAC[each["kind"]], each["metadata"]["name"], each["metadata"].get("namespace", ""))
        pair.kube.delete(Kind("v1", "secrets"), "guard-certificate", "ops")
        pair.kube.delete(Kind("coordination.k8s.io/v1", "leases"), "guard-rollout", "ops")


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
    """With the chart's own rights: a labelled object doesn't shrink, by itself or by `/scale`. With no guard at all,
    what grows does, and what isn't labelled shrinks by itself; a labelled one stays.
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
            guard.kill()
            for subresource in ("", "scale"):
                assert "failed calling webhook" in scaled(pair.kube, kept, 1, subresource=subresource)
                assert scaled(pair.kube, kept, 4, subresource=subresource) == ""
            assert scaled(pair.kube, free, 1) == ""
            assert not list(check_webhooks(checked(pair.kube, controllers=[])))


@pytest.mark.parametrize("right", ["get secrets", "create secrets", "list validatingwebhookconfigurations"])
def test_a_right_that_is_missing_is_named(pair: Pair, objects: list[KubeObject], tmp_path: Path, right: str) -> None:
    """Without what it needs to begin it isn't ready, and its log says which right."""
    verb, resource = right.split()
    with rights(pair, objects, without=right), guard_process(tmp_path, pair.account, *FLAGS) as guard:

        def said() -> bool:
            return any(f'cannot {verb} resource \\"{resource}\\"' in json.dumps(line) for line in guard.lines())

        until(f"it to name {right}", said, timeout_seconds=120, interval_seconds=0.1)
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
        assert not [line for line in guard.lines() if "cannot" in str(line.get("reason"))]


@pytest.mark.parametrize(
    "right",
    [
        "create leases",
        "get leases",
        "update leases",
        "list leases",
        "watch leases",
        "list pods",
        "watch pods",
        "delete pods",
        "list statefulsets",
        "watch statefulsets",
        "get statefulsets",
        "update statefulsets/status",
        "create events",
    ],
)
def test_a_right_that_rollouts_lack_is_named(pair: Pair, objects: list[KubeObject], tmp_path: Path, right: str) -> None:
    """Each of them, in the log, as soon as it is needed."""
    without = ("get statefulsets", "update statefulsets/status")
    with (
        rights(pair, objects, without=right),
        zones(pair.kube, count=1) as group,
        guard_process(tmp_path, pair.account, *ROLLOUT) as guard,
    ):
        (name,) = group.names
        if right == "create events":
            annotations = {"annotations": {"rollout-max-unavailable": "abc"}}
            pair.kube.patch(Kind("apps/v1", "statefulsets"), name, {"metadata": annotations}, "shop")
        if right in without:
            group.controller(name, "v2")
            for pod in group.pods(name):
                pair.kube.delete(Kind("v1", "pods"), pod, "shop")
            group.controller(name)
            group.make_ready(name)
        else:
            group.template(name, "v2")
        verb, resource = right.split()

        def said() -> bool:
            return any(f'cannot {verb} resource "{resource}"' in str(line.get("reason")) for line in guard.lines())

        until(f"it to name {right}", said, timeout_seconds=120, interval_seconds=0.1)


def test_without_the_right_to_patch_its_configuration_it_says_so(
    pair: Pair, objects: list[KubeObject], tmp_path: Path
) -> None:
    """It is ready, as others may inject its authority."""
    without = "patch validatingwebhookconfigurations"
    with rights(pair, objects, without=without), guard_process(tmp_path, pair.account, *FLAGS) as guard:
        guard.wait_ready()
        with applied(pair.kube, configuration(objects, guard)):
            until(
                "it to name the right",
                lambda: any("cannot patch" in str(line.get("reason")) for line in guard.lines()),
                timeout_seconds=120,
                interval_seconds=0.1,
            )


def test_without_the_right_to_read_what_is_scaled_it_warns(
    pair: Pair, objects: list[KubeObject], tmp_path: Path
) -> None:
    """The scale is let through, as a label that can't be read must keep nobody stuck."""
    with rights(pair, objects, without="get statefulsets"), guard_process(tmp_path, pair.account, *FLAGS) as guard:
        guard.wait_ready()
        with applied(pair.kube, configuration(objects, guard)) as name, stateful_set(pair.kube, PROTECTED) as kept:
            wait_known(pair, name, "is not allowed")
            assert scaled(pair.kube, kept, 1, subresource="scale") == ""
    assert pair.kube.get(VALIDATING, name) is None
