"""Keeps pods and Secrets out of the memory of a scratch kube-apiserver.

Every kube-apiserver has informers for all of them, whatever its flags: they look up what the token of a ServiceAccount
is bound to, and no such token is used here. 100,000 pods with two containers each take 1.3 GiB, in each version. But an
informer that meets an object that it can't read has none at all. So both resources get such an object, before all
others, and lists begin after it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Container
from typing import Any

__all__ = ["KEYS", "UNREADABLE", "block_informers", "first", "only_these", "withheld"]

_RESOURCES = (("", "pods"), ("", "secrets"))
KEYS = ("/pods/!", "/secrets/!")
"""Below the prefix of a server's keys: what sorts before each namespace."""
UNREADABLE = "not an object"
"""Their value."""
_AFTER = "0"
_TYPES = frozenset({"*v1.Pod", "*v1.Secret"})
_NOT_STARTED = re.compile(r"informers not started yet: \[([^\]]*)\]")


def first(group: str, plural: str, revision: int) -> str:
    """Where a list begins: the `continue` of its request. `revision`: etcd's, when it had the keys; 0: it has none."""
    if not revision or (group, plural) not in _RESOURCES:
        return ""
    token = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": _AFTER})
    return base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def only_these(said: str) -> bool:
    """Whether a server lacks no other informers, by what it says of them (`/readyz/informer-sync`)."""
    found = _NOT_STARTED.search(said)
    return bool(found and set(found[1].split()) <= _TYPES)


def withheld(parameters: dict[str, Any] | None, there: Container[tuple[str, str]]) -> bool:
    """Whether a server has no parameters of this kind (`paramKind`) for an admission policy, which takes them from its
    informers: what the policy selects is refused then, or admitted, by its `failurePolicy`. `there`: versions and
    kinds that the server serves and can read.
    """
    if not parameters:
        return False
    kind = str(parameters.get("apiVersion")), str(parameters.get("kind"))
    return kind not in there or (kind[0] == "v1" and f"*v1.{kind[1]}" in _TYPES)


def block_informers(undecodable: Container[str]) -> bool:
    """Whether the target's informers, on the cluster itself, would never have all of both resources: it would not get
    ready then. `undecodable`: names of resources of which it can't decode some objects.
    """
    return any(plural in undecodable for _, plural in _RESOURCES)
