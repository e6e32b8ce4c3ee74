"""What clusters of a later stage have that no cluster of an earlier stage has: no canary has tried it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from upgrader.fleet.causes import without_identity
from upgrader.fleet.cluster_traits import UNKNOWN
from upgrader.fleet.model import Fleet, FleetCluster
from upgrader.steps.plan_document import PlanDocument

__all__ = ["NewTrait", "new_traits", "traits_of"]


@dataclass(frozen=True)
class NewTrait:
    """A trait that appears in a stage for the first time, and the clusters of that stage that have it."""

    stage: str
    trait: str
    """Such as `label os=flatcar`, `CNI cilium v1.16.1`, `check webhooks.fail`, `step db (playbook, undo: none)`."""
    clusters: tuple[str, ...]


def traits_of(fleet: Fleet, cluster: FleetCluster, plan: PlanDocument | None, live: Iterable[str]) -> tuple[str, ...]:
    """What tells this cluster from another kind of cluster: its labels, what it is made of (`live`, as of
    `cluster_traits`), what its plan changes and what checks find; in this order, as those of a plan may be many.
    """

    def alike(trait: str) -> str:
        return without_identity(trait, cluster.name)

    # What runs there doesn't name the cluster, unless it quotes an error: but a version may look like an address, and a
    # plugin have a cluster's name.
    made_of = (alike(each) if each.startswith(UNKNOWN) else each for each in live)
    found = (*map(alike, _labels(fleet, cluster)), *made_of, *map(alike, _of_plan(plan) if plan else ()))
    return tuple(dict.fromkeys(found))


def new_traits(fleet: Fleet, traits: Mapping[str, Collection[str]]) -> tuple[NewTrait, ...]:
    """Of each stage but the first, in their order. `traits` are by the cluster's name; one without a plan has none.
    What isn't known of a cluster is new in each stage.
    """
    found = list[NewTrait]()
    known = set[str]()
    for number, stage in enumerate(fleet.stages):
        mine = {each.name: traits.get(each.name, ()) for each in fleet.members[stage.name]}
        new = [each for each in dict.fromkeys(chain(*mine.values())) if each not in known]
        if number:
            for trait in new:
                found.append(
                    NewTrait(stage.name, trait, tuple(name for name, all_of in mine.items() if trait in all_of))
                )
        known.update(trait for trait in new if not trait.startswith(UNKNOWN))
    return tuple(found)


def _labels(fleet: Fleet, cluster: FleetCluster) -> Iterator[str]:
    """Without those that select a stage or name a domain: by them, stages are meant to differ."""
    meant = {each.key for stage in fleet.stages for each in stage.selector.requirements}
    meant |= {fleet.domains.label} if fleet.domains else set()
    yield from (f"label {key}={value}" for key, value in cluster.labels.items() if key not in meant)


def _of_plan(plan: PlanDocument) -> Iterator[str]:
    for hop in plan.hops:
        yield f"from {hop.current}"
        for finding in hop.findings:
            yield f"check {finding.id} ({finding.severity})"
        for step in hop.steps:
            yield f"step {step.name} ({step.kind}, undo: {step.undo.how})"
            yield from (f"image {change}" for change in step.images)
            yield from (f"{change.object}: {change.change}" for change in step.changes)
            yield from (f"kubelet {node.before}" for node in step.nodes or ())
            yield from (f"task {task}" for host in (step.hosts.hosts if step.hosts else ()) for task in host.tasks)
