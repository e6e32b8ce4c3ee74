"""What callers of the Kubernetes API rely on, from the fake and from a real API server alike."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.kube import FakeKube
from testkit.lab_cluster import until
from upgrader.adapters.clock import SystemClock
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError, ApiUnavailable, ConfigError
from upgrader.lab.image_catalog import IMAGE_VERSIONS
from upgrader.ports import Kind, Kube, KubeObject
from upgrader.wait_and_retry import wait_until

BUDGETS = Kind("policy/v1", "poddisruptionbudgets")
CONFIG_MAPS = Kind("v1", "configmaps")
DEPLOYMENTS = Kind("apps/v1", "deployments")
PODS = Kind("v1", "pods")
SECRETS = Kind("v1", "secrets")
SERVICE_ACCOUNTS = Kind("v1", "serviceaccounts")
NAMESPACE = "default"
CLOSED = "https://127.0.0.1:1"


@pytest.fixture(params=["fake", "real"])
def kube(request: pytest.FixtureRequest) -> Iterator[Kube]:
    """The port: the fake or the adapter."""
    if request.param == "fake":
        fake = FakeKube()
        fake.raw_answers = {"/readyz": "ok", f"{CLOSED}/readyz": ApiUnavailable("refused")}
        yield fake
    else:
        kubeconfig: Path = request.getfixturevalue("bare_kubeconfig")
        adapter = KubeAdapter(kubeconfig)
        yield adapter
        adapter.close()


@pytest.fixture
def name(kube: Kube) -> Iterator[str]:
    """A name that no other test uses; its object is removed afterwards."""
    name = f"contract-{uuid.uuid4().hex[:8]}"
    yield name
    for kind in (CONFIG_MAPS, DEPLOYMENTS, PODS, SECRETS, SERVICE_ACCOUNTS):
        kube.delete(kind, name, NAMESPACE)


def config_map(name: str, value: str = "1", **metadata: Any) -> dict[str, Any]:
    """A ConfigMap with one key."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"key": value}}


def deployment(name: str, **labels: str) -> dict[str, Any]:
    """A Deployment that wants no pods."""
    pod = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": pod},
    }


def test_rights_of_another_user(kube: Kube) -> None:
    """A review says what somebody else may do, and stores nothing; whoever is of system:masters may do all."""
    reviews = Kind("authorization.k8s.io/v1", "subjectaccessreviews", namespaced=False)
    if isinstance(kube, FakeKube):
        kube.users["nobody"] = set()

    def may(user: str, *groups: str) -> bool:
        asked = {"verb": "get", "resource": "nodes", "subresource": "proxy"}
        spec = {"user": user, "groups": groups, "resourceAttributes": asked}
        review = {"apiVersion": reviews.api_version, "kind": "SubjectAccessReview", "metadata": {}, "spec": spec}
        return bool(kube.create(reviews, review)["status"]["allowed"])

    assert may("somebody", "system:masters")
    assert not may("nobody")


def test_missing_object_is_none(kube: Kube, name: str) -> None:
    """A missing object is a result, not an error."""
    assert kube.get(CONFIG_MAPS, name, NAMESPACE) is None


def test_created_object_can_be_read(kube: Kube, name: str) -> None:
    """A created object is read back with the uid and namespace that the API set."""
    created = kube.create(CONFIG_MAPS, config_map(name), NAMESPACE)
    found = kube.get(CONFIG_MAPS, name, NAMESPACE)
    assert found is not None
    assert found["data"] == {"key": "1"}
    assert found["metadata"]["namespace"] == NAMESPACE
    assert found["metadata"]["uid"] == created["metadata"]["uid"]


def test_creating_twice_is_refused(kube: Kube, name: str) -> None:
    """Create never overwrites: the second one is a conflict, with its HTTP status."""
    kube.create(CONFIG_MAPS, config_map(name), NAMESPACE)
    with pytest.raises(ApiError) as caught:
        kube.create(CONFIG_MAPS, config_map(name, "2"), NAMESPACE)
    assert caught.value.status == 409
    assert not isinstance(caught.value, ApiUnavailable)


def test_apply_creates_and_changes(kube: Kube, name: str) -> None:
    """Apply creates a missing object and changes an existing one."""
    kube.apply(CONFIG_MAPS, config_map(name), NAMESPACE)
    assert kube.apply(CONFIG_MAPS, config_map(name, "2"), NAMESPACE)["data"] == {"key": "2"}


