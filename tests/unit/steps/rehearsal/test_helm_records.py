"""Manifests of Helm's records: what they are about, and what only the target refuses of them."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from tests.unit.steps.rehearsal.fake_api import DEPLOYMENTS, FakeApi
from upgrader.onhost.rehearsal.api import Listed, Page, Resource
from upgrader.onhost.rehearsal.compare import Comparison
from upgrader.onhost.rehearsal.helm_records import Document, Record, documents, record

SECRETS = Resource("", "secrets", "v1", "Secret", True, ("create", "get", "list", "update"))
CONFIG_MAPS = SECRETS._replace(plural="configmaps", kind="ConfigMap")
WEB = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n"
INVALID = {"reason": "Invalid", "details": {"causes": [{"field": "spec.template", "message": "Required value"}]}}
WHY = "spec.template: Required value"


def packed(**release: Any) -> bytes:
    """As Helm keeps it in a ConfigMap."""
    return base64.b64encode(gzip.compress(json.dumps(release).encode()))


def secret(revision: int, *texts: str, **release: Any) -> dict[str, Any]:
    """A record, with one manifest."""
    release = {"name": "shop", "namespace": "default", "manifest": "---\n".join(texts), **release}
    metadata = {"name": f"sh.helm.release.v1.shop.v{revision}", "namespace": "default", "resourceVersion": "5"}
    data = {"release": base64.b64encode(packed(**release)).decode()}
    return {"kind": "Secret", "type": "helm.sh/release.v1", "metadata": metadata, "data": data}


def about(text: str) -> Document | None:
    """What a document is about."""
    return next(documents(Record("default/shop", "default", (text,))))[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WEB, Document("apps/v1", "Deployment", "", "web")),
        ("# Source: a\n" + WEB + "  namespace: 'shop' # here\n", Document("apps/v1", "Deployment", "shop", "web")),
        (
            (
                'metadata: # of it\n\n# names\n    labels:\n        name: other\n    "name": "system:web.v1"\nspec:\n'
                "    name: third\nkind: 'Role'\napiVersion: v1\n"
            ),
            Document("v1", "Role", "", "system:web.v1"),
        ),
        ("kind: Job\napiVersion: batch/v1\nmetadata:\n  generateName: a-\n", Document("batch/v1", "Job", "", "")),
        ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}', Document("v1", "Pod", "", "a")),
        (
            '# Source: a\n\n{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}',
            Document("v1", "Pod", "", "a"),
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata:\nspec: {name: a}\n", Document("v1", "Pod", "", "")),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", None),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: >-\n    a\n", None),
        ("apiVersion: v1\nkind: List\nmetadata:\n  name: a\nitems: []\n", None),
        ('{"apiVersion": "v1", "kind": "Pod"}', None),
        ("{not JSON", None),
        ('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a\\n1 error: none"}}', None),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: 'a of release default/other'\n", None),
        (f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: {'a' * 254}\n", None),
        ('{"apiVersion": ' + "[" * 200_000, None),
        ("just: text\n", None),
    ],
)
def test_what_a_document_is_about(text: str, expected: Document | None) -> None:
    """In the forms that charts write; another form is not guessed."""
    assert about(text) == expected


def test_a_record_is_read_from_a_secret_or_a_config_map() -> None:
    """With its hooks, and without what has only comments."""
    hooks = [{"manifest": "kind: Job\r\n"}]
    found = record(secret(1, WEB, "# nothing\n\n", "kind: Pod\n", hooks=hooks))
    assert found == Record("default/shop", "default", (WEB, "kind: Pod\n", "kind: Job\n"))
    data = {"release": packed(name="a", namespace="b", manifest=WEB).decode()}
    assert record({"kind": "ConfigMap", "data": data}) == Record("b/a", "b", (WEB,))
    assert record({"kind": "ConfigMap", "data": {}}) is None
    assert record({**secret(1, WEB), "type": "Opaque"}) is None


def test_a_banner_of_comments_takes_no_longer_than_other_text() -> None:
    """Charts have lines of many `#`, which can be taken for comments in more ways than a program can try."""
    banner = f"{'#' * 80}\n# Web {'#' * 74}\n"
    assert record(secret(1, banner, banner + WEB)) == Record("default/shop", "default", (banner + WEB,))
    assert about(banner + WEB) == Document("apps/v1", "Deployment", "", "web")


def test_a_document_may_begin_on_the_line_of_its_separator() -> None:
    """Only a comment there is none of its text."""
    document = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}\n'
    found = record(secret(1, manifest=f"--- # first\n{WEB}--- {document}---\n"))
    assert found == Record("default/shop", "default", (WEB, document))


DAMAGED = base64.b64decode(packed(manifest=WEB))[:14] + b"\xff" * 40
DEEP = gzip.compress(b'{"manifest":' + b"[" * 200_000)


@pytest.mark.parametrize(
    "data",
    [
        "not base64",
        base64.b64encode(b"no gzip").decode(),
        packed(manifest="").decode(),
        base64.b64encode(DAMAGED).decode(),
        base64.b64encode(DEEP).decode(),
        packed(name="a\n1 error: none", namespace="b", manifest=WEB).decode(),
        packed(name="a", namespace="b/c of release d", manifest=WEB).decode(),
        packed(name="", namespace="b", manifest=WEB).decode(),
    ],
)
def test_a_record_that_can_not_be_read_is_told(data: str) -> None:
    """By no text of its own: its names are in findings, and each user who may write a Secret can write any there."""
    with pytest.raises(ValueError, match=r"^not a Helm record$"):
        record({"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": {"release": data}})


class Cluster(FakeApi):
    """Has records of Helm's, and no other objects."""

    def __init__(self, *records: dict[str, Any]) -> None:
        metadata = {"name": "own", "namespace": "default", "resourceVersion": "5"}
        super().__init__(({"kind": "ConfigMap", "metadata": metadata},))
        self.records = records
        self.served_there = {("apps", "deployments"): [DEPLOYMENTS._replace(verbs=("create", "list", "patch"))]}

    def resources(self) -> dict[tuple[str, str], list[Resource]]:
        return {("", "secrets"): [SECRETS], ("", "configmaps"): [CONFIG_MAPS], **self.served_there}

    def page(self, resource: Resource, at: str, same: Page | None = None, limit: int = 0, selector: str = "") -> Page:
        if selector:
            assert selector == "owner=helm"
            return Page([Listed.of(each) for each in self.records if each["kind"] == resource.kind])
        return Page([Listed.of(each) for each in self.objects] if resource == CONFIG_MAPS else [])


