"""Has the API show what a member of etcd runs: its mirror pod, which the kubelet writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.model.workload import Pod
from upgrader.ports import Clock, Kind, Kube
from upgrader.wait_and_retry import wait_until

__all__ = ["MirrorPods"]

_PODS = Kind("v1", "pods")
_SECONDS = 120.0
"""A kubelet that misses a change of its pod looks again after 60 to 90 s."""


@dataclass(frozen=True)
class MirrorPods:
    """Those of etcd's members.

    As long as a static pod keeps its UID, its mirror pod shows the image before. If it is deleted, the kubelet creates
    it again. Both need the API, which has just lost etcd: it may not answer yet, or not pass the change on.
    """

    kube: Kube
    clock: Clock

    def show(self, node: str, image: str, note: Callable[[str], None]) -> str:
        """Wait until the pod on a node has this image and is Ready, as `check` wants it; "", or what is missing.

        It is deleted once: where a webhook gives it another image, it would be so each time.
        """
        deleted = ""

        def missing() -> str:
            nonlocal deleted
            found = self.kube.get(_PODS, f"etcd-{node}", "kube-system")
            if found is None:
                return f"the kubelet has not recreated the mirror pod etcd-{node}"
            if found["metadata"].get("deletionTimestamp"):
                return f"pod etcd-{node} is being deleted"
            if image not in (container.get("image") for container in found["spec"]["containers"]):
                if deleted in ("", found["metadata"]["uid"]):
                    deleted = found["metadata"]["uid"]
                    self.kube.delete(_PODS, f"etcd-{node}", "kube-system")
                return f"pod etcd-{node} does not have the image {image}"
            return "" if Pod.parse(found).ready else f"pod etcd-{node} is not Ready"

        what = f"pod etcd-{node} to show the image"
        return wait_until(self.clock, missing, seconds=_SECONDS, what=what, note=note)