def test_replace_leaves_nothing_of_before(kube: Kube, name: str) -> None:
    """Replace removes what the new manifest lacks, whoever wrote it, and fails for a missing object."""
    with pytest.raises(ApiError):
        kube.replace(CONFIG_MAPS, config_map(name), NAMESPACE)
    kube.create(CONFIG_MAPS, config_map(name, labels={"old": "label"}), NAMESPACE)
    kube.replace(CONFIG_MAPS, config_map(name, "2"), NAMESPACE)
    found = kube.get(CONFIG_MAPS, name, NAMESPACE)
    assert found is not None
    assert found["data"] == {"key": "2"}
    assert not found["metadata"].get("labels")


def test_replace_of_what_has_changed_is_refused(kube: Kube, name: str) -> None:
    """A replace with a resource version works once; the second one is a conflict, and changes nothing."""
    read = kube.create(CONFIG_MAPS, config_map(name), NAMESPACE)["metadata"]["resourceVersion"]
    first = kube.replace(CONFIG_MAPS, config_map(name, "2", resourceVersion=read), NAMESPACE)
    assert first["metadata"]["resourceVersion"] != read
    with pytest.raises(ApiError) as caught:
        kube.replace(CONFIG_MAPS, config_map(name, "3", resourceVersion=read), NAMESPACE)
    assert caught.value.status == 409
    found = kube.get(CONFIG_MAPS, name, NAMESPACE)
    assert found is not None and found["data"] == {"key": "2"}


def test_patch_merges(kube: Kube, name: str) -> None:
    """A patch changes what it names, removes what it has as None, and leaves all else; a missing object is an error."""
    with pytest.raises(ApiError) as caught:
        kube.patch(CONFIG_MAPS, name, {"data": {"key": "2"}}, NAMESPACE)
    assert caught.value.status == 404
    kube.create(CONFIG_MAPS, config_map(name, annotations={"a": "1", "b": "1"}), NAMESPACE)
    changes = {"metadata": {"annotations": {"a": None, "c": "3"}}, "data": {"more": "2"}}
    found = kube.patch(CONFIG_MAPS, name, changes, NAMESPACE)
    assert found["data"] == {"key": "1", "more": "2"}
    assert found["metadata"]["annotations"] == {"b": "1", "c": "3"}


def test_patch_of_a_subresource_leaves_the_object(kube: Kube, name: str) -> None:
    """Only the status is changed by a patch of it, whatever else the patch has."""
    kube.create(PODS, pod(name), NAMESPACE)
    changes = {"spec": {"activeDeadlineSeconds": 7}, "status": {"message": "patched"}}
    kube.patch(PODS, name, changes, NAMESPACE, subresource="status")
    found = kube.get(PODS, name, NAMESPACE)
    kube.delete(PODS, name, NAMESPACE)
    assert found is not None and found["status"]["message"] == "patched"
    assert "activeDeadlineSeconds" not in found["spec"]


def test_an_empty_patch_changes_nothing(kube: Kube, name: str) -> None:
    """With the UID and the version that it has, an object stays as it is. A later object of its name has another
    version, which is a conflict; another UID alone is invalid."""
    read = kube.create(CONFIG_MAPS, config_map(name), NAMESPACE)
    meta = {"uid": read["metadata"]["uid"], "resourceVersion": read["metadata"]["resourceVersion"]}
    same = kube.patch(CONFIG_MAPS, name, {"metadata": meta}, NAMESPACE)
    assert same["metadata"]["resourceVersion"] == meta["resourceVersion"]
    kube.patch(CONFIG_MAPS, name, {"data": {"key": "2"}}, NAMESPACE)
    for changes, status in (({"uid": "another"}, 422), ({**meta, "uid": "another"}, 409)):
        with pytest.raises(ApiError) as caught:
            kube.patch(CONFIG_MAPS, name, {"metadata": changes}, NAMESPACE)
        assert caught.value.status == status


def test_patch_of_what_has_changed_is_refused(kube: Kube, name: str) -> None:
    """A patch with a resource version is refused where the object has changed since, and changes nothing."""
    read = kube.create(CONFIG_MAPS, config_map(name), NAMESPACE)["metadata"]["resourceVersion"]
    changes = {"metadata": {"resourceVersion": read}, "data": {"key": "2"}}
    assert kube.patch(CONFIG_MAPS, name, changes, NAMESPACE)["data"] == {"key": "2"}
    with pytest.raises(ApiError) as caught:
        kube.patch(CONFIG_MAPS, name, {**changes, "data": {"key": "3"}}, NAMESPACE)
    assert caught.value.status == 409
    found = kube.get(CONFIG_MAPS, name, NAMESPACE)
    assert found is not None and found["data"] == {"key": "2"}


