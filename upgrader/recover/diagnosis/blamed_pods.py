"""Pods of kube-apiserver that are to go whatever they answer, as a rollback doesn't get through them. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from upgrader.recover.diagnosis.diagnose import Controller, Diagnosis

__all__ = ["newer_pods", "with_blamed"]


def newer_pods(seen: Diagnosis, since: datetime) -> frozenset[str]:
    """The UIDs of kube-apiserver's own pods that run, and were created since then by the clock of this machine."""
    facts = (controller.facts for controller in seen.controllers if controller.facts is not None)
    return frozenset(
        item.uid
        for each in facts
        for item in each.instances()
        if item.own and each.began(item) - each.clock.offset >= since.timestamp()
    )


def with_blamed(seen: Diagnosis, pods: Collection[str], why: str) -> Diagnosis:
    """The same, in which these pods are wrong while they run, for that reason."""
    controllers = tuple(_blamed(controller, pods) for controller in seen.controllers)
    return replace(seen, controllers=controllers, wrong=why) if controllers != seen.controllers else seen


def _blamed(controller: Controller, pods: Collection[str]) -> Controller:
    if controller.facts is None:
        return controller
    found = {item.uid for item in controller.facts.instances() if item.uid in pods}
    if not found:
        return controller
    wrong = controller.wrong_pods | found
    return replace(controller, wrong=True, wrong_pods=wrong, right_pods=controller.right_pods - wrong)
