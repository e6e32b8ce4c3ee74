"""Which PodProtector a Deployment has, and when it goes.

A protector outlives its Deployment when that has vanished without having been deleted, as it does when objects are
lost: then it is what stands between the pods and a controller that takes them for orphans. So it stays until its pods
are gone, even where it is deleted, or its namespace is: that may be the same accident.

When the Deployment is applied again, its old pods are still orphans. A manifest whose replicas an autoscaler sets has
none, so that the new Deployment begins with 1. So the protector keeps as many pods as before until the new Deployment
wants as many.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from upgrader.contract.times import timestamp
from upgrader.in_cluster.guard.core.selectors import Selector

__all__ = [
    "FINALIZER",
    "RELEASE",
    "REMOVE_CELL_ONCE",
    "SOURCE_UID",
    "Wanted",
    "Work",
    "belongs_to",
    "cells_to_remove",
    "conditions",
    "min_available",
    "protector_name",
    "wanted",
    "work",
]

FINALIZER = "podseidon.kubewharf.io/generator"
RELEASE = "guard.upgrader.io/release"
"""On a protector whose Deployment has vanished, with the value "true": its pods are protected no longer. If the
Deployment was applied again: they are protected as that one says."""
SOURCE_UID = "guard.upgrader.io/source-uid"
"""On a protector: the UID of the Deployment that it follows. One that is deleted takes its protector along; so a
Deployment of another UID replaces one that has vanished."""
REMOVE_CELL_ONCE = "podseidon.kubewharf.io/remove-cell-once"
_SOURCE = "podseidon.kubewharf.io/source-"
_PERCENT = re.compile(r"([0-9]{1,9})%")
_LONGEST_NAME, _LONGEST_LABEL = 253, 63


@dataclass(frozen=True)
class Wanted:
    """The protector that a Deployment must have. `condition`: why it protects nothing; empty if it does. `keeps`: why
    it doesn't follow the Deployment; empty if it does.
    """

    namespace: str
    name: str
    labels: Mapping[str, str]
    spec: Mapping[str, Any]
    annotations: Mapping[str, str]
    condition: str = ""
    keeps: str = ""


@dataclass(frozen=True)
class Work:
    """What to do about a Deployment and its protector, in this order; each step may have been done already.

    The finalizer is on the Deployment before there is a protector, and leaves it after the protector has gone, so that
    a Deployment that is deleted is always seen to be. `orphaned`: the protector stays although its source is gone.
    """

    add_source_finalizer: bool = False
    create: bool = False
    update: bool = False
    release: bool = False  # take the finalizer off the protector, and delete it
    remove_source_finalizer: bool = False
    orphaned: bool = False


def min_available(deployment: Mapping[str, Any]) -> tuple[int, str]:
    """How many pods a rollout of the Deployment leaves available, and why it is 0 if its strategy is the reason.

    As its controller rounds: maxUnavailable down, maxSurge up, and 1 unavailable if both are 0 then.
    """
    spec = deployment.get("spec") or {}
    replicas = spec.get("replicas")
    replicas = 1 if replicas is None else replicas
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return 0, "the strategy Recreate deletes all pods before it makes new ones"
    rolling = strategy.get("rollingUpdate") or {}
    unavailable = _amount(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    surge = _amount(rolling.get("maxSurge", "25%"), replicas, up=True)
    if unavailable == 0 and surge == 0:
        unavailable = 1
    return max(0, replicas - unavailable), ""


def protector_name(deployment: str) -> str:
    """The name of a Deployment's protector; with a hash if that is too long for a name."""
    return _short(f"deployment-{deployment}", _LONGEST_NAME)


def belongs_to(protector: Mapping[str, Any], deployment: str) -> bool:
    """Whether the protector was made for the Deployment of this name, rather than by people."""
    labels = protector["metadata"].get("labels") or {}
    source = (labels.get(f"{_SOURCE}kind"), labels.get(f"{_SOURCE}name"))
    return source == ("Deployment", _short(deployment, _LONGEST_LABEL))


def wanted(
    deployment: Mapping[str, Any], protected: Selector, protector: Mapping[str, Any] | None = None
) -> Wanted | None:
    """The protector that this Deployment must have; None if it must have none. `protector`: the one that it has.

    One that is being deleted must have none: who deletes it wants its pods to go.
    """
    metadata, spec = deployment["metadata"], deployment["spec"]
    if not protected.matches(metadata.get("labels") or {}) or metadata.get("deletionTimestamp"):
        return None
    least, condition = min_available(deployment)
    target = Wanted(
        namespace=metadata["namespace"],
        name=protector_name(metadata["name"]),
        labels={
            f"{_SOURCE}name": _short(metadata["name"], _LONGEST_LABEL),
            f"{_SOURCE}group": "apps",
            f"{_SOURCE}kind": "Deployment",
            f"{_SOURCE}resource": "deployments",
        },
        spec={
            "minAvailable": least,
            "minReadySeconds": spec.get("minReadySeconds") or 0,
            "selector": spec["selector"],
        },
        annotations={SOURCE_UID: metadata["uid"]},
        condition=condition,
    )
    return target if protector is None else _kept(deployment, protector, target) or target


