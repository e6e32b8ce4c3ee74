"""Whether kube-controller-manager signs tokens with a key that kube-apiserver knows."""

from __future__ import annotations

import base64
import secrets

from upgrader.errors import ApiError
from upgrader.gates.continuity.findings import KEEP_THE_RELEASES, contradicted
from upgrader.gates.continuity.sentinel import LABELS, NAME, NAMESPACE
from upgrader.gates.kubernetes_kinds import SECRETS
from upgrader.model.outcome import Verdict, broken, holds, pending
from upgrader.ports import Kube

__all__ = ["SignedToken", "remove_signed_tokens"]

_LABELS = {**LABELS, "app.kubernetes.io/component": "signed-token"}
_REMEDY = (
    "Tokens in Secrets are for clients outside the cluster. Check service-account-private-key-file among "
    "kube-controller-manager's flags: it must belong to a public key in a file of kube-apiserver's flag "
    f"service-account-key-file. {KEEP_THE_RELEASES}"
)


class SignedToken:
    """A Secret for a token of the sentinel's ServiceAccount, which kube-controller-manager fills in: `check` moves it
    on without waiting, and holds once kube-apiserver has accepted the token. The Secret is gone by then.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._name = f"{NAME}-{secrets.token_hex(3)}"
        self._made = self._accepted = False

    def check(self) -> Verdict:
        """One check."""
        try:
            return self._check()
        except ApiError as error:
            return contradicted(f"a token of a new Secret {NAMESPACE}/{self._name}", error, _REMEDY)

    def _check(self) -> Verdict:
        if self._accepted:
            return holds("kube-apiserver accepts a token that kube-controller-manager has signed")
        waits = f"kube-controller-manager has put no token into the new Secret {NAMESPACE}/{self._name}"
        if not self._made:
            self._kube.create(SECRETS, _secret(self._name), NAMESPACE)
            self._made = True
            return pending(waits, remedy=_REMEDY)
        found = self._kube.get(SECRETS, self._name, NAMESPACE) or {}
        token = base64.b64decode((found.get("data") or {}).get("token", "")).decode()
        if not token:
            return pending(waits, remedy="Check the log of kube-controller-manager.")
        try:
            self._kube.raw("/api", token=token)
        except ApiError as error:
            if error.status != 401:
                raise
            return broken(
                "kube-apiserver no longer accepts the tokens that kube-controller-manager signs, but did before this "
                "run: HTTP 401 (kube-controller-manager's service-account-private-key-file)",
                remedy=_REMEDY,
            )
        self.remove()
        self._accepted = True
        return self._check()

    def remove(self) -> None:
        """Give it up. Raises ApiUnavailable or ApiError."""
        self._kube.delete(SECRETS, self._name, NAMESPACE)


def remove_signed_tokens(kube: Kube) -> None:
    """Remove what checks that were not completed left. Raises ApiUnavailable or ApiError."""
    labels = ",".join(f"{key}={value}" for key, value in _LABELS.items())
    for item in kube.list(SECRETS, NAMESPACE, labels=labels):
        kube.delete(SECRETS, item["metadata"]["name"], NAMESPACE)


def _secret(name: str) -> dict[str, object]:
    meta = {"name": name, "labels": _LABELS, "annotations": {"kubernetes.io/service-account.name": NAME}}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {**meta, "namespace": NAMESPACE},
    }
