"""The kubeconfig's user has all permissions that a run and its rollback may need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from upgrader.errors import ApiError, UpgraderError
from upgrader.gates.manifest_workloads import daemon_sets_on, on_delete_in, stateful_sets_in, workloads_in
from upgrader.gates.node_health import HEARTBEATS, is_unreachable
from upgrader.model.check_ids import READ_BY_CHECKS_ONLY
from upgrader.model.finding import Finding
from upgrader.model.gate_settings import WorkloadGateKind
from upgrader.model.workload import WorkloadKind
from upgrader.ports import Kind
from upgrader.preflight.context import SYSTEM, PreflightContext
from upgrader.steps.images.planned_images import planned_pods
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import planned_of
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.release.planned_commands import planned_commands
from upgrader.steps.surge.plan import PlannedSurge

__all__ = ["check_access", "missing_right"]

_REFUSED = re.compile(r'cannot (\S+) (?:resource "([^"]+)"(?: in API group "([^"]*)")?|path "([^"]+)")')
"""The API server's own words for the right that is missing."""

_REVIEWS = Kind("authorization.k8s.io/v1", "selfsubjectaccessreviews", namespaced=False)


@dataclass(frozen=True)
class _Right:
    """One verb on one resource, and what it is needed for. `namespace` "" means all, or none where it has none."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = SYSTEM
    why: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f" in {self.namespace}" if self.namespace else "")


_EVERYTHING = _Right("*", "*", "*", "")
_COPIES = "the files of trial pods"
_HELM = "Helm's release records (Secrets)"
_NEEDED = (
    *(_Right(verb, "secrets", why=_HELM) for verb in ("list", "create", "update", "delete")),
    *(
        _Right(verb, kind, "apps", why="the gates")
        for verb in ("get", "list")
        for kind in ("deployments", "daemonsets")
    ),
    *(_Right(verb, "deployments", "apps", why="the releases' workloads") for verb in ("create", "patch", "delete")),
    *(_Right(verb, "daemonsets", "apps", why="the releases' workloads") for verb in ("create", "patch", "delete")),
    *(_Right("list", kind, "apps", why="the gates") for kind in ("replicasets", "controllerrevisions", "statefulsets")),
    *(_Right(verb, "leases", "coordination.k8s.io", HEARTBEATS, "the gates") for verb in ("get", "list")),
    *(_Right(verb, "configmaps", why="the gates") for verb in ("list", "watch")),
    *(_Right(verb, "configmaps", why="the releases' files") for verb in ("get", "create", "patch", "delete")),
    _Right("patch", "services", why="CoreDNS"),
    _Right("patch", "serviceaccounts", why="the releases' identities"),
    *(
        _Right(verb, resource, "rbac.authorization.k8s.io", namespace, "the releases' RBAC rules")
        for verb in ("patch", "bind", "escalate")
        for resource, namespace in (("roles", SYSTEM), ("clusterroles", ""))
    ),
    _Right("patch", "clusterrolebindings", "rbac.authorization.k8s.io", "", "the releases' RBAC rules"),
    _Right("patch", "poddisruptionbudgets", "policy", why="the releases' workloads"),
    *(_Right(verb, "leases", "coordination.k8s.io", why="the cluster's lock") for verb in ("get", "create", "update")),
    _Right("list", "pods", namespace="", why="the gates"),
    _Right("list", "daemonsets", "apps", "", "the gates of network plugins"),
    _Right("get", "pods/log", why="the cause of a failure"),
    _Right("list", "events", namespace="", why="the cause of a failure"),
    *(_Right(verb, "nodes", namespace="", why="the gates") for verb in ("get", "list")),
)


_OF_PREPARING = ("create", "delete")
"""On pods, in the namespaces of workloads whose images are pulled first, and of programs that are tried first."""
_OF_RELEASES = ("list", "create", "update", "delete")
"""On Secrets, in each release's namespace."""

_GATES: Mapping[WorkloadKind, WorkloadGateKind] = {
    "DaemonSet": "daemonset",
    "Deployment": "deployment",
    "StatefulSet": "statefulset",
}
_READ_BY_GATES: Mapping[WorkloadGateKind, Sequence[tuple[str, str, str]]] = {
    "daemonset": (("get", "daemonsets", "apps"), ("list", "controllerrevisions", "apps")),
    "deployment": (("get", "deployments", "apps"), ("list", "replicasets", "apps")),
    "statefulset": (("get", "statefulsets", "apps"),),
    "rolloutGroup": (("list", "statefulsets", "apps"),),
    "protector": (("get", "podprotectors", "podseidon.kubewharf.io"),),
}
"""Verb, resource and group of the objects that gates read besides pods and Events, in the namespace of their
workload.
"""

_OF_NODES = (
    _Right("patch", "nodes", namespace="", why="cordons"),
    _Right("get", "pods", namespace="", why="drains"),
    _Right("create", "pods/eviction", namespace="", why="drains"),
    _Right("delete", "pods", namespace="", why="drains by force"),
    _Right("list", "poddisruptionbudgets", "policy", "", "drains"),
)
"""Only if the plan upgrades nodes."""
_OF_SURGES = (*_OF_NODES, _Right("delete", "nodes", namespace="", why="surge nodes whose machine is gone"))
"""Only if the plan adds or removes surge nodes."""


