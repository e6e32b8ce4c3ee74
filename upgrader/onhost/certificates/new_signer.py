"""The CA that is to sign on a controller: in the copy in which kubeadm renews, and then in the controller's files.

kubeadm signs with the first certificate of ca.crt, and gives kubeconfigs that one alone. So the copy has the new CA
alone; the controller then gets it as the first of those that are trusted, and kubeconfigs go on trusting what they did.
"""

from __future__ import annotations

import os

from upgrader.contract.durable_files import write
from upgrader.onhost.certificates.bundles import certificates, fingerprint, in_kubeconfig
from upgrader.onhost.certificates.places import KUBECONFIGS
from upgrader.onhost.common.questions import Failed

__all__ = ["AUTHORITY", "SIGNING", "NewSigner", "authority_files"]

SIGNING = "signing-ca.crt"
"""The certificate of the CA that signs, alone, beside `ca.crt`, which may then have several."""
AUTHORITY = "ca"
"""Names the CA's own files among those that are kept."""


def authority_files(pki: str) -> list[str]:
    """The CA's files: its key, and then what that key has to fit."""
    return [os.path.join(pki, name) for name in ("ca.key", "ca.crt", SIGNING)]


class NewSigner:
    """A CA, as PEM, with its key."""

    def __init__(self, pem: str, key: str) -> None:
        self.pem, self.key = pem, key

    def prepare(self, pki: str) -> None:
        """Have kubeadm sign with it in a copy."""
        for name, text in (("ca.crt", self.pem), ("ca.key", self.key)):
            write(os.path.join(pki, name), text.encode())

    def issued(self, name: str, kubernetes: str, stage: str) -> None:
        """After each certificate, by kubeadm's name: a kubeconfig trusts what it trusted before.

        kubeadm asks the API with that of administrators in the copy, before it renews the next one.
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
        """Have the CA's files in the copy as the controller is to have them. Raises Failed."""
        both = certificates(_text(os.path.join(pki, "ca.crt")))
        others = [each for each in both if fingerprint(each) != fingerprint(self.pem)]
        if len(others) == len(both):
            raise Failed(f"{os.path.join(pki, 'ca.crt')} does not have the new CA yet")
        key, trusted, signing = authority_files(staged)
        for path, text in ((key, self.key), (trusted, "".join([self.pem, *others])), (signing, self.pem)):
            write(path, text.encode())


def _text(path: str) -> str:
    with open(path, encoding="latin-1", newline="") as file:
        return file.read()