def pod(name: str) -> dict[str, Any]:
    """A pod that no node takes."""
    container = {"name": "main", "image": "registry.k8s.io/pause"}
    spec = {"nodeSelector": {"contract": "nowhere"}, "containers": [container], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


def test_evicted_pod_goes(kube: Kube, name: str) -> None:
    """A pod is evicted once; one that isn't there any more, or another one of its name, is fine, and stays."""
    kube.evict(name, NAMESPACE, uid="none")
    first = kube.create(PODS, pod(name), NAMESPACE)["metadata"]["uid"]
    kube.evict(name, NAMESPACE, uid="another")
    assert kube.get(PODS, name, NAMESPACE) is not None
    kube.evict(name, NAMESPACE, uid=first)
    assert wait_until(SystemClock(), lambda: "there" if kube.get(PODS, name, NAMESPACE) else "", seconds=30.0) == ""


def test_delete_is_idempotent(kube: Kube, name: str) -> None:
    """Deleting a missing object succeeds."""
    kube.create(CONFIG_MAPS, config_map(name), NAMESPACE)
    for _ in range(2):
        kube.delete(CONFIG_MAPS, name, NAMESPACE)
    assert kube.get(CONFIG_MAPS, name, NAMESPACE) is None


def test_pod_that_no_kubelet_confirms_goes_at_once(kube: Kube, name: str) -> None:
    """It is bound to a node that doesn't answer: without `at_once` it would stay listed as terminating."""
    bound = pod(name)
    kube.create(PODS, {**bound, "spec": {**bound["spec"], "nodeSelector": {}, "nodeName": "nowhere"}}, NAMESPACE)
    kube.delete(PODS, name, NAMESPACE, at_once=True)
    assert kube.get(PODS, name, NAMESPACE) is None


@pytest.mark.parametrize("selector", ["label", "field"])
def test_list_selects(kube: Kube, name: str, selector: str) -> None:
    """Selectors narrow a list, within a namespace and over all of them."""
    kube.create(CONFIG_MAPS, config_map(name, labels={"contract": name}), NAMESPACE)
    chosen = {"labels": f"contract={name}"} if selector == "label" else {"fields": f"metadata.name={name}"}
    for namespace in (NAMESPACE, ""):
        assert [item["metadata"]["name"] for item in kube.list(CONFIG_MAPS, namespace, **chosen)] == [name]
    assert kube.list(CONFIG_MAPS, "kube-system", **chosen) == ()


def test_each_hands_out_what_a_list_has(kube: Kube, name: str) -> None:
    """One after the other, by label, within a namespace and over all of them; none where none matches."""
    kube.create(CONFIG_MAPS, config_map(name, labels={"contract": name}), NAMESPACE)
    for namespace in (NAMESPACE, ""):
        found = list(kube.each(CONFIG_MAPS, namespace, labels=f"contract={name}"))
        assert [item["metadata"]["name"] for item in found] == [name]
    seen = [item["metadata"]["uid"] for item in kube.each(CONFIG_MAPS, NAMESPACE, at_once=1)]
    assert len(set(seen)) == len(seen) == kube.count(CONFIG_MAPS, NAMESPACE)
    assert list(kube.each(CONFIG_MAPS, "kube-system", labels=f"contract={name}")) == []
    bare = list(kube.each(CONFIG_MAPS, NAMESPACE, labels=f"contract={name}", metadata_only=True))
    assert [(item["metadata"]["name"], "data" in item) for item in bare] == [(name, False)]


def test_generation_counts_changes_of_the_spec(kube: Kube, name: str) -> None:
    """The spec changes the generation, labels don't: the watcher recognises Helm's changes by it."""
    first = kube.apply(DEPLOYMENTS, deployment(name), NAMESPACE)["metadata"]["generation"]
    labelled = kube.apply(DEPLOYMENTS, deployment(name, a="b"), NAMESPACE)["metadata"]["generation"]
    changed = deployment(name)
    changed["spec"]["minReadySeconds"] = 1
    assert (first, labelled) == (1, 1)
    assert kube.apply(DEPLOYMENTS, changed, NAMESPACE)["metadata"]["generation"] == 2


def test_watch_shows_an_object_and_its_end(kube: Kube, name: str) -> None:
    """A watch reports existing objects, and then a deletion when it happens."""
    kube.create(CONFIG_MAPS, config_map(name), NAMESPACE)
    seen = []
    for event in kube.watch(CONFIG_MAPS, NAMESPACE, name, timeout_seconds=5):
        seen.append(event["type"])
        if event["type"] == "DELETED":
            break
        kube.delete(CONFIG_MAPS, name, NAMESPACE)
    assert seen == ["ADDED", "DELETED"]


def test_watch_ends_by_itself(kube: Kube, name: str) -> None:
    """A watch without events ends at its timeout, without an error."""
    assert list(kube.watch(CONFIG_MAPS, NAMESPACE, name, timeout_seconds=1)) == []


def test_dry_run_stores_nothing(kube: Kube, name: str) -> None:
    """A dry run answers as a creation would, conflict and all, and leaves no object."""
    created = kube.create(CONFIG_MAPS, config_map(name), NAMESPACE, dry_run=True)
    assert created["data"] == {"key": "1"}
    assert kube.get(CONFIG_MAPS, name, NAMESPACE) is None
    kube.create(CONFIG_MAPS, config_map(name), NAMESPACE)
    with pytest.raises(ApiError) as caught:
        kube.create(CONFIG_MAPS, config_map(name), NAMESPACE, dry_run=True)
    assert caught.value.status == 409


def test_dry_patch_stores_nothing(kube: Kube, name: str) -> None:
    """It answers what the object would become; of one that isn't there, 404."""
    with pytest.raises(ApiError) as caught:
        kube.dry_patch(CONFIG_MAPS, name, {"data": {"other": "2"}}, NAMESPACE)
    assert caught.value.status == 404
    kube.create(CONFIG_MAPS, config_map(name), NAMESPACE)
    patched = kube.dry_patch(CONFIG_MAPS, name, {"data": {"key": None, "other": "2"}}, NAMESPACE)
    assert patched["data"] == {"other": "2"}
    stored = kube.get(CONFIG_MAPS, name, NAMESPACE)
    assert stored is not None and stored["data"] == {"key": "1"}


def test_count_counts_all(kube: Kube, name: str) -> None:
    """Every object is counted once, in one namespace and in all."""
    before = kube.count(SECRETS, NAMESPACE)
    everywhere = kube.count(SECRETS)
    kube.create(SECRETS, {"metadata": {"name": name}, "stringData": {"key": "1"}}, NAMESPACE)
    assert kube.count(SECRETS, NAMESPACE) == before + 1
    assert kube.count(SECRETS) == everywhere + 1
    assert kube.count(SECRETS, f"no-such-{name}") == 0


def test_token_is_accepted_while_its_secret_lives(kube: Kube, name: str) -> None:
    """A ServiceAccount's token is accepted in place of the kubeconfig's credentials, until its Secret is deleted."""
    kube.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, NAMESPACE)
    secret = kube.create(SECRETS, {"metadata": {"name": name}}, NAMESPACE)
    token = kube.request_token(name, NAMESPACE, seconds=3600, bound_to=secret)
    assert kube.raw("/readyz", token=token) == "ok"
    kube.delete(SECRETS, name, NAMESPACE)
    # A real API server remembers for ten seconds whom it has accepted.
    wait_until(SystemClock(), lambda: accepted(kube, token), seconds=30.0)
    assert refused_status(kube, token) == 401


