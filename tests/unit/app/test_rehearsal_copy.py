"""`upgrader rehearse copy`: what is read of a cluster, and the file that is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.kube import FakeKube
from tests.unit.model.cluster_copy.examples import OBJECTS, of_kind
from upgrader.app import rehearsal_copy
from upgrader.app.front_end import FrontEnd
from upgrader.app.rehearsal_copy import write_cluster_copy
from upgrader.config.cluster_copy_yaml import read_copy
from upgrader.errors import ApiError, UsageError
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind

_PLURALS = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "PriorityClass": "priorityclasses"}


def kind_of(item: dict[str, Any]) -> Kind:
    """Where it lives in the API."""
    name = str(item["kind"])
    return Kind(item["apiVersion"], _PLURALS.get(name, f"{name.lower()}s"), "namespace" in item["metadata"])


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> FakeKube:
    """An adopted cluster with an object of each kind; lists don't say of which kind their items are."""
    kube = FakeKube()
    kube.raw_answers["/version"] = '{"gitVersion": "v1.36.3"}'
    labels = {"node-role.kubernetes.io/control-plane": ""}
    addresses = [{"type": "InternalIP", "address": "10.0.0.1"}]
    kube.create(
        Kind("v1", "nodes", namespaced=False),
        {
            "metadata": {"name": "cp-1", "labels": labels},
            "spec": {},
            "status": {"addresses": addresses, "nodeInfo": {"kubeletVersion": "v1.36.3"}},
        },
    )
    released = {"name": "kube-apiserver", "annotations": {"meta.helm.sh/release-name": "kube-apiserver"}}
    kube.create(Kind("apps/v1", "deployments"), {"metadata": released, "spec": {}}, "kube-system")
    for item in OBJECTS:
        bare = {key: part for key, part in item.items() if key not in ("apiVersion", "kind")}
        kube.create(kind_of(item), bare, item["metadata"].get("namespace", ""))
    monkeypatch.setattr(rehearsal_copy, "open_kube", lambda *_: nullcontext(kube))
    return kube


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cluster folder with values of its own."""
    (tmp_path / "values").mkdir()
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    (tmp_path / "hosts.yml").write_text("controllers: {hosts: {cp-1: {}}}\n")
    (tmp_path / "values" / "kube-apiserver.yaml").write_text(
        "extraArgs: {event-ttl: 2h, oidc-client-secret: hunter2}\nextraEnv: {PASSWORD: hunter2}\n"
    )
    return tmp_path


def test_the_file_has_the_cluster_and_is_its_owners(kube: FakeKube, folder: Path) -> None:
    """It is what `lab up --like` reads, mode 0600, and has no secret of the values; the cluster is unchanged."""
    out, before = folder / "copy.yaml", kube.list(Kind("apps/v1", "deployments"))
    copied = write_cluster_copy(folder, out, FrontEnd())
    assert out.stat().st_mode & 0o777 == 0o600 and "hunter2" not in out.read_text()
    assert read_copy(out) == copied
    assert copied.objects == OBJECTS and copied.adopted and copied.kubernetes == KubernetesVersion(1, 36, 3)
    assert copied.flags == {"kube-apiserver": {"event-ttl": "2h"}}
    assert copied.not_copied == ("kube-apiserver --oidc-client-secret: a lab can't have it",)
    assert kube.list(Kind("apps/v1", "deployments")) == before


def test_a_cluster_that_is_not_adopted_has_the_flags_of_its_static_pods(kube: FakeKube, folder: Path) -> None:
    """Of mirror pods, that is: another pod with the label has no say. What has none is named."""
    kube.delete(Kind("apps/v1", "deployments"), "kube-apiserver", "kube-system")
    kube.create(Kind("v1", "configmaps"), {"metadata": {"name": "kubeadm-config"}}, "kube-system")
    for name, notes, ttl in (("kube-apiserver-cp-1", {"kubernetes.io/config.mirror": "x"}, "3h"), ("other", {}, "4h")):
        meta = {"name": name, "labels": {"component": "kube-apiserver"}, "annotations": notes}
        command = ["kube-apiserver", "--etcd-cafile=/etc/kubernetes/ca.crt", f"--event-ttl={ttl}"]
        pod = {"metadata": meta, "spec": {"containers": [{"name": "kube-apiserver", "command": command}]}}
        kube.create(Kind("v1", "pods"), pod, "kube-system")
    copied = write_cluster_copy(folder, folder / "copy.yaml", FrontEnd())
    assert not copied.adopted and copied.flags == {"kube-apiserver": {"event-ttl": "3h"}}
    assert copied.not_copied == (
        "kube-controller-manager: its flags are unknown, because it has no static pod",
        "kube-scheduler: its flags are unknown, because it has no static pod",
    )


def test_one_schema_that_no_file_can_have_is_not_the_end_of_the_copy(kube: FakeKube, folder: Path) -> None:
    """It is named, and its definition is there, with all other objects."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(60):
        schema = {"type": "object", "properties": {"a": schema}}
    names = {"plural": "deeps", "kind": "Deep"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    definitions = kind_of(of_kind("CustomResourceDefinition"))
    kube.create(definitions, {"metadata": {"name": "deeps.example.com"}, "spec": spec})
    copied = write_cluster_copy(folder, folder / "copy.yaml", FrontEnd())
    assert len(copied.objects) == len(OBJECTS) + 1 and read_copy(folder / "copy.yaml") == copied
    assert copied.not_copied[-1:] == (
        "CustomResourceDefinition deeps.example.com: its schemas are nested too deeply for a file",
    )


class Refusing(FakeKube):
    """An API server that answers lists of one kind with a status."""

    def __init__(self, kube: FakeKube, plural: str, status: int) -> None:
        super().__init__()
        self.__dict__.update(kube.__dict__)
        self.plural, self.status = plural, status

    def each(self, kind: Kind, *arguments: Any, **more: Any) -> Iterator[Any]:
        if kind.plural == self.plural:
            error = ApiError(f"list {kind.plural}: refused")
            error.status = self.status
            raise error
        yield from super().each(kind, *arguments, **more)


def test_a_list_that_is_refused_is_not_an_empty_one(
    kube: FakeKube, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written without what may not be read; only an API that the version lacks (404) has no objects."""
    policy = "validatingadmissionpolicies"
    monkeypatch.setattr(rehearsal_copy, "open_kube", lambda *_: nullcontext(Refusing(kube, policy, 403)))
    with pytest.raises(ApiError, match=policy):
        write_cluster_copy(folder, folder / "copy.yaml", FrontEnd())
    assert not (folder / "copy.yaml").exists()
    monkeypatch.setattr(rehearsal_copy, "open_kube", lambda *_: nullcontext(Refusing(kube, policy, 404)))
    copied = write_cluster_copy(folder, folder / "copy.yaml", FrontEnd())
    assert copied.objects == tuple(item for item in OBJECTS if item != of_kind("ValidatingAdmissionPolicy"))


def test_a_file_that_cannot_be_written_is_said_to_be(kube: FakeKube, folder: Path) -> None:
    """A folder that isn't there, and something that is no file: neither is replaced."""
    for out in (folder / "nowhere" / "copy.yaml", folder / "values"):
        with pytest.raises(UsageError, match="can't be written"):
            write_cluster_copy(folder, out, FrontEnd())
    assert kube.list(Kind("v1", "namespaces", namespaced=False)) and (folder / "values").is_dir()
