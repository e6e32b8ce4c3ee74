"""All controllers have the same CAs and token signing keys, and their certificates are from these CAs.

Only certificates and digests leave a controller, never a key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from upgrader.model.finding import Finding
from upgrader.onhost.sending.host_facts import Certificate, HostFacts, Identity
from upgrader.preflight.context import PreflightContext

__all__ = ["certificates_of", "check_keys"]

_PKI = "/etc/kubernetes/pki"
_ISSUED: Mapping[str, tuple[str, ...]] = {
    f"{_PKI}/ca.crt": ("apiserver.crt", "apiserver-kubelet-client.crt"),
    f"{_PKI}/front-proxy-ca.crt": ("front-proxy-client.crt",),
    f"{_PKI}/etcd/ca.crt": ("apiserver-etcd-client.crt", "etcd/server.crt", "etcd/peer.crt"),
}
"""CA → the certificates that kubeadm issues with it, below the same folder."""

_EFFECTS = {
    "sa.": "Tokens that one kube-apiserver issues are refused by another: pods randomly lose access to the API.",
    "etcd/": "kube-apiserver can't connect to etcd on other controllers, and etcd members can't connect to each other.",
    "front-proxy": "Aggregated APIs accept requests from only some instances of kube-apiserver.",
    "ca.": "Only some instances of kube-apiserver accept kubelets and clients.",
}
"""By how a file's name begins."""


def check_keys(context: PreflightContext) -> Iterator[Finding]:
    """Each file that must be the same everywhere, then each certificate against the CA beside it."""
    digests: dict[str, dict[str, list[str]]] = {}
    for name, facts in context.facts.items():
        for path, digest in _digests(facts).items():
            digests.setdefault(path, {}).setdefault(digest, []).append(name)
    for path, groups in sorted(digests.items()):
        if len(groups) > 1:
            short = path[len(_PKI) + 1 :]
            yield Finding(
                "keys.differ",
                "error",
                f"{path} is not the same on all controllers: "
                + "; ".join(f"{', '.join(names)}: {digest[:12]}" for digest, names in sorted(groups.items())),
                next(text for begin, text in _EFFECTS.items() if short.startswith(begin)),
                "Copy the right CA, with its key, to the other controllers, then renew the certificates that the wrong "
                "CA issued there: "
                "https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/high-availability/#manual-certs",
            )
    for name, facts in context.facts.items():
        yield from _issued(name, certificates_of(facts))


def certificates_of(facts: HostFacts) -> Mapping[str, x509.Certificate]:
    """A controller's certificates by path, with and without links; those that can't be read are findings of other
    checks.
    """
    known = [item for item in facts.certificates if isinstance(item, Certificate) and item.pem]
    return {
        path: x509.load_pem_x509_certificate(item.pem.encode())
        for item in known
        for path in dict.fromkeys((item.path, item.real))
        if path
    }


def _digests(facts: HostFacts) -> Mapping[str, str]:
    """Path → digest of the key. A CA that was renewed with its old key is the same one."""
    found = {path: item for path, item in certificates_of(facts).items() if path in _ISSUED}
    keys = facts.identity.keys if isinstance(facts.identity, Identity) else {}
    return {**keys, **{path: _digest(item) for path, item in found.items()}}


def _digest(certificate: x509.Certificate) -> str:
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(key).hexdigest()


def _issued(name: str, found: Mapping[str, x509.Certificate]) -> Iterator[Finding]:
    """Certificates that name the CA in their folder as issuer, but are signed with another key. Another name may be a
    chain's.
    """
    for ca, files in _ISSUED.items():
        wrong = [f"{_PKI}/{file}" for file in files if ca in found and _is_foreign(found[ca], found, f"{_PKI}/{file}")]
        if wrong:
            yield Finding(
                "keys.other-issuer",
                "error",
                f"{name}: {', '.join(wrong)} {'was' if len(wrong) == 1 else 'were'} not issued by {ca}",
                "The CA was replaced by one with the same name after they were issued. A component that restarts with "
                "these files is rejected.",
                f"Restore the CA that issued them, or renew them on {name}: kubeadm certs renew all",
            )


def _is_foreign(ca: x509.Certificate, found: Mapping[str, x509.Certificate], path: str) -> bool:
    certificate = found.get(path)
    if certificate is None or certificate.issuer != ca.subject:
        return False
    try:
        certificate.verify_directly_issued_by(ca)
    except (InvalidSignature, ValueError, TypeError):
        return True
    return False
