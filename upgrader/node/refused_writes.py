"""Whose refusal a forbidden write is."""

from __future__ import annotations

import re

_OTHERS = re.compile(
    r'webhook|AdmissionPolicy|quota|User \\?".*" cannot |denied (the )?request', re.IGNORECASE | re.DOTALL
)
"""A write that was forbidden by what is stored in the API, or to this caller: another kube-apiserver does the same."""


def is_servers_own(answer: str) -> bool:
    """Whether the API server itself, by its admission plugins, forbade a write that it answered with HTTP 403.

    `answer`: its message, or the Status object as JSON.
    """
    return not _OTHERS.search(answer)
