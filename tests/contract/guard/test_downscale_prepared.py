"""The webhook `/admission/prepare-downscale` on a real API server: pods are told, and of two zones one shrinks."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.guard_process import GuardProcess, guard_process
from testkit.lab_cluster import until
from testkit.pod_service import PodService, pod_service
from tests.contract.checking import merge
from tests.contract.guard.chart_rights import ZONE_TRACKER, Right, complaints
from tests.contract.guard.conftest import Pair
from tests.contract.guard.test_chart import CHART, FLAGS, rights
from tests.contract.guard.webhooks import scaled, wait_refused
from tests.contract.guard.zones import Zones, zones
from upgrader.adapters.helm import find_helm
from upgrader.ports import Kind, KubeObject

PATH = "/admission/prepare-downscale"
CONFIG_MAPS = Kind("v1", "configmaps")
SETS, PODS = Kind("apps/v1", "statefulsets"), Kind("v1", "pods")
BOTH = (*FLAGS, "-roles=rollout,webhook", "-kubernetes.namespace=shop", "-reconcile.interval=1s")
MARK = "grafana.com/prepare-downscale"


@pytest.fixture
def service() -> Iterator[PodService]:
    """What pods are told."""
    with pod_service() as found:
        yield found


def rendered(**downscale: str) -> list[KubeObject]:
    """What Helm renders for the namespace `ops`, with these values of `downscale`."""
    values = {
        "image": {"repository": "x"},
        "noDownscale": {"enabled": False},
        "rollouts": {"enabled": True, "namespaces": ["shop"]},
        "hold": "none",
        "downscale": {"enabled": True, **downscale},
    }
    command = [str(find_helm()), "template", "guard", str(CHART), "--namespace=ops", "--values=-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def webhooks_of(objects: Sequence[KubeObject]) -> list[Any]:
    """The chart's."""
    (found,) = (each for each in objects if each["kind"] == "ValidatingWebhookConfiguration")
    return list(found["webhooks"])


@contextmanager
def called(pair: Pair, guard: GuardProcess, webhooks: Sequence[Any], kind: str = "Validating") -> Iterator[str]:
    """A configuration with guard's URL, until the end of the block, once it has guard's authority."""
    found = Kind("admissionregistration.k8s.io/v1", f"{kind.lower()}webhookconfigurations", namespaced=False)
    name = "guard-downscale-ops"  # which the chart's rights name
    labels = {"grafana.com/inject-rollout-operator-ca": "true", "grafana.com/namespace": "ops"}
    manifest = {
        "apiVersion": found.api_version,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name, "labels": labels},
        # The chart's three seconds are for clusters; where they are over on a busy machine, nothing was asked.
        "webhooks": [{**each, "timeoutSeconds": 30, "clientConfig": {"url": guard.url(PATH)}} for each in webhooks],
    }
    pair.kube.create(found, manifest)
    try:

        def injected() -> bool:
            there: Any = pair.kube.get(found, name)
            return all(each["clientConfig"].get("caBundle") for each in there["webhooks"])

        until("it to be injected", injected, timeout_seconds=120)
        yield name
    finally:
        pair.kube.delete(found, name)


def prepared(pair: Pair, group: Zones, service: PodService, *, as_label: bool = True, **more: str) -> None:
    """The sets' pods are prepared, and are all on loopback."""
    marks = {
        "grafana.com/prepare-downscale-http-path": "ring/prepare?x=1",
        "grafana.com/prepare-downscale-http-port": str(service.port),
        **more,
    }
    for name in group.names:
        metadata = (
            {"labels": {MARK: "true"}, "annotations": marks} if as_label else {"annotations": {MARK: "true", **marks}}
        )
        merge(pair.kube, f"/apis/apps/v1/namespaces/shop/statefulsets/{name}", {"metadata": metadata})
        for pod in group.pods(name):
            status = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
            merge(pair.kube, f"/api/v1/namespaces/shop/pods/{pod}/status", {"status": status})


def replicas(pair: Pair, name: str) -> int:
    """What its spec wants."""
    found: Any = pair.kube.get(SETS, name, "shop")
    return int(found["spec"]["replicas"])


def shown(pair: Pair, name: str) -> str:
    """The annotation `last-downscale`."""
    found: Any = pair.kube.get(SETS, name, "shop")
    return str((found["metadata"].get("annotations") or {}).get("grafana.com/last-downscale", ""))


def controller(pair: Pair, group: Zones, name: str) -> None:
    """Does what the spec wants, as the controller and the kubelet do."""
    wanted = replicas(pair, name)
    for pod in group.pods(name):
        if int(pod.rpartition("-")[2]) >= wanted:
            pair.kube.delete(PODS, pod, "shop")
    found: Any = pair.kube.get(SETS, name, "shop")
    seen = {"observedGeneration": found["metadata"]["generation"], "replicas": wanted, "readyReplicas": wanted}
    merge(pair.kube, f"/apis/apps/v1/namespaces/shop/statefulsets/{name}/status", {"status": seen})


