"""Whether the objects that were there still are, by their number alone."""

from __future__ import annotations

from collections.abc import Mapping

from upgrader.errors import ApiError
from upgrader.gates.continuity.findings import KEEP_THE_RELEASES, contradicted
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS, NODES, SECRETS, SERVICE_ACCOUNTS, WORKLOADS
from upgrader.model.baseline import Baseline, Count
from upgrader.model.outcome import Verdict, broken
from upgrader.ports import Kind, Kube

__all__ = ["check_counts", "count_objects", "fell"]

_KINDS: Mapping[str, Kind] = {
    "namespaces": Kind("v1", "namespaces", namespaced=False),
    "nodes": NODES,
    "secrets": SECRETS,
    "configmaps": CONFIG_MAPS,
    "serviceaccounts": SERVICE_ACCOUNTS,
    "deployments": WORKLOADS["Deployment"],
    "clusterroles": Kind("rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False),
}
_NOT_HELMS = "secrets (without Helm's records)"
"""Helm deletes its records in the ordinary course: with a release, all ten of its revisions. Baselines of earlier
versions have all `secrets`.
"""
_COUNTED = tuple(_NOT_HELMS if name == "secrets" else name for name in _KINDS)
_COME_AND_GO = frozenset({"namespaces", "nodes"})
"""Kinds of which most may go within minutes, with an autoscaler and with a CI's tests: only the last one counts."""
_FEW = 10
"""Below this, half of them may go in the ordinary course of things."""


def count_objects(kube: Kube) -> tuple[Count, ...]:
    """How many there are of each kind. Raises ApiUnavailable or ApiError."""
    return tuple(Count(name, _number(kube, name)) for name in _COUNTED)


def check_counts(kube: Kube, baseline: Baseline) -> Verdict | None:
    """No kind has lost all its objects or, unless they come and go, more than half of many."""
    remedy = (
        "Don't write to the cluster until you know the cause: kube-apiserver may use another etcd or another prefix. "
        f"Check its flags etcd-servers and etcd-prefix. {KEEP_THE_RELEASES}"
    )
    for before in baseline.counts:
        try:
            now = _number(kube, before.kind)
        except ApiError as error:
            return contradicted(f"counting {before.kind}", error, remedy)
        if now == 0 < before.number or (before.kind not in _COME_AND_GO and fell(before.number, now)):
            return broken(f"{before.kind}: {before.number} objects before this run, only {now} now", remedy=remedy)
    return None


def _number(kube: Kube, name: str) -> int:
    if name == _NOT_HELMS:
        return kube.count(SECRETS) - kube.count(SECRETS, labels="owner=helm")
    return kube.count(_KINDS[name])


def fell(before: int, now: int) -> bool:
    """Whether objects are missing that are not normally deleted in the minutes of a step."""
    return now == 0 < before or (before >= _FEW and now < before / 2)