def accepted(kube: Kube, token: str) -> str:
    """That the API may accept a token; "" when it refuses it. A busy API that isn't Ready (500) says neither."""
    try:
        kube.raw("/readyz", token=token)
    except ApiError as error:
        return "" if error.status == 401 else error.message
    return "the token is accepted"


def test_unknown_token_is_refused(kube: Kube) -> None:
    """A wrong token is 401: the kubeconfig's credentials don't step in for it."""
    assert refused_status(kube, "nonsense") == 401


def refused_status(kube: Kube, token: str) -> int:
    """The HTTP status by which the API refuses a token."""
    with pytest.raises(ApiError) as caught:
        kube.raw("/readyz", token=token)
    return caught.value.status


def test_token_of_nobody_is_refused(kube: Kube, name: str) -> None:
    """A missing ServiceAccount has no tokens."""
    secret = kube.create(SECRETS, {"metadata": {"name": name}}, NAMESPACE)
    with pytest.raises(ApiError) as caught:
        kube.request_token(name, NAMESPACE, seconds=3600, bound_to=secret)
    assert caught.value.status == 404


def test_raw_answers(kube: Kube) -> None:
    """A path that is no resource returns its text; a missing one raises ApiError."""
    assert kube.raw("/readyz") == "ok"
    with pytest.raises(ApiError) as caught:
        kube.raw("/nonsense")
    assert caught.value.status == 404


