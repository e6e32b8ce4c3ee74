"""The sentinel: a ServiceAccount without rights, and a Secret that holds a random value and a token of that account."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from upgrader.errors import ApiError
from upgrader.gates.continuity.findings import KEEP_THE_RELEASES, contradicted
from upgrader.gates.kubernetes_kinds import SECRETS, SERVICE_ACCOUNTS
from upgrader.model.baseline import Baseline
from upgrader.model.outcome import Verdict, broken
from upgrader.ports import Kube

__all__ = [
    "LABELS",
    "NAME",
    "NAMESPACE",
    "Sentinel",
    "check_secret",
    "check_token",
    "create_sentinel",
    "remove_sentinel",
]

NAMESPACE = "kube-system"
NAME = "upgrader-continuity"
LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "upgrader"}

_TOKEN_SECONDS = 24 * 3600
_LAST_USE = 0.9
"""Up to which part of a token's life it is compared: the clocks of this machine and the cluster's may differ."""

_SECRET_REMEDY = (
    "Check what changed in kube-apiserver's flags: encryption-provider-config (the earlier key must stay in it), "
    f"etcd-prefix, etcd-servers, client-ca-file, authorization-mode. {KEEP_THE_RELEASES}"
)
_TOKEN_REMEDY = (
    "All pods use such tokens. Check what changed in kube-apiserver's flags: service-account-issuer (keep the old one "
    f"as a second value), service-account-key-file, api-audiences, authorization-mode. {KEEP_THE_RELEASES}"
)


@dataclass(frozen=True)
class Sentinel:
    """What the baseline keeps of the sentinel."""

    digest: str
    token_seconds: int


def create_sentinel(kube: Kube) -> Sentinel:
    """Replace what an earlier run left. Raises ApiUnavailable or ApiError."""
    remove_sentinel(kube)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": False}
    kube.create(SERVICE_ACCOUNTS, {**account, "metadata": _metadata()}, NAMESPACE)
    value = secrets.token_urlsafe(32)
    written = kube.create(SECRETS, _secret({"value": value}), NAMESPACE)
    token = kube.request_token(NAME, NAMESPACE, seconds=_TOKEN_SECONDS, bound_to=written)
    kube.apply(SECRETS, _secret({"value": value, "token": token}), NAMESPACE)
    return Sentinel(_digest(value), _lifetime(token))


def remove_sentinel(kube: Kube) -> None:
    """Remove it; the token ends with it. Raises ApiUnavailable or ApiError."""
    kube.delete(SECRETS, NAME, NAMESPACE)
    kube.delete(SERVICE_ACCOUNTS, NAME, NAMESPACE)


def check_secret(kube: Kube, baseline: Baseline, server: str) -> Verdict | None:
    """The Secret is read with the operator's credentials, and has its value; None when it is so."""
    where = f"reading Secret {NAMESPACE}/{NAME}{_at(server)}"
    try:
        found = _read(kube, server)
    except ApiError as error:
        return contradicted(where, error, _SECRET_REMEDY)
    if _digest(found.get("value", "")) != baseline.secret_digest:
        return broken(f"{where} returns a different value than the one written", remedy=_SECRET_REMEDY)
    return None


def check_token(kube: Kube, baseline: Baseline, server: str, age_seconds: float) -> Verdict | None:
    """A token that was issued before the run, `age_seconds` ago, is accepted; None when it is, or has ended by now."""
    if age_seconds > baseline.token_seconds * _LAST_USE:
        return None
    what = f"a ServiceAccount's token{_at(server)}"
    try:
        token = _read(kube, server).get("token", "")
        if not token:
            return broken(f"Secret {NAMESPACE}/{NAME} no longer contains its token", remedy=_SECRET_REMEDY)
        kube.raw("/api", server=server, token=token)
    except ApiError as error:
        if error.status == 401:
            says = f"kube-apiserver no longer accepts tokens that it issued before this run{_at(server)}: HTTP 401"
            return broken(says, remedy=_TOKEN_REMEDY)
        if error.status == 403:
            says = (
                f"ServiceAccounts are no longer allowed to read /api{_at(server)}, which every client should be "
                "allowed to read: HTTP 403"
            )
            return broken(says, remedy=_TOKEN_REMEDY)
        return contradicted(what, error, _TOKEN_REMEDY)
    return None


def _read(kube: Kube, server: str) -> Mapping[str, str]:
    """The Secret's content. Raises ApiUnavailable or ApiError, with status 404 when it isn't there."""
    text = kube.raw(f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}", server=server)
    try:
        found = json.loads(text)
        return {key: base64.b64decode(value).decode() for key, value in (found.get("data") or {}).items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ApiError(f"the response is not a Secret: {error}") from error


def _secret(content: Mapping[str, str]) -> dict[str, object]:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in content.items()}
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": _metadata(), "data": encoded}


def _metadata() -> dict[str, object]:
    return {"name": NAME, "namespace": NAMESPACE, "labels": LABELS}


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()


def _lifetime(token: str) -> int:
    """By its own claims: the server may grant less than was requested, and its clock may differ from ours."""
    claims = token.split(".")[1]
    found = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    return int(found["exp"] - found["iat"])


def _at(server: str) -> str:
    return f" at {server}" if server else ""
