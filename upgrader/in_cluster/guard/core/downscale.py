"""No-downscale: an object with the label doesn't get fewer replicas, by its own update or by `/scale`.

A StatefulSet also loses pods, with as many replicas or more, when its `spec.ordinals.start` changes.

It is conservative the other way round from the rest: what can't be read is let through with a warning, as an object
without the label must never be stuck because of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.in_cluster.guard.core.admission import FORBIDDEN, AdmissionRequest, Answer, allow, deny

__all__ = [
    "NO_DOWNSCALE",
    "Move",
    "Parent",
    "Unreadable",
    "both",
    "by_scale",
    "decide",
    "labels_before",
    "moved",
    "needs_parent",
    "shrinks",
    "what",
]

NO_DOWNSCALE = "grafana.com/no-downscale"
_MOST_REPLICAS = 2**31


class Unreadable(ValueError):
    """Something in the request isn't what it should be; says what."""


@dataclass(frozen=True)
class Move:
    """A StatefulSet's first ordinal, before and after, and the ordinals that it loses by that: at its beginning, and at
    its end.
    """

    before: int
    after: int
    lost: tuple[range, ...]

    def pods(self, of: str) -> str:
        """The pods that it loses, as a sentence's object. `of`: its name."""
        names = (f"{of}-{each[0]}" + (f" to {of}-{each[-1]}" if len(each) > 1 else "") for each in self.lost)
        return " and ".join(names)


@dataclass(frozen=True)
class Parent:
    """The object that a Scale belongs to: its labels, or why it couldn't be read."""

    labels: Mapping[str, str] | None
    why_not: str = ""


def needs_parent(request: AdmissionRequest) -> bool:
    """Whether `decide` needs the object's labels from the API: it shrinks by `/scale`, where there are none."""
    return by_scale(request) and shrinks(request)


def shrinks(request: AdmissionRequest) -> bool:
    """Whether it is known to lose pods."""
    try:
        before, after = both(request)
        if moved(request):
            return True
    except Unreadable:
        return False
    return before is not None and after is not None and after < before


def decide(request: AdmissionRequest, parent: Parent | None = None) -> Answer:
    """The answer, the same on a dry run. `parent`: where `needs_parent` says so."""
    if request.operation != "UPDATE":
        return allow()
    try:
        before, after = both(request)
        move = moved(request)
    except Unreadable as error:
        return allow(f"{request}: allowed, because {error}")
    if move is None:
        if before == after:
            return allow()
        if before is None or after is None:
            return allow(f"{request}: allowed, because replicas change {'from' if before is None else 'to'} null")
        if after > before:
            return allow()
    if by_scale(request):
        if parent is None or parent.labels is None:
            why = "they weren't requested" if parent is None else parent.why_not
            return allow(f"{request}: allowed, because its labels can't be read: {why}")
        labels: Mapping[str, Any] = parent.labels
    else:
        labels = labels_before(request)
    if labels.get(NO_DOWNSCALE) != "true":
        return allow()
    return deny(FORBIDDEN, f"{what(request)} is not allowed because it has the label '{NO_DOWNSCALE}=true'")


def what(request: AdmissionRequest) -> str:
    """A sentence's subject, for a request by which an object loses pods. Raises `Unreadable`."""
    name = f"{request.resource}/{request.name} in {request.namespace}"
    if move := moved(request):
        return f"change of spec.ordinals.start of {name} from {move.before} to {move.after}"
    before, after = both(request)
    return f"downscale of {name} from {before} to {after} replicas"


def moved(request: AdmissionRequest) -> Move | None:
    """Which pods a StatefulSet loses by another first ordinal; None where it has the same, or loses none.

    Raises `Unreadable`.
    """
    if request.resource != "statefulsets" or by_scale(request):
        return None
    old, new = _ordinals(request.old_object), _ordinals(request.object)
    first, last = range(old.start, min(new.start, old.stop)), range(max(new.stop, old.start), old.stop)
    if old.start == new.start or not (first or last):
        return None
    return Move(old.start, new.start, tuple(each for each in (first, last) if each))


def replicas_of(content: Mapping[str, Any] | None, *, scale: bool) -> int | None:
    """`spec.replicas`, None for null or none; a Scale leaves them out when they are 0. Raises `Unreadable`."""
    if content is None:
        raise Unreadable("the review has no object")
    spec = content.get("spec")
    if spec is None and scale:
        spec = {}
    if not isinstance(spec, dict):
        raise Unreadable("the object has no spec")
    replicas = spec.get("replicas")
    if replicas is None:
        return 0 if scale else None
    if not isinstance(replicas, int) or isinstance(replicas, bool) or not 0 <= replicas < _MOST_REPLICAS:
        raise Unreadable("its replicas aren't a number")
    return replicas


def _ordinals(content: Mapping[str, Any] | None) -> range:
    replicas = replicas_of(content, scale=False)
    assert content is not None
    ordinals = content["spec"].get("ordinals") or {}
    start = ordinals.get("start", 0) if isinstance(ordinals, dict) else None
    if not isinstance(start, int) or isinstance(start, bool) or not 0 <= start < _MOST_REPLICAS:
        raise Unreadable("its first ordinal isn't a number")
    return range(start, start + (1 if replicas is None else replicas))


def both(request: AdmissionRequest) -> tuple[int | None, int | None]:
    """The replicas before and after, None for null. Raises `Unreadable`."""
    scale = by_scale(request)
    return replicas_of(request.old_object, scale=scale), replicas_of(request.object, scale=scale)


def by_scale(request: AdmissionRequest) -> bool:
    """Whether it is a Scale that changes, not the object itself."""
    return request.subresource == "scale" or request.kind == "Scale"


def labels_before(request: AdmissionRequest) -> Mapping[str, Any]:
    """The labels before the change, so that taking the label off and shrinking are two requests."""
    metadata = (request.old_object or {}).get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels if isinstance(labels, dict) else {}
