"""Whether a pod was started with the Secrets and ConfigMaps of now, by what was seen in which order.

Timestamps show it too (`pods.predates`), but two clocks write them, and clocks jump. What this process saw itself, by
its own monotonic clock, comes first; where it saw too little, None means that the timestamps decide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from upgrader.in_cluster.checkpointer.static_pods.pods import VOLUME_LAG, Pod, containers_of

Key = tuple[str, str, str]
"""(kind, namespace, name)."""

_MEMORY = 3600.0


@dataclass(frozen=True)
class _Version:
    """`other_until`: when another version was last seen, None if never; `since`, `last`: when this one was."""

    digest: str
    since: float
    last: float
    other_until: float | None = None


@dataclass(frozen=True)
class _Life:
    """When a pod was first seen, and when with these containers."""

    since: float
    containers: frozenset[str]
    containers_since: float


@dataclass
class Provenance:
    """What was seen so far, in monotonic seconds."""

    _contents: dict[Key, _Version] = field(default_factory=dict)
    _pods: dict[str, _Life] = field(default_factory=dict)

    def see_pods(self, pods: Iterable[Pod], now: float) -> None:
        """All pods of the node that ask for a checkpoint, as the API shows them now."""
        lives: dict[str, _Life] = {}
        for pod in pods:
            uid, containers = pod["metadata"]["uid"], containers_of(pod)
            known = self._pods.get(uid, _Life(now, containers, now))
            lives[uid] = known if known.containers == containers else _Life(known.since, containers, now)
        self._pods = lives

    def see_content(self, key: Key, data: Mapping[str, bytes], now: float) -> None:
        """What a Secret or ConfigMap holds now."""
        digest, known = _digest(data), self._contents.get(key)
        if known is None:
            version = _Version(digest, now, now)
        elif known.digest == digest:
            version = _Version(digest, known.since, now, known.other_until)
        else:
            version = _Version(digest, now, now, known.last)
        self._contents[key] = version
        for old in [k for k, v in self._contents.items() if now - v.last >= _MEMORY]:
            del self._contents[old]

    def started_with(self, pod: Pod, key: Key) -> bool | None:
        """Whether all containers of the pod were started with what `key` holds now; None when that wasn't seen."""
        life, version = self._pods.get(pod["metadata"]["uid"]), self._contents.get(key)
        if life is None or version is None:
            return None
        if life.since > version.since:
            return True  # it was so before there was the pod
        if version.other_until is None or life.since > version.other_until:
            return None
        # Changed under the pod: its containers have it only if they were started after the kubelet brought it there.
        return life.containers_since >= version.since + VOLUME_LAG.total_seconds()


def _digest(data: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(data):
        for part in (name.encode(), data[name]):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
