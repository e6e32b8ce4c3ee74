"""Whether both versions accept the tokens that either issues to a ServiceAccount, as all pods' clients use."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.onhost.rehearsal.api import ACCEPTED, Api, Resource

__all__ = ["SERVICE_ACCOUNTS", "refused_tokens"]

SERVICE_ACCOUNTS = ("", "serviceaccounts")
_GROUP = "authentication.k8s.io/v1"


def refused_tokens(current: Api, target: Api, accounts: Resource) -> Iterator[tuple[str, str]]:
    """Each kind of finding, and why, in a server's words: the target refuses the running version's (`token`) or its own
    (`token-own`), it issues none (`token-none`), or the running version refuses the target's (`token-new`).

    Nothing where the running version issues none that it accepts itself. A token isn't stored, nor is its review.
    Raises Failed.
    """
    found = current.page(accounts, "", limit=1).found
    if not found:
        return
    metadata = found[0].item["metadata"]
    path = f"{accounts.path(metadata['namespace'], metadata['name'])}/token"
    old, _ = _issued(current, path)
    if not old or _refused(current, old) is not None:
        return
    why = _refused(target, old)
    if why is not None:
        yield "token", why
    # New pods get one of the target, with which they may ask a controller that is not upgraded yet.
    new, refused = _issued(target, path)
    if not new:
        yield "token-none", refused
        return
    for what, api in (("token-own", target), ("token-new", current)):
        why = _refused(api, new)
        if why is not None:
            yield what, why
            return


def _issued(api: Api, path: str) -> tuple[str, str]:
    """A token; "", and why it isn't issued."""
    status, answer = api.ask("POST", path, {"apiVersion": _GROUP, "kind": "TokenRequest", "spec": {}})
    token = (answer.get("status") or {}).get("token") if status in ACCEPTED else None
    return (str(token), "") if token else ("", str(answer.get("message") or f"status {status}"))


def _refused(api: Api, token: str) -> str | None:
    review = {"apiVersion": _GROUP, "kind": "TokenReview", "spec": {"token": token}}
    status, answer = api.ask("POST", f"/apis/{_GROUP}/tokenreviews", review)
    if status not in ACCEPTED:
        return str(answer.get("message") or f"status {status}")
    said = answer.get("status") or {}
    return None if said.get("authenticated") else str(said.get("error") or "it is not authenticated")
