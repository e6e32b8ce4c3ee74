"""Keys of a lab: one SSH key to log in with, a host key for each node (so known_hosts is strict from the first
connection), and the cluster's CA, created here because the load balancer must trust it before kubeadm runs."""

from __future__ import annotations

import base64
import hashlib
import secrets
import subprocess
from pathlib import Path

from upgrader.lab import webhooks
from upgrader.lab.build_cache import built
from upgrader.lab.command_runner import CommandRunner
from upgrader.lab.external_etcd import CERTIFICATES
from upgrader.lab.kubeadm_config import Secrets
from upgrader.lab.kubespray import CERTIFICATES as KUBESPRAYS
from upgrader.lab.likeness import answers_webhooks
from upgrader.lab.spec import Placement

__all__ = ["ca_files", "join_secrets", "known_hosts", "make_keys", "make_webhooks_certificate"]


def make_keys(placement: Placement, target: Path, runner: CommandRunner) -> None:
    """Create the folder `target` with all keys of a lab, mode 0700, unless it exists."""

    def build(folder: Path) -> None:
        folder.mkdir(mode=0o700)
        own = ["id_ed25519", *(["id_bastion"] if placement.spec.bastion else [])]
        for name in [*own, *(f"host_{node.name}" for node in placement.nodes)]:
            comment = f"upgrader-lab-{placement.spec.name}"
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(folder / name)]
            runner.run(command, what="ssh-keygen")
        command = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "3650",
            "-subj",
            "/CN=kubernetes",
        ]
        command += ["-addext", "keyUsage=critical,digitalSignature,keyEncipherment,keyCertSign"]
        command += ["-addext", "subjectAltName=DNS:kubernetes"]
        command += ["-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.crt")]
        runner.run(command, what="making the cluster's CA")
        _secret(folder / "token", f"{secrets.token_hex(3)}.{secrets.token_hex(8)}")
        _secret(folder / "certificate-key", secrets.token_hex(32))
        if placement.spec.hardened:
            _secret(folder / "encryption-key", base64.b64encode(secrets.token_bytes(32)).decode())
        if placement.spec.keepalived:
            _secret(folder / "keepalived-password", secrets.token_hex(4))  # keepalived uses eight characters at most
        if placement.spec.external_etcd or placement.spec.layout:
            _etcd_certificates(placement, folder, runner)
        if answers_webhooks(placement):
            make_webhooks_certificate(folder, runner)
        if placement.spec.registry:
            _secret(folder / "registry-password", secrets.token_hex(16))
            _registry_certificate(placement, folder, runner)

    built(target, build)


def _secret(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)


def _registry_certificate(placement: Placement, folder: Path, runner: CommandRunner) -> None:
    """`registry.crt` and `registry.key`, signed by the lab's CA."""
    name = placement.registry_host.partition(":")[0]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj", f"/CN={name}"]
    command += ["-addext", f"subjectAltName=DNS:{name}", "-addext", "basicConstraints=critical,CA:FALSE"]
    command += ["-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key")]
    command += ["-keyout", str(folder / "registry.key"), "-out", str(folder / "registry.crt")]
    runner.run(command, what="making the registry's certificate")


def make_webhooks_certificate(folder: Path, runner: CommandRunner) -> None:
    """Make that of what answers webhooks on each controller: its own authority, as the cluster's CA may be rotated."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650", "-subj", "/CN=lab-webhooks"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(folder / webhooks.KEY), "-out", str(folder / webhooks.CERTIFICATE)]
    runner.run(command, what="making the webhooks' certificate")


def _etcd_certificates(placement: Placement, folder: Path, runner: CommandRunner) -> None:
    """etcd's own CA, and the certificates that it issues to etcd and to kube-apiserver: to each controller's, in
    Kubespray's layout.
    """
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650"]
    ca = ["-subj", "/CN=etcd-ca", "-addext", "keyUsage=critical,digitalSignature,keyCertSign"]
    files = ["-keyout", str(folder / "etcd-ca.key"), "-out", str(folder / "etcd-ca.crt")]
    runner.run([*request, *ca, *files], what="making etcd's CA")
    role = "controller" if placement.spec.layout else "etcd"
    nodes = [node for node in placement.nodes if node.role == role]
    wanted = [(name, common_name, nodes[0].address) for name, common_name in CERTIFICATES.items()]
    if placement.spec.layout:
        wanted = [
            (f"{kind}-{node.name}", f"etcd-{kind}-{node.name}", node.address)
            for node in nodes
            for kind in ("member", "node")
        ]
    for name, common_name, address in wanted:
        own = ["-subj", f"/CN={common_name}", "-addext", f"subjectAltName=IP:{address},IP:127.0.0.1"]
        own += ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=serverAuth,clientAuth"]
        issuer = ["-CA", str(folder / "etcd-ca.crt"), "-CAkey", str(folder / "etcd-ca.key")]
        files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.crt")]
        runner.run([*request, *own, *issuer, *files], what=f"making the certificate {name}")


def join_secrets(keys: Path) -> Secrets:
    """The secrets with which nodes join."""
    command = ["openssl", "x509", "-in", str(keys / "ca.crt"), "-noout", "-pubkey"]
    pem = subprocess.run(command, capture_output=True, check=True).stdout
    command = ["openssl", "pkey", "-pubin", "-outform", "der"]
    public = subprocess.run(command, input=pem, capture_output=True, check=True).stdout
    return Secrets(
        token=(keys / "token").read_text(),
        certificate_key=(keys / "certificate-key").read_text(),
        ca_hash="sha256:" + hashlib.sha256(public).hexdigest(),
    )


def ca_files(placement: Placement, keys: Path) -> dict[str, tuple[str, int]]:
    """The CA as files of the first controller, from which kubeadm signs everything else."""
    folder = KUBESPRAYS if placement.spec.layout else "/etc/kubernetes/pki"
    return {
        f"{folder}/ca.crt": ((keys / "ca.crt").read_text(), 0o644),
        f"{folder}/ca.key": ((keys / "ca.key").read_text(), 0o600),
    }


def known_hosts(placement: Placement, keys: Path) -> str:
    """The known_hosts file of a lab: every machine by its SSH address."""
    lines = []
    for node in placement.nodes:
        kind, key, *_ = (keys / f"host_{node.name}.pub").read_text().split()
        where = node.ssh_address if node.ssh_port == 22 else f"[{node.ssh_address}]:{node.ssh_port}"
        lines.append(f"{where} {kind} {key}")
    return "\n".join(lines) + "\n"
