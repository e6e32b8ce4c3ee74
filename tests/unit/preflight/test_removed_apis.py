"""APIs that the target doesn't serve, in what the run installs and in what is installed."""

from __future__ import annotations

import base64
import gzip
import json
import zlib

import pytest

from tests.unit.preflight.conftest import World
from upgrader.errors import ApiError, ApiUnavailable
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind
from upgrader.preflight.removed_apis import check_removed_apis, outdated_objects

SECRETS = Kind("v1", "secrets")
V = KubernetesVersion
TARGET = V(1, 37, 1)


def manifest(api_version: str, kind: str, name: str = "backup") -> str:
    """A document as Helm keeps it."""
    return (
        f"---\n# Source: chart/templates/x.yaml\napiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: {name}\n"
    )


CRON_JOB = manifest("batch/v1beta1", "CronJob")
DEPRECATED = manifest("resource.k8s.io/v1beta1", "DeviceClass", "gpu")
CURRENT = manifest("batch/v1", "CronJob") + manifest("v1", "ConfigMap") + manifest("apps/v1", "Deployment")
CUSTOM = manifest("example.com/v1beta1", "CronJob") + manifest("batch/v1beta1", "Widget")


def record(world: World, name: str, text: str, *, status: str = "deployed", namespace: str = "apps") -> None:
    """A release's record, as Helm writes it."""
    packed = gzip.compress(json.dumps({"name": name, "manifest": text, "config": {"password": "s3cret"}}).encode())
    secret(world, name, base64.b64encode(base64.b64encode(packed)).decode(), status=status, namespace=namespace)


def encoded(content: bytes) -> str:
    """As Helm keeps it."""
    return base64.b64encode(base64.b64encode(gzip.compress(content))).decode()


def secret(world: World, name: str, content: str, *, status: str = "deployed", namespace: str = "apps") -> None:
    """A Secret that looks like a record."""
    labels = {"owner": "helm", "status": status, "name": name, "version": "1"}
    meta = {"name": f"sh.helm.release.v1.{name}.v1", "namespace": namespace, "labels": labels}
    world.kube.put(SECRETS, {"metadata": meta, "type": "helm.sh/release.v1", "data": {"release": content}})


def test_what_the_run_would_install_blocks_it(world: World) -> None:
    """The API would refuse the object: release, object, replacement and minor are named."""
    world.manifests["jobs"] = CURRENT + CRON_JOB
    found = world.find(check_removed_apis)["removed-apis.planned"]
    assert found.severity == "error"
    assert found.title == "release jobs would have 1 object (batch/v1beta1 CronJob) that v1.37.1 doesn't serve"
    assert found.diagnosis.startswith("CronJob backup: batch/v1beta1 was removed in v1.25; use batch/v1 CronJob\n")


def test_what_is_served_is_no_finding(world: World) -> None:
    """Neither current kinds, nor kinds of others that have the same name, group or version."""
    world.manifests["jobs"] = CURRENT + CUSTOM
    world.before["jobs"] = CURRENT + CUSTOM
    record(world, "web", CURRENT + CUSTOM)
    assert world.find(check_removed_apis) == {}


def test_the_target_decides(world: World) -> None:
    """The same manifest is fine, deprecated, or gone; what comes later isn't served yet."""
    assert outdated_objects(CRON_JOB, V(1, 20, 9)) == []
    (deprecated,) = outdated_objects(CRON_JOB, V(1, 24, 0))
    assert deprecated.served
    assert str(deprecated).endswith("batch/v1beta1 is deprecated, and is removed in v1.25; use batch/v1 CronJob")
    (gone,) = outdated_objects(CRON_JOB, V(1, 25, 0))
    assert not gone.served
    (early,) = outdated_objects(manifest("batch/v1", "CronJob"), V(1, 20, 0))
    assert not early.served
    assert str(early).endswith("batch/v1 is introduced in v1.21; use batch/v1beta1 CronJob")
    (policy,) = outdated_objects(manifest("policy/v1beta1", "PodSecurityPolicy"), TARGET)
    assert str(policy).endswith("was removed in v1.25; nothing replaces it")


@pytest.mark.parametrize(
    "text",
    [
        '---\n{"apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {"name": "backup"}}\n',
        "kind: CronJob\nmetadata: {name: backup}\napiVersion: 'batch/v1beta1'  # old\n",
        "kind: List\nitems:\n- apiVersion: batch/v1beta1\n  kind: CronJob\n  metadata: {name: backup}\n",
        "apiVersion: batch/v1beta1\nkind: CronJobList\nitems:\n- metadata: {name: backup}\n",
        "--- # Source\napiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: backup}\n",
    ],
)
def test_every_way_to_write_it_is_found(text: str) -> None:
    """The text is searched before it is parsed: quotes, JSON, lists and comments must not hide anything."""
    assert [item.name for item in outdated_objects(CURRENT + text if text[0] == "-" else text, TARGET)] == [
        "CronJob backup"
    ]


