"""`upgrader fleet plan`: the plan of every cluster, and which of them are equal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upgrader.app.event_lines import error_form
from upgrader.app.plan_refusal import plan_refusal
from upgrader.errors import UpgraderError
from upgrader.fleet.causes import cause_of, without_identity
from upgrader.fleet.model import Fleet, FleetCluster
from upgrader.fleet.state import CampaignState
from upgrader.fleet.traits import NewTrait, new_traits, traits_of
from upgrader.model.json_values import masked_copy, to_json
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan_document import PlanDocument

__all__ = ["FleetPlan", "PlanClass", "PlannedCluster", "SharedCause", "plan_fleet", "shared_causes"]


@dataclass(frozen=True)
class PlannedCluster:
    """The plan of a cluster, and what the cluster is made of."""

    document: PlanDocument | None
    """None: nothing is to be done."""
    traits: tuple[str, ...] = ()
    """As of `cluster_traits`."""


Planner = Callable[[Path, KubernetesVersion], PlannedCluster]
"""Plans the run of a cluster folder's cluster; raises UpgraderError."""
_NO_REHEARSAL = ("rehearsal.missing", "rehearsal.damaged", "rehearsal.stale", "rehearsal.old")


def _unknown(_: FleetCluster) -> str:
    return ""


@dataclass(frozen=True)
class PlanClass:
    """Clusters whose plans are equal, or that can't be planned for the same reason."""

    clusters: tuple[str, ...]
    stages: tuple[str, ...]
    """Those that they are in."""
    plan: PlanDocument | None
    """The first one's."""
    problem: str = ""
    """Why there is no plan; "" where nothing is to be done."""
    digests: tuple[str, ...] = ()
    """Each cluster with the digest of its folder, as `fleet approve --digest` takes it, if that is known."""

    @property
    def blocked(self) -> bool:
        """Whether a run would be blocked, or isn't known."""
        return self.plan.blocked if self.plan else bool(self.problem)


@dataclass(frozen=True)
class FleetPlan:
    """The plans of a fleet."""

    classes: tuple[PlanClass, ...]
    """The largest one first."""
    new: tuple[NewTrait, ...]
    unrehearsed: tuple[str, ...] = ()
    """Clusters whose folder demands a rehearsal that was not made, or asks for one."""
    causes: Mapping[str, str] = field(default_factory=dict)
    """Why a cluster's run would be blocked now, by its name; a run that is has this cause in the campaign's journal."""


@dataclass(frozen=True)
class SharedCause:
    """Clusters that wait, and would fail as others have failed."""

    cause: str
    failed: tuple[str, ...]
    waiting: tuple[str, ...]


def shared_causes(planned: FleetPlan, state: CampaignState) -> tuple[SharedCause, ...]:
    """Which clusters that wait share a cause by which others have failed in the campaign."""
    found = list[SharedCause]()
    for cause in dict.fromkeys(each.cause for each in state.clusters.values() if each.failed and each.cause):
        failed = tuple(each.name for each in state.clusters.values() if each.failed and each.cause == cause)
        same = [name for name, each in planned.causes.items() if each == cause and name in state.clusters]
        if waiting := tuple(name for name in same if state.clusters[name].phase == "waiting"):
            found.append(SharedCause(cause, failed, waiting))
    return tuple(found)


def plan_fleet(
    fleet: Fleet, plan: Planner, doing: Callable[[str], None], digest: Callable[[FleetCluster], str] = _unknown
) -> FleetPlan:
    """Plan every cluster, one after the other, and change nothing.

    `doing` is told which cluster is being planned. `digest` is of a cluster's folder before that; "" if it is unknown.
    """
    found: dict[str, list[tuple[FleetCluster, PlanDocument | None, str]]] = {}
    traits: dict[str, tuple[str, ...]] = {}
    digests: dict[str, str] = {}
    unrehearsed: list[str] = []
    causes: dict[str, str] = {}
    for number, cluster in enumerate(fleet.clusters, 1):
        doing(f"planning {cluster.name} ({number} of {len(fleet.clusters)})…")
        document, problem = None, ""
        digests[cluster.name] = digest(cluster)
        try:
            planned = _planned(plan, cluster, fleet.target)
            document = planned.document
            key = json.dumps(_shape(document), sort_keys=True) if document else ""
            unrehearsed += [cluster.name] * bool(document and _lacks_rehearsal(document))
            traits[cluster.name] = traits_of(fleet, cluster, document, planned.traits)
            if document and (refused := plan_refusal(document)):
                causes[cluster.name] = _cause(refused, cluster)
        except UpgraderError as error:
            problem = error.message
            causes[cluster.name] = _cause(error, cluster)
            key = cause_of("", problem, cluster.name)
        found.setdefault(without_identity(key, cluster.name), []).append((cluster, document, problem))
    classes = sorted(_classes(fleet, found, digests), key=lambda each: -len(each.clusters))
    return FleetPlan(tuple(classes), new_traits(fleet, traits), tuple(unrehearsed), causes)


def _cause(error: UpgraderError, cluster: FleetCluster) -> str:
    """As of a run that says so at its end."""
    form = error_form(error, "")
    return cause_of(form.code, f"{form.what}\n{form.why}".strip(), cluster.name)


def _planned(plan: Planner, cluster: FleetCluster, target: KubernetesVersion) -> PlannedCluster:
    """Secrets of its cluster are masked in its plan, and not in what is said of other clusters: one may be a word."""
    with KNOWN.apart():
        try:
            planned: PlannedCluster = masked_copy(plan(cluster.folder, target))
        except UpgraderError as error:
            error.message = KNOWN.mask(error.message)
            raise
    return planned


def _lacks_rehearsal(document: PlanDocument) -> bool:
    return any(finding.id in _NO_REHEARSAL for hop in document.hops for finding in hop.findings)


def _classes(
    fleet: Fleet,
    found: Mapping[str, list[tuple[FleetCluster, PlanDocument | None, str]]],
    digests: Mapping[str, str],
) -> Iterator[PlanClass]:
    for members in found.values():
        names = tuple(cluster.name for cluster, _, _ in members)
        stages = dict.fromkeys(fleet.stage_of[name].name for name in names)
        _, document, problem = members[0]
        known = tuple(f"{name} {digests[name]}" for name in names if digests[name])
        yield PlanClass(names, tuple(stages), document, problem, known)


def _shape(document: PlanDocument) -> list[Any]:
    """What a plan changes, without what only this cluster has: digests, durations, the names of nodes."""
    return [
        [
            str(hop.current),
            str(hop.target),
            [sorted({finding.id for finding in hop.findings if finding.blocking})],
            [
                [
                    step.name,
                    step.kind,
                    step.action,
                    step.undo.how,
                    to_json(step.images),
                    to_json(step.changes),
                    sorted({f"{node.before} {node.after}" for node in step.nodes or ()}),
                    sorted({task for host in (step.hosts.hosts if step.hosts else ()) for task in host.tasks}),
                ]
                for step in hop.steps
            ],
        ]
        for hop in document.hops
    ]
