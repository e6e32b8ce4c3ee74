"""Determines which component has forbidden a write."""

from __future__ import annotations

import re

_OWN = re.compile(r"admission control is denying all modifications", re.IGNORECASE)
"""The only refusal that no object in the API, and no other program, causes: RBAC rules, webhooks, their conditions,
policies and quotas are stored in the API, and another kube-apiserver would refuse the same. Unknown messages prove
nothing.
"""
_WEBHOOKS = re.compile(r"admission webhook|denied (the )?request", re.IGNORECASE)
"""Their messages have no fixed form."""


def is_webhooks(answer: str) -> bool:
    """Whether a webhook, or a ValidatingAdmissionPolicy, forbids it."""
    return bool(_WEBHOOKS.search(answer))


def is_servers_own(answer: str) -> bool:
    """Whether the API server itself, by its own flags, forbids every write. `answer`: its message with the HTTP 403."""
    return bool(_OWN.search(answer)) and not is_webhooks(answer)
