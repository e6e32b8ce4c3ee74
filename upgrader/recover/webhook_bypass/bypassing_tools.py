"""The Kubernetes API and Helm, as a run uses them: what an unreachable webhook of guard's refuses is tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from upgrader.model.release import ReleaseSpec, Revision
from upgrader.model.version import KubernetesVersion
from upgrader.ports import AT_ONCE, Helm, Kind, Kube, KubeObject
from upgrader.recover.webhook_bypass.unreachable import UnreachableWebhooks

__all__ = ["BypassingHelm", "BypassingKube"]

T = TypeVar("T")

_PATIENCE_SECONDS = 30.0
"""For how long a webhook refuses a write until it is switched off: about as long as another pod of it needs to start.
A release is not tried again for so long: each time has a revision of its own.
"""


@dataclass(frozen=True)
class BypassingKube:
    """`ports.Kube`. Dry runs of creations, too: they ask for what a run needs."""

    kube: Kube
    webhooks: UnreachableWebhooks

    def get(self, kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        return self.kube.get(kind, name, namespace)

    def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[KubeObject, ...]:
        return self.kube.list(kind, namespace, labels=labels, fields=fields)

    def each(
        self, kind: Kind, namespace: str = "", *, labels: str = "", at_once: int = AT_ONCE, metadata_only: bool = False
    ) -> Iterator[KubeObject]:
        return self.kube.each(kind, namespace, labels=labels, at_once=at_once, metadata_only=metadata_only)

    def count(self, kind: Kind, namespace: str = "", *, labels: str = "") -> int:
        return self.kube.count(kind, namespace, labels=labels)

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        return self._needed(lambda: self.kube.create(kind, manifest, namespace, dry_run=dry_run))

    def apply(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        return self._needed(lambda: self.kube.apply(kind, manifest, namespace))

    def replace(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        return self._needed(lambda: self.kube.replace(kind, manifest, namespace))

    def patch(
        self, kind: Kind, name: str, changes: KubeObject, namespace: str = "", *, subresource: str = ""
    ) -> KubeObject:
        return self._needed(lambda: self.kube.patch(kind, name, changes, namespace, subresource=subresource))

    def dry_patch(self, kind: Kind, name: str, changes: KubeObject, namespace: str = "") -> KubeObject:
        return self.kube.dry_patch(kind, name, changes, namespace)

    def delete(self, kind: Kind, name: str, namespace: str = "", *, at_once: bool = False) -> None:
        self._needed(lambda: self.kube.delete(kind, name, namespace, at_once=at_once))

    def evict(self, pod: str, namespace: str, *, uid: str) -> None:
        self._needed(lambda: self.kube.evict(pod, namespace, uid=uid))

    def logs(self, namespace: str, pod: str, container: str, *, previous: bool = False, lines: int = 20) -> str:
        return self.kube.logs(namespace, pod, container, previous=previous, lines=lines)

    def watch(self, kind: Kind, namespace: str, name: str, *, timeout_seconds: int) -> Iterator[KubeObject]:
        return self.kube.watch(kind, namespace, name, timeout_seconds=timeout_seconds)

    def raw(self, path: str, *, server: str = "", token: str = "") -> str:
        return self.kube.raw(path, server=server, token=token)

    def reconnect(self) -> None:
        self.kube.reconnect()

    def server_time(self) -> datetime:
        return self.kube.server_time()

    def request_token(self, service_account: str, namespace: str, *, seconds: int, bound_to: KubeObject) -> str:
        return self.kube.request_token(service_account, namespace, seconds=seconds, bound_to=bound_to)

    def _needed(self, write: Callable[[], T]) -> T:
        return self.webhooks.needed(write, patience_seconds=_PATIENCE_SECONDS)


@dataclass(frozen=True)
class BypassingHelm:
    """`ports.Helm`. An upgrade that was refused has been rolled back by Helm, and is begun again."""

    helm: Helm
    webhooks: UnreachableWebhooks

    def version(self) -> str:
        return self.helm.version()

    def history(self, release: str, namespace: str) -> tuple[Revision, ...]:
        return self.helm.history(release, namespace)

    def at_work(self, release: str, namespace: str) -> int:
        return self.helm.at_work(release, namespace)

    def manifest(self, release: str, namespace: str, revision: int | None = None) -> str:
        return self.helm.manifest(release, namespace, revision)

    def render(self, spec: ReleaseSpec, *, target: KubernetesVersion | None = None, offline: bool = False) -> str:
        return self.helm.render(spec, target=target, offline=offline)

    def definitions(self, chart: Path) -> str:
        return self.helm.definitions(chart)

    def upgrade(
        self,
        spec: ReleaseSpec,
        *,
        timeout_seconds: float,
        watch: Callable[[], None],
        take_ownership: bool = False,
        description: str = "",
        wait: bool = True,
    ) -> Revision:
        return self.webhooks.needed(
            lambda: self.helm.upgrade(
                spec,
                timeout_seconds=timeout_seconds,
                watch=watch,
                take_ownership=take_ownership,
                description=description,
                wait=wait,
            )
        )

    def rollback(
        self,
        release: str,
        namespace: str,
        revision: int,
        *,
        timeout_seconds: float,
        wait: bool = True,
        watch: Callable[[], None] = lambda: None,
    ) -> Revision:
        return self.webhooks.needed(
            lambda: self.helm.rollback(
                release, namespace, revision, timeout_seconds=timeout_seconds, wait=wait, watch=watch
            )
        )

    def uninstall(self, release: str, namespace: str, *, timeout_seconds: float) -> None:
        self.webhooks.needed(lambda: self.helm.uninstall(release, namespace, timeout_seconds=timeout_seconds))
