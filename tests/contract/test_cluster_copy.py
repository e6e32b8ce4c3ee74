"""Copies of clusters, with real API servers: what one serves is copied, and another accepts what a lab makes of it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testkit.api_servers import ApiServers, api_servers
from testkit.lab_cluster import OLD, until
from testkit.ports import free_port
from tests.unit.model.cluster_copy.examples import copied, of_kind
from upgrader.adapters.kube import KubeAdapter
from upgrader.app.front_end import FrontEnd
from upgrader.app.rehearsal_copy import read_cluster
from upgrader.config.cluster_copy_yaml import copy_text, read_copy
from upgrader.config.load import load_settings
from upgrader.errors import ApiError
from upgrader.lab.binaries import kubectl
from upgrader.lab.command_runner import CommandRunner
from upgrader.lab.keys import make_webhooks_certificate
from upgrader.lab.kubeadm_cluster import APPLY_EACH
from upgrader.lab.likeness import objects_of
from upgrader.lab.webhook_stub import WebhookStub
from upgrader.lab.webhooks import CERTIFICATE, KEY, STUB_URL, answered, has_webhooks
from upgrader.model.cluster_copy.copy import ClusterCopy
from upgrader.ports import Kind

_DEPLOYMENTS = Kind("apps/v1", "deployments")
_BINDINGS = Kind("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", namespaced=False)
_NODES = Kind("v1", "nodes", namespaced=False)
_PODS = Kind("v1", "pods")
_SECRET = "bcdfghjklmnpqr"  # a word that no pattern takes for a secret


@dataclass(frozen=True)
class Controller:
    """This machine, as a lab's controller: it answers webhooks, with a lab's certificate."""

    stub: WebhookStub
    certificate: str

    def objects(self, copied: ClusterCopy) -> list[Mapping[str, Any]]:
        """As a lab gets them, but for the port."""
        return [self._answered(item) if has_webhooks(item) else item for item in objects_of(copied, 9)[0]]

    def _answered(self, item: Mapping[str, Any]) -> Mapping[str, Any]:
        text = json.dumps(answered(item, self.certificate))
        found: Mapping[str, Any] = json.loads(text.replace(STUB_URL, f"https://127.0.0.1:{self.stub.server_port}"))
        return found


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    """It answers until the end of the test."""
    make_webhooks_certificate(tmp_path, CommandRunner())
    certificate = tmp_path / CERTIFICATE
    stub = WebhookStub("127.0.0.1", free_port(), str(certificate), str(tmp_path / KEY))
    thread = threading.Thread(target=stub.serve_forever, daemon=True)
    thread.start()
    yield Controller(stub, certificate.read_text())
    stub.shutdown()
    stub.server_close()
    thread.join()


def apply(servers: ApiServers, objects: Sequence[Mapping[str, Any]]) -> str:
    """As a lab does; returns kubectl's errors."""
    manifests = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    command = [str(kubectl(OLD)), f"--kubeconfig={servers.kubeconfig()}", *APPLY_EACH]
    return subprocess.run(command, input=manifests, capture_output=True, text=True, check=False).stderr


def copy_of(kube: KubeAdapter, folder: Path) -> ClusterCopy:
    """The cluster's copy, written and read again."""
    (folder / "upgrader.yaml").write_text(f"kubernetesVersion: {OLD}\n")
    (folder / "copy.yaml").write_text(copy_text(read_cluster(kube, load_settings(folder, {}), FrontEnd())))
    return read_copy(folder / "copy.yaml")


def control_plane(kube: KubeAdapter) -> None:
    """What tells an adopted cluster: a controller, and a Deployment of a release."""
    labels = {"node-role.kubernetes.io/control-plane": "", "zone": "a"}
    kube.create(_NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cp-1", "labels": labels}})
    server = {"name": "kube-apiserver", "annotations": {"meta.helm.sh/release-name": "kube-apiserver"}}
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": pods}
    kube.create(
        _DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": server, "spec": spec}, "kube-system"
    )


def webhooks_are_asked(kube: KubeAdapter, stub: WebhookStub) -> None:
    """Each of both kinds, for a pod of a namespace that they select, which is created all the same."""
    asked = {f"{kind}WebhookConfiguration/shop/pods.shop.example.com" for kind in ("Mutating", "Validating")}
    assert stub.counts() == {}
    kube.delete(_BINDINGS, "few-replicas")  # its policy is about the same pods, which have no replicas
    selected = {"metadata": {"labels": {"app": "web", "tier": "front"}}}
    kube.patch(Kind("v1", "namespaces", namespaced=False), "default", selected)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    pod["spec"] = {"containers": [{"name": "a", "image": "a"}]}

    def seen() -> bool:
        assert kube.create(_PODS, pod, "default", dry_run=True)
        return stub.counts().keys() == asked  # the API server takes a moment for new configurations

    until("the webhooks to be asked", seen, timeout_seconds=30)


def test_an_api_server_accepts_the_copy_of_what_another_one_serves(tmp_path: Path, controller: Controller) -> None:
    """Each object, with the API's defaults, and among them one that is refused; the second cluster's copy has the same
    objects, and none of the first one's containers. Its webhooks are asked, and allow what they are asked.
    """
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    # Each copy is taken before the next server begins: two at once would take twice the memory.
    with api_servers(folders[0]) as servers, servers.serving(OLD) as kube:
        control_plane(kube)
        assert apply(servers, controller.objects(copied())) == ""
        web = dict(kube.get(_DEPLOYMENTS, "web", "shop") or {})
        container = web["spec"]["template"]["spec"]["containers"][0]
        container |= {"env": [{"name": "MODE", "value": _SECRET}], "args": [_SECRET], "image": f"example.com/{_SECRET}"}
        web["metadata"]["annotations"] = {"note": _SECRET}
        kube.replace(_DEPLOYMENTS, web, "shop")
        first = copy_of(kube, folders[0])
    assert _SECRET not in (folders[0] / "copy.yaml").read_text()
    kinds = [item["kind"] for item in first.objects]
    assert set(kinds) == {item["kind"] for item in copied().objects}
    with api_servers(folders[1]) as servers, servers.serving(OLD) as kube:
        control_plane(kube)
        refused = {**of_kind("PriorityClass"), "metadata": {"name": "refused"}, "value": 2_000_000_000}
        errors = apply(servers, [refused, *controller.objects(first)])
        assert "refused" in errors and len(errors.splitlines()) == 1, errors
        second = copy_of(kube, folders[1])
        restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
        kube.patch(Kind("v1", "namespaces", namespaced=False), "shop", restricted)
        template = dict(kube.get(_DEPLOYMENTS, "web", "shop") or {})["spec"]["template"]
        pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": template["spec"]}
        kube.create(_PODS, pod, "shop", dry_run=True)
        pod["spec"] = {**pod["spec"], "securityContext": {}}
        with pytest.raises(ApiError, match="PodSecurity"):
            kube.create(_PODS, pod, "shop", dry_run=True)
        webhooks_are_asked(kube, controller.stub)
    assert second.objects == first.objects and second.adopted and second.nodes == first.nodes
