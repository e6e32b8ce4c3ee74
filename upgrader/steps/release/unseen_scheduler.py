"""Gives kube-scheduler's own pod a node where no scheduler does, while Helm rolls a release back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from itertools import cycle

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import NODES, PODS
from upgrader.gates.manifest_workloads import templates_in
from upgrader.gates.node_health import condition_problem
from upgrader.model.workload import Pod
from upgrader.ports import Clock, Kind, Kube, KubeObject

__all__ = ["UnseenScheduler", "has_scheduler"]

_BINDINGS = Kind("v1", "bindings")
_COMPONENT = "kube-scheduler"
_LOOK_SECONDS = 2.0
_UNSEEN_SECONDS = 5.0
"""A scheduler that works has a pod within a moment, and one that starts within seconds sees it then."""


def has_scheduler(manifest: str, namespace: str) -> bool:
    """Whether a release has pods of kube-scheduler: a rollback of any other one waits for none."""
    return any(map(_is_scheduler, templates_in(manifest, namespace).values()))


class UnseenScheduler:
    """Called about once a second.

    A kube-scheduler that schedules no pods, for its profile has another name, is Ready and leads. The pod of the one
    before waits for it, and it stays until that pod is Ready: neither would ever end.
    """

    def __init__(
        self, kube: Kube, clock: Clock, namespace: str, controllers: Sequence[str], note: Callable[[str], None]
    ) -> None:
        """`controllers` are the names of their nodes."""
        self._kube, self._clock, self._namespace, self._note = kube, clock, namespace, note
        self._controllers, self._turns = controllers, cycle(controllers)
        self._seen: dict[str, float] = {}
        self._looked = clock.monotonic() - _LOOK_SECONDS
        self._refused = ""

    def __call__(self) -> None:
        now = self._clock.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        try:
            for item in self._kube.list(PODS, self._namespace, fields="status.phase=Pending"):
                pod = Pod.parse(item)
                if _is_scheduler(item) and pod.awaited_scheduler and not pod.deleting:
                    waits = now - self._seen.setdefault(pod.uid, now)
                    if waits >= _UNSEEN_SECONDS:
                        self._bind(pod)
        except ApiError as error:  # Helm's own wait has a deadline, and says what it waits for
            if error.status == HTTPStatus.FORBIDDEN and error.message != self._refused:
                self._refused = error.message
                self._note(
                    f"a pod of {_COMPONENT} that no scheduler has seen can't be bound to a node: {error.message}"
                )

    def _bind(self, pod: Pod) -> None:
        for _ in self._controllers:
            name = next(self._turns)
            node = self._kube.get(NODES, name)
            if node is None or condition_problem(node) or node["spec"].get("unschedulable"):
                continue
            target = {"apiVersion": "v1", "kind": "Node", "name": name}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.name}, "target": target}
            self._kube.create(_BINDINGS, binding, pod.namespace)
            self._note(f"pod {pod.name} is bound to {name}: no scheduler has seen it ({pod.awaited_scheduler})")
            return


def _is_scheduler(pod: KubeObject) -> bool:
    """Of a pod, or a pod template."""
    return any(container.get("name") == _COMPONENT for container in (pod.get("spec") or {}).get("containers") or ())
