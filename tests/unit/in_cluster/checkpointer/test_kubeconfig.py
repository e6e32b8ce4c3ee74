"""The kubelet's credential, and a server that has to prove who it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from testkit.certificates import Authority
from tests.unit.in_cluster.checkpointer.api_server import Answer, Node, Server
from upgrader.in_cluster.checkpointer.checkpointer_errors import ApiAway, ApiUnknown
from upgrader.in_cluster.checkpointer.observation.api_client import Api
from upgrader.in_cluster.checkpointer.observation.kubelet_kubeconfig import load
from upgrader.in_cluster.checkpointer.observed_values import Content, Owner

GONE = b'{"kind": "Status", "reason": "NotFound"}'


@pytest.mark.parametrize("inline", [False, True])
def test_both_sides_are_verified(node: Node, inline: bool) -> None:
    """The client certificate is presented, from files or from inline data, and requests share a connection."""
    server = node.serve()
    api = node.api(server, inline)
    assert api.pods() == []
    assert api.pods() == []
    api.close()
    assert server.clients == ["system:node:controller-1"] * 2
    assert len(server.connections) == 1


def test_only_the_first_document_counts(node: Node) -> None:
    """As for the kubelet, whose kubeconfig it is; without one, the API is unknown."""
    server = node.serve()
    path = node.kubeconfig(f"https://127.0.0.1:{server.port}")
    path.write_text(f"{path.read_text()}---\nclusters: []\n")
    assert load(path).port == server.port
    path.write_text("")
    with pytest.raises(ApiUnknown, match="can't be used"):
        load(path)


def test_an_unverified_server_is_unknown_not_away(node: Node, tmp_path: Path) -> None:
    """Another authority's certificate proves nothing, neither that the API answers nor that it is unreachable."""
    other = tmp_path / "other"
    other.mkdir()
    server = node.serve(Authority(other / "ca"))
    with pytest.raises(ApiUnknown, match="certificate is not valid"):
        node.api(server).pods()


def test_a_rotated_certificate_is_used(node: Node) -> None:
    """When the kubelet has replaced its certificate, the next request presents the new one."""
    server = node.serve()
    api = node.api(server)
    api.pods()
    node.authority.issue(node.folder / "client", "system:node:rotated")
    api.pods()
    api.close()
    assert server.clients == ["system:node:controller-1", "system:node:rotated"]


def test_nobody_there_is_away(node: Node) -> None:
    """A refused connection means that no API server answers."""
    server = node.serve()
    api = node.api(server)
    server.close()
    node.servers.clear()
    with pytest.raises(ApiAway, match="refused"):
        api.pods()


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        ((503, b""), ApiAway, "503"),
        ((401, b'{"message": "Unauthorized"}'), ApiUnknown, "Unauthorized"),
        ((403, b"no json"), ApiUnknown, "no reason given"),
        ((429, b"{}"), ApiUnknown, "429"),
        ((200, b"<html>"), ApiUnknown, "not JSON"),
        ((200, b"[]"), ApiUnknown, "not an object"),
        ((200, b"{}"), ApiUnknown, "no field `items`"),
    ],
)
def test_only_a_proper_answer_counts(node: Node, answer: Answer, error: type[Exception], says: str) -> None:
    """A server error is an API that is unreachable; any other improper answer is unknown, with the reason."""
    node.answer = answer
    api = node.api(node.serve())
    with pytest.raises(error, match=says):
        api.pods()
    api.close()


def test_a_replaced_server_is_reached_by_a_new_connection(node: Node) -> None:
    """A kept connection that the old instance closed doesn't make the API count as unreachable."""
    first = node.serve()
    api = node.api(first)
    api.pods()
    first.close()
    node.servers.clear()
    second = Server(node.folder, node.authority, lambda *_: node.answer)
    node.servers.append(second)
    node.kubeconfig(f"https://127.0.0.1:{second.port}")
    assert api.pods() == []
    api.close()


def test_content_and_lease(node: Node) -> None:
    """Secrets are decoded, ConfigMaps have text and binary keys, what is missing is None or empty."""
    api = node.api(node.serve())
    node.answer = (200, b'{"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "data": {"k": "AAE="}}')
    assert api.content("Secret", "ns", "s") == Content({"k": b"\x00\x01"}, "2026-01-01T00:00:00Z")
    meta = '{"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"time": "2026-01-02T00:00:00Z"}, {}]}'
    node.answer = (200, f'{{"metadata": {meta}, "data": {{"t": "ü"}}, "binaryData": {{"b": "AAE="}}}}'.encode())
    content = api.content("ConfigMap", "ns", "c")
    assert content == Content({"t": "ü".encode(), "b": b"\x00\x01"}, "2026-01-02T00:00:00Z")
    assert "x01" not in repr(content)
    node.answer = (200, b"{}")
    with pytest.raises(ApiUnknown, match="no creation time"):
        api.content("Secret", "ns", "s")
    node.answer = (200, b'{"spec": {"renewTime": "2026-01-01T00:00:00Z", "holderIdentity": "me_1"}}')
    assert api.lease("ns", "l") == ("2026-01-01T00:00:00Z", "me_1")
    node.answer = (404, GONE)
    assert api.content("Secret", "ns", "gone") is None
    assert api.lease("ns", "gone") == ("", "")
    api.close()


