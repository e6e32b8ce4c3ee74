"""`upgrader fleet plan`: the plan of every cluster, and which of them are equal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from upgrader.app.event_lines import error_form
from upgrader.app.plan_refusal import plan_refusal
from upgrader.errors import UpgraderError
from upgrader.fleet.causes import cause_of, without_identity
from upgrader.fleet.decide import needed_seconds
from upgrader.fleet.inputs import Inputs
from upgrader.fleet.model import Fleet, FleetCluster
from upgrader.fleet.state import CampaignState
from upgrader.fleet.traits import NewTrait, new_traits, traits_of
from upgrader.fleet.windows import next_opening
from upgrader.model.json_values import masked_copy, to_json
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan_document import PlanDocument

__all__ = [
    "NOTHING",
    "ClusterPlan",
    "FleetPlan",
    "NoRoom",
    "PlanClass",
    "PlannedCluster",
    "SharedCause",
    "plan_fleet",
    "shared_causes",
    "without_room",
]

NOTHING = "nothing"
"""In place of a digest, where nothing is to be done."""


@dataclass(frozen=True)
class PlannedCluster:
    """The plan of a cluster, and what the cluster is made of."""

    document: PlanDocument | None
    """None: nothing is to be done."""
    traits: tuple[str, ...] = ()
    """As of `cluster_traits`."""
    changes: str = NOTHING
    """The plan's `changes_digest`."""


Planner = Callable[[Path, KubernetesVersion], PlannedCluster]
"""Plans the run of a cluster folder's cluster; raises UpgraderError."""
_NO_REHEARSAL = ("rehearsal.missing", "rehearsal.damaged", "rehearsal.stale", "rehearsal.old")


def _unknown(_: FleetCluster) -> Inputs | None:
    return None


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
class ClusterPlan:
    """What was found of one cluster when its fleet was planned."""

    inputs: Inputs | None = None
    """What it was planned from; None: its folder can't be read."""
    changes: str = ""
    """As of `PlannedCluster`; "": it can't be planned."""
    cause: str = ""
    """Why its run would be blocked now; a run that is has this cause in the campaign's journal. "": it wouldn't be."""
    run_seconds: float = 0.0
    """How long its run would take, as far as earlier runs of its folder tell."""


@dataclass(frozen=True)
class FleetPlan:
    """The plans of a fleet."""

    classes: tuple[PlanClass, ...]
    """The largest one first."""
    new: tuple[NewTrait, ...]
    unrehearsed: tuple[str, ...] = ()
    """Clusters whose folder demands a rehearsal that was not made, or asks for one."""
    clusters: Mapping[str, ClusterPlan] = field(default_factory=dict)
    """By the cluster's name, in the order of the inventory."""

    @property
    def unplanned(self) -> tuple[str, ...]:
        """The clusters that can't be planned, or of which it isn't known what they were planned from."""
        return tuple(name for name, each in self.clusters.items() if each.inputs is None or not each.changes)

    @property
    def done(self) -> frozenset[str]:
        """The clusters of which nothing is to be changed."""
        done = (each for each in self.classes if not each.problem and not (each.plan and each.plan.to_do))
        return frozenset(name for each in done for name in each.clusters)


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
        same = [name for name, each in planned.clusters.items() if each.cause == cause and name in state.clusters]
        if waiting := tuple(name for name in same if state.clusters[name].phase == "waiting"):
            found.append(SharedCause(cause, failed, waiting))
    return tuple(found)


@dataclass(frozen=True)
class NoRoom:
    """Clusters whose windows and exclusions leave no time for a run of this length and its rollback."""

    clusters: tuple[str, ...]
    needed_seconds: float


