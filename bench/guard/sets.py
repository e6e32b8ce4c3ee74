"""StatefulSets of a group, and their pods, as their controller and the kubelets would leave them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from bench.guard.site import PODS, SETS, Site, becomes

__all__ = ["Sets"]


class Sets:
    """Sets of one group, each a zone."""

    def __init__(self, site: Site, group: str, zones: str, replicas: int = 1, *, named: bool = True) -> None:
        """`zones`: a letter for each. `named`: whether pods have the label `name`, which rollout-operator needs."""
        self._site, self.group, self._replicas, self._named = site, group, replicas, named
        self.names: Sequence[str] = [f"{group}-{letter}" for letter in zones]

    def create(self) -> None:
        """All of them, whole, at revision v1."""
        for name in self.names:
            labels = {"app": name, "rollout-group": self.group, **({"name": name} if self._named else {})}
            template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
            spec = {
                "replicas": self._replicas,
                "serviceName": name,
                "selector": {"matchLabels": {"app": name}},
                "updateStrategy": {"type": "OnDelete"},
                "template": template,
            }
            manifest = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "labels": labels}}
            self._site.kube.create(SETS, {**manifest, "spec": spec}, "shop")
            self._status(name, self._replicas, updateRevision="v1", currentRevision="v1")
            self.refill(name)

    def template(self, revision: str) -> None:
        """Each has a new one, which its controller has seen."""
        for name in self.names:
            self._site.kube.patch(SETS, name, {"metadata": {"annotations": {"template": revision}}}, "shop")
            self._status(name, self._ready(name), updateRevision=revision)

    def roll(self, revision: str, *, seconds: float = 60) -> list[float]:
        """To a new template, by who rolls them; how many seconds each Ready was before the next set's deletion.

        Raises TimeoutError where one isn't deleted within `seconds`.
        """
        took = list[float]()
        self.template(revision)
        self.wait_gone(self.names[0], seconds=seconds)
        for name, following in pairwise(self.names):
            ready = self.refill(name)
            self.wait_gone(following, seconds=seconds)
            took.append(time.monotonic() - ready)
        self.refill(self.names[-1])
        self.wait_current(revision)
        return took

    def refill(self, name: str, *, ready: bool = True) -> float:
        """The pods that a set lacks, of its newest revision; when the last one was written, by `time.monotonic`.

        `ready`: so are they, or else they only run.
        """
        found: Any = self._site.kube.get(SETS, name, "shop")
        labels = {**found["metadata"]["labels"], "controller-revision-hash": found["status"]["updateRevision"]}
        there = self.pods(name)
        for number in range(self._replicas):
            if f"{name}-{number}" not in there:
                self._site.pod(f"{name}-{number}", labels, owner=found, ready=ready)
        written = time.monotonic()
        self._status(name, self._ready(name))
        return written

    def pods(self, name: str) -> dict[str, Any]:
        """Those of a set, by name."""
        found: Any = self._site.kube.list(PODS, "shop", labels=f"app={name}")
        return {each["metadata"]["name"]: each for each in found}

    def wait_gone(self, name: str, *, seconds: float = 60) -> float:
        """Until the first pod of a set is deleted; how long that took. Raises TimeoutError."""
        first = f"{name}-0"
        wanted = f"the pod of {name} to be deleted"
        return becomes(wanted, lambda: self._site.kube.get(PODS, first, "shop") is None, seconds=seconds)

    def wait_current(self, revision: str) -> None:
        """Until each set's status calls it the current one. Raises TimeoutError."""

        def current() -> bool:
            found: Any = self._site.kube.list(SETS, "shop", labels=f"rollout-group={self.group}")
            return {each["status"]["currentRevision"] for each in found} == {revision}

        becomes(f"{revision} to be current", current)

    def remove(self) -> None:
        """The sets and their pods."""
        for name in self.names:
            for pod in self.pods(name):
                self._site.kube.delete(PODS, pod, "shop")
            self._site.kube.delete(SETS, name, "shop")

    def _ready(self, name: str) -> int:
        return sum(_is_ready(each) for each in self.pods(name).values())

    def _status(self, name: str, ready: int, **changes: Any) -> None:
        found: Any = self._site.kube.get(SETS, name, "shop")
        counts = {"replicas": self._replicas, "readyReplicas": ready}
        status = {"observedGeneration": found["metadata"]["generation"], **counts, **changes}
        self._site.kube.patch(SETS, name, {"status": status}, "shop", subresource="status")


def _is_ready(pod: Any) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions") or ())
