"""Has the API server store every object in the form that it would store it in today.

Objects stay in etcd as they were written, for years if they don't change, until a minor can't read that form any more.
An empty change makes the API server read and write an object: what is stored as it should be isn't written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from upgrader.errors import ApiError, ApiUnavailable, StepFailed
from upgrader.model.first_few import first_few
from upgrader.model.release import RestorePoint
from upgrader.model.stored_resources import StoredResource, stored_resources
from upgrader.ports import LARGE_AT_ONCE, Clock, Kind, Kube, KubeObject
from upgrader.wait_and_retry import retry

__all__ = ["MigrateStorageStep"]

Note = Callable[[str], None]

_API_SERVICES = Kind("apiregistration.k8s.io/v1", "apiservices", namespaced=False)
_DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)

_AT_ONCE = 200
"""Names in one answer."""
_REFUSALS = 10
"""So many objects of a resource are refused before the others of it aren't tried: a webhook refuses them all alike."""
_ATTEMPTS = 6
_PAUSE_SECONDS = 5.0


@dataclass(frozen=True)
class _Definition:
    """What a CustomResourceDefinition says of its storage."""

    name: str
    generation: int
    storage: str
    stored: tuple[str, ...]


@dataclass
class _Tally:
    """What became of a resource's objects."""

    objects: int = 0
    refused: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class MigrateStorageStep:
    """One object after the other, so that clients hardly notice. From its beginning again where it is interrupted: what
    is done already costs a read.
    """

    kube: Kube
    clock: Clock
    check: Callable[[], None] = lambda: None
    """Called now and then; ends the step by raising StepFailed."""
    name: str = "storage"

    def summary(self) -> str:
        return "store every object in the API server's storage version"

    def capture(self) -> RestorePoint:
        """Nothing that could be restored: once it has begun, no run before it can be undone."""
        return RestorePoint()

    def apply(self, note: Note) -> None:
        """Migrate all resources; raises StepFailed with those that could not be."""
        refused, objects, count = list[str](), 0, 0
        try:
            definitions = self._definitions()
            for resource in self._resources():
                tally = self._migrated(resource, note)
                objects, count = objects + tally.objects, count + 1
                refused += tally.refused
                definition = definitions.get(str(resource))
                if definition is not None and not tally.refused:
                    self._trim(definition, note)
                if tally.objects or tally.refused:
                    bad = f", {len(tally.refused)} refused" if tally.refused else ""
                    note(f"{resource}: {tally.objects:,} objects{bad}")
        except (ApiError, ValueError) as error:
            why = error.message if isinstance(error, ApiError) else str(error)
            raise StepFailed(
                f"the migration ended after {objects:,} objects: {why}",
                remedy="Run `upgrader migrate-storage` again: it goes through all objects again, and quickly "
                "through those already migrated.",
            ) from error
        if refused:
            raise StepFailed(
                f"{len(refused)} objects could not be migrated: {first_few(refused)}",
                remedy="Make updates of these objects possible (an admission webhook or policy may deny them, or the "
                "objects are no longer valid), then run `upgrader migrate-storage` again.",
            )
        note(f"{objects:,} objects of {count} resources are stored as this version stores them")

    def undo(self, point: RestorePoint, note: Note) -> None:
        """Nothing can be undone; nothing needs to be: every object is what it was."""

    def _resources(self) -> Iterator[StoredResource]:
        elsewhere = {
            f"{spec.get('group', '')}/{spec.get('version', '')}"
            for spec in (item["spec"] for item in self.kube.list(_API_SERVICES))
            if spec.get("service")
        }
        return stored_resources(self.kube.raw, elsewhere)

    def _migrated(self, resource: StoredResource, note: Note) -> _Tally:
        kind, tally = Kind(resource.api_version, resource.plural, resource.namespaced), _Tally()
        try:
            for item in self.kube.each(kind, at_once=_AT_ONCE, metadata_only=True):
                if len(tally.refused) >= _REFUSALS:
                    break
                self.check()
                tally.objects += 1
                self._write_again(kind, item["metadata"], tally, note)
        except ApiUnavailable:
            raise
        except ApiError as error:
            if error.status != 404:  # its definition went meanwhile
                tally.refused.append(f"{resource} ({error.message})")
        return tally

    def _write_again(self, kind: Kind, metadata: KubeObject, tally: _Tally, note: Note) -> None:
        name, namespace = str(metadata["name"]), str(metadata.get("namespace", ""))
        same = {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}}
        try:
            retry(
                self.clock,
                lambda: self.kube.patch(kind, name, same, namespace),
                pause=lambda error: _PAUSE_SECONDS if isinstance(error, ApiUnavailable) else None,
                attempts=_ATTEMPTS,
                what=f"the API to store {kind.plural} {name} again",
                note=note,
            )
        except ApiUnavailable:
            raise
        except ApiError as error:
            # It is gone, or somebody has written it since it was listed: stored as it is today. An admission webhook
            # may answer with the same codes, and has stored nothing.
            if error.status not in (404, 409) or self._as_listed(kind, name, namespace, metadata):
                where = f"{namespace}/{name}" if namespace else name
                tally.refused.append(f"{kind.plural} {where} ({error.message})")

    def _as_listed(self, kind: Kind, name: str, namespace: str, metadata: KubeObject) -> bool:
        """Whether the object is the one that was listed, and hasn't been written since."""
        found = self.kube.get(kind, name, namespace)
        return found is not None and all(
            found["metadata"].get(key) == metadata[key] for key in ("uid", "resourceVersion")
        )

    def _definitions(self) -> Mapping[str, _Definition]:
        found = (_definition(item) for item in self.kube.each(_DEFINITIONS, at_once=LARGE_AT_ONCE))
        return {definition.name: definition for definition in found}

    def _trim(self, before: _Definition, note: Note) -> None:
        """Only the storage version is stored now, if the definition is what it was before its objects were written."""
        item = self.kube.get(_DEFINITIONS, before.name)
        now = _definition(item) if item is not None else None
        if item is None or now != before or now.stored == (now.storage,):
            return
        changes = {
            "metadata": {"resourceVersion": item["metadata"]["resourceVersion"]},
            "status": {"storedVersions": [now.storage]},
        }
        try:
            self.kube.patch(_DEFINITIONS, now.name, changes, subresource="status")
        except ApiError as error:
            if error.status != 409:
                raise
            note(f"{now.name}: its CustomResourceDefinition has just changed, so status.storedVersions is kept")
            return
        note(f"{now.name}: status.storedVersions {', '.join(now.stored)} → {now.storage}")


def _definition(item: KubeObject) -> _Definition:
    versions = item["spec"]["versions"]
    return _Definition(
        str(item["metadata"]["name"]),
        int(item["metadata"].get("generation") or 0),
        next(str(version["name"]) for version in versions if version.get("storage")),
        tuple(map(str, (item.get("status") or {}).get("storedVersions") or ())),
    )
