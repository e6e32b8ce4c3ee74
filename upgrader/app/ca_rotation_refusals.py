"""What a rotation of the cluster's CA refuses, before anything changes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upgrader.app.wiring import Session
from upgrader.certificates.authority_on_host import AuthorityOnHost
from upgrader.certificates.pipeline import Serving
from upgrader.config.kubeconfig import read_kubeconfig
from upgrader.contract.flags import command_line, last_values
from upgrader.errors import Blocked, ConfigError
from upgrader.gates.apiserver_instance import instance_flags
from upgrader.gates.kubernetes_kinds import NODES, WORKLOADS
from upgrader.model.ca_trust import CaTrust, RotationStage
from upgrader.onhost.certificates.bundles import certificates, fingerprint
from upgrader.onhost.certificates.issued import issuer
from upgrader.onhost.certificates.new_signer import SIGNING

__all__ = [
    "NOTHING",
    "refuse_cancel",
    "refuse_finish",
    "refuse_flags",
    "refuse_sign",
    "refuse_strangers",
    "refuse_trust",
]

NOTHING = "nothing was changed"
_SYSTEM, _MANAGER = "kube-system", "kube-controller-manager"


def refuse_trust(found: CaTrust) -> None:
    """Raises Blocked where a new CA can't be trusted beside the other one."""
    if found.stage is RotationStage.FINISHING:
        raise Blocked(
            f"the new CA, {found.new[:16]}, already signs, and some components no longer trust the old one; {NOTHING}",
            remedy=f"Complete the rotation: {found.stage.command}",
        )
    _refuse_lost_key(found)


def refuse_cancel(found: CaTrust, *, valued: bool) -> None:
    """`valued`: whether the folder's values are a rotation's. Raises Blocked if there is no rollback."""
    if not found.new and not valued:
        raise Blocked(f"no CA rotation is in progress; {NOTHING}", remedy="Nothing to cancel.")
    if found.stage in (RotationStage.SIGNING, RotationStage.SIGNED, RotationStage.FINISHING):
        raise Blocked(
            f"the new CA, {found.new[:16]}, already signs: clients with a certificate from it would be locked out; "
            f"{NOTHING}",
            remedy=f"Complete the rotation: {found.stage.command}. To replace the new CA, rotate again afterwards.",
        )


def refuse_sign(session: Session, found: CaTrust, served: Serving, on_host: AuthorityOnHost, *, valued: bool) -> None:
    """`valued`: whether the folder's values name the file of the CA that signs. Raises Blocked."""
    _refuse_stage(found, RotationStage.TRUSTED, RotationStage.SIGNING, RotationStage.SIGNED)
    _refuse_lost_key(found)
    lacking = [f"{node.host.name}: {path}" for node in found.nodes for path in node.lacking(found.old, found.new)]
    if lacking or not valued:
        raise Blocked(
            "\n".join((f"the new CA is not trusted everywhere; {NOTHING}", *lacking)),
            remedy="upgrader certs rotate-ca trust",
        )
    wanted = f"{on_host.certificates}/apiserver.crt"
    if served.certificate != wanted:
        raise Blocked(
            f"kube-apiserver serves {served.certificate}, but kubeadm renews {wanted}; {NOTHING}",
            remedy="Serve a certificate for your own names with --tls-sni-cert-key instead. To cancel the rotation: "
            "upgrader certs rotate-ca cancel",
        )
    odd = [f"{node.host.name}: /etc/kubernetes/kubelet.conf" for node in found.nodes if node.kubelet_by is None]
    if odd:
        raise Blocked(
            "\n".join((f"these kubeconfigs don't refer to the kubelet's certificate file; {NOTHING}:", *odd)),
            remedy="Set client-certificate and client-key in them to /var/lib/kubelet/pki/kubelet-client-current.pem, "
            "as kubeadm does: the kubelet renews its certificate in that file.",
        )
    if shared := _shared(found):
        raise Blocked(
            "\n".join(
                (f"the cluster's CA has also issued certificates of etcd or the front proxy; {NOTHING}:", *shared)
            ),
            remedy="Issue these from a separate CA, as kubeadm does: the rotation doesn't update the CA files of etcd "
            "and the front proxy.",
        )
    trusted, _ = _operators(session, on_host)
    if found.old in trusted and found.new not in trusted:
        raise Blocked(
            f"your own kubeconfig, {session.cluster.kubeconfig}, doesn't trust the new CA, which will issue "
            f"kube-apiserver's certificate; {NOTHING}",
            remedy="Copy `certificate-authority-data` to it from /etc/kubernetes/admin.conf on a controller.",
        )


def refuse_finish(session: Session, found: CaTrust, on_host: AuthorityOnHost) -> None:
    """Raises Blocked while something of the old CA is in use."""
    _refuse_stage(found, RotationStage.SIGNED, RotationStage.FINISHING)
    if left := list(found.left()):
        raise Blocked(
            "\n".join(
                (f"these certificates are still from the old CA, and kubeadm doesn't manage them; {NOTHING}:", *left)
            ),
            remedy="Reissue them from the new CA, and delete those that aren't used. For a kubelet's certificate: "
            "remove kubelet-server-current.pem, restart the kubelet, and approve its request (kubectl get csr).",
        )
    _, by = _operators(session, on_host)
    if by == found.old:
        raise Blocked(
            f"your own kubeconfig, {session.cluster.kubeconfig}, has a certificate that the old CA issued; {NOTHING}",
            remedy="Copy `client-certificate-data` and `client-key-data` to it from the user in "
            "/etc/kubernetes/admin.conf on a controller.",
        )


