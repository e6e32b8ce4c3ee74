"""An in-memory Helm: releases are lists of revisions; a test says which upgrades fail, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import yaml

from upgrader.errors import HelmError, UpgraderError
from upgrader.model.release import ReleaseSpec, Revision, RevisionStatus, last_good
from upgrader.model.version import KubernetesVersion

__all__ = ["FakeHelm"]


class FakeHelm:
    """`ports.Helm` in memory. A release's manifest is its values as YAML, so tests can read what was deployed."""

    def __init__(self) -> None:
        self.releases: dict[str, list[Revision]] = {}
        self.manifests: dict[tuple[str, int], str] = {}
        self.fail_upgrade: dict[str, UpgraderError] = {}
        """Release → the error that its next upgrades end in, after Helm has rolled back by itself."""
        self.fail_rollback: dict[str, UpgraderError] = {}
        self.processes: dict[str, int] = {}
        """Release → the process ID of a Helm on this machine that is changing it."""
        self.definitions_of: dict[Path, str] = {}
        """Chart → what it has in its folder crds/."""
        self.calls: list[str] = []

    def version(self) -> str:
        return "4.0.0"

    def history(self, release: str, namespace: str) -> tuple[Revision, ...]:
        return tuple(self.releases.get(release, ()))

    def at_work(self, release: str, namespace: str) -> int:
        return self.processes.get(release, 0)

    def manifest(self, release: str, namespace: str, revision: int | None = None) -> str:
        if not self.releases.get(release):
            raise HelmError(f"release '{release}' is not installed")
        if revision is not None and all(item.number != revision for item in self.releases[release]):
            raise HelmError(f"revision {revision} of release '{release}' is not in Helm's history")
        return self.manifests[release, revision or self.releases[release][-1].number]

    def render(self, spec: ReleaseSpec, *, target: KubernetesVersion | None = None, offline: bool = False) -> str:
        return yaml.safe_dump(dict(spec.values)) if spec.values else ""

    def definitions(self, chart: Path) -> str:
        return self.definitions_of.get(chart, "")

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
        self.calls.append(f"upgrade {spec.name}{'' if wait else ' without waiting'}")
        error = self.fail_upgrade.get(spec.name)
        try:
            watch()
        except UpgraderError as seen:
            error = seen
        if error is not None:
            good = last_good(self.history(spec.name, spec.namespace))
            self._add(spec.name, "failed", self.render(spec))
            if not wait:
                raise error
            if good is not None:
                self._add(spec.name, "deployed", self.manifests[spec.name, good.number])
            else:
                self.releases.pop(spec.name)
            raise error
        return self._add(spec.name, "deployed", self.render(spec), description=description)

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
        self.calls.append(f"rollback {release} {revision}{'' if wait else ' without waiting'}")
        watch()
        if release in self.fail_rollback:
            raise self.fail_rollback[release]
        return self._add(release, "deployed", self.manifests[release, revision])

    def uninstall(self, release: str, namespace: str, *, timeout_seconds: float) -> None:
        self.calls.append(f"uninstall {release}")
        self.releases.pop(release, None)

    def install(self, release: str, manifest: str, status: RevisionStatus = "deployed", **fields: object) -> Revision:
        """Add a revision, as if an earlier Helm had written it."""
        return self._add(release, status, manifest, **fields)

    def _add(self, release: str, status: RevisionStatus, manifest: str, **fields: object) -> Revision:
        revisions = self.releases.setdefault(release, [])
        if status == "deployed":
            revisions[:] = [replace(r, status="superseded") if r.status == "deployed" else r for r in revisions]
        revision = Revision(revisions[-1].number + 1 if revisions else 1, status, **fields)  # type: ignore[arg-type]
        revisions.append(revision)
        self.manifests[release, revision.number] = manifest
        return revision
