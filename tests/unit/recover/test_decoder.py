"""What a controller's program printed, read as facts: what it could not learn stays unknown, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from testkit.pki import CertificateAuthority
from upgrader.onhost.sending.decoder import decode
from upgrader.onhost.sending.host_facts import Endpoint, HostFacts, Unknown

WHY = {"unknown": "no answer within 9 s"}


def answer(**facts: Any) -> dict[str, Any]:
    """A program's answer in which every fact but these is unknown."""
    names = (
        *(
            "containers",
            "complaints",
            "clients",
            "booted",
            "kubelet",
            "containerd",
            "runtime",
            "spaces",
            "certificates",
        ),
        *("manifests", "etcd", "etcd_named_here", "etcd_server", "api", "workloads", "identity", "cgroups", "updates"),
    )
    return {"taken": 100.0, "took": 0.0, **dict.fromkeys(names, WHY), **facts}


@pytest.mark.parametrize(
    "fact",
    [
        lambda f: f.booted,
        lambda f: f.kubelet,
        lambda f: f.containerd,
        lambda f: f.spaces[0],
        lambda f: f.certificates[0],
        lambda f: f.manifests,
        lambda f: f.etcd.manifest,
        lambda f: f.etcd.data,
        lambda f: f.etcd.server,
        lambda f: f.api,
        lambda f: f.containers,
        lambda f: f.workloads,
        lambda f: f.identity,
        lambda f: f.cgroups,
        lambda f: f.updates,
    ],
)
def test_what_is_unknown_stays_so(fact: Callable[[HostFacts], object]) -> None:
    """No fact that a host could not learn reads as an empty list, a stopped service or a lost file."""
    assert fact(decode(answer(), 100.0, 100.0)) == Unknown("no answer within 9 s")


def test_without_containers_there_are_none_of_etcd() -> None:
    """A runtime that doesn't answer is an endpoint that doesn't; what is left is empty, and the clock is still read."""
    facts = decode(answer(taken=130.0, took=2.0), 100.0, 104.0)
    assert facts.runtime == Endpoint(False, "no answer within 9 s")
    assert (facts.etcd_containers, facts.complaints) == ((), ())
    assert (facts.clock.offset, facts.clock.error) == (29.0, 1.0)


def test_a_damaged_certificate_is_unknown_by_its_path() -> None:
    """One file that holds no certificate leaves the others known, and is named."""
    raw = answer(certificates=[{"path": "/etc/kubernetes/pki/ca.crt", "pem": "garbage"}, WHY])
    damaged, unreadable = decode(raw, 100.0, 100.0).certificates
    assert isinstance(damaged, Unknown) and damaged.why.startswith("/etc/kubernetes/pki/ca.crt can't be read: ")
    assert unreadable == Unknown("no answer within 9 s")


def test_a_certificate_of_a_client_has_its_validity() -> None:
    """A client presents it; it is no file of the controller."""
    pem = CertificateAuthority.named("kubernetes").issue("system:node:worker-1")
    own = {"name": "kubelet", "status": 200, "pod": "", "address": "10.0.0.31", "conclusive": True}
    clients = decode(answer(clients=[{**own, "certificate": pem}]), 100.0, 100.0).clients
    assert not isinstance(clients, Unknown)
    assert clients[0].not_before and clients[0].not_after and clients[0].not_before < clients[0].not_after


def test_etcd_s_members_keep_their_addresses() -> None:
    """Each member comes with its addresses and whether it votes: a quorum is counted by these."""
    member = {"id": "a1", "name": "controller-1", "peers": ["https://10.0.0.1:2380"], "clients": [], "learner": True}
    server = {"healthy": True, "members": [member], "alarms": [{"kind": "CORRUPT", "member": "a1"}], "has_cluster": WHY}
    found = decode(answer(etcd_server=server), 100.0, 100.0).etcd.server
    assert not isinstance(found, Unknown) and not isinstance(found.members, Unknown)
    (read,) = found.members
    assert (read.id, read.peers, read.learner) == ("a1", ("https://10.0.0.1:2380",), True)
    assert found.alarms[0].kind == "CORRUPT"
    assert found.has_cluster == Unknown("no answer within 9 s")
