"""Whether both versions accept the tokens that either issues to ServiceAccounts, as all pods' clients use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from upgrader.onhost.rehearsal.api import ACCEPTED, Api, Resource

__all__ = ["SERVICE_ACCOUNTS", "Refused", "refused_tokens", "sample"]

SERVICE_ACCOUNTS = ("", "serviceaccounts")
_GROUP = "authentication.k8s.io/v1"
_SAMPLE = 10
"""Issuers, keys and audiences are the same for all accounts, so that one would show what is wrong with them. Policies
and terminating namespaces decide for each: of ten namespaces, at least one is among those that are refused in 98 of 100
rehearsals, if a third of all is.
"""


class Refused(NamedTuple):
    """A token of one account."""

    what: str
    """The target refuses the running version's (`token`) or its own (`token-own`), it issues none (`token-none`), or
    the running version refuses the target's (`token-new`). Of all that were tried, the running version has issued none
    that it accepts itself (`no-token`).
    """
    why: str
    """In a server's words."""
    key: tuple[str, str]
    """Namespace and name of the account."""


def sample(keys: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """One account of each namespace: of many, ten that are evenly spread over all. `keys`: namespaces and names."""
    first: dict[str, tuple[str, str]] = {}
    for key in keys:
        first.setdefault(key[0], key)
    found = sorted(first.values())
    if len(found) <= _SAMPLE:
        return found
    return [found[number * (len(found) - 1) // (_SAMPLE - 1)] for number in range(_SAMPLE)]


def refused_tokens(current: Api, target: Api, accounts: Resource, keys: Sequence[tuple[str, str]]) -> Iterator[Refused]:
    """What is found of the accounts of these `keys`. A token isn't stored, nor is its review. Raises Failed.

    An account whose token doesn't work today shows nothing, and nothing is shown if that is so for all.
    """
    refused_today = []  # type: list[Refused]
    for key in keys:
        path = f"{accounts.path(*key)}/token"
        old, why = _issued(current, path)
        refused = _refused(current, old) if old else why
        if refused is None:
            yield from (Refused(what, why, key) for what, why in _of_account(current, target, path, old))
        else:
            refused_today.append(Refused("no-token", refused, key))
    if len(refused_today) == len(keys):
        yield from refused_today


def _of_account(current: Api, target: Api, path: str, old: str) -> Iterator[tuple[str, str]]:
    """Of one whose token `old` of the running version works there."""
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