def wait_called(pair: Pair, name: str) -> None:
    """Until the API server calls the webhook about this set, which has no port that pods could be told at then."""
    missing = {"metadata": {"annotations": {"grafana.com/prepare-downscale-http-port": "0"}}}
    pair.kube.patch(SETS, name, missing, "shop")
    wait_refused(pair.kube, name, 1, "not a port")


def asked(guard: GuardProcess, name: str, before: int, after: int) -> str:
    """What a replica answers, asked as the API server asks it: "" when it allows it."""
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": "apps", "version": "v1", "resource": "statefulsets"},
        "subResource": "scale",
        "name": name,
        "namespace": "shop",
        "operation": "UPDATE",
        "object": {"spec": {"replicas": after}},
        "oldObject": {"spec": {"replicas": before}},
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    status, text = guard.post(PATH, body)
    if status != 200:
        return f"HTTP {status}: {text}" if status else f"nobody answers: {text}"
    said = json.loads(text)["response"]
    return "" if said["allowed"] else str(said["status"]["message"])


@pytest.mark.parametrize("subresource", ["", "scale"])
def test_pods_are_told_by_their_ip_with_their_name_as_host(
    pair: Pair, service: PodService, tmp_path: Path, subresource: str
) -> None:
    """With the chart's webhooks and rights, and the mark as an annotation: a dry run tells nobody; then the pods that
    go are told, and no other; the annotation shows when, once it is done; the next zone waits until then.
    """
    objects = rendered()
    with (
        rights(pair, objects),
        guard_process(tmp_path, pair.account, *BOTH) as guard,
        zones(pair.kube, replicas=3, count=2) as group,
    ):
        guard.wait_ready()
        a, b = group.names
        prepared(pair, group, service, as_label=False)
        with called(pair, guard, webhooks_of(objects)):
            wait_called(pair, a)
            prepared(pair, group, service, as_label=False)
            assert scaled(pair.kube, a, 1, subresource=subresource, dry_run=True) == ""
            assert service.told == []
            assert scaled(pair.kube, a, 1, subresource=subresource) == ""
            domain = f"{a}.shop.svc.cluster.local.:{service.port}"
            assert sorted(service.told) == [("POST", f"{a}-{n}.{domain}", "/ring/prepare?x=1") for n in (1, 2)]
            assert f"{a} has" in scaled(pair.kube, b, 1, subresource=subresource)
            controller(pair, group, a)
            until("it to be shown", lambda: shown(pair, a) != "", timeout_seconds=120)
            assert shown(pair, b) == ""
            # Meanwhile, guard may have locked the group for a moment, to tell the pods that stay.
            until("b to be allowed", lambda: scaled(pair.kube, b, 2, subresource=subresource) == "", timeout_seconds=60)
        assert not [line for line in guard.lines() if "cannot" in str(line.get("reason"))]


def test_one_pod_that_refuses_keeps_all(pair: Pair, service: PodService, tmp_path: Path) -> None:
    """By rollout-operator's manifest, a MutatingWebhookConfiguration: refused with the pod's name, and all are told
    that they stay.
    """
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "scope": "Namespaced"}
    theirs = {
        "name": "prepare-downscale-default.grafana.com",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "rules": [{**rule, "resources": ["statefulsets", "statefulsets/scale"]}],
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 10,
    }
    with guard_process(tmp_path, pair.kubeconfig, *BOTH) as guard, zones(pair.kube, replicas=3, count=2) as group:
        guard.wait_ready()
        a, _ = group.names
        prepared(pair, group, service)
        service.answers[f"{a}-2"] = 500
        with called(pair, guard, [theirs], "Mutating"):
            wait_called(pair, a)
            prepared(pair, group, service)
            assert "could not be prepared" in scaled(pair.kube, a, 1)
            assert f"{a}-2 could not be prepared for shutdown: HTTP 500" in scaled(pair.kube, a, 1, subresource="scale")
            assert service.pods("DELETE") == {f"{a}-1", f"{a}-2"} and replicas(pair, a) == 3
            service.answers.clear()
            assert scaled(pair.kube, a, 1, subresource="scale") == "" and replicas(pair, a) == 1


@pytest.mark.parametrize("number", [1, *(pytest.param(each, marks=pytest.mark.soak) for each in (0, 2, 3))])
def test_of_two_zones_at_once_one_is_allowed_whoever_is_killed(
    pair: Pair, service: PodService, tmp_path: Path, number: int
) -> None:
    """Each zone's downscale is asked for at both replicas at once, again and again; one of them is killed meanwhile.
    Only ever one zone's is allowed.
    """
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(guard_process(tmp_path / name, pair.kubeconfig, *BOTH)) for name in ("one", "two")
        )
        one.wait_ready(), other.wait_ready()
        group = stack.enter_context(zones(pair.kube, replicas=3, count=2))
        prepared(pair, group, service)

        def again(guard: GuardProcess, name: str) -> bool:
            return any(asked(guard, name, 3, 1) == "" for _ in range(5))

        with ThreadPoolExecutor(4) as pool:
            asking = [(name, pool.submit(again, guard, name)) for name in group.names for guard in (one, other)]
            time.sleep(0.1 * number)
            one.kill()
            allowed = {name for name, said in asking if said.result()}
        assert len(allowed) <= 1
        if allowed:
            (first,) = allowed
            second = next(name for name in group.names if name != first)
            # Not seen yet; or the killed one held the lock, as it was asked once more, for whichever of them.
            said = asked(other, second, 3, 1)
            assert any(f" downscale of {name} from 3 to 1 replicas" in said for name in group.names), said


