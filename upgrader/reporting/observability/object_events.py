"""Events on the objects that a run changes, so that `kubectl describe` shows the reason. Best effort."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import EVENTS, NODES, WORKLOADS
from upgrader.gates.rollout_gate import RolloutGate
from upgrader.model.event import Event, StepEnded, StepStarted, UndoEnded, UndoStarted
from upgrader.model.redaction.printable import printable
from upgrader.model.workload import WorkloadRef
from upgrader.pipeline import Pipeline
from upgrader.ports import Clock, Kind, Kube, KubeObject
from upgrader.reporting.observability.delivery import Delivery

__all__ = ["ObjectEvents", "workloads_of"]

_COMPONENT = "upgrader"
_OBJECTS = 20
"""How many objects of a step get an event; a pool may have a thousand nodes."""
_MOST_CHARACTERS = 1000
"""The API takes 1,024."""


@dataclass(frozen=True)
class _Told:
    """The Events of a step, on its objects."""

    run: str
    step: str
    nodes: tuple[str, ...]
    reason: str
    message: str
    time: datetime
    warning: bool = False


def workloads_of(pipeline: Pipeline) -> Mapping[str, tuple[WorkloadRef, ...]]:
    """The workloads that each step changes, by its gates: those of what it undoes to, or else of what it installs."""
    found = {}
    for item in pipeline.steps:
        before = tuple(run.gate.ref for run in item.undo_gates if isinstance(run.gate, RolloutGate))
        after = tuple(run.gate.ref for run in item.gates if isinstance(run.gate, RolloutGate))
        found[item.step.name] = (before or after) if item.changes else ()
    return found


class ObjectEvents:
    """A Reporter that never waits for the API. `note` is called once if it fails."""

    def __init__(
        self,
        state: RunState,
        kube: Kube,
        workloads: Mapping[str, Sequence[WorkloadRef]],
        *,
        clock: Clock,
        note: Callable[[str], None],
    ) -> None:
        """`state` is the run's so far, `workloads` those of each step."""
        self._state, self._kube, self._workloads, self._clock = state, kube, workloads, clock
        self._delivery = Delivery("events", self._post, "Events can't be written to the cluster", note)

    def emit(self, event: Event) -> None:
        """Queue the Events for a run's event, if there are any."""
        self._state = follow(self._state, event, self._clock.now())
        match event:
            case StepStarted() if event.restore_point is not None:
                self._tell(event.step, "UpgradeStarted", f"step {event.step} has started: {event.summary}")
            case StepEnded(outcome="passed"):
                self._tell(event.step, "UpgradePassed", f"step {event.step} has passed its gates")
            case StepEnded():
                self._tell(event.step, "UpgradeFailed", f"step {event.step} failed: {event.reason}", warning=True)
            case UndoStarted():
                self._tell(event.step, "RollbackStarted", f"step {event.step} is rolled back to {event.goal}")
            case UndoEnded(succeeded=True):
                self._tell(event.step, "RollbackPassed", f"step {event.step} was rolled back")
            case UndoEnded():
                text = f"step {event.step} could not be rolled back: {event.reason}"
                self._tell(event.step, "RollbackFailed", text, warning=True)

    def end(self) -> None:
        """No more events will come."""
        self._delivery.end()

    def close(self, seconds: float) -> None:
        """Wait until the queue is written, for so long at most."""
        self._delivery.close(seconds)

    def _tell(self, step: str, reason: str, text: str, *, warning: bool = False) -> None:
        known = self._state.step(step)
        point = known.restore_point if known else None
        if point is None:
            return  # it changes nothing
        message = printable(f"upgrader, run {self._state.run}: {text}")[:_MOST_CHARACTERS]
        nodes = tuple(item.node for item in point.nodes)
        self._delivery.put(_Told(self._state.run, step, nodes, reason, message, self._clock.now(), warning))

    def _post(self, told: _Told) -> None:
        objects: list[tuple[Kind, str, str, str]] = [
            (WORKLOADS[ref.kind], ref.kind, ref.name, ref.namespace) for ref in self._workloads.get(told.step, ())
        ]
        objects += [(NODES, "Node", name, "") for name in told.nodes]
        for kind, title, name, namespace in objects[:_OBJECTS]:
            found = self._kube.get(kind, name, namespace)
            if found is not None:
                self._write(told, kind, title, found)

    def _write(self, told: _Told, kind: Kind, title: str, found: KubeObject) -> None:
        metadata = found["metadata"]
        namespace = metadata.get("namespace") or "default"  # where kubectl looks for a node's
        about = {
            "apiVersion": kind.api_version,
            "kind": title,
            "name": metadata["name"],
            "uid": metadata.get("uid", ""),
        }
        if kind.namespaced:
            about["namespace"] = namespace
        same = f"{told.run}\n{told.step}\n{told.reason}\n{title}"
        name = f"{metadata['name']}.{hashlib.sha256(same.encode()).hexdigest()[:16]}"
        time = told.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": about,
            "reason": told.reason,
            "message": told.message,
            "type": "Warning" if told.warning else "Normal",
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "source": {"component": _COMPONENT},
        }
        try:
            self._kube.create(EVENTS, event, namespace)
        except ApiError as error:
            if error.status != 409:
                raise
            self._again(name, namespace, time, told.message)

    def _again(self, name: str, namespace: str, time: str, message: str) -> None:
        """The same of a step that is begun once more: counted, not written twice."""
        found = self._kube.get(EVENTS, name, namespace)
        count = int((found or {}).get("count") or 1) + 1
        self._kube.patch(EVENTS, name, {"count": count, "lastTimestamp": time, "message": message}, namespace)