def compared(current: Cluster, target: Cluster) -> tuple[dict[tuple[str, str], tuple[str, list[str]]], dict[str, int]]:
    """(What, resource) → (reason, names); and the counts."""
    comparison = Comparison(current, target, 10, float("inf"))  # type: ignore[arg-type]
    comparison.run(write=True)
    found = {(each["what"], each["resource"]): (each["reason"], each["names"]) for each in comparison.findings()}
    return found, comparison.counts


def test_a_manifest_that_only_the_target_refuses_is_a_finding() -> None:
    """It names the release and the object, and says what the target says. Helm would apply it, or create it again."""
    current, target = Cluster(secret(1, WEB)), Cluster(secret(1, WEB))
    assert compared(current, target) == ({}, {**compared(current, target)[1], "manifests": 1})
    assert [each for each in current.asked if each[1] == "web"] == [], "only what the target refuses is asked here"
    target.refused = {("PATCH", "web"): INVALID}
    assert compared(current, target)[0] == {
        ("manifest", "deployments.apps"): (WHY, ["default/web of release default/shop"])
    }
    target.refused = {("POST", "web"): INVALID}
    assert compared(current, target)[0] == {
        ("manifest", "deployments.apps"): (WHY, ["default/web of release default/shop"])
    }
    current.refused = target.refused
    found, counts = compared(current, target)
    assert found == {} and counts["unproven"] == 1


def test_an_object_that_exists_could_be_created() -> None:
    """Whether there is one of that name is looked at last."""
    current, target = Cluster(secret(1, WEB)), Cluster(secret(1, WEB))
    target.refused = {("POST", "web"): {"reason": "AlreadyExists", "message": "web"}}
    assert compared(current, target)[0] == {}


def test_nothing_of_a_manifest_is_said() -> None:
    """Its words may be values, also those that a server uses."""
    texts = WEB + "  annotations:\n    a: must not be hunter2\n"
    current, target = Cluster(secret(1, texts)), Cluster(secret(1, texts))
    target.refused = {("PATCH", "web"): {"message": "admission refused: must not be hunter2 here"}}
    assert compared(current, target)[0]["manifest", "deployments.apps"][0] == "admission …: … be …"


def test_each_different_document_is_tried_once() -> None:
    """Of all revisions: a rollback sends an older one."""
    newer = WEB + "spec: {}\n"
    _, counts = compared(*(Cluster(secret(1, WEB), secret(2, WEB, newer), secret(3, newer)) for _ in range(2)))
    assert counts["manifests"] == 2


def test_a_manifest_of_an_api_that_goes_is_a_finding() -> None:
    """With its version. One that isn't served today either says nothing about the target."""
    other = WEB.replace("apps/v1", "apps/v1beta9")
    current, target = Cluster(secret(1, WEB, other)), Cluster()
    target.served_there = {}
    found, counts = compared(current, target)
    assert found["manifest-gone", "deployments.apps"] == ("apps/v1", ["default/web of release default/shop"])
    assert counts["unproven"] == 1


def test_what_can_not_be_read_is_unknown() -> None:
    """A record, and a document."""
    damaged = {**secret(2), "data": {"release": "x"}}
    found, _ = compared(*(Cluster(damaged, secret(1, "metadata: {}\n")) for _ in range(2)))
    names = ["default/sh.helm.release.v1.shop.v2", "a document of release default/shop"]
    assert found == {("manifest-unread", "manifests in Helm's records"): ("", names)}


def test_a_list_of_objects_is_unknown() -> None:
    """Helm sends each of its items, although a server has no such resource."""
    roles = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleList\nmetadata:\n  name: a\nitems: []\n"
    found, _ = compared(*(Cluster(secret(1, roles)) for _ in range(2)))
    names = ["a document of release default/shop"]
    assert found == {("manifest-unread", "manifests in Helm's records"): ("", names)}
