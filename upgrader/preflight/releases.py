"""The Helm releases can be upgraded and rolled back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus

from upgrader.errors import ApiError
from upgrader.model.finding import Finding
from upgrader.model.manifest import Manifest, objects_in
from upgrader.model.observed import ObservedRelease
from upgrader.model.release import Revision, last_good
from upgrader.ports import Kind, Kube, KubeObject
from upgrader.preflight.context import PreflightContext
from upgrader.steps.plan import planned_of
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["check_releases"]

_RELEASE_NAME, _RELEASE_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
_POLICY = "helm.sh/resource-policy"


def check_releases(context: PreflightContext) -> Iterator[Finding]:
    """No release is pending, each that is installed has a revision that worked, and none has lost its records."""
    yield from _without_records(context)
    for name, release in context.observed.releases.items():
        if not release.history:
            continue  # not installed: the run installs it, and a rollback uninstalls it
        newest, good = release.history[-1], last_good(release.history)
        became = "deployed, but no run has found it healthy" if newest.unseen else newest.status
        if newest.pending:
            yield _pending(context, name, release, good)
        elif good is None:
            yield Finding(
                "releases.never-worked",
                "error",
                f"release {name}: no revision was ever deployed successfully",
                f"Revision {newest.number} is '{became}': {newest.description or 'no description'}. Its objects "
                "may still be in use, and a rollback could only uninstall it.",
                f"If it works, mark it as the revision to roll back to: helm rollback {name} {newest.number} "
                f"-n {release.namespace} --wait. Don't uninstall the release: its objects might be in use.",
            )
        elif newest.status != "deployed" or newest.unseen:
            yield Finding(
                "releases.last-failed",
                "info",
                f"release {name}: the last attempt (revision {newest.number}) is '{became}'",
                f"{newest.description or 'No description'}. The last revision that worked is {good.number}.",
            )


def _without_records(context: PreflightContext) -> Iterator[Finding]:
    """Helm installs such a release over the existing objects, as their labels name this release. A rollback then
    uninstalls it, which Helm does by itself if the new pods don't become ready: with a CustomResourceDefinition go all
    its objects.
    """
    served = _Served(context.kube)
    for step in planned_of(context.plan, PlannedRelease):
        observed = context.observed.releases.get(step.name)
        if observed is None or observed.history:
            continue
        name, namespace = step.name, step.spec.namespace
        for item in objects_in(step.after).values():
            found, label = _existing(served, item, namespace)
            notes = (found["metadata"].get("annotations") or {}) if found else {}
            if (notes.get(_RELEASE_NAME), notes.get(_RELEASE_NAMESPACE)) != (name, namespace):
                continue
            if found is not None and _is_kept(found) and _is_kept(item):
                continue  # an uninstall has left it, and another one would, too
            yield Finding(
                "releases.no-records",
                "error",
                f"release {name}: Helm has no record of it in namespace {namespace}, but {label} is labelled as part "
                "of it",
                "The records are lost, or stored elsewhere (HELM_DRIVER). A run would install the release over the "
                "existing objects, and a rollback would uninstall it.",
                "Set HELM_DRIVER as it was when the release was installed. If the records are lost, restore the "
                f"Secrets sh.helm.release.v1.{name}.v… of {namespace}; or recreate them with the installed version and "
                f"values: helm install {name} CHART -n {namespace} -f VALUES",
            )
            break


def _is_kept(item: Manifest) -> bool:
    """Whether Helm leaves it in the cluster when it uninstalls the release; read as Helm reads it."""
    notes = (item.get("metadata") or {}).get("annotations") or {}
    return str(notes.get(_POLICY, "")).strip().lower() == "keep"


@dataclass(frozen=True)
class _Served:
    """The kinds of each API version that the cluster serves, each version asked for once."""

    kube: Kube
    _kinds: dict[str, dict[str, Kind]] = field(default_factory=dict)

    def kind(self, api_version: str, kind: str) -> Kind | None:
        """None where the API doesn't serve it. Raises ApiError."""
        if api_version not in self._kinds:
            self._kinds[api_version] = self._read(api_version)
        return self._kinds[api_version].get(kind)

    def _read(self, api_version: str) -> dict[str, Kind]:
        path = f"/{'apis' if '/' in api_version else 'api'}/{api_version}"
        try:
            return {
                str(item["kind"]): Kind(api_version, str(item["name"]), item["namespaced"] is True)
                for item in json.loads(self.kube.raw(path))["resources"]
                if "/" not in item["name"]
            }
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return {}
            raise
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ApiError(f"the API's list of resources at {path} can't be read: {error!r}") from error


def _existing(served: _Served, item: Manifest, namespace: str) -> tuple[KubeObject | None, str]:
    """The object of a manifest in the cluster, and what it is called; None where there is none. Raises ApiError."""
    kind, meta = served.kind(str(item.get("apiVersion")), str(item.get("kind"))), item.get("metadata") or {}
    if kind is None or not meta.get("name"):
        return None, ""
    within = str(meta.get("namespace") or namespace) if kind.namespaced else ""
    place = f"{within}/" if within else ""
    return served.kube.get(kind, meta["name"], within), f"{item['kind']} {place}{meta['name']}"


def _pending(context: PreflightContext, name: str, release: ObservedRelease, good: Revision | None) -> Finding:
    newest, namespace = release.history[-1], release.namespace
    title = f"release {name} has status '{newest.status}' (revision {newest.number})"
    now, limit = context.clock.now(), context.helm_timeout_seconds
    age = newest.age_seconds(now)
    if not newest.abandoned(now, limit):
        run = context.run_at_work()
        who = f"the Helm of {run} (upgrader status)" if run else "another Helm"
        return Finding(
            "releases.busy",
            "error",
            title,
            f"It has had this status for {age:.0f} s: {who} might still be changing it.",
            f"Run the same command again when the revision is {newest.abandoned_after(limit):.0f} s old.",
        )
    if good is None:
        return Finding(
            "releases.stuck",
            "error",
            title,
            "No revision was ever deployed successfully, so there is nothing to roll back to.",
            f"Check its objects (helm get manifest {name} -n {namespace}). If they work, mark it as the revision to "
            f"roll back to: helm rollback {name} {newest.number} -n {namespace} --wait. Don't uninstall the release: "
            "its objects might be in use.",
        )
    return Finding(
        "releases.pending",
        "warning",
        title,
        f"It has had this status for {age:.0f} s, which is longer than Helm waits: Helm was interrupted.",
        f"The run rolls it back to revision {good.number} first.",
    )
