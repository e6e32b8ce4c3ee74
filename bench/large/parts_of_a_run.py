"""Which part of `upgrader` sent a request: the gates, or something else that a run does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Literal
from urllib.parse import urlsplit

from bench.large.audit import Request

__all__ = ["Part", "counted", "part_of"]

Part = Literal["checks", "gates", "prober", "lock and journal", "images"]

_PROBER = "upgrader-availability"
_PULLER = "upgrader-image-puller"
_LOCK = "/leases/upgrader"
_JOURNAL = "upgrader.run"


def part_of(request: Request, started: datetime) -> Part | None:
    """None: not `upgrader` itself. What it asks before the run has `started` are checks, the plan among them.

    Of what it asks afterwards, all is the gates' (also that of the watcher beside Helm) but what its name tells to be
    another's: so the gates' number is an upper limit.
    """
    if not request.agent.startswith("upgrader"):
        return None
    if request.agent.startswith(_PROBER):
        return "prober"
    if request.at < started:
        return "checks"
    created = request.resource if request.verb == "create" and "dryRun" not in request.query else ""
    if _PULLER in request.uri or created == "pods":
        return "images"
    if urlsplit(request.uri).path.endswith(_LOCK) or _JOURNAL in request.uri or created in ("secrets", "leases"):
        return "lock and journal"
    return "gates"


def counted(requests: Iterable[Request], started: datetime) -> dict[str, int]:
    """Part → its requests, most first; those of others are not among them."""
    parts = Counter(part for request in requests if (part := part_of(request, started)))
    return {str(part): number for part, number in parts.most_common()}
