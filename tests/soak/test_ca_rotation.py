"""`upgrader certs rotate-ca` with clients at work: to its end, and back from where the new CA is only trusted."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.api_load import ApiLoad, access_of
from testkit.cluster_ca import certificates_published, operator_renewed, signing_ca, trust_shown
from testkit.controllers import on_node
from testkit.lab_cluster import OLD, LabCluster
from testkit.labs import lent_or_new
from upgrader.lab.lifecycle import Lab
from upgrader.ports import Kind

PODS = Kind("v1", "pods")
PUBLISHED = (("kube-public", "cluster-info"), ("default", "kube-root-ca.crt"))
KINDS = {"one": ("--workers", "1"), "three": ("--controllers", "3", "--workers", "1")}
"""How many controllers → the lab's switches; of three, each is a member of etcd, and a load balancer is before them."""
LEFT = "/var/lib/upgrader/certificates/*-ca* /etc/kubernetes/pki/signing-ca.crt"
"""Of a rotation on a controller, while it lasts."""


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster with a worker, whose CA is another one afterwards."""
    home = tmp_path_factory.mktemp("lab")
    with lent_or_new(f"soak-ca-{request.param}", home, *KINDS[request.param]) as cluster:
        yield cluster


def test_trusted_and_cancelled_under_load(cluster: LabCluster) -> None:
    """No request fails. Meanwhile everything on the nodes trusts both CAs, the old one still signs, for kubelets and
    users too, and a renewal is refused; afterwards all is as it was, and nothing is left of the new CA.
    """
    cluster.wait_until_settled(OLD)
    manifests, before = cluster.manifests(), trust_shown(cluster)
    assert before["new"] == "" and not before["trusted_everywhere"]
    _disturbs_nobody(cluster, "trust")

    now = trust_shown(cluster)
    assert now["trusted_everywhere"] and now["signs"] == before["signs"] and now["new_key_on"] == "controller-1"
    assert all(item["trusts"] == [now["signs"], now["new"]] for item in now["files"]), now
    assert _places(now["files"]) == _places(before["files"])
    assert {item["node"] for item in now["files"]} == _nodes(cluster).keys()
    assert {certificates_published(cluster, *name) for name in PUBLISHED} == {2}
    assert signing_ca(cluster, "while-both-are-trusted") == before["signs"]
    refused = cluster.upgrader("certs", "renew", "--yes")
    assert refused.exit_code == 3 and "has several CAs" in refused.stderr, refused
    again = cluster.upgrader("certs", "rotate-ca", "trust", "--yes")
    assert again.exit_code == 0 and "Nothing to do" in again.stderr, again
    ended = cluster.upgrader("check", "--to", OLD, "-o", "json")
    found = [item["id"] for item in json.loads(ended.stdout)["findings"]]
    assert not [each for each in found if each.startswith(("certificates.", "keys.", "mounted-files."))], found

    _disturbs_nobody(cluster, "cancel")
    assert trust_shown(cluster) == before
    assert cluster.manifests() == manifests
    assert {certificates_published(cluster, *name) for name in PUBLISHED} == {1}
    assert signing_ca(cluster, "after-the-way-back") == before["signs"]
    _nothing_is_left(cluster)
    cluster.wait_until_settled(OLD)


def test_to_its_end_under_load(cluster: LabCluster) -> None:
    """No request fails in any phase. The operator is told what to renew, and is refused before being locked out. In the
    end nothing knows the old CA: each kube-apiserver refuses its clients, the new one has issued everything, its key is
    the one of every controller, and tokens, aggregated APIs and the way to kubelets are as they were.
    """
    cluster.wait_until_settled(OLD)
    old, kubeconfig = trust_shown(cluster)["signs"], cluster.folder / "kubeconfig"
    _disturbs_nobody(cluster, "trust")
    refused = cluster.upgrader("certs", "rotate-ca", "sign", "--yes")
    assert refused.exit_code == 3 and "doesn't trust the new CA" in refused.stderr, refused
    operator_renewed(cluster, kubeconfig, "cluster")
    told = _disturbs_nobody(cluster, "sign")
    assert "copy client-certificate-data" in told

    now = trust_shown(cluster)
    new = now["new"]
    assert (now["stage"], now["signs"], now["old"]) == ("signed", new, old), now
    assert {item["issued_by"] for item in now["certificates"]} == {new}, now["certificates"]
    assert {item["node"] for item in now["certificates"]} == _nodes(cluster).keys()
    assert len(_on_controllers(cluster, "sha256sum </etc/kubernetes/pki/ca.key")) == 1
    assert signing_ca(cluster, "while-the-new-one-signs") == new
    _reaches_kubelets(cluster)
    refused = cluster.upgrader("certs", "rotate-ca", "finish", "--yes")
    assert refused.exit_code == 3 and "has a certificate that the old CA issued" in refused.stderr, refused
    former = cluster.folder / "kubeconfig.former"
    former.write_text(kubeconfig.read_text())
    operator_renewed(cluster, kubeconfig, "cluster", "user")
    _disturbs_nobody(cluster, "finish")

    now = trust_shown(cluster)
    assert (now["stage"], now["signs"], now["new"]) == ("none", new, ""), now
    assert all(item["trusts"] == [new] for item in now["files"]), now
    assert {certificates_published(cluster, *name) for name in PUBLISHED} == {1}
    operator_renewed(cluster, former, "cluster")
    for address in _controllers(cluster).values():
        assert (_status(former, address), _status(kubeconfig, address)) == (401, 200), address
    token = cluster.on_controller("kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "create", "token", "default")
    assert token.count(".") == 2
    assert signing_ca(cluster, "after-the-end") == new
    _reaches_kubelets(cluster)
    assert certificates_published(cluster, "kube-system", "extension-apiserver-authentication") == 1
    _nothing_is_left(cluster)
    ended = cluster.upgrader("certs", "renew", "--yes", timeout_seconds=1800)
    assert ended.exit_code == 0, ended
    cluster.wait_until_settled(OLD)


def _places(files: Sequence[dict[str, str]]) -> set[tuple[str, str]]:
    return {(item["node"], item["path"]) for item in files}


def _nodes(cluster: LabCluster) -> dict[str, str]:
    """Name → address; without machines that are no nodes of the cluster."""
    return {node.name: node.address for node in Lab.find(cluster.name).placement.nodes if node.kubernetes}


def _controllers(cluster: LabCluster) -> dict[str, str]:
    return {name: address for name, address in _nodes(cluster).items() if name.startswith("controller-")}


def _on_controllers(cluster: LabCluster, script: str) -> set[str]:
    """What a shell script prints on the controllers."""
    return {on_node(cluster, name, script) for name in _controllers(cluster)}


def _nothing_is_left(cluster: LabCluster) -> None:
    _on_controllers(cluster, f"! ls -d {LEFT}")


def _status(kubeconfig: Path, address: str) -> int:
    """What the kube-apiserver at an address answers to the client of a kubeconfig."""
    access = replace(access_of(kubeconfig), address=(address, 6443))
    connection = access.connect(10.0)
    connection.request("GET", "/api/v1/namespaces/default", headers=dict(access.headers))
    status = connection.getresponse().status
    connection.close()
    return status


def _reaches_kubelets(cluster: LabCluster) -> None:
    """kube-apiserver is a client of each node's kubelet."""
    pods = [
        pod["metadata"]["name"]
        for pod in cluster.kube.list(PODS, "kube-system")
        if pod["metadata"]["name"].startswith("kube-proxy-")
    ]
    assert len(pods) == len(_nodes(cluster))
    kubectl = "kubectl --kubeconfig=/etc/kubernetes/admin.conf -n kube-system logs --tail=1"
    for name in pods:
        cluster.on_controller("sh", "-c", f"{kubectl} {name}")


def _disturbs_nobody(cluster: LabCluster, phase: str) -> str:
    """What the phase says."""
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        ended = cluster.upgrader("certs", "rotate-ca", phase, "--yes", timeout_seconds=1800)
        seen = load.stop()
    sys.stderr.write(f"{phase}: {ended.seconds:.0f} s, {seen}\n")
    assert ended.exit_code == 0, ended
    assert (seen.failed, seen.lost_writes) == (0, 0), seen
    assert cluster.report()["availability"]["failed"] == 0
    return ended.stderr
