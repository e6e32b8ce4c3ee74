"""Hold: as long as a run of the upgrader is alive, no group begins to roll but those that it names, and none shrinks.

A run shows that it is alive by renewing the Lease `kube-system/upgrader`. No clocks are compared, as in Kubernetes'
leader election: it is dead once it was seen unchanged for as long as it says, by the clock of the watching process.
Only time in which the Lease could be read counts: while the API is away a run can't renew it, and an upgrade of the
control plane is when the API is away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.in_cluster.guard.core.admission import FORBIDDEN, AdmissionRequest, Answer, deny
from upgrader.in_cluster.guard.core.downscale import by_scale, what
from upgrader.in_cluster.guard.core.rollout import Hold

__all__ = ["GROUPS", "Seen", "held_by", "refuse_downscale", "seen"]

GROUPS = "guard.upgrader.io/groups"
"""Annotation of the Lease: the groups (`NAMESPACE/GROUP`, with commas between) that the run lets roll."""

_RUN = "upgrader.io/run"
_DEFAULT_SECONDS = 60.0
"""How long a run's Lease is valid if it doesn't say so itself."""
_GAP_SECONDS = 15.0
"""What lies between two looks counts only where they are no further apart."""


@dataclass(frozen=True)
class Seen:
    """What the Lease was when it was read at `at`, and `since` when it hasn't changed, in seconds of one clock."""

    holder: str
    renewed: str
    seconds: float
    hold: Hold
    since: float
    at: float


def seen(before: Seen | None, lease: Mapping[str, Any] | None, now: float) -> Seen:
    """After one more look; `lease` None: there is none."""
    metadata, spec = (lease or {}).get("metadata") or {}, (lease or {}).get("spec") or {}
    notes = metadata.get("annotations") or {}
    holder, renewed = str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or "")
    groups = frozenset(filter(None, (each.strip() for each in str(notes.get(GROUPS) or "").split(","))))
    unchanged = before is not None and (before.holder, before.renewed) == (holder, renewed)
    watched = before is not None and now - before.at <= _GAP_SECONDS
    since = before.since if before is not None and unchanged and watched else now
    return Seen(holder, renewed, _seconds(spec), Hold(str(notes.get(_RUN) or holder), groups), since, now)


def held_by(last: Seen) -> Hold | None:
    """The run that is alive; None where none is. One that was seen for the first time is alive."""
    return last.hold if last.holder and last.at - last.since < last.seconds else None


def refuse_downscale(request: AdmissionRequest, group: str, hold: Hold) -> Answer | None:
    """The refusal of a downscale of a set in a group; None where it may be done.

    What the run's own release says of its own groups is done, or the release, or its rollback, would fail: Helm writes
    the object, while autoscalers and `kubectl scale` write its Scale.
    """
    if f"{request.namespace}/{group}" in hold.groups and not by_scale(request):
        return None
    return deny(FORBIDDEN, f"{what(request)} is not allowed while the upgrade {hold.run} holds the group {group}")


def _seconds(spec: Mapping[str, Any]) -> float:
    seconds = spec.get("leaseDurationSeconds")
    whole = isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0
    return float(seconds) if whole and seconds is not None else _DEFAULT_SECONDS