def test_raw_reads_an_object(kube: Kube, name: str) -> None:
    """An object's own path returns its JSON, as for a read from one certain server."""
    kube.create(CONFIG_MAPS, config_map(name), NAMESPACE)
    assert json.loads(kube.raw(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}"))["data"] == {"key": "1"}


def test_no_answer_is_unavailable(kube: Kube) -> None:
    """A server that doesn't answer raises ApiUnavailable, which callers treat as unknown."""
    with pytest.raises(ApiUnavailable):
        kube.raw("/readyz", server=CLOSED)


def test_logs_of_nobody_are_empty(kube: Kube, name: str) -> None:
    """The log of a missing pod or previous instance is empty."""
    assert kube.logs(NAMESPACE, name, "main") == ""


class TestRealOnly:
    """What only a real server can show."""

    @pytest.fixture
    def real(self, lab_folder: Path) -> Iterator[KubeAdapter]:
        """The adapter on a lab."""
        adapter = KubeAdapter(lab_folder / "kubeconfig")
        yield adapter
        adapter.close()

    def test_logs_are_read(self, real: KubeAdapter) -> None:
        """A running pod's log is returned, with no more lines than requested."""
        pod = next(iter(real.list(PODS, "kube-system", labels="k8s-app=kube-dns")))["metadata"]["name"]
        lines = real.logs("kube-system", pod, "coredns", lines=1).splitlines()
        assert len(lines) == 1

    def test_no_previous_instance_and_no_such_container(self, real: KubeAdapter) -> None:
        """A missing container or previous instance has an empty log: the API answers 400."""
        pod = next(iter(real.list(PODS, "kube-system", labels="k8s-app=kube-dns")))["metadata"]["name"]
        assert real.logs("kube-system", pod, "nonsense") == ""

    def test_certificate_of_another_name_is_not_trusted(self, real: KubeAdapter) -> None:
        """Direct requests verify TLS too: an address that the certificate lacks is refused."""
        with pytest.raises(ApiUnavailable, match=r"can't be verified|did not answer"):
            real.raw("/readyz", server="https://127.0.0.2:6443")

    def test_budget_refuses_an_eviction(self, real: KubeAdapter) -> None:
        """An eviction that a budget doesn't allow is 429, and the pod stays as it is."""
        name = f"contract-{uuid.uuid4().hex[:8]}"
        labels = {"contract": name}
        container = {
            "name": "web",
            "image": f"upgrader.lab/tools:{IMAGE_VERSIONS['tools']}",
            "command": ["sleep", "600"],
        }
        # Several budgets of one pod are an error of their own: so it is a pod that no other one selects.
        pod = {
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "containers": [container],
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"operator": "Exists"}],
            },
        }
        spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
        created = real.create(PODS, pod, "default")
        try:
            until("the pod to be Ready", lambda: _is_ready(real.get(PODS, name, "default")), timeout_seconds=120)
            real.create(BUDGETS, {"metadata": {"name": name}, "spec": spec}, "default")
            with pytest.raises(ApiError) as caught:
                real.evict(name, "default", uid=created["metadata"]["uid"])
            assert caught.value.status == 429, caught.value.message
            left = real.get(PODS, name, "default")
            assert left is not None and "deletionTimestamp" not in left["metadata"]
        finally:
            real.delete(BUDGETS, name, "default")
            real.delete(PODS, name, "default")

    def test_forbidden_is_an_answer(self, real: KubeAdapter) -> None:
        """A kind that isn't served is an error that names the request's method and path."""
        with pytest.raises(ApiError, match="list nonsenses kube-system"):
            real.list(Kind("v1", "nonsenses"), "kube-system")


def _is_ready(pod: KubeObject | None) -> bool:
    conditions = ((pod or {}).get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def test_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    """A missing kubeconfig is reported at the first request."""
    with pytest.raises(ConfigError, match="no-such-kubeconfig"):
        KubeAdapter(tmp_path / "no-such-kubeconfig").raw("/readyz")


def test_time_of_the_server(kube: Kube) -> None:
    """A lab's nodes have this machine's clock: to the second, it is the same."""
    before = datetime.now(UTC)
    assert before - timedelta(seconds=1) <= kube.server_time() <= datetime.now(UTC)
