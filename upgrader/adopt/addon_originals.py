"""Keeps kubeadm's own kube-proxy and CoreDNS objects, so that adoption can be undone.

They are kept in a Secret and in a file of root's on each controller: what is restored is applied with the operator's
rights, so it must come from a place where only those can write who have such rights already.
"""

from __future__ import annotations

import base64
import binascii
import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from upgrader.adopt.addon_originals_check import SYSTEM, TAKEN_OVER, add_ons, check_names, kind_of
from upgrader.adopt.facts import at_version
from upgrader.adopt.running_addons import NOTHING_RUNS, RunningAddons, as_running
from upgrader.errors import ApiError, StepFailed
from upgrader.model import limited_yaml
from upgrader.model.cluster import Host
from upgrader.model.object_purpose import DESCRIPTION
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Hosts, Kind, Kube, KubeObject

__all__ = ["FILE", "KEY", "STORE", "Originals", "SaveOriginalsStep"]

STORE = "upgrader-adopted"
"""The Secret in kube-system. `adopt --undo` removes it."""
KEY = "originals.json"
FILE = f"/etc/kubernetes/upgrader/{KEY}"
"""The copy on each controller."""

_PURPOSE = (
    "kubeadm's own objects, for `upgrader adopt --undo`, which removes this Secret. Copies are on each controller."
)
_SECRETS = Kind("v1", "secrets")
_ADOPTED = ("meta.helm.sh/release-name", "kubernetes")
"""The annotation that Helm gives to what the chart has taken over."""

Manifests = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Originals:
    """kubeadm's objects, wherever they are kept."""

    kube: Kube
    hosts: Hosts
    controllers: tuple[Host, ...]

    def kept(self) -> bool:
        """Whether an adoption has kept them."""
        return bool(self._copies())

    def keep(self, objects: Sequence[tuple[Kind, str]] = TAKEN_OVER) -> str:
        """Keep the objects that the chart takes over as they are now; returns the content's SHA-256.

        Raises StepFailed: they aren't kubeadm's.
        """
        live = [self._live(kind, name) for kind, name in objects]
        found = [item for item in live if item is not None]
        for item in found:
            if _ADOPTED in (item["metadata"].get("annotations") or {}).items():
                what = f"{item['kind']} {item['metadata']['name']}"
                raise _unknown(f"{what} already belongs to Helm release {_ADOPTED[1]}, and its original was not saved")
        content = json.dumps(found).encode()
        for host in self.controllers:
            self.hosts.run(host, ["install", "-d", "-m", "0700", FILE.rpartition("/")[0]])
            self.hosts.write(host, FILE, content)
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "upgrader.io/originals",
            "metadata": {
                "name": STORE,
                "labels": {"app.kubernetes.io/managed-by": "upgrader"},
                "annotations": {DESCRIPTION: _PURPOSE},
            },
            "data": {KEY: base64.b64encode(content).decode()},
        }
        self.kube.create(_SECRETS, secret, SYSTEM)
        return hashlib.sha256(content).hexdigest()

    def read(self) -> Manifests:
        """The kept objects, checked: only what adoption takes over. Raises StepFailed; nothing was changed then."""
        copies = self._copies()
        if len(set(copies.values())) > 1:
            sums = ", ".join(
                f"{place} (SHA-256 {hashlib.sha256(text).hexdigest()[:12]})" for place, text in copies.items()
            )
            raise StepFailed(
                f"kubeadm's original objects are kept in several places, and differ: {sums}",
                remedy="The adoption's journal has the SHA-256 of the right one. Remove the others, and run the same "
                "command again.",
            )
        for place, text in copies.items():
            manifests = _parsed(text, place)
            check_names(manifests, place)
            return manifests
        raise _unknown(f"Secret {SYSTEM}/{STORE} does not exist")

    def restore(
        self,
        manifests: Manifests,
        version: KubernetesVersion,
        note: Callable[[str], None],
        running: RunningAddons = NOTHING_RUNS,
    ) -> None:
        """Restore what `read` returned, with the images, the configuration and the number of pods of what runs;
        kube-proxy otherwise at the version that runs now.
        """
        for manifest in manifests:
            kind = kind_of(manifest)
            restored, changed = as_running(manifest, running)
            if restored["kind"] == "DaemonSet" and not running.images.get(restored["metadata"]["name"]):
                container = restored["spec"]["template"]["spec"]["containers"][0]
                container["image"] = at_version(container["image"], version)
            if changed:
                note(f"ConfigMap {restored['metadata']['name']} keeps the release's {', '.join(changed)}")
            namespace = SYSTEM if kind.namespaced else ""
            if restored["kind"] == "Deployment":
                self._keep_size(restored)
            try:
                self.kube.replace(kind, restored, namespace)
            except ApiError as error:
                if error.status != 404:
                    raise
                self.kube.create(kind, restored, namespace)
        names = add_ons((kind_of(manifest), manifest["metadata"]["name"]) for manifest in manifests)
        note(f"restored as kubeadm made it: {names or 'nothing'}")

    def _keep_size(self, restored: dict[str, Any]) -> None:
        """With as many pods as now, which a person or an autoscaler may have set."""
        live = self.kube.get(kind_of(restored), restored["metadata"]["name"], SYSTEM) or {}
        if (size := (live.get("spec") or {}).get("replicas")) is not None:
            restored["spec"]["replicas"] = size

    def forget(self) -> None:
        """Remove the kept objects from every place."""
        for host in self.controllers:
            self.hosts.run(host, ["rm", "-f", "--", FILE])
        self.kube.delete(_SECRETS, STORE, SYSTEM)

    def _copies(self) -> Mapping[str, bytes]:
        """Place → content."""
        files = {f"{host.name}:{FILE}": self.hosts.read(host, FILE) for host in self.controllers}
        copies = {place: content for place, content in files.items() if content is not None}
        secret = self.kube.get(_SECRETS, STORE, SYSTEM)
        if secret is not None:
            place = f"Secret {SYSTEM}/{STORE}"
            try:
                copies[place] = base64.b64decode((secret.get("data") or {})[KEY], validate=True)
            except (KeyError, binascii.Error) as error:
                raise StepFailed(
                    f"{place} has no readable {KEY}", remedy=f"kubectl -n {SYSTEM} get secret {STORE} -o yaml"
                ) from error
        return copies

    def _live(self, kind: Kind, name: str) -> KubeObject | None:
        found = self.kube.get(kind, name, SYSTEM if kind.namespaced else "")
        return None if found is None else _without_server_fields(found)


