"""A plan that was saved: what it is bound to, and what must not have changed when it is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from upgrader.model.version import KubernetesVersion

__all__ = ["BoundInput", "BoundRelease", "PlanBinding", "SavedPlan"]


@dataclass(frozen=True)
class BoundRelease:
    """A release of the pipeline, and Helm's newest revision of it; 0: there is none."""

    name: str
    revision: int


@dataclass(frozen=True)
class BoundInput:
    """One input of a run, such as `the chart of web`, and the SHA-256 of its content without secret values."""

    name: str
    sha256: str


@dataclass(frozen=True)
class PlanBinding:
    """The cluster and the inputs that a plan was made from: the same again make the same plan."""

    tool_version: str
    cluster_uid: str
    """The UID of the namespace kube-system."""
    current: KubernetesVersion
    target: KubernetesVersion
    steps: tuple[str, ...]
    """The pipeline, in its order."""
    releases: tuple[BoundRelease, ...]
    inputs: tuple[BoundInput, ...]

    def differences(self, now: PlanBinding) -> Iterator[str]:
        """What differs now, each in a few words."""
        if now.cluster_uid != self.cluster_uid:
            yield f"it was made for another cluster (UID {self.cluster_uid}, this one has {now.cluster_uid})"
        if now.tool_version != self.tool_version:
            yield f"it was made by upgrader {self.tool_version}, and this is {now.tool_version}"
        if now.current != self.current:
            yield f"the API server was at {self.current}, and is at {now.current}"
        if now.target != self.target:
            yield f"its target is {self.target}, and not {now.target}"
        if now.steps != self.steps:
            yield f"the steps were {', '.join(self.steps)}, and are {', '.join(now.steps)}"
        revisions = {item.name: item.revision for item in now.releases}
        for item in self.releases:
            found = revisions.get(item.name, item.revision)
            if found != item.revision:
                yield f"release {item.name} was {_revision(item.revision)}, and is {_revision(found)}"
        yield from _changed(self._digests, now._digests)

    @property
    def _digests(self) -> dict[str, str]:
        return {item.name: item.sha256 for item in self.inputs}


@dataclass(frozen=True)
class SavedPlan:
    """A binding, and for how long it may be run. Times are ISO 8601 in UTC."""

    format_version: str
    created: str
    expires: str
    binding: PlanBinding

    def differences(self, now: PlanBinding, time: datetime) -> tuple[str, ...]:
        """Why it must not be run; nothing where a run at `time` would be exactly what was planned."""
        expired = time >= datetime.fromisoformat(self.expires)
        return (*([f"it expired at {self.expires}"] if expired else []), *self.binding.differences(now))


def _revision(number: int) -> str:
    return f"at revision {number}" if number else "not installed"


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *now]):
        if name not in now:
            yield f"{name} is gone"
        elif before.get(name) != now[name]:
            yield f"{name} changed" if name in before else f"{name} is new"
