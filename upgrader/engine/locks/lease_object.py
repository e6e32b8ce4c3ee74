"""The cluster's lock in the API: a Lease that names who works on this cluster, and on what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from upgrader.model.object_purpose import DESCRIPTION
from upgrader.ports import Kind, KubeObject

__all__ = ["GROUPS", "LEASES", "LEASE_SECONDS", "NAME", "NAMESPACE", "RUN", "Holder", "Lease", "manifest"]

LEASES = Kind("coordination.k8s.io/v1", "leases")
NAME = "upgrader"
NAMESPACE = "kube-system"

LEASE_SECONDS = 60
"""How long others wait for a sign of life; longer than an API server stalls while etcd restarts."""

RUN = "upgrader.io/run"
GROUPS = "guard.upgrader.io/groups"
"""Annotation for guard: the groups of StatefulSets (`NAMESPACE/GROUP`, with commas between) that may roll now."""

_DOING, _FOLDER = "upgrader.io/doing", "upgrader.io/folder-lock"
_PURPOSE = (
    "upgrader's lock: which process changes this cluster's control plane, in which run. Free while it has no holder."
)


@dataclass(frozen=True)
class Holder:
    """Who holds the lock: a process with a unique name, and what it does."""

    identity: str
    """Unique for each process, and readable: `anna@laptop (process 42, 5f0c)`."""
    folder_lock: str = ""
    """Identifies its folder's lock file (`lock_identity`); "" when unknown."""
    run: str = ""
    doing: str = ""
    groups: tuple[str, ...] = ()
    """The groups of StatefulSets (`NAMESPACE/GROUP`) that its step rolls."""

    def __str__(self) -> str:
        what = ": ".join(filter(None, [self.run, self.doing]))
        return f"{self.identity}, {what}" if what else self.identity


@dataclass(frozen=True)
class Lease:
    """The Lease as it was read. Its times are by the holder's clock."""

    holder: Holder | None
    """None: it is free."""
    acquired: str
    renewed: str
    seconds: float
    """The lease duration that the holder asked for."""
    transitions: int
    version: str
    """The object's resourceVersion, without which it can't be changed."""

    @classmethod
    def read(cls, found: KubeObject) -> Lease:
        """From the API's JSON. Fields that are missing there get a value here."""
        metadata, spec = found["metadata"], found.get("spec") or {}
        notes = metadata.get("annotations") or {}
        identity = spec.get("holderIdentity") or ""
        groups = tuple(filter(None, notes.get(GROUPS, "").split(",")))
        holder = Holder(identity, notes.get(_FOLDER, ""), notes.get(RUN, ""), notes.get(_DOING, ""), groups)
        return cls(
            holder=holder if identity else None,
            acquired=spec.get("acquireTime") or "",
            renewed=spec.get("renewTime") or "",
            seconds=float(spec.get("leaseDurationSeconds") or LEASE_SECONDS),
            transitions=spec.get("leaseTransitions") or 0,
            version=metadata.get("resourceVersion", ""),
        )

    @property
    def sign_of_life(self) -> tuple[str, str]:
        """Changes whenever the holder renews or another process takes over."""
        return (self.holder.identity if self.holder else "", self.renewed)


def manifest(
    holder: Holder | None, *, now: datetime, acquired: str = "", transitions: int = 0, version: str = ""
) -> dict[str, Any]:
    """The Lease held by `holder`, or free. With a version, the API refuses it (409) if it has changed since."""
    time = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec: dict[str, Any] = {"leaseTransitions": transitions}
    notes: dict[str, str] = {}
    if holder is not None:
        spec |= {
            "holderIdentity": holder.identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": acquired or time,
            "renewTime": time,
        }
        notes = {_FOLDER: holder.folder_lock, RUN: holder.run, _DOING: holder.doing}
        notes |= {GROUPS: ",".join(sorted(holder.groups))}
    return {
        "apiVersion": LEASES.api_version,
        "kind": "Lease",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "annotations": {DESCRIPTION: _PURPOSE, **{key: value for key, value in notes.items() if value}},
            **({"resourceVersion": version} if version else {}),
        },
        "spec": spec,
    }
