"""Whether the target accepts a token that the running version issues to a ServiceAccount, as all pods' clients use."""

from __future__ import annotations

from upgrader.onhost.rehearsal.api import ACCEPTED, Api, Resource

__all__ = ["SERVICE_ACCOUNTS", "refused_token"]

SERVICE_ACCOUNTS = ("", "serviceaccounts")
_GROUP = "authentication.k8s.io/v1"


def refused_token(current: Api, target: Api, accounts: Resource) -> str | None:
    """Why the target refuses it, in its words; None where it accepts it, or where the running version issues none that
    it accepts itself. A token isn't stored, nor is its review. Raises Failed.
    """
    found = current.page(accounts, "", limit=1).found
    if not found:
        return None
    metadata = found[0].item["metadata"]
    request = {"apiVersion": _GROUP, "kind": "TokenRequest", "spec": {}}
    path = f"{accounts.path(metadata['namespace'], metadata['name'])}/token"
    status, answer = current.ask("POST", path, request)
    token = (answer.get("status") or {}).get("token") if status in ACCEPTED else None
    if not token or _refused(current, token) is not None:
        return None
    return _refused(target, token)


def _refused(api: Api, token: str) -> str | None:
    review = {"apiVersion": _GROUP, "kind": "TokenReview", "spec": {"token": token}}
    status, answer = api.ask("POST", f"/apis/{_GROUP}/tokenreviews", review)
    if status not in ACCEPTED:
        return str(answer.get("message") or f"status {status}")
    said = answer.get("status") or {}
    return None if said.get("authenticated") else str(said.get("error") or "it is not authenticated")