def without_room(fleet: Fleet, planned: FleetPlan, state: CampaignState, now: datetime) -> tuple[NoRoom, ...]:
    """Which clusters with something to do have windows too short for what earlier runs took: those of the campaign, of
    which that is all it will wait for, and those of the cluster's own folder.
    """
    least, done = needed_seconds(fleet, state), planned.done
    found: dict[float, list[str]] = {}
    for cluster in fleet.clusters:
        if cluster.name in done:
            continue
        needed = max(least, 2 * planned.clusters[cluster.name].run_seconds)
        if next_opening(cluster.labels, fleet.windows, fleet.exclusions, now, needed) is None:
            found.setdefault(needed, []).append(cluster.name)
    return tuple(NoRoom(tuple(names), needed) for needed, names in sorted(found.items()))


def plan_fleet(
    fleet: Fleet,
    plan: Planner,
    doing: Callable[[str], None],
    read_inputs: Callable[[FleetCluster], Inputs | None] = _unknown,
) -> FleetPlan:
    """Plan every cluster, one after the other, and change nothing.

    `doing` is told which cluster is being planned. `read_inputs` is of a cluster's folder before that; it raises
    UpgraderError, as `plan` does, and the cluster can't be planned then.
    """
    found: dict[str, list[tuple[FleetCluster, PlanDocument | None, str]]] = {}
    traits: dict[str, tuple[str, ...]] = {}
    clusters: dict[str, ClusterPlan] = {}
    unrehearsed: list[str] = []
    for number, cluster in enumerate(fleet.clusters, 1):
        doing(f"planning {cluster.name} ({number} of {len(fleet.clusters)})…")
        document, problem, inputs = None, "", None
        try:
            inputs = read_inputs(cluster)
            planned = _planned(plan, cluster, fleet.target)
            document = planned.document
            refused = plan_refusal(document) if document else None
            cause = _cause(refused, cluster) if refused else ""
            mine = ClusterPlan(inputs, planned.changes, cause, _usual_seconds(document))
            key = json.dumps(_shape(document), sort_keys=True) if document else ""
            unrehearsed += [cluster.name] * bool(document and _lacks_rehearsal(document))
            traits[cluster.name] = traits_of(fleet, cluster, document, planned.traits)
        except UpgraderError as error:
            problem = error.message
            mine = ClusterPlan(inputs, cause=_cause(error, cluster))
            key = cause_of("", problem, cluster.name)
        clusters[cluster.name] = mine
        found.setdefault(without_identity(key, cluster.name), []).append((cluster, document, problem))
    classes = sorted(_classes(fleet, found, clusters), key=lambda each: -len(each.clusters))
    new = new_traits(fleet, traits)
    return FleetPlan(tuple(classes), new, tuple(unrehearsed), clusters)


def _usual_seconds(document: PlanDocument | None) -> float:
    steps = (step for hop in (document.hops if document else ()) for step in hop.steps)
    return sum(step.usual_seconds or 0.0 for step in steps)


def _cause(error: UpgraderError, cluster: FleetCluster) -> str:
    """As of a run that says so at its end."""
    form = error_form(error, "")
    return cause_of(form.code, f"{form.what}\n{form.why}".strip(), cluster.name)


def _planned(plan: Planner, cluster: FleetCluster, target: KubernetesVersion) -> PlannedCluster:
    """Secrets of its cluster are masked in its plan, and not in what is said of other clusters: one may be a word."""
    with KNOWN.apart():
        try:
            found = plan(cluster.folder, target)
            planned: PlannedCluster = replace(masked_copy(found), changes=found.changes)
        except UpgraderError as error:
            error.message = KNOWN.mask(error.message)
            raise
    return planned


def _lacks_rehearsal(document: PlanDocument) -> bool:
    return any(finding.id in _NO_REHEARSAL for hop in document.hops for finding in hop.findings)


def _classes(
    fleet: Fleet,
    found: Mapping[str, list[tuple[FleetCluster, PlanDocument | None, str]]],
    clusters: Mapping[str, ClusterPlan],
) -> Iterator[PlanClass]:
    for members in found.values():
        names = tuple(cluster.name for cluster, _, _ in members)
        stages = dict.fromkeys(fleet.stage_of[name].name for name in names)
        _, document, problem = members[0]
        known = tuple(f"{name} {inputs.shown}" for name in names if (inputs := clusters[name].inputs) is not None)
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
