"""Asks components for their versions by the first lines of their logs, where no API of theirs tells.

kube-controller-manager and kube-scheduler have no /version, and answer /metrics only to clients that they know: a
request through the API server's proxy has no credentials. kube-proxy listens on its node alone. All of them, and
CoreDNS, write their version once they start.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.remedies import describe_workload
from upgrader.gates.workload_reading import Reading
from upgrader.model.outcome import Verdict, pending
from upgrader.model.version import KubernetesVersion
from upgrader.model.workload import Container, Pod
from upgrader.ports import Kube

__all__ = ["AskedVersions", "VersionMemory", "image_version", "started_version"]

_Instance = tuple[str, str, datetime | None]
"""A container of a pod (its uid), since its start."""


@dataclass
class VersionMemory:
    """What instances of containers have said: each is asked once."""

    said: dict[_Instance, KubernetesVersion | None] = field(default_factory=dict)
    failed: set[_Instance] = field(default_factory=set)
    """Those whose log could not be read once."""


_BYTES = 65_536
"""The version is among the first lines, or behind those of all flags."""

_COMPONENTS = "kube-controller-manager", "kube-scheduler", "kube-proxy"
_LINE = re.compile(
    # 'Starting' of kube-controller-manager, 'Starting Kubernetes Scheduler', 'Version info' of kube-proxy
    r"^(?=.*\"(?:Starting|Starting Kubernetes Scheduler|Version info)\")"
    r".*(?:version=\"?|\"gitVersion\":\"|\"version\":\")(v\d+\.\d+\.\d+)",
    re.MULTILINE,
)
_COREDNS = re.compile(r"^CoreDNS-(\d+\.\d+\.\d+)", re.MULTILINE)
_TAG = re.compile(r"v\d+\.\d+\.\d+(?=$|[-+._])")
_COREDNS_TAG = re.compile(r"v?1\.\d+\.\d+(?=$|[-+._])")
"""Other tags number an organisation's own builds."""
_NOT_BUILT_IN = KubernetesVersion(0, 0, 0)
"""As a build reports that was given no version."""


@dataclass(frozen=True)
class AskedVersions:
    """Compares what pods say with the versions that their images' tags name.

    What says nothing (its log was rotated, or may not be read) is judged by its image alone, as is an image by digest
    that the run hasn't changed.
    """

    controllers: Collection[str]
    """Of a DaemonSet, the pods on these nodes are asked: it may have one on each of thousands."""
    memory: VersionMemory = field(default_factory=VersionMemory)
    brought: Mapping[str, KubernetesVersion] = field(default_factory=dict)
    """Container → the version that its new image has to be of, where the image names none."""

    def judge(self, kube: Kube, reading: Reading, planned: Mapping[str, str]) -> Verdict | None:
        """None where nothing contradicts. Raises ApiUnavailable."""
        ref = reading.workload.ref
        for pod in reading.newest:
            if not pod.ready or (ref.kind == "DaemonSet" and pod.node not in self.controllers):
                continue
            for item in pod.containers:
                wanted = image_version(item.name, planned.get(item.name, "")) or self._brought(item.name)
                said = self._said(kube, pod, item) if wanted else None
                if said not in (None, wanted):
                    return pending(
                        f"{ref}: container {item.name} of pod {pod.name} reports version {said}, but its image "
                        f"{item.spec_image} must have version {wanted}",
                        remedy=f"Check which version the registry has under that name. {describe_workload(ref)}",
                    )
        return None

    def _brought(self, name: str) -> KubernetesVersion | None:
        return self.brought.get(name) if name in _COMPONENTS else None

    def _said(self, kube: Kube, pod: Pod, item: Container) -> KubernetesVersion | None:
        if item.name not in (*_COMPONENTS, "coredns"):
            return None
        key, said = (pod.uid, item.name, item.running_since), self.memory.said
        if key not in said:
            path = f"/api/v1/namespaces/{quote(pod.namespace)}/pods/{quote(pod.name)}/log"
            try:
                log = kube.raw(f"{path}?container={quote(item.name)}&limitBytes={_BYTES}")
            except ApiError as error:
                # Either the API is away, or API servers can't reach kubelets, as behind a firewall: it stays so then.
                if isinstance(error, ApiUnavailable) and key not in self.memory.failed:
                    self.memory.failed.add(key)
                    raise
                log = ""
            said[key] = started_version(item.name, log)
        return said[key]


def started_version(component: str, log: str) -> KubernetesVersion | None:
    """The version in the beginning of a component's log; None where it says none."""
    found = (_COREDNS if component == "coredns" else _LINE).search(log)
    version = KubernetesVersion.parse(found[1]) if found else None
    return None if version == _NOT_BUILT_IN else version


def image_version(component: str, image: str) -> KubernetesVersion | None:
    """The version of the component that an image's tag names; None if the tag numbers other builds."""
    tag = "" if "@" in image else image.rpartition("/")[2].partition(":")[2]
    found = (_COREDNS_TAG if component == "coredns" else _TAG).match(tag)
    return KubernetesVersion.parse(found[0]) if found else None