def _refuse_stage(found: CaTrust, *allowed: RotationStage) -> None:
    if found.stage in allowed:
        return
    if not found.new:
        raise Blocked(
            f"no CA rotation is in progress: there is no new CA; {NOTHING}", remedy=f"Start one: {found.stage.command}"
        )
    raise Blocked(
        f"the rotation to the CA {found.new[:16]} is at another stage, {found.stage}; {NOTHING}",
        remedy=f"Run next: {found.stage.command}. See `upgrader certs rotate-ca show`.",
    )


def _refuse_lost_key(found: CaTrust) -> None:
    if not found.new or found.keeper:
        return
    signing = found.stage in (RotationStage.SIGNING, RotationStage.SIGNED)
    raise Blocked(
        f"no controller has the key of the new CA, {found.new[:16]}, which nodes trust already; {NOTHING}",
        remedy="Restore the folder /var/lib/upgrader/certificates/new-ca on the controller that had it."
        if signing
        else "upgrader certs rotate-ca cancel, then run this command again",
    )


def _shared(found: CaTrust) -> list[str]:
    return [
        f"{node.host.name}: {item.path}"
        for node in found.nodes
        for item in node.issued
        if item.name and not item.renewed and item.by in (found.old, found.new)
    ]


def _operators(session: Session, on_host: AuthorityOnHost) -> tuple[tuple[str, ...], str]:
    """The CAs that the operator's kubeconfig trusts, and the one that has issued its certificate; "" for another."""
    try:
        given = read_kubeconfig(session.cluster.kubeconfig, session.cluster.context)
        trusted = certificates(_content(given.cluster, "certificate-authority"))
        own = _content(given.user, "client-certificate")
    except (ConfigError, OSError, ValueError) as error:
        raise Blocked(
            f"your own kubeconfig, {session.cluster.kubeconfig}, can't be read: {error}; {NOTHING}",
            remedy="Fix the kubeconfig: every step needs it, with a trusted CA and a valid client certificate.",
        ) from error
    text = session.tools.hosts.read(session.cluster.controllers[0], on_host.authority) or b""
    return tuple(map(fingerprint, trusted)), issuer(own, [*trusted, *certificates(text.decode("latin-1"))])


def _content(section: Mapping[str, Any], key: str) -> str:
    if data := section.get(f"{key}-data"):
        return base64.b64decode(str(data)).decode("latin-1")
    path = section.get(key)
    return Path(str(path)).read_text(encoding="latin-1") if path else ""


def refuse_strangers(session: Session) -> None:
    """Every node has to trust the new CA: one that isn't listed would be lost when the old one goes."""
    listed = {host.name for host in (*session.cluster.controllers, *session.cluster.workers)}
    nodes = {str(item["metadata"]["name"]) for item in session.tools.kube.list(NODES)}
    if lost := sorted(nodes - listed):
        raise Blocked(
            f"hosts.yml does not list these nodes, which must trust the new CA too: {', '.join(lost)}; {NOTHING}",
            remedy="Add them to the group `workers` of hosts.yml: each is reached over SSH.",
        )
    if gone := sorted(host.name for host in session.cluster.workers if host.name not in nodes):
        raise Blocked(
            f"hosts.yml lists workers that are not nodes of the cluster: {', '.join(gone)}; {NOTHING}",
            remedy="Remove them from hosts.yml, or rename them to their node's name.",
        )


def refuse_flags(session: Session, on_host: AuthorityOnHost) -> None:
    """The files that are rotated have to be those that are used."""
    kube, folder = session.tools.kube, on_host.certificates
    wrong = []
    wanted = {
        "kube-apiserver": {
            "client-ca-file": {on_host.authority},
            "kubelet-certificate-authority": {"", on_host.authority},  # kubeadm has kubelets not verified
        },
        _MANAGER: {
            "root-ca-file": {on_host.authority},
            "client-ca-file": {on_host.authority},
            "cluster-signing-cert-file": {on_host.authority, f"{folder}/{SIGNING}"},
            "cluster-signing-key-file": {f"{folder}/ca.key"},
        },
    }
    for name, expected in wanted.items():
        found = kube.get(WORKLOADS["Deployment"], name, _SYSTEM)
        if found is None:
            raise Blocked(f"there is no Deployment {_SYSTEM}/{name}; {NOTHING}", remedy="Adopt it: upgrader adopt")
        flags = _flags(found["spec"]["template"]["spec"], name)
        wrong += [
            f"{name}: --{flag}={flags.get(flag, '')}" for flag, ok in expected.items() if flags.get(flag, "") not in ok
        ]
        # Each of the four signers can have a CA of its own, and the legacy one another.
        wrong += [f"{name}: --{flag}" for flag in flags if flag.startswith("cluster-signing-") and flag.count("-") > 4]
    if wrong:
        raise Blocked(
            "\n".join((f"these flags don't refer to {on_host.authority} and its key; {NOTHING}:", *wrong)),
            remedy="upgrader rotates only the cluster CA that kubeadm made. Rotate others manually: "
            "https://kubernetes.io/docs/tasks/tls/manual-rotation-of-ca-certificates/",
        )


def _flags(spec: Mapping[str, Any], name: str) -> Mapping[str, str]:
    if name == "kube-apiserver":
        return last_values(instance_flags(spec))
    return last_values(word for item in spec["containers"] if item["name"] == name for word in command_line(item))