def _kept(deployment: Mapping[str, Any], protector: Mapping[str, Any], target: Wanted) -> Wanted | None:
    """What a protector keeps of a Deployment that vanished; None if it may follow the one that was applied since."""
    notes, spec = protector["metadata"].get("annotations") or {}, protector.get("spec") or {}
    known = notes.get(SOURCE_UID)
    if known is None:  # Podseidon made it: a Deployment with the finalizer is the one for which it was made
        vanished = FINALIZER not in (deployment["metadata"].get("finalizers") or ())
    else:
        vanished = known != target.annotations[SOURCE_UID]
    if not vanished or notes.get(RELEASE) == "true" or not _protects(protector):
        return None
    before, now = spec["minAvailable"], target.spec["minAvailable"]
    if now >= before and spec.get("selector") == target.spec["selector"]:
        return None
    which = "a different selector" if now >= before else f"fewer replicas, {now} of them protected"
    message = (
        f"the Deployment was gone, and was applied again with {which}. This PodProtector protects {before} pods of "
        "its own selector, until the Deployment has the same selector and enough replicas. To make "
        f"the PodProtector follow the Deployment now, annotate it with {RELEASE}=true"
    )
    kept = {key: spec[key] for key in target.spec if key in spec}
    return replace(target, spec=kept, annotations={}, condition="", keeps=message)


def work(
    deployment: Mapping[str, Any] | None,
    protector: Mapping[str, Any] | None,
    protected: Selector,
    *,
    others_protect: bool = False,
) -> Work:
    """What to do about a Deployment (None: there is none) and the protector of its name (None: there is none).

    `others_protect`: whether another protector, which isn't being deleted, selects the same pods.
    """
    if deployment is None:
        if protector is None:
            return Work()
        released = (protector["metadata"].get("annotations") or {}).get(RELEASE) == "true"
        going = bool(protector["metadata"].get("deletionTimestamp"))
        release = released or (going and (others_protect or not _protects(protector)))
        return Work(release=release, orphaned=not release)
    marked = FINALIZER in (deployment["metadata"].get("finalizers") or ())
    target = wanted(deployment, protected, protector)
    if target is None:
        return Work(release=protector is not None, remove_source_finalizer=marked)
    if protector is None:
        return Work(add_source_finalizer=not marked, create=True)
    return Work(add_source_finalizer=not marked, update=_differs(protector, target))


def conditions(before: Iterable[Mapping[str, Any]], target: Wanted | None, now: float) -> list[Mapping[str, Any]]:
    """A protector's conditions. `target` None: its Deployment has vanished. Others' conditions stay."""
    found = {condition["type"]: condition for condition in before}
    if target is None:
        message = (
            "the Deployment no longer exists, but no client deleted it: apply it again, with as many replicas as it "
            "had. Its pods stay protected until they are gone, even if this PodProtector is deleted. To end their "
            f"protection, annotate this PodProtector with {RELEASE}=true"
        )
        states = [("SourceFound", "False", "Vanished", message)]
    else:
        protects = ("False", "Recreate", target.condition) if target.condition else ("True", "RollingUpdate", "")
        found_again = ("AppliedAgain", target.keeps) if target.keeps else ("Exists", "")
        states = [("Protects", *protects), ("SourceFound", "True", *found_again)]
    for kind, status, reason, message in states:
        old = found.get(kind, {})
        since = old.get("lastTransitionTime") if old.get("status") == status else None
        found[kind] = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since or timestamp(now),
        }
    return list(found.values())


def cells_to_remove(protector: Mapping[str, Any]) -> frozenset[str]:
    """The cells to be forgotten once; the annotation is taken off in the same pass."""
    text = (protector["metadata"].get("annotations") or {}).get(REMOVE_CELL_ONCE, "")
    return frozenset(name for part in text.split(",") if (name := part.strip()))


def _protects(protector: Mapping[str, Any]) -> bool:
    """Whether it keeps any pods: False if every cell has counted none; True if no cell has counted yet."""
    if not (protector.get("spec") or {}).get("minAvailable"):
        return False
    cells = (protector.get("status") or {}).get("cells") or ()
    return not cells or any((cell.get("aggregation") or {}).get("totalReplicas") != 0 for cell in cells)


def _differs(protector: Mapping[str, Any], target: Wanted) -> bool:
    """Whether it has other values than it must, or no finalizer; what people added beside them is theirs."""
    metadata, spec = protector["metadata"], protector.get("spec") or {}
    labels, notes = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return (
        FINALIZER not in (metadata.get("finalizers") or ())
        or RELEASE in notes  # it has done its work, and must not release the pods when the Deployment vanishes next
        or any(notes.get(key) != value for key, value in target.annotations.items())
        or any(labels.get(key) != value for key, value in target.labels.items())
        or any(spec.get(key) != value for key, value in target.spec.items())
    )


def _short(text: str, most: int) -> str:
    """Its beginning and a hash where it is too long."""
    if len(text) <= most:
        return text
    return f"{text[: most - 9].rstrip('-.')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _amount(value: object, replicas: int, *, up: bool) -> int:
    """A number or a percentage of the replicas; anything else is 0, but the API server doesn't store that."""
    if isinstance(value, int) and not isinstance(value, bool):
        return max(0, value)
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if percent is None:
        return 0
    return -(-replicas * int(percent[1]) // 100) if up else replicas * int(percent[1]) // 100