@dataclass(frozen=True)
class SaveOriginalsStep:
    """Keeps kubeadm's objects, once: what a later adoption sees is no longer kubeadm's."""

    originals: Originals
    objects: Sequence[tuple[Kind, str]] = TAKEN_OVER
    name: str = "save-originals"

    def summary(self) -> str:
        if not (names := add_ons(self.objects)):
            return f"record that kubeadm's add-ons are not changed, in Secret {SYSTEM}/{STORE} and on the controllers"
        return f"keep kubeadm's {names} objects in Secret {SYSTEM}/{STORE} and on the controllers"

    def capture(self) -> None:
        return None

    def apply(self, note: Callable[[str], None]) -> None:
        if self.originals.kept():
            note("kubeadm's objects were kept by an earlier adoption")
            return
        note(f"kubeadm's objects are kept; SHA-256 {self.originals.keep(self.objects)}")

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """They stay: they do no harm, and the next adoption may need them."""


def _parsed(content: bytes, place: str) -> Manifests:
    """A JSON list, or YAML documents as kubeadm prints them."""
    try:
        documents = [document for document in limited_yaml.load_all(content) if document]
    except yaml.YAMLError as error:
        raise StepFailed(f"{place} can't be read: {error}", remedy="Restore it from another copy.") from error
    return tuple(item for each in documents for item in (each if isinstance(each, list) else [each]))


def _unknown(why: str) -> StepFailed:
    return StepFailed(
        f"{why}: kubeadm's original kube-proxy and CoreDNS are unknown",
        remedy="Have kubeadm write them on a controller: kubeadm init phase addon all --print-manifest > "
        f"originals.yaml; then: kubectl -n {SYSTEM} create secret generic {STORE} --from-file={KEY}=originals.yaml; "
        f"then run the upgrader command again. (A ConfigMap {STORE} is not used, because more users can write "
        "ConfigMaps.)",
    )


def _without_server_fields(found: KubeObject) -> dict[str, Any]:
    """What a client may write: without status, and without the fields that the API server fills in."""
    manifest = copy.deepcopy(dict(found))
    manifest.pop("status", None)
    for key in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"):
        manifest["metadata"].pop(key, None)
    return manifest
