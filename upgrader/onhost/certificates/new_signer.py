"""Installs the new signing CA on a controller: in the copy in which kubeadm renews, and then in the controller's files.

kubeadm signs with the first certificate of ca.crt, and writes only that one into kubeconfigs. So the copy has only the
new CA; the controller then gets it as the first of the trusted ones, and kubeconfigs keep their trusted CAs.
"""

from __future__ import annotations

import os

from upgrader.contract.durable_files import write
from upgrader.onhost.certificates.bundles import certificates, fingerprint, in_kubeconfig
from upgrader.onhost.certificates.renewed_by_kubeadm import KUBECONFIGS
from upgrader.onhost.common.questions import Failed

__all__ = ["AUTHORITY", "SIGNING", "NewSigner", "authority_files"]

SIGNING = "signing-ca.crt"
"""The file with only the signing CA's certificate, beside `ca.crt`, which may contain several."""
AUTHORITY = "ca"
"""Names the CA's own files among the saved ones."""


def authority_files(pki: str) -> list[str]:
    """The CA's files: its key, and then the certificates that must match the key."""
    return [os.path.join(pki, name) for name in ("ca.key", "ca.crt", SIGNING)]


class NewSigner:
    """A CA, as PEM, with its key."""

    def __init__(self, pem: str, key: str) -> None:
        self.pem, self.key = pem, key

    def prepare(self, pki: str) -> None:
        """Make kubeadm sign with it in a copy."""
        for name, text in (("ca.crt", self.pem), ("ca.key", self.key)):
            write(os.path.join(pki, name), text.encode())

    def issued(self, name: str, kubernetes: str, stage: str) -> None:
        """After each certificate, by kubeadm's name: restore a kubeconfig's trusted CAs. kubeadm uses the
        administrators' kubeconfig in the copy before it renews the next certificate.
        """
        if name not in KUBECONFIGS:
            return
        before: list[str] = []

        def seen(pem: str) -> str:
            before.append(pem)
            return pem

        in_kubeconfig(_text(os.path.join(kubernetes, name)), seen)
        trusted = next((each for each in before if self.pem.strip() in each), "")
        if not trusted:
            raise Failed(f"{os.path.join(kubernetes, name)} does not trust the new CA yet")
        staged = os.path.join(stage, name)
        after = in_kubeconfig(_text(staged), lambda pem: trusted if self.pem.strip() in pem else pem)
        write(staged, after.encode("latin-1"))

    def complete(self, pki: str, staged: str) -> None:
        """Bring the CA's files in the copy into the form for the controller. Raises Failed."""
        both = certificates(_text(os.path.join(pki, "ca.crt")))
        others = [each for each in both if fingerprint(each) != fingerprint(self.pem)]
        if len(others) == len(both):
            raise Failed(f"{os.path.join(pki, 'ca.crt')} does not contain the new CA yet")
        key, trusted, signing = authority_files(staged)
        for path, text in ((key, self.key), (trusted, "".join([self.pem, *others])), (signing, self.pem)):
            write(path, text.encode())


def _text(path: str) -> str:
    with open(path, encoding="latin-1", newline="") as file:
        return file.read()
