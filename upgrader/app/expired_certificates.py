"""Certificates that have expired while a controller was left out."""

from __future__ import annotations

from datetime import datetime

from upgrader.errors import Blocked
from upgrader.model.certificate_file import CERTIFICATES_FOLDER, CertificateFile
from upgrader.model.cluster import Host
from upgrader.ports import Hosts
from upgrader.preflight.certificate_files import read_certificates

__all__ = ["refuse_expired"]


def refuse_expired(hosts: Hosts, host: Host, now: datetime) -> None:
    """Nothing renews certificates on a machine that is away. Without valid ones, its kubelet doesn't report, its member
    of etcd can't join the others, its kube-apiserver serves no client, and its controllers log in to none: each of
    these would be told as the cause.

    Of files that neither kubeadm nor the kubelet renews it isn't known whether anything uses them. Raises Blocked, and
    HostError where the files can't be read.
    """
    found = [each for each in read_certificates(hosts, host) if isinstance(each, CertificateFile)]
    expired = [each for each in found if each.not_after <= now and each.keeper in ("kubeadm", "kubelet")]
    if not expired:
        return
    remedies = []
    if of_kubeadm := [each for each in expired if each.keeper == "kubeadm"]:
        # With an expired admin.conf, kubeadm can't read in the cluster which folder it is.
        folder = of_kubeadm[0].folder
        where = "" if folder == CERTIFICATES_FOLDER else f" --cert-dir {folder}"
        remedies.append(f"On {host.name}: kubeadm certs renew all{where}")
    if len(of_kubeadm) < len(expired):
        remedies.append(
            f"On another controller: kubeadm kubeconfig user --org system:nodes --client-name system:node:{host.name} "
            f"> kubelet.conf; write it to /etc/kubernetes/kubelet.conf on {host.name}, and remove "
            "/var/lib/kubelet/pki/kubelet-client* there"
        )
    raise Blocked(
        f"controller {host.name} was left out of runs, and can't return yet: certificates there have since expired: "
        f"{', '.join(sorted({each.path for each in expired}))}; nothing was changed",
        remedy="\n".join(
            (*remedies, f"Then on {host.name}: systemctl restart kubelet. Then run the upgrader command again.")
        ),
    )