def test_mention_in_a_text_is_no_object() -> None:
    """A ConfigMap that contains a manifest is no such object."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    apiVersion: batch/v1beta1\n"
    assert outdated_objects(text, TARGET) == []


def test_installed_release_that_could_not_be_rolled_back_blocks_the_run(world: World) -> None:
    """Helm reads the old manifest for an upgrade and for a rollback; releases before kube-apiserver see the old API."""
    for name in ("pod-checkpointer", "kube-apiserver"):
        world.manifests[name] = CURRENT
    world.before["pod-checkpointer"] = CRON_JOB
    assert world.find(check_removed_apis) == {}
    world.before["kube-apiserver"] = CRON_JOB
    found = world.find(check_removed_apis)["releases.removed-apis"]
    assert found.severity == "error" and "release kube-apiserver has 1 object" in found.title
    assert "use batch/v1 CronJob" in found.diagnosis and "--to v1.36.3" in found.remedy


def test_installed_release_of_a_run_without_kube_apiserver(world: World) -> None:
    """The target serves already, so each release that changes is concerned."""
    world.manifests["jobs"], world.before["jobs"] = CURRENT, CRON_JOB
    assert set(world.find(check_removed_apis)) == {"releases.removed-apis"}


def test_releases_of_others_are_a_warning(world: World) -> None:
    """They serve on, but Helm can change them no more; older revisions don't count, and no content is shown."""
    record(world, "shop", CURRENT + CRON_JOB)
    record(world, "old", CRON_JOB, status="superseded")
    (found,) = world.find(check_removed_apis).values()
    assert (found.id, found.severity) == ("removed-apis.others", "warning")
    assert "release apps/shop has 1 object (batch/v1beta1 CronJob)" in found.title
    assert "removed in v1.25; use batch/v1 CronJob" in found.diagnosis
    assert "s3cret" not in str(found)


def test_release_of_the_run_is_judged_once(world: World) -> None:
    """Its record isn't read beside the plan; one with its name in another namespace is another release."""
    world.manifests["jobs"] = CURRENT
    record(world, "jobs", CRON_JOB, namespace="kube-system")
    assert world.find(check_removed_apis) == {}
    record(world, "jobs", CRON_JOB, namespace="elsewhere")
    assert set(world.find(check_removed_apis)) == {"removed-apis.others"}


def test_deprecated_apis_are_mentioned_once(world: World) -> None:
    """Those of the run and those of others in one finding, with the minor that they go with."""
    world.manifests["devices"] = DEPRECATED
    record(world, "shop", DEPRECATED)
    (found,) = world.find(check_removed_apis).values()
    assert (found.id, found.severity) == ("removed-apis.deprecated", "info")
    assert found.title.startswith("2 objects") and found.title.endswith("in releases devices, apps/shop")
    assert "and is removed in v1.38; use resource.k8s.io/v1 DeviceClass" in found.diagnosis


def test_many_objects_are_counted(world: World) -> None:
    """A finding stays readable: it names ten, and says how many more there are."""
    record(world, "shop", "".join(manifest("batch/v1beta1", "CronJob", f"job-{number}") for number in range(14)))
    found = world.find(check_removed_apis)["removed-apis.others"]
    assert "has 14 objects" in found.title and "and 4 more" in found.diagnosis


@pytest.mark.parametrize(
    "content",
    [
        "",
        "not base64!",
        base64.b64encode(base64.b64encode(b"not gzip")).decode(),
        base64.b64encode(base64.b64encode(gzip.compress(b"[]"))).decode(),
        base64.b64encode(base64.b64encode(gzip.compress(b'{"manifest": 1}'))).decode(),
        base64.b64encode(base64.b64encode(zlib.compress(b"{}"))).decode(),
        encoded(b'{"manifest": "", "a": [' + b"[]," * 600_000 + b"[]]}"),
        encoded('{"manifest": "\u2222", "a": ["\u2222"]}'.encode("utf-16")),
        encoded(b'{"manifest": ' + b'"\\' * 1_000_000),
    ],
    ids=range(9),
)
def test_record_that_is_none_is_named(world: World, content: str) -> None:
    """Whoever may create Secrets can write one: it neither stops the check nor hides the others."""
    secret(world, "broken", content)
    record(world, "shop", CRON_JOB)
    found = world.find(check_removed_apis)
    assert set(found) == {"removed-apis.damaged", "removed-apis.others"}
    assert "apps/broken" in found["removed-apis.damaged"].title


