"""Whose refusal a forbidden write is."""

from __future__ import annotations

import re

_OWN = re.compile(r"admission control is denying all modifications", re.IGNORECASE)
"""The only refusal that no object in the API, and no other program, brings about: rights, webhooks, their conditions,
policies and quotas are stored there, so that another kube-apiserver refuses the same. Of what isn't known, nothing is
concluded."""
_WEBHOOKS = re.compile(r"admission webhook|denied (the )?request", re.IGNORECASE)
"""Their words are free."""


def is_webhooks(answer: str) -> bool:
    """Whether a webhook, or a ValidatingAdmissionPolicy, forbids it."""
    return bool(_WEBHOOKS.search(answer))


def is_servers_own(answer: str) -> bool:
    """Whether the API server itself, by its own flags, forbids every write. `answer`: what it said to an HTTP 403."""
    return bool(_OWN.search(answer)) and not is_webhooks(answer)
