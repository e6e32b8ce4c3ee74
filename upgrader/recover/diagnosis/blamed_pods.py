"""Pods of kube-apiserver that are to go whatever they answer, as a rollback doesn't get through them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from math import inf

from upgrader.onhost.sending.host_facts import Generation, HostFacts
from upgrader.recover.diagnosis.diagnose import Controller, Diagnosis

__all__ = ["newer_pods", "with_blamed"]


def newer_pods(seen: Diagnosis, since: datetime) -> frozenset[str]:
    """The UIDs of kube-apiserver's own pods that run, and were created since then by the clock of this machine.

    But for those of the template that ran before: Helm's own rollback, or one that was interrupted, has brought them.
    """
    facts = (controller.facts for controller in seen.controllers if controller.facts is not None)
    return frozenset(uid for each in facts for uid in _newer(each, since.timestamp() + each.clock.offset))


def _newer(facts: HostFacts, since: float) -> Iterator[str]:
    """`since`: by the controller's clock."""
    before = _kept_before(facts, since)
    for item in facts.instances():
        if item.own and facts.began(item) >= since and not (before and item.template == before):
            yield item.uid


def _kept_before(facts: HostFacts, moment: float) -> str:
    """The template of the newest generation that was captured by then; "" if that isn't known."""
    workload = facts.workload()
    kept = [item for item in workload.generations if _captured(item) <= moment] if workload else []
    return kept[-1].template if kept else ""


def _captured(generation: Generation) -> float:
    """When it was captured, in seconds since 1970; infinity where that can't be read."""
    try:
        written = datetime.fromisoformat(generation.captured_at)
    except ValueError:
        return inf
    return (written if written.tzinfo else written.replace(tzinfo=UTC)).timestamp()


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
