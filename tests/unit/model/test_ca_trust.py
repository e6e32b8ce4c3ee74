"""What the nodes' files say of a rotation: how far it is, and what no rotation leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from upgrader.model.ca_trust import CaTrust, IssuedCertificate, NodeTrust, RotationStage, TrustFile
from upgrader.model.cluster import Host

CA = "/etc/kubernetes/pki/ca.crt"
OLD, NEW, OTHER = "a" * 64, "b" * 64, "c" * 64
FIRST, SECOND, WORKER = (Host(name, "10.0.0.1") for name in ("controller-1", "controller-2", "worker-1"))


def node(host: Host, *trusts: str, signs: str = OLD, made: str = "", late: str = "") -> NodeTrust:
    """With two files that trust these."""
    files = (TrustFile(CA, trusts), TrustFile("/etc/kubernetes/kubelet.conf", trusts))
    return NodeTrust(host, files, signs, made, late)


def test_before_any_rotation() -> None:
    """One CA signs, and none is new."""
    found = CaTrust.of([node(FIRST, OLD), node(SECOND, OLD)], [node(WORKER, OLD, signs="")], CA)
    assert (found.signs, found.new, found.keeper, found.trusted) == (OLD, "", None, False)


def test_trusted_everywhere() -> None:
    """Only once every file of every node has both, and every kubelet has read so."""
    controllers = [node(FIRST, OLD, NEW, made=NEW), node(SECOND, OLD, NEW)]
    worker = node(WORKER, OLD, NEW, signs="")
    found = CaTrust.of(controllers, [worker], CA)
    assert (found.new, found.keeper, found.trusted) == (NEW, FIRST, True)
    assert not CaTrust.of(controllers, [replace(worker, late="its kubelet…")], CA).trusted
    behind = node(WORKER, OLD, signs="")
    assert not CaTrust.of(controllers, [behind], CA).trusted
    assert behind.lacking(OLD, NEW) == (CA, "/etc/kubernetes/kubelet.conf") and behind.trusting(NEW) == ()


def issued(node: NodeTrust, **by: str) -> NodeTrust:
    """With certificates that these CAs have issued."""
    found = tuple(IssuedCertificate(name, f"/{name}", which, name != "other") for name, which in by.items())
    return replace(node, issued=found)


def test_stages() -> None:
    """By the files of all nodes, from one CA to the next one; each says which command leads on."""
    first, worker = (
        issued(node(FIRST, OLD), kubelet=OLD, apiserver=OLD),
        issued(node(WORKER, OLD, signs=""), kubelet=OLD),
    )
    found = CaTrust.of([first], [worker], CA)
    assert found.stage is RotationStage.NONE and found.stage.command == "upgrader certs rotate-ca trust"
    first = replace(first, made=NEW)
    assert CaTrust.of([first], [worker], CA).stage is RotationStage.TRUSTING
    both = (TrustFile(CA, (OLD, NEW)),)
    first, worker = replace(first, files=both), replace(worker, files=both)
    found = CaTrust.of([first], [worker], CA)
    assert found.stage is RotationStage.TRUSTED and found.stage.command == "upgrader certs rotate-ca sign"
    assert first.unsigned(OLD, NEW) and not worker.unsigned(OLD, NEW)
    undone = replace(first, kept=OLD)
    assert CaTrust.of([undone], [worker], CA).stage is RotationStage.TRUSTED, "as after a way back"

    first = replace(issued(first, kubelet=OLD, apiserver=NEW), signs=NEW, kept=OLD)
    found = CaTrust.of([first, node(SECOND, OLD, NEW)], [worker], CA)
    assert (found.old, found.new, found.signs, found.keeper) == (OLD, NEW, OLD, FIRST)
    assert found.stage is RotationStage.SIGNING and not first.unsigned(OLD, NEW)
    found = CaTrust.of([first], [worker], CA)
    assert found.stage is RotationStage.SIGNING and found.signs == NEW, "kubelets have the old one's"
    assert found.stage.command == "upgrader certs rotate-ca sign"

    first, worker = issued(first, kubelet=NEW, apiserver=NEW, other=OLD), issued(worker, kubelet=NEW)
    found = CaTrust.of([first], [worker], CA)
    assert found.stage is RotationStage.SIGNED and found.stage.command == "upgrader certs rotate-ca finish"
    assert list(found.left()) == ["controller-1: /other"]
    late = replace(worker, late="its kubelet…")
    assert CaTrust.of([first], [late], CA).stage is RotationStage.SIGNING

    alone = replace(worker, files=(TrustFile(CA, (NEW,)),))
    assert CaTrust.of([first], [alone], CA).stage is RotationStage.FINISHING
    first = replace(first, files=alone.files, made="")
    found = CaTrust.of([first], [alone], CA)
    assert found.stage is RotationStage.FINISHING and found.old == OLD, "what it keeps of the old one is to be removed"
    found = CaTrust.of([replace(first, kept="")], [alone], CA)
    assert (found.stage, found.old, found.new) == (RotationStage.NONE, NEW, "")


def test_new_one_without_its_key() -> None:
    """Where the controller that kept it is gone, it is known from the files, and trusted by none that could use it."""
    found = CaTrust.of([node(FIRST, OLD, NEW)], [], CA)
    assert (found.new, found.keeper, found.trusted) == (NEW, None, False)


@pytest.mark.parametrize(
    ("controllers", "why"),
    [
        ([node(FIRST, OLD, signs="")], "controller-1 doesn't have the key"),
        ([node(FIRST, OLD), node(SECOND, NEW, signs=NEW)], "keys of different CAs: controller-1: aaaa"),
        ([node(FIRST, NEW)], "doesn't trust the signing CA"),
        ([node(FIRST, OLD, OTHER, made=NEW)], "there are several others: bbbbbbbbbbbbbbbb, cccccccccccccccc"),
        ([node(FIRST, OLD, made=NEW), node(SECOND, OLD, made=OTHER)], "there are several others"),
    ],
)
def test_what_no_rotation_leaves(controllers: list[NodeTrust], why: str) -> None:
    """It is refused with its reason: nothing is guessed of CAs."""
    with pytest.raises(ValueError, match=why):
        CaTrust.of(controllers, [], CA)
