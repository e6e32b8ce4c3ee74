"""Waits until nodes are out of their load balancer, and in it again: the load balancer's agent answers with
annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from upgrader.contract import detach as contract
from upgrader.gates.node_return import FEW
from upgrader.model.node_settings import DetachPolicy
from upgrader.ports import Clock, Kube
from upgrader.steps.nodes.api_resources import NODES
from upgrader.steps.nodes.cordon import LOAD_BALANCER, Cordons, NodeNow
from upgrader.wait_and_retry import wait_until

__all__ = ["Detaching"]

Note = Callable[[str], None]

_POLL_SECONDS = 1.0
_BRIEF_SECONDS = 30.0
"""How long the rollback of a node waits for an answer: it continues without one, too."""


@dataclass(frozen=True)
class Detaching:
    """Of several nodes at once. Every method raises ApiError."""

    kube: Kube
    clock: Clock
    cordons: Cordons
    policy: DetachPolicy | None
    """None: nodes stay in their load balancer, but those that were taken out get back."""
    check: Callable[[], None]
    """Called while it waits; ends it by raising StepFailed."""

    def out(self, nodes: Sequence[str], note: Note, *, briefly: bool = False) -> Mapping[str, str]:
        """Have nodes taken out, and wait for the grace period. Returns those that aren't out in time, with why.

        No clock is compared with the one that wrote the answer: the grace period counts from when we read it.
        """
        if self.policy is None or not nodes:
            return {}
        for name in nodes:
            self.cordons.detach(name)
            note(f"{name}: requesting its removal from the load balancer")
        left = dict.fromkeys(nodes, "")
        note = _once(note)

        def missing() -> str:
            self.check()
            for name, now in self._read(tuple(left)).items():
                left[name] = self._until_out(name, now, note)
                if not left[name]:
                    del left[name]
            return "; ".join(left.values())

        seconds = min(self.policy.deadline_seconds, _BRIEF_SECONDS if briefly else inf)
        what = "nodes to be removed from the load balancer"
        why = wait_until(self.clock, missing, seconds=seconds, interval_seconds=_POLL_SECONDS, what=what, note=note)
        if len(left) < len(nodes):
            self._grace(self.policy.grace_seconds, note)
        late = f"it was not removed from the load balancer within {seconds:.0f} s"
        return {name: f"{late}, waiting for {each or why}" for name, each in left.items()}

    def back(self, nodes: Sequence[str], note: Note) -> Mapping[str, str]:
        """Wait until those of the nodes that were released with a wish to get back are in again; returns the others,
        with why.
        """
        note = _once(note)
        left = dict.fromkeys((name for name in nodes if self._attaching(self.cordons.read(name))), "")

        def missing() -> str:
            self.check()
            for name, now in self._read(tuple(left)).items():
                left[name] = self._until_back(name, now, note)
                if not left[name]:
                    del left[name]
            return "; ".join(left.values())

        seconds = (self.policy or DetachPolicy()).deadline_seconds
        what = "nodes to be added to the load balancer again"
        why = wait_until(self.clock, missing, seconds=seconds, interval_seconds=_POLL_SECONDS, what=what, note=note)
        late = f"it was not added to the load balancer again within {seconds:.0f} s"
        return {name: f"{late}, waiting for {each or why}" for name, each in left.items()}

    def _until_out(self, name: str, now: NodeNow | None, note: Note) -> str:
        if now is None:
            return ""  # what comes next tells of it
        step = contract.detach(now.annotations, LOAD_BALANCER, 0, 0, inf)
        if step.patch:  # somebody has taken the annotation off
            self.cordons.detach(name)
        elif step.done:
            note(f"{name}: out of the load balancer since {now.annotations[contract.DETACHED]}")
        elif contract.DETACHED in now.annotations:
            note(f"{name}: waiting for {step.waits_for}")
        return step.waits_for

    def _until_back(self, name: str, now: NodeNow | None, note: Note) -> str:
        if now is None or not self._attaching(now):
            return ""
        if now.wanted_out:
            note(f"{name}: stays out of the load balancer, because another client requests its removal")
        else:
            step = contract.attach(now.annotations, LOAD_BALANCER)
            if not step.done:
                if contract.ATTACHED in now.annotations:
                    note(f"{name}: waiting for {step.waits_for}")
                return step.waits_for
            there = contract.ATTACHED in now.annotations
            note(f"{name}: {'in the load balancer again' if there else 'it had not left the load balancer'}")
        self.cordons.attached(name)
        return ""

    def _read(self, names: Sequence[str]) -> Mapping[str, NodeNow | None]:
        """Their annotations, None for a node that is gone. Of many, in one list: one after the other, a hundred would
        cost a hundred requests a second.
        """
        if len(names) <= FEW:
            read = {name: self.kube.get(NODES, name) for name in names}
        else:
            wanted, every = frozenset(names), self.kube.each(NODES, metadata_only=True)
            found = {name: node for node in every if (name := node["metadata"]["name"]) in wanted}
            read = {name: found.get(name) for name in names}
        return {name: NodeNow.of(node) if node is not None else None for name, node in read.items()}

    @staticmethod
    def _attaching(now: NodeNow | None) -> bool:
        return now is not None and now.mark is not None and now.mark.phase == "attach"

    def _grace(self, seconds: float, note: Note) -> None:
        until = self.clock.monotonic() + seconds

        def missing() -> str:
            self.check()
            return "the grace period" if self.clock.monotonic() < until else ""

        what = "connections to end (detach.grace)"
        wait_until(
            self.clock,
            missing,
            seconds=seconds + _POLL_SECONDS,
            interval_seconds=_POLL_SECONDS,
            what=what,
            note=note,
        )


def _once(note: Note) -> Note:
    told: set[str] = set()

    def once(text: str) -> None:
        if text not in told:
            told.add(text)
            note(text)

    return once
