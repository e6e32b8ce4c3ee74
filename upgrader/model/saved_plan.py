"""A saved plan: what it was made from, and what must not have changed when it is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from upgrader.model.version import KubernetesVersion

__all__ = ["BoundInput", "BoundRelease", "PlanBinding", "SavedPlan"]


@dataclass(frozen=True)
class BoundRelease:
    """A release of the pipeline, as Helm's history has it."""

    name: str
    revision: int
    """The newest one; 0 if there is none."""
    status: str
    """The status of the newest one, in Helm's words."""
    last_good: int
    """The revision that a rollback returns to; 0 if there is none."""

    def __str__(self) -> str:
        if not self.revision:
            return "not installed"
        good = f"last good revision {self.last_good}" if self.last_good else "no good revision"
        return f"at revision {self.revision} ({self.status}), {good}"


@dataclass(frozen=True)
class BoundInput:
    """One input, such as `values/web.yaml`, and a digest of its content: of a run's, an HMAC-SHA256."""

    name: str
    digest: str


@dataclass(frozen=True)
class PlanBinding:
    """The cluster and the inputs that a plan was made from: the same cluster and inputs make the same plan."""

    tool_version: str
    cluster_uid: str
    """The UID of the namespace kube-system."""
    current: KubernetesVersion
    target: KubernetesVersion
    steps: tuple[str, ...]
    """The pipeline, in its order: `release web`, `playbook smoke`."""
    releases: tuple[BoundRelease, ...]
    inputs: tuple[BoundInput, ...] = ()

    def differences(self, now: PlanBinding) -> Iterator[str]:
        """The differences, each in a few words; for inputs, see `changed_inputs`."""
        if now.cluster_uid != self.cluster_uid:
            yield f"it was made for another cluster (UID {self.cluster_uid}, this one's is {now.cluster_uid})"
        if now.tool_version != self.tool_version:
            yield f"it was made by upgrader {self.tool_version}, but this is {now.tool_version}"
        if now.current != self.current:
            yield f"the API server was at {self.current}, and is now at {now.current}"
        if now.target != self.target:
            yield f"its target is {self.target}, not {now.target}"
        if now.steps != self.steps:
            yield f"the steps were {', '.join(self.steps)}, and are now {', '.join(now.steps)}"
        yield from _changed_releases(self.releases, now.releases)

    def same_key(self, now: PlanBinding) -> bool:
        """Whether digests can be compared: their key is derived from this cluster's Helm records of these releases."""
        return (self.cluster_uid, self.releases) == (now.cluster_uid, now.releases)

    def changed_inputs(self, now: Iterable[BoundInput]) -> Iterator[str]:
        """The inputs that differ, each in a few words."""
        before, after = ({item.name: item.digest for item in items} for items in (self.inputs, now))
        for name in dict.fromkeys([*before, *after]):
            if name not in after:
                yield f"{name} was removed"
            elif before.get(name) != after[name]:
                yield f"{name} changed" if name in before else f"{name} was added"


@dataclass(frozen=True)
class SavedPlan:
    """A binding, and until when it may be run. Times are ISO 8601 in UTC."""

    format_version: str
    created: str
    expires: str
    salt: str
    """Random and unique to this plan: its digests differ from those of other plans."""
    binding: PlanBinding

    def expired(self, time: datetime) -> bool:
        """Whether it has expired."""
        return time >= datetime.fromisoformat(self.expires)

    def differences(self, now: PlanBinding, time: datetime) -> tuple[str, ...]:
        """Why it must not be run, except for changed inputs, whose digests need a key."""
        return (*([f"it expired at {self.expires}"] if self.expired(time) else []), *self.binding.differences(now))


def _changed_releases(before: Iterable[BoundRelease], now: Iterable[BoundRelease]) -> Iterator[str]:
    then, after = ({item.name: item for item in items} for items in (before, now))
    for name in dict.fromkeys([*then, *after]):
        if name not in after:
            yield f"release {name} was removed from the pipeline"
        elif name not in then:
            yield f"release {name} was added to the pipeline"
        elif then[name] != after[name]:
            yield f"release {name} was {then[name]}, and is now {after[name]}"
