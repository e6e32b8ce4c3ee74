"""What a pod's spec consists of, so that a template of Helm's can be compared with what the API server made of it.

Both are flattened to leaves: path → value. A template states less than a stored pod, as the API server fills in
defaults; so what a template states must be found in the pod, and what the pod has beyond it is only counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from upgrader.onhost.node.disk_layout import Layout

__all__ = ["Content", "Path", "contradictions", "extras", "pod_content"]

Path = tuple[str, ...]
Content = Mapping[Path, object]

_COMPARED = (
    *("hostNetwork", "hostPID", "hostIPC", "hostUsers", "hostAliases", "shareProcessNamespace", "setHostnameAsFQDN"),
    *("dnsPolicy", "dnsConfig", "os", "resources", "restartPolicy", "securityContext", "terminationGracePeriodSeconds"),
    "priorityClassName",
)
"""Fields of the pod that a checkpoint keeps as they are."""

_CONTAINERS = ("initContainers", "containers")
_NOT_COMPARED = ("name", "imagePullPolicy", "ports", "envFrom")
"""Fields of a container that a checkpoint changes or leaves out."""

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_KEYS = ("mountPath", "devicePath", "name", "ip")
_API_SOURCES = ("secret", "configMap", "projected")
_CHECKPOINTED = str(Layout().workloads_folder) + "/"
_ANY = object()
"""A value that the API holds: what a checkpoint has in its place can't be foreseen."""

_UNITS = {
    **{f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", 1)},
    **{unit: 1000**power for power, unit in enumerate("kMGTPE", 1)},
    "m": Decimal("0.001"),
}


def pod_content(pod: Mapping[str, Any]) -> Content:
    """The leaves of a pod's spec: a template's, a live workload's, or a checkpoint's."""
    return dict(_leaves_of(pod))


def contradictions(stated: Content, found: Content) -> list[Path]:
    """Where `found` isn't what was stated. Zero, false and empty are what the API leaves out."""
    return sorted(
        path
        for path, value in stated.items()
        if value is not _ANY and found.get(path, _ANY if not value else None) not in (value, _ANY)
    )


def extras(stated: Content, found: Content) -> list[Path]:
    """What `found` has beyond what was stated: defaults of the API server, or additions."""
    return sorted(found.keys() - stated.keys())


def _leaves_of(pod: Mapping[str, Any]) -> Iterator[tuple[Path, object]]:
    for key in _COMPARED:
        yield from _leaves((key,), pod.get(key))
    for kind in _CONTAINERS:
        for container in pod.get(kind) or ():
            yield from _container((kind, container["name"]), container)
    for volume in pod.get("volumes") or ():
        yield from _volume(("volumes", volume["name"]), volume)


def _container(path: Path, container: Mapping[str, Any]) -> Iterator[tuple[Path, object]]:
    yield (*path, "name"), container["name"]
    ports = {p["name"]: p["containerPort"] for p in container.get("ports") or () if "name" in p}
    for key, value in container.items():
        if key in _PROBES and value:
            yield from _leaves((*path, key), _with_number(value, ports))
        elif key == "env":
            for entry in value or ():
                yield from _variable((*path, key, entry["name"]), entry)
        elif key not in _NOT_COMPARED:
            yield from _leaves((*path, key), value)


def _with_number(probe: Mapping[str, Any], ports: Mapping[str, int]) -> Mapping[str, Any]:
    """A probe whose port is a number: a checkpoint has no names of ports."""
    return {
        key: {**value, "port": ports.get(value["port"], value["port"])}
        if isinstance(value, Mapping) and "port" in value
        else value
        for key, value in probe.items()
    }


def _variable(path: Path, entry: Mapping[str, Any]) -> Iterator[tuple[Path, object]]:
    origin = entry.get("valueFrom") or {}
    if "configMapKeyRef" in origin or "secretKeyRef" in origin:
        yield path, _ANY
    elif origin:
        yield from _leaves(path, origin)
    else:
        yield path, str(entry.get("value") or "")


def _volume(path: Path, volume: Mapping[str, Any]) -> Iterator[tuple[Path, object]]:
    """A volume; the files of one that the API holds are compared by their checksums."""
    held = any(key in volume for key in _API_SOURCES)
    if held or (volume.get("hostPath") or {}).get("path", "").startswith(_CHECKPOINTED):
        yield (*path, "files"), True
        return
    source = {key: value for key, value in volume.items() if key != "name"} or {"emptyDir": {}}
    for kind, value in source.items():
        yield (*path, kind), True
        yield from _leaves((*path, kind), value)


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, object]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves((*path, str(key)), inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if any(isinstance(item, Mapping) for item in value):
            for number, item in enumerate(value):
                name = next((str(item[key]) for key in _KEYS if key in item), str(number))
                yield from _leaves((*path, name), item)
        elif value:
            yield path, tuple(map(str, value))
    elif value is not None:
        yield path, _scalar(path, value)


def _scalar(path: Path, value: Any) -> object:
    if "resources" in path or path[-1] == "sizeLimit":
        return _quantity(str(value))
    return value if isinstance(value, bool) or value in ("", 0) else str(value)


def _quantity(text: str) -> object:
    """A resource quantity as a number: the API server writes 1000m as 1. What isn't one stays as it is."""
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    try:
        return Decimal(text.removesuffix(unit)) * _UNITS.get(unit, 1)
    except InvalidOperation:
        return text
