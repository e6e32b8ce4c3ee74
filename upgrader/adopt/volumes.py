"""The volumes of a static pod, in the chart's pod. Pure.

What the chart mounts by itself is read from a rendered chart, as a list of names would go stale: everything else of the
static pod becomes `extraVolumes` and `extraVolumeMounts`, and a second rendering shows whether any is still missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from upgrader.adopt.facts import StaticPod

__all__ = [
    "Mounted",
    "above_certificates",
    "extra_volumes",
    "innermost_mount",
    "missing_files",
    "missing_mounts",
    "mounts_of",
    "on_host",
    "with_files",
    "writable",
]

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Mounted:
    """A mount of the component's own container, with the volume behind it."""

    mount: Object
    volume: Object

    @property
    def path(self) -> str:
        """In the container."""
        return str(self.mount["mountPath"]).rstrip("/")

    @property
    def source(self) -> Mapping[str, Any]:
        """The volume without its name; of a hostPath the path alone, as its type says only who makes it."""
        if (path := self.volume.get("hostPath")) is not None:
            return {"hostPath": str(path.get("path")).rstrip("/")}
        return {key: value for key, value in self.volume.items() if key != "name" and value is not None}

    def same(self, other: Mounted) -> bool:
        """Whether the other shows the same at the same place, to be written or not."""
        part = ("subPath", "subPathExpr", "mountPropagation")
        return (self.path, self.source) == (other.path, other.source) and all(
            (self.mount.get(key) or "None") == (other.mount.get(key) or "None") for key in part
        )

    def __str__(self) -> str:
        where = self.source.get("hostPath") or f"volume {self.volume['name']}"
        return f"{where} at {self.path}" + ("" if self.mount.get("readOnly") else " (writable)")


def extra_volumes(
    static: StaticPod, chart: Object, pki: str, by_file: Collection[str] = ()
) -> dict[str, list[dict[str, Any]]]:
    """`extraVolumes` and `extraVolumeMounts`; empty without any. `chart` is the rendered pod without them, `by_file` as
    for `missing_mounts`.

    A name that the chart uses itself gets another one.
    """
    taken = {str(volume["name"]) for volume in chart.get("volumes") or ()}
    volumes: dict[str, dict[str, Any]] = {}
    mounts = []
    for each in missing_mounts(static, chart, pki, by_file):
        old = str(each.volume["name"])
        name = f"adopted-{old}" if old in taken else old
        volumes[name] = {key: value for key, value in each.volume.items() if value is not None} | {"name": name}
        mounts.append({**each.mount, "name": name})
    return {"extraVolumes": list(volumes.values()), "extraVolumeMounts": mounts} if mounts else {}


def with_files(extra: Mapping[str, list[dict[str, Any]]], files: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """Extra volumes, and these files: path in the container → path on the controller."""
    if not files:
        return dict(extra)
    named = {f"adopted-file-{number}": file for number, file in enumerate(files.items(), 1)}
    volumes = [{"name": n, "hostPath": {"path": path, "type": "File"}} for n, (_, path) in named.items()]
    mounts = [{"name": n, "mountPath": inside, "readOnly": True} for n, (inside, _) in named.items()]
    return {
        "extraVolumes": [*extra.get("extraVolumes", ()), *volumes],
        "extraVolumeMounts": [*extra.get("extraVolumeMounts", ()), *mounts],
    }


def missing_mounts(static: StaticPod, chart: Object, pki: str, by_file: Collection[str] = ()) -> tuple[Mounted, ...]:
    """The static pod's mounts that a rendered pod lacks, or has otherwise.

    Of the folder `pki`, kube-apiserver's chart mounts each file that a flag names: not the keys of the cluster's CAs.
    `by_file` are other folders of its static pod, as paths in the container, of which it has single files.
    """
    there = tuple(_mounted(chart, static.component))
    return tuple(
        each
        for each in mounts_of(static)
        if not _shown(each, there, written=_has_log(static, each))
        and not _single_files(each, pki, by_file, static.component)
    )


def mounts_of(static: StaticPod) -> tuple[Mounted, ...]:
    """All of a static pod's component, whatever its container's name is."""
    return tuple(_mounts(static.pod["spec"], static.container))


def _shown(each: Mounted, there: tuple[Mounted, ...], *, written: bool) -> bool:
    """Whether it is there, and nothing else at the same path: Kubernetes would refuse a pod with both. Kubeconfigs and
    certificates, which the charts mount read-only, are writable in many static pods, and no component writes them.
    """
    same = [
        each.same(other) and not (written and other.mount.get("readOnly")) for other in there if other.path == each.path
    ]
    return bool(same) and all(same)


def _has_log(static: StaticPod, mount: Mounted) -> bool:
    """Whether a component writes its audit log there, and may."""
    logs = (innermost_mount(static, path) for path in static.flags.get("audit-log-path", ()))
    return not mount.mount.get("readOnly") and any(log is not None and log.path == mount.path for log in logs)


def writable(component: str, chart: Object, path: str) -> bool:
    """Whether a rendered component may write to a path: the innermost mount above it isn't read-only."""
    innermost = _innermost(_mounted(chart, component), path)
    return innermost is not None and not innermost.mount.get("readOnly")


def innermost_mount(static: StaticPod, path: str) -> Mounted | None:
    """The folder or file of the controller in which a static pod sees this path; None if it isn't in any."""
    if not path.startswith("/") or ".." in PurePosixPath(path).parts:
        return None
    return _innermost((each for each in mounts_of(static) if "hostPath" in each.source), path)


def missing_files(component: str, chart: Object, files: Mapping[str, str]) -> tuple[str, ...]:
    """Of these files, path in the container → path on the controller, those that a rendered component doesn't see."""
    there = tuple(_mounted(chart, component))
    return tuple(
        inside
        for inside, path in files.items()
        if (mount := _innermost(there, inside)) is None
        or "hostPath" not in mount.source
        or on_host(mount, inside) != path
    )


def _innermost(mounts: Iterable[Mounted], path: str) -> Mounted | None:
    above = (each for each in mounts if path == each.path or path.startswith(f"{each.path}/"))
    return max(above, key=lambda each: len(each.path), default=None)


def on_host(mount: Mounted, path: str) -> str:
    """Where a path in a mount is on the controller."""
    return str(PurePosixPath(str(mount.source["hostPath"])) / PurePosixPath(path).relative_to(mount.path))


def above_certificates(mount: Mounted, pki: str) -> bool:
    """Whether it would hide the certificates, which the chart mounts one by one, by a folder that isn't above them."""
    return pki.startswith(f"{mount.path}/") and mount.source.get("hostPath") != mount.path


def _single_files(each: Mounted, pki: str, by_file: Collection[str], component: str) -> bool:
    certificates = each.path == each.source.get("hostPath") == pki.rstrip("/")
    return component == "kube-apiserver" and (certificates or each.path in by_file)


def _mounted(spec: Object, component: str) -> Iterator[Mounted]:
    for container in spec["containers"]:
        if container["name"] == component:
            yield from _mounts(spec, container)


def _mounts(spec: Object, container: Object) -> Iterator[Mounted]:
    volumes = {str(volume["name"]): volume for volume in spec.get("volumes") or ()}
    for mount in container.get("volumeMounts") or ():
        if volume := volumes.get(str(mount["name"])):
            yield Mounted(mount, volume)