@pytest.mark.parametrize("text", ["[", "- a", "text", "kind: List\nitems: [1]", "metadata: a", "a: !!int ''"])
def test_manifest_that_is_none_is_named(world: World, text: str) -> None:
    """Nor does a manifest that mentions an API, and is no list of objects."""
    record(world, "broken", f"{text}\n# apiVersion: batch/v1beta1\n")
    assert set(world.find(check_removed_apis)) == {"removed-apis.damaged"}


def test_a_manifest_of_many_commas_is_read(world: World) -> None:
    """What a record has in texts isn't counted as values: some manifests are lists of millions of numbers."""
    record(world, "shop", f'{CRON_JOB}# "{"[1,2]," * 300_000}"\n')
    assert set(world.find(check_removed_apis)) == {"removed-apis.others"}


def test_records_that_may_not_be_read_do_not_block(world: World) -> None:
    """Reading the Secrets of all namespaces is a great right: without it there is a warning, and how to give it."""
    world.kube.denied.add(("list", "secrets"))
    (found,) = world.find(check_removed_apis).values()
    assert (found.id, found.severity) == ("removed-apis.unread", "warning") and "Secrets" in found.remedy


def _unfolding(how: str) -> str:
    """Nine to the power of nine of something, in a few hundred bytes."""
    text = "apiVersion: policy/v1beta1\nx:\n- &l0 {kind: A}\n"
    for level in range(1, 10):
        nine = ", ".join([f"*l{level - 1}"] * 9)
        forms = {"lists": f"{{kind: List, items: [{nine}]}}", "merge": f"{{<<: [{nine}]}}", "kind": f"[{nine}]"}
        text += f"- &l{level} {forms[how]}\n"
    return text + {"lists": "kind: List\nitems: [*l9]\n", "merge": "kind: X\n", "kind": "kind: *l9\n"}[how]


@pytest.mark.parametrize("how", ["lists", "merge", "kind"])
def test_record_that_unfolds_does_not_hold_up_the_run(world: World, how: str) -> None:
    """Who may create a Secret in one namespace must not be able to keep everybody from upgrading."""
    record(world, "web", _unfolding(how))
    assert set(world.find(check_removed_apis)) == {"removed-apis.damaged"}


@pytest.mark.parametrize("sort", ["before", "manifests"])
def test_end_that_is_only_planned_does_not_block(world: World, sort: str) -> None:
    """What Kubernetes plans for a version after the table's newest may change: it is told, and blocks nothing."""
    world.target = KubernetesVersion(1, 99, 0)
    planned = manifest("resource.k8s.io/v1beta1", "DeviceClass", "gpu")
    getattr(world, sort)["kubernetes"] = planned
    world.manifests.setdefault("kubernetes", CURRENT)
    assert not any(finding.blocking for finding in world.find(check_removed_apis).values())


def test_only_the_newest_deployed_revision_counts(world: World) -> None:
    """After Helms that were killed two revisions are labelled so; Helm itself goes by the newest."""
    for revision, text in (("10", CURRENT), ("9", CRON_JOB)):
        record(world, "web", text)
        found = world.kube.get(SECRETS, "sh.helm.release.v1.web.v1", "apps")
        assert found is not None
        labels = {**found["metadata"]["labels"], "version": revision}
        meta = {**found["metadata"], "name": f"sh.helm.release.v1.web.v{revision}", "labels": labels}
        world.kube.put(SECRETS, {**found, "metadata": meta})
    world.kube.delete(SECRETS, "sh.helm.release.v1.web.v1", "apps")
    assert world.find(check_removed_apis) == {}


@pytest.mark.parametrize(
    ("error", "status"), [(ApiUnavailable("timed out"), 0), (ApiError("HTTP 500 unable to transform key"), 500)]
)
def test_records_that_can_not_be_read_are_no_missing_right(
    world: World, monkeypatch: pytest.MonkeyPatch, error: ApiError, status: int
) -> None:
    """A slow line, or a key that is lost, blocks nothing here, and no right would help."""
    error.status = status

    def each(*_: object, **__: object) -> object:
        raise error

    monkeypatch.setattr(world.kube, "each", each)
    found = world.find(check_removed_apis)["removed-apis.unread"]
    assert (found.severity, "Allow `list`" in found.remedy) == ("warning", False)


def test_what_the_emulated_minor_serves_blocks_finalize_alone(world: World) -> None:
    """While the target emulates a minor that serves an API, releases may have it; without emulation they may not."""
    gone = manifest("certificates.k8s.io/v1alpha1", "ClusterTrustBundle")
    world.manifests["jobs"] = world.before["jobs"] = gone
    assert {"removed-apis.planned", "releases.removed-apis"} <= world.find(check_removed_apis).keys()
    world.emulated = (1, 36)
    assert {"removed-apis.planned", "releases.removed-apis"} & world.find(check_removed_apis).keys() == set()
