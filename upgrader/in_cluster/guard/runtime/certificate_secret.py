"""The Secret that has the authority and the webhooks' certificate, for all replicas."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from upgrader.in_cluster.guard.guard_errors import Conflict
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.certificate_renewal import Bundle, Pair, Wanted, renewed
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["CertificateSecret"]

_SECRETS = Resource("v1", "secrets")


class CertificateSecret:
    """Made where there is none, and kept from ending. Replicas that write at once don't overwrite each other."""

    def __init__(self, api: Api, namespace: str, name: str, wanted: Wanted) -> None:
        self._api, self._namespace, self._name, self._wanted = api, namespace, name, wanted

    async def current(self, now: datetime, *, injected: bytes = b"") -> Bundle:
        """What the Secret has, renewed where that is due. Raises ApiAway, ApiRefused.

        `injected`: what all webhook configurations have trusted for a while.
        """
        while True:
            stored = await self._api.get(_SECRETS, self._name, self._namespace)
            found = _read(stored)
            due = renewed(found, self._wanted, now, injected=bool(found and injected == found.trusted))
            if due is found:
                return due
            try:
                await self._write(due, stored)
            except Conflict:
                continue  # another replica was first: what it wrote is looked at
            LOG.info("certificates renewed", extra={"secret": f"{self._namespace}/{self._name}"})
            return due

    async def _write(self, bundle: Bundle, stored: Object | None) -> None:
        data = {name: base64.b64encode(content).decode() for name, content in _files(bundle).items()}
        if stored is None:
            meta: dict[str, Any] = {"name": self._name, "namespace": self._namespace}
            manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "kubernetes.io/tls"}
            await self._api.create(_SECRETS, {**manifest, "data": data}, self._namespace)
        else:
            await self._api.replace(_SECRETS, {**stored, "data": data}, self._namespace)


def _files(bundle: Bundle) -> dict[str, bytes]:
    files = {
        "tls.crt": bundle.leaf.certificate,
        "tls.key": bundle.leaf.key,
        "ca.crt": bundle.trusted,
        "ca.key": bundle.authority.key,
    }
    if bundle.successor:
        files |= {"next-ca.crt": bundle.successor.certificate, "next-ca.key": bundle.successor.key}
    return files


def _read(stored: Object | None) -> Bundle | None:
    """None if the Secret has no usable content: it is then created again, because only guard can do that."""
    if stored is None:
        return None
    try:
        data = {name: base64.b64decode(text) for name, text in (stored.get("data") or {}).items()}
        leaf = Pair(data["tls.crt"], data["tls.key"])
        successor = Pair(data["next-ca.crt"], data["next-ca.key"]) if "next-ca.crt" in data else None
        first, *others = (
            each.public_bytes(serialization.Encoding.PEM) for each in x509.load_pem_x509_certificates(data["ca.crt"])
        )
        authority = Pair(first, data["ca.key"])
        leaf.parsed.verify_directly_issued_by(authority.parsed)
        for pair in filter(None, (leaf, authority, successor)):
            _refuse_misfit(pair)
        former = tuple(each for each in others if successor is None or each != successor.certificate)
    except Exception as error:  # noqa: BLE001 - whatever it holds, it is the library that says it can't be used
        LOG.warning("the Secret can't be used", extra={"reason": f"{type(error).__name__}: {error}"})
        return None
    return Bundle(authority, leaf, successor, former)


def _refuse_misfit(pair: Pair) -> None:
    """Raises ValueError for a key that isn't its certificate's, or of another kind than we make."""
    key = serialization.load_pem_private_key(pair.key, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != pair.parsed.public_key():
        raise ValueError("a key doesn't match its certificate")
