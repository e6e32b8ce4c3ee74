"""Secret and ConfigMap volumes → files on the node, which a static pod mounts by hostPath."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from upgrader.in_cluster.checkpointer.checkpointer_errors import Refused
from upgrader.in_cluster.checkpointer.static_pods.pods import Pod

Fetch = Callable[[str, str], Mapping[str, bytes] | None]
"""(kind, name) → the keys and values of a Secret or ConfigMap in the pod's namespace; None when it doesn't exist.
Raises ApiError.
"""

_OFFLINE = ("hostPath", "emptyDir", "downwardAPI")
_SOURCES = {"secret": "Secret", "configMap": "ConfigMap"}
_DEFAULT_MODE = 0o644


@dataclass(frozen=True)
class Owner:
    """Who has to read a volume. `shared`: by its group, as there is no single user."""

    uid: int = 0
    gid: int = 0
    shared: bool = False

    @property
    def folder_mode(self) -> int:
        """Permission bits of the volume's folders."""
        return 0o750 if self.shared else 0o700

    def file_mode(self, declared: int) -> int:
        """Permission bits of a file: the declared ones, but never for others, and for the group only where that is
        needed.
        """
        own = declared & 0o700 or 0o400
        return own | (own & 0o500) >> 3 if self.shared else own


@dataclass(frozen=True)
class File:
    """A file to keep. `path` is relative to the generation's volumes folder: <volume>/<path in it>."""

    path: str
    content: bytes
    mode: int
    owner: Owner

    def __repr__(self) -> str:
        return f"File({self.path!r}, {len(self.content)} bytes)"  # never the content: it may be a Secret's


@dataclass(frozen=True)
class Volume:
    """A volume of the static pod. `spec` is None for one whose files we keep; then `files` and `owner` count."""

    name: str
    spec: Mapping[str, Any] | None
    files: tuple[File, ...] = ()
    owner: Owner = Owner()


def volumes(pod: Pod, fetch: Fetch) -> list[Volume]:
    """All volumes of the pod. Raises Refused for one that needs the API, ApiError when the content can't be had."""
    return [_volume(pod, spec, fetch) for spec in pod["spec"].get("volumes") or []]


def _volume(pod: Pod, spec: Mapping[str, Any], fetch: Fetch) -> Volume:
    name = spec["name"]
    kind = next((k for k in spec if k != "name"), "emptyDir")
    if kind in _OFFLINE:
        return Volume(name, spec)
    if kind in _SOURCES:
        sources: Iterable[Mapping[str, Any]] = [{kind: spec[kind]}]
    elif kind == "projected":
        sources = spec[kind].get("sources") or []
        if all("downwardAPI" in s for s in sources):
            return Volume(name, spec)
    else:
        raise Refused("VolumeNeedsApi", f"volume {name} is a {kind}, which a static pod can't have")
    owner = _owner(pod, name)
    files: dict[str, File] = {}
    for source in sources:
        for file in _files(name, source, spec[kind].get("defaultMode", _DEFAULT_MODE), owner, fetch):
            files[file.path] = file
    return Volume(name, None, tuple(files[path] for path in sorted(files)), owner)


def _files(volume: str, source: Mapping[str, Any], mode: int, owner: Owner, fetch: Fetch) -> list[File]:
    kind = next((k for k in source if k in _SOURCES), None)
    if kind is None:
        what = "a service-account token" if "serviceAccountToken" in source else " and ".join(sorted(source))
        hint = (
            "; set automountServiceAccountToken: false if the pod doesn't need it"
            if "serviceAccountToken" in source
            else ""
        )
        raise Refused("VolumeNeedsApi", f"volume {volume} holds {what}, which a static pod can't have{hint}")
    reference = source[kind]
    # Volume sources have secretName where projections have name.
    name, optional = reference.get("secretName") or reference.get("name", ""), bool(reference.get("optional"))
    content = fetch(_SOURCES[kind], name)
    if content is None:
        if optional:
            return []
        raise Refused("ReferenceMissing", f"{_SOURCES[kind]} {name} of volume {volume} doesn't exist")
    items = reference.get("items") or [{"key": key, "path": key} for key in content]
    files = []
    for item in items:
        if item["key"] not in content:
            if optional:
                continue
            raise Refused("ReferenceMissing", f"{_SOURCES[kind]} {name} of volume {volume} has no key {item['key']}")
        declared = item.get("mode", mode)
        files.append(File(f"{volume}/{_safe(item['path'])}", content[item["key"]], owner.file_mode(declared), owner))
    return files


def _safe(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or path.startswith("/") or re.search(r"[\x00-\x1f]", path):
        raise Refused("UnsafePath", f"the path {path!r} would leave its volume")
    return "/".join(parts)


def _owner(pod: Pod, volume: str) -> Owner:
    """The user of the containers that mount the volume; their fsGroup where one user isn't enough."""
    spec = pod["spec"]
    context = spec.get("securityContext") or {}
    group = context.get("fsGroup")
    users: set[int | None] = set()
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        if any(m["name"] == volume for m in container.get("volumeMounts") or []):
            users.add((container.get("securityContext") or {}).get("runAsUser", context.get("runAsUser")))
    named = {u for u in users if u}
    if len(named) > 1 and group is None:
        raise Refused("OwnerUnclear", f"volume {volume} is read by users {sorted(named)} and no fsGroup is set")
    uid = named.pop() if len(named) == 1 else 0
    # A user that the image sets isn't known here; it can read by the group, if there is one.
    shared = group is not None and (len({u for u in users if u}) > 1 or None in users)
    return Owner(uid=uid, gid=group or 0, shared=shared)
