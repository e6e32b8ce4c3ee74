"""What a campaign asks before it begins a cluster: is it the inventory's, is its folder as it was approved?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from upgrader.errors import ApiError, UpgraderError, UsageError
from upgrader.fleet.clusters import Answer
from upgrader.fleet.events import Problem
from upgrader.fleet.inputs import folder_digest
from upgrader.fleet.model import FleetCluster
from upgrader.model.version import KubernetesVersion

__all__ = ["Ask", "problem_before", "problem_of_resume", "soak_problem"]

Ask = Callable[[Path], Answer]
"""Asks a cluster folder's cluster, as `ask_cluster`."""


def problem_before(cluster: FleetCluster, digest: str, ask: Ask) -> tuple[Problem, str]:
    """Why a cluster must not be begun, and the reason; `digest` is that of its folder as it was approved."""
    try:
        changed = folder_digest(cluster.folder) != digest
    except UsageError as error:
        return "changed", f"whether its folder has changed isn't known: {error.message}"
    if changed:
        return "changed", (
            f"its folder has changed since the campaign began: upgrader fleet approve --changes {cluster.name}"
        )
    return _identity(cluster, ask)


def problem_of_resume(cluster: FleetCluster, ask: Ask) -> tuple[Problem, str]:
    """Why an interrupted run must not go on. It may restore an API that doesn't answer."""
    problem, reason = _identity(cluster, ask)
    return ("", "") if problem == "unreachable" else (problem, reason)


def soak_problem(cluster: FleetCluster, target: KubernetesVersion, ask: Ask) -> str:
    """Why a cluster isn't as a soak should leave it; "" if it answers at the target."""
    try:
        answer = ask(cluster.folder)
    except UpgraderError as error:
        return error.message
    if answer.uid == cluster.uid and answer.version == target:
        return ""
    return f"{answer.version} of the cluster with the UID {answer.uid} answers"


def _identity(cluster: FleetCluster, ask: Ask) -> tuple[Problem, str]:
    try:
        answer = ask(cluster.folder)
    except ApiError as error:
        return "unreachable", error.message
    except UpgraderError as error:
        return "identity", f"it isn't known which cluster its kubeconfig leads to: {error.message}"
    if answer.uid == cluster.uid:
        return "", ""
    return "identity", (
        f"its kubeconfig leads to the cluster with the UID {answer.uid}; the inventory has {cluster.uid}"
    )
