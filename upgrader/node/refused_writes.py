"""Whose refusal a forbidden write is."""

from __future__ import annotations

import re

_OWN = re.compile(
    "admission control is denying all modifications"  # AlwaysDeny
    '|image policy webhook backend denied|is forbidden: Post "https?://',  # ImagePolicyWebhook, and where it is down
    re.IGNORECASE,
)
"""The refusals that no object in the API brings about: rights, webhooks, their conditions, policies and quotas are
stored there, so that another kube-apiserver refuses the same. Of what isn't known, nothing is concluded."""


def is_servers_own(answer: str) -> bool:
    """Whether the API server itself, by its own flags, forbids a write. `answer`: what it said to an HTTP 403."""
    return bool(_OWN.search(answer))