def check_access(context: PreflightContext) -> Iterator[Finding]:
    """Ask the API server; a user with all rights needs only one request."""
    if _allowed(context, _EVERYTHING):
        return
    of_plan = (*_of_plan(context), *_of_gates(context), *_of_nodes(context), *_of_workers_down(context))
    needed = tuple(dict.fromkeys((*_NEEDED, *of_plan)))
    missing = [right for right in needed if not _allowed(context, right)]
    if missing:
        reasons = ", ".join(dict.fromkeys(right.why for right in missing))
        yield Finding(
            "access.missing",
            "error",
            f"the kubeconfig's user is not allowed to {', '.join(map(str, missing[:4]))}"
            f"{' …' if len(missing) > 4 else ''}",
            f"{len(missing)} of {len(needed)} permissions are missing, needed for: {reasons}. It would be impossible "
            "to roll back a failed run.",
            "Use credentials with the ClusterRole cluster-admin. A user who can create the run's hostPath pods and "
            "role bindings has these permissions in effect (docs/security.md). Check with: kubectl auth can-i --list "
            "-n kube-system",
        )


def _of_plan(context: PreflightContext) -> Iterator[_Right]:
    """What is written in the namespaces of releases, and of workloads whose images are pulled."""
    releases = sorted({step.spec.namespace for step in planned_of(context.plan, PlannedRelease)})
    for namespace in releases:
        yield from (_Right(verb, "secrets", namespace=namespace, why=_HELM) for verb in _OF_RELEASES)
    pulled = {pods.namespace for pods in planned_pods(context.plan)} if context.plan and context.pulls_images else set()
    tried = set(releases) if any(planned_commands(context.changing, context.target)) else set()
    for namespace in sorted(pulled | tried | ({SYSTEM} if context.pulls_images else set())):
        why = "the steps before anything changes"
        yield from (_Right(verb, "pods", namespace=namespace, why=why) for verb in _OF_PREPARING)
    for namespace in sorted(tried):
        for kind in ("configmaps", "secrets"):
            yield from (_Right(verb, kind, namespace=namespace, why=_COPIES) for verb in ("list", *_OF_PREPARING))


def _of_gates(context: PreflightContext) -> Iterator[_Right]:
    """What gates read of workloads in other namespaces: of releases, also as they are now, and of upgrader.yaml."""
    for step in planned_of(context.plan, PlannedRelease):
        for manifest in (step.before, step.after):
            sets = stateful_sets_in(manifest, step.spec.namespace)
            for ref in workloads_in(manifest, step.spec.namespace):
                grouped = ref in sets and sets[ref].group
                yield from _reads("rolloutGroup" if grouped else _GATES[ref.kind], ref.namespace)
    for gate in context.workload_gates:
        yield from _reads(gate.kind, gate.namespace)


def _reads(kind: WorkloadGateKind, namespace: str) -> Iterator[_Right]:
    for verb, resource, group in _READ_BY_GATES[kind]:
        yield _Right(verb, resource, group, namespace, "the gates")


def _of_nodes(context: PreflightContext) -> tuple[_Right, ...]:
    if any(step.needed for step in planned_of(context.plan, PlannedSurge)):
        return _OF_SURGES
    return _OF_NODES if any(step.nodes for step in planned_of(context.plan, PlannedNodes)) else ()


def _of_workers_down(context: PreflightContext) -> Iterator[_Right]:
    """What takes a rollout past workers that are down, forward and back: its controller would wait for them."""
    try:
        down = [
            node for name, node in context.nodes.items() if name not in context.controllers and is_unreachable(node)
        ]
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:  # that right is asked for, too
            return
        raise
    for step in context.changing:
        for manifest in (step.before, step.after):
            rolled = {ref for refs in daemon_sets_on(manifest, step.spec.namespace, down).values() for ref in refs}
            for namespace in sorted({ref.namespace for ref in rolled - on_delete_in(manifest, step.spec.namespace)}):
                yield _Right("delete", "pods", namespace=namespace, why="DaemonSets on workers that are down")


def missing_right(family: str, error: UpgraderError) -> Finding | None:
    """The finding of a check that was refused a right which nothing but checks needs; None for any other failure."""
    if family not in READ_BY_CHECKS_ONLY or not isinstance(error, ApiError) or error.status != HTTPStatus.FORBIDDEN:
        return None
    found = _REFUSED.search(error.message)
    verb, plural, group, path = found.groups() if found else ("", "", "", "")
    right = f"{verb} {path or '.'.join(filter(None, (plural, group)))}" if found else "read all that they need"
    return Finding(
        f"{family}.forbidden",
        "warning",
        f"the {family.replace('-', ' ')} could not be checked: the kubeconfig's user is not allowed to {right}",
        f"{error.message}\nNo step of a run needs this permission, but without it, this check can't look for problems.",
        "Grant it to that user in a ClusterRole; docs/security.md lists everything that the checks read.",
    )


def _allowed(context: PreflightContext, right: _Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource, "namespace": right.namespace}
    if subresource:
        attributes["subresource"] = subresource
    review = {
        "apiVersion": _REVIEWS.api_version,
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    return bool(context.kube.create(_REVIEWS, review).get("status", {}).get("allowed"))