@pytest.mark.parametrize("body", [b"404 page not found\n", b"", b"{}", b"default backend - 404"])
def test_a_404_about_a_path_is_no_object_that_is_gone(node: Node, body: bytes) -> None:
    """An API server without apps/v1 (--runtime-config), or a load balancer: the checkpoints of a workload are removed
    once it is gone, and these say nothing of it.
    """
    api = node.api(node.serve())
    node.answer = (404, body)
    for ask in (
        lambda: api.owner("Deployment", "kube-system", "kube-scheduler"),
        lambda: api.content("Secret", "ns", "s"),
        lambda: api.lease("ns", "l"),
    ):
        with pytest.raises(
            ApiUnknown, match="404: the answer isn't from an API server, or the API server doesn't serve this kind"
        ):
            ask()
    api.close()


ROLLED_OUT = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "observedGeneration": 2}


@pytest.mark.parametrize(
    ("kind", "spec", "status", "settled"),
    [
        ("Deployment", {"replicas": 1}, ROLLED_OUT, True),
        ("Deployment", {"replicas": 1}, {**ROLLED_OUT, "replicas": 2}, False),
        ("Deployment", {"replicas": 1}, {**ROLLED_OUT, "observedGeneration": 1}, False),
        ("Deployment", {"replicas": 2}, ROLLED_OUT, False),
        ("Deployment", {}, {}, False),
        (
            "DaemonSet",
            {},
            {"desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 3, "observedGeneration": 2},
            True,
        ),
        ("DaemonSet", {}, {"desiredNumberScheduled": 3, "updatedNumberScheduled": 2, "numberAvailable": 3}, False),
    ],
)
def test_a_workload_s_revision_counts_once_it_is_rolled_out(
    node: Node, kind: str, spec: object, status: object, settled: bool
) -> None:
    """Only of a complete rollout is it known that each pod is of the revision that the workload notes."""
    notes = {"checkpointer.upgrader.io/helm-revision": "7", "meta.helm.sh/release-name": "web"}
    found = {"metadata": {"generation": 2, "annotations": notes}, "spec": spec, "status": status}
    api = node.api(node.serve())
    node.answer = (200, json.dumps(found).encode())
    assert api.owner(kind, "ns", "web") == Owner(settled, "web", "7")
    node.answer = (404, GONE)
    assert api.owner(kind, "ns", "gone") is None
    node.answer = (403, b"{}")
    with pytest.raises(ApiUnknown, match="403"):
        api.owner(kind, "ns", "secret")
    api.close()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file"),
        ("a: [", "ParserError"),
        ("contexts: []\ncurrent-context: x\n", "'x'"),
        ("just text", "TypeError"),
    ],
)
def test_an_unusable_kubeconfig_is_unknown(tmp_path: Path, text: str | None, says: str) -> None:
    """A damaged or missing credential proves nothing about the API, and the message names the file."""
    path = tmp_path / "kubelet.conf"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ApiUnknown, match=says) as error:
        load(path)
    assert "kubelet.conf" in str(error.value)


def test_unverified_tls_is_refused(node: Node) -> None:
    """A kubeconfig that turns verification off is not used."""
    with pytest.raises(ApiUnknown, match="must be verified"):
        load(node.kubeconfig("https://127.0.0.1:1", **{"insecure-skip-tls-verify": True}))
    with pytest.raises(ApiUnknown, match="https"):
        load(node.kubeconfig("http://127.0.0.1:1"))


def test_an_authority_in_a_file_of_its_own_is_used_and_watched(node: Node) -> None:
    """The file's path counts from the kubeconfig's folder, and a replaced or lost authority changes the stamp."""
    server = node.serve()
    path = node.kubeconfig(f"https://127.0.0.1:{server.port}")
    config = yaml.safe_load(path.read_text())
    del config["clusters"][0]["cluster"]["certificate-authority-data"]
    config["clusters"][0]["cluster"]["certificate-authority"] = "ca.pem"
    path.write_text(yaml.safe_dump(config))
    api = Api(path, "controller-1", 10)
    assert api.pods() == []
    api.close()
    endpoint = load(path)
    assert node.folder / "ca.pem" in endpoint.files
    before = endpoint.stamp()
    (node.folder / "ca.pem").unlink()
    assert endpoint.stamp() != before


def test_the_current_context_counts(node: Node) -> None:
    """Of several contexts, clusters and users, those that the current context names are used."""
    path = node.kubeconfig("https://10.0.0.1:6443")
    config = yaml.safe_load(path.read_text())
    other = {"name": "other", "cluster": {"server": "http://10.0.0.2"}}
    config["clusters"].insert(0, other)
    config["contexts"].insert(0, {"name": "other", "context": {"cluster": "other", "user": "other"}})
    config["users"].insert(0, {"name": "other", "user": {}})
    path.write_text(yaml.safe_dump(config))
    endpoint = load(path)
    assert (endpoint.host, endpoint.port) == ("10.0.0.1", 6443)