@pytest.mark.soak
def test_pods_that_a_killed_replica_has_told_stay(pair: Pair, service: PodService, tmp_path: Path) -> None:
    """It is killed while pods hesitate: until its lock is given up the other zone doesn't shrink, then the replica that
    leads tells the pods that they stay, and the other zone may.
    """
    with ExitStack() as stack:
        leader, one = (
            stack.enter_context(guard_process(tmp_path / name, pair.kubeconfig, *flags))
            for name, flags in (("leads", BOTH), ("answers", (*FLAGS, "-kubernetes.namespace=shop")))
        )
        leader.wait_ready(), one.wait_ready()
        group = stack.enter_context(zones(pair.kube, replicas=3, count=2))
        a, b = group.names
        prepared(pair, group, service)
        service.free.clear()
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(asked, one, a, 3, 1)
            until("the pods to be told", lambda: service.pods("POST") == {f"{a}-1", f"{a}-2"}, timeout_seconds=120)
            one.kill()
            assert "nobody answers" in asking.result()
        service.free.set()
        assert f"a downscale of {a} from 3 to 1 replicas" in asked(leader, b, 3, 1)
        until("them to stay", lambda: service.pods("DELETE") == {f"{a}-1", f"{a}-2"}, timeout_seconds=90)
        until("the other zone to be allowed", lambda: asked(leader, b, 3, 1) == "", timeout_seconds=120)


@pytest.mark.soak
def test_a_pod_over_which_replicas_grow_back_is_told_that_it_stays(
    pair: Pair, service: PodService, tmp_path: Path
) -> None:
    """3 → 2 is allowed, stored and seen; before the controller has removed the pod, somebody wants 3 again. It gets a
    DELETE, and until it has answered no other zone shrinks.
    """
    with guard_process(tmp_path, pair.kubeconfig, *BOTH) as guard, zones(pair.kube, replicas=3, count=2) as group:
        guard.wait_ready()
        a, b = group.names
        prepared(pair, group, service)
        assert asked(guard, a, 3, 2) == "" and service.pods("POST") == {f"{a}-2"}
        pair.kube.patch(SETS, a, {"spec": {"replicas": 2}}, "shop")
        until("it to be seen", lambda: shown(pair, a) != "", timeout_seconds=120)
        service.answers_to_delete[f"{a}-2"] = 500
        pair.kube.patch(SETS, a, {"spec": {"replicas": 3}}, "shop")
        controller(pair, group, a)
        until("it to be told", lambda: service.pods("DELETE") == {f"{a}-2"}, timeout_seconds=120)
        assert f"{a}-2 was prepared for shutdown, and is not removed after all" in asked(guard, b, 3, 2)
        service.answers_to_delete.clear()
        until("the other zone to be allowed", lambda: asked(guard, b, 3, 2) == "", timeout_seconds=120)


@pytest.mark.parametrize("right", [None, *ZONE_TRACKER], ids=str)
def test_what_the_zone_tracker_has_noted_refuses(
    pair: Pair, service: PodService, tmp_path: Path, right: Right | None
) -> None:
    """With the chart's rights, and the ConfigMap that rollout-operator has left; without the right nobody knows."""
    objects, name = rendered(zoneTracker="tracker"), "tracker"
    flags = (*BOTH, "-use-zone-tracker", f"-zone-tracker.config-map-name={name}")
    minimum = {"grafana.com/min-time-between-zones-downscale": "12h"}
    with ExitStack() as stack:
        stack.enter_context(rights(pair, objects, right))
        guard = stack.enter_context(guard_process(tmp_path, pair.account, *flags))
        guard.wait_ready()
        group = stack.enter_context(zones(pair.kube, replicas=3, count=2))
        a, b = group.names
        prepared(pair, group, service, as_label=True, **minimum)
        noted = {a: json.dumps({"lastDownscaled": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"})}
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": noted}
        pair.kube.create(CONFIG_MAPS, manifest, "shop")
        try:
            said = asked(guard, b, 3, 2)
            if right:
                assert right.named in said or complaints(guard, right) != []
            else:
                assert f"{a} was downscaled at" in said and complaints(guard) == []
            assert said and service.pods("POST") == set()
        finally:
            pair.kube.delete(CONFIG_MAPS, name, "shop")
